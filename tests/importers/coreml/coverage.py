"""The table of docs/coreml.md: each layer type of the format with its conformance cases.

    python -m tests.importers.coreml.coverage

rewrites it. A case counts for each type of its layers, and as covered if all its layers have rules.
"""

from __future__ import annotations

from collections import Counter

from gpunn.importers.coreml.messages import model_class
from gpunn.importers.coreml.rules.table import RULES
from tests.importers.coreml.conformance import covered, loader
from tests.resources import ROOT

PAGE = ROOT / "docs" / "coreml.md"
BEGIN, END = "<!-- table of layer types -->\n", "<!-- end of the table -->\n"


def layer_types() -> list[str]:
    """The layer types of the format, in the order of their numbers."""
    made = model_class()().neuralNetwork.layers.add()
    fields = made.DESCRIPTOR.oneofs_by_name["layer"].fields
    return [field.name for field in sorted(fields, key=lambda f: f.number)]


def table() -> str:
    """The table in Markdown."""
    stored: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for case in loader().load():
        if case.layer != "training":
            types = set(case.meta["layers"])
            stored.update(types)
            runs.update(types if covered(case) else ())
    lines = ["| layer type | state | conformance cases with it | covered |", "| --- | --- | ---: | ---: |"]
    for name in layer_types():
        state = "read" if name in RULES else "refused"
        lines.append(f"| {name} | {state} | {stored[name]} | {runs[name]} |")
    read = sum(name in RULES for name in layer_types())
    return f"{read} of {len(layer_types())} layer types are read.\n\n" + "\n".join(lines) + "\n"


def refreshed(text: str) -> str:
    """The page with the table of the code."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
