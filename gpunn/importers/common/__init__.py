"""What the importers of all formats share: rules' nodes and answers, and how an answer extends a graph."""
