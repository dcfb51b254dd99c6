"""The common part of all importers: nodes and answers of rules, and how an answer extends a graph."""
