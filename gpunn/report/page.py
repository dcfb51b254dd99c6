"""The page: the data for the templates in this folder, and their rendering."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gpunn.comparison import figures
from gpunn.comparison.result import Comparison, Layer
from gpunn.files import replace_file
from gpunn.report import answers, histograms, layers
from gpunn.wording import counted, shortened

FINDINGS = 12  # shown at once; the rest is folded away
OPEN_LAYERS = 60  # up to which the table of layers is unfolded


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure of the summary. ok: None if the figure is neither right nor wrong."""

    value: str
    name: str
    note: str
    ok: bool | None


def write_report(found: Comparison, path: str | os.PathLike[str]) -> None:
    """Write html_report() to a file, whole; OSError where that cannot be done."""
    replace_file(path, html_report(found).encode())


def html_report(found: Comparison) -> str:
    """Render a comparison as an HTML page.

    All names from files are escaped, and a content security policy keeps the page from loading or running
    anything that did not come with this package. The page contains small copies of the photos; photos that
    can no longer be read are left out.
    """
    script, style = (_asset(f"report.{kind}") for kind in ("js", "css"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    cards = answers.cards(found)
    return (
        _environment()
        .get_template("report.html")
        .render(
            found=found,
            style=Markup(style),
            script=Markup(script),
            script_hash=f"sha256-{digest}",
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            tiles=list(_tiles(found)),
            faulty=list(dict.fromkeys(finding.backend for finding in found.findings if finding.fault)),
            not_finite=any(o.candidate.nan or o.candidate.inf for pair in found.pairs for o in pair.outputs),
            findings=found.findings[:FINDINGS],
            further=found.findings[FINDINGS:],
            classes=next((pair.agreement for pair in found.pairs if pair.agreement), None),
            panels=layers.panels(found),
            modes=layers.MODES,
            open_layers=len(found.layers) <= OPEN_LAYERS,
            worst=histograms.worst_layers(found),
            cards=cards,
            photos=any(card.photo for card in cards),
        )
    )


def _asset(name: str) -> str:
    return files("gpunn.report").joinpath("assets", name).read_text("utf-8")


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("gpunn.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(
        shortened=shortened,
        number=figures.number,
        ratio=figures.ratio,
        largest_error=figures.largest_error,
        share_of_allowed=figures.share_of_allowed,
    )
    return made


def _printable(value: object) -> object:
    """Remove from a text of a file what would end lines, change their direction, or cannot be encoded."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in value)
    return value


def _tiles(found: Comparison) -> Iterator[Tile]:
    """Make the figures at the top of the page."""
    pairs = [pair for pair in found.pairs if pair.reference == found.sides[0].name]
    judged = [(output.ratio, pair) for pair in pairs for output in pair.outputs if output.ratio is not None]
    if judged:
        worst, pair = max(judged, key=lambda item: item[0])
        note = f"largest error of an output: {pair.candidate} against {pair.reference}"
        yield Tile(figures.ratio(worst), "of the tolerance", note, worst <= 1)
    agreeing = [(pair.agreement.top1, pair) for pair in found.pairs if pair.agreement]
    if agreeing:
        least, pair = min(agreeing, key=lambda item: item[0])
        note = f"{pair.candidate} and {pair.reference}" if least < 1 else "all sides have the same best class"
        yield Tile(f"{least:.1%}", "top-1 agreement", note, None)
    if found.accuracy:
        best = max(found.accuracy, key=lambda row: row.top1.value)
        yield Tile(f"{best.top1.value:.1%}", "top-1 accuracy", f"{best.backend}, the best side", None)
    if found.layers:
        wrong = sum(map(_over, found.layers))
        note = "isolated or accumulated, on any backend"
        yield Tile(f"{wrong} of {len(found.layers)}", "layers over their tolerance", note, not wrong)
    number, name = counted(found.inputs.samples, "input").split()
    yield Tile(number, name, found.inputs.description, None)


def _over(layer: Layer) -> bool:
    checks = [check for side in layer.sides for check in (side.isolated, side.accumulated)]
    return any(check is not None and not check.ok for check in checks)
