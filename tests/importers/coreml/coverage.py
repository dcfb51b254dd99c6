"""The tables of docs/coreml.md, and a sum in README.md: decisions, and layer types with places and cases.

    python -m tests.importers.coreml.coverage

rewrites them. It needs ../shared: a line comes from the conformance cases with this layer type, which are
read and optimised like any other file and lowered for a device with WebGPU's default limits. A case has
passed if it is read, because test_conformance.py demands the right answer of all that are.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import gpunn
from gpunn.backends.webgpu.lower import lower
from gpunn.comparison.parts import exact_parts, joined
from gpunn.device import BASELINE
from gpunn.graph.reshape import as_input
from gpunn.importers.coreml.messages import model_class
from gpunn.importers.coreml.reader import LAYER_TYPES
from gpunn.importers.coreml.rules.decisions import DECISIONS
from gpunn.passes import optimise
from gpunn.planning.partition import ALIAS, DEVICE, HOST, Placement, partition
from tests.importers.coreml.conformance import Case, loader, prepared
from tests.resources import ROOT

PAGES = (ROOT / "docs" / "coreml.md", ROOT / "README.md")
UNTESTED = ("training", "wire")  # groups of cases: for models that learn, and for the encoding alone
TITLES = {DEVICE: "GPU", ALIAS: "no bytes move", HOST: "CPU"}
WIDTH = 120  # of a line of a page
ERROR = "expect_error"  # a case that should be refused: a custom layer that nobody explains
OWN = {"custom": "where its operator runs"}
FOLDED = "known when the file is read"


@dataclass(slots=True)
class Line:
    """What the table says of a layer type."""

    cases: int = 0
    passed: int = 0
    places: set[str] = field(default_factory=set)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def where(self) -> str:
        """Where it runs."""
        found = [title for place, title in TITLES.items() if place in self.places]
        return ", ".join(found) if found else FOLDED

    @property
    def on_gpu(self) -> bool:
        """Whether no part of it ran on the CPU, in any case that was read."""
        return self.passed > 0 and HOST not in self.places


@dataclass(slots=True)
class Coverage:
    """The lines by layer type, and how many cases there are in all."""

    lines: dict[str, Line]
    cases: int = 0
    passed: int = 0


def layer_types() -> list[str]:
    """The layer types of the format, in the order of their numbers."""
    made = model_class()().neuralNetwork.layers.add()
    fields = made.DESCRIPTOR.oneofs_by_name["layer"].fields
    return [field.name for field in sorted(fields, key=lambda f: f.number)]


def placements(case: Case) -> tuple[Placement, ...] | None:
    """Where the operations of a case run; None if it is refused."""
    try:
        model, inputs = prepared(case)
    except gpunn.GpunnError:
        return None
    arrays = [as_input(operand, inputs.get(operand.name)) for operand in model.inputs]
    whole = joined(exact_parts(model, arrays)) if model.pending else optimise(model)
    return partition(whole, lambda operation: lower(operation, BASELINE))


def kind_of(placement: Placement) -> str:
    """The layer type that an operation stands for: the last word of its origin."""
    return placement.operation.origin.rpartition(", ")[2]


def cases() -> Iterator[Case]:
    """All conformance cases that the reader's tests run."""
    return (case for case in loader().load() if case.layer not in UNTESTED)


def covered(stored: Iterable[Case]) -> Coverage:
    """Count cases."""
    lines: dict[str, Line] = defaultdict(Line)
    found = Coverage({name: lines[name] for name in layer_types()})
    for case in stored:
        placed = placements(case)
        passed = placed is not None or case.meta["rule"] == ERROR
        found.cases += 1
        found.passed += passed
        for name in set(case.meta["layers"]):
            lines[name].cases += 1
            lines[name].passed += passed
        for placement in placed or ():
            line = lines[kind_of(placement)]
            line.places.add(placement.backend)
            if placement.backend == HOST:
                line.reasons[placement.reason] += 1
    return found


def summary(found: Coverage) -> str:
    """The sum of the table in a few sentences."""
    count, read = len(found.lines), sum(name in LAYER_TYPES for name in found.lines)
    on_gpu = sum(line.on_gpu for name, line in found.lines.items() if name in LAYER_TYPES and name not in OWN)
    text = (
        f"gpunn reads {read} of Core ML's {count} layer types. Nothing of {on_gpu} types, "
        f"{100 * on_gpu / count:.1f} % of all, needs the CPU in any stored case. {found.passed} of "
        f"{found.cases} cases pass on both backends."
    )
    return textwrap.fill(text, WIDTH) + "\n"


def table(found: Coverage) -> str:
    """The table in Markdown."""
    text = "| layer type | runs on | cases | passed | why on the CPU |\n| --- | --- | ---: | ---: | --- |\n"
    for name, line in found.lines.items():
        where = OWN.get(name, line.where) if name in LAYER_TYPES else "refused"
        text += f"| {name} | {where} | {line.cases} | {line.passed} | {'; '.join(line.reasons)} |\n"
    return text


def decisions() -> str:
    """The table of decisions in Markdown."""
    text = "| point | the document | gpunn | reason | test |\n| --- | --- | --- | --- | --- |\n"
    for d in DECISIONS:
        text += f"| {d.point} | {d.document} | {d.gpunn} | {d.reason} | {d.test.replace('::', ': ')} |\n"
    return text


def refreshed(page: str, found: Coverage) -> str:
    """The page with its table and its sum as the code has them."""
    parts = {
        "layer types": table(found),
        "sum of layer types": summary(found),
        "decisions": decisions(),
    }
    for name, text in parts.items():
        block = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL)
        page = block.sub(lambda _, text=text: text, page)
    return page


def main(pages: Iterable[Path] = PAGES) -> None:
    """Rewrite the tables and the sum."""
    found = covered(cases())
    for page in pages:
        page.write_text(refreshed(page.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
