"""The tables of docs/tflite.md: types, cases and placement of each operator, and the given models.

    python -m tests.importers.tflite.coverage

rewrites them. An operator's line comes from its cases (cases.py). Their files are read and optimised like
any other and lowered for a device with WebGPU's default limits; no real device is needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tflite

import gpunn
from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE
from gpunn.importers.tflite.rules.table import REFUSED
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.planning.partition import ALIAS, DEVICE, HOST, Placement, partition
from gpunn.types import DType, TensorType
from tests.importers.tflite.case import prepare
from tests.importers.tflite.cases import CASES, ELSEWHERE, NEWEST, STATEFUL
from tests.importers.tflite.test_quantized import shuffled
from tests.importers.tflite.test_state import file_of
from tests.importers.tflite.test_state_integer import (
    SEQUENCE,
    VARIANTS,
    basic_lstm,
    integer_lstm,
    integer_svdf,
)
from tests.resources import ROOT, shared

PAGE = ROOT / "docs" / "tflite.md"
NEWER = 97  # the last number of an operator in the schema of November 2018
ADDED_LATER = 5  # the number of DEPTH_TO_SPACE, which was free before


def schema_operators() -> list[str]:
    """Return the operators of the schema of November 2018, in alphabetical order."""
    numbers = {n: v for n, v in vars(tflite.BuiltinOperator).items() if isinstance(v, int)}
    return sorted(n for n, v in numbers.items() if v <= NEWER and v != ADDED_LATER)


def placements(model: Model) -> tuple[Placement, ...]:
    """Return where the operations of a model run on a device with WebGPU's default limits."""
    return partition(optimise(model), lambda made: lower(made, BASELINE))


def operator_table() -> str:
    """Return the table of operators in Markdown: those of 2018, then later ones."""
    files: dict[str, list[bytes]] = {}
    for case in CASES:
        files.setdefault(case.operator, []).append(prepare(case).file)
    for stateful in STATEFUL:
        files.setdefault(stateful.operator, []).append(file_of(stateful))
    files["SVDF"].append(integer_svdf((1, 4, 3, 1, 2))[0])
    for variant in VARIANTS.values():
        files[variant.get("operator", SEQUENCE)].append(integer_lstm(**variant)[0])
    files["LSTM"].append(basic_lstm(1, 4, 3)[0])
    files["FULLY_CONNECTED"].append(shuffled(1, 16, 4)[0])
    old = schema_operators()
    later = sorted((files.keys() | ELSEWHERE.keys() | REFUSED.keys()) - set(old))
    titles = ["operator", "versions", "types", "runs on", "cases", "why on the CPU"]
    rows = [titles, ["---"] * len(titles)]
    rows += [[name, *operator_row(name, files.get(name, []))] for name in old]
    rows += [[f"{name} (later)", *operator_row(name, files.get(name, []))] for name in later]
    return _markdown(rows)


def operator_row(name: str, files: Sequence[bytes]) -> list[str]:
    """Return the row of an operator: versions, types, where it runs, cases, reasons."""
    newest = NEWEST.get(name, 1)
    versions = "1" if newest == 1 else f"1-{newest}"
    if name in REFUSED:
        return ["-", "-", "refused", "-", REFUSED[name]]
    if name in ELSEWHERE:
        return [versions, "-", "-", f"[tests](../tests/importers/tflite/{ELSEWHERE[name]})", ""]
    if not files:
        return ["-", "-", "not read", "-", ""]
    models = [gpunn.load(file) for file in files]
    where, reasons = _where(models)
    return [versions, _types(models), where, str(len(files)), "; ".join(reasons)]


def _types(models: Iterable[Model]) -> str:
    """Return the element types of inputs and outputs."""
    seen = {_type_name(o.type) for model in models for o in (*model.inputs, *model.outputs)}
    order = [d.value for d in DType]
    return ", ".join(sorted(seen, key=lambda s: (order.index(s.split()[-1]), s)))


def _type_name(type: TensorType) -> str:
    return f"quantised {type.dtype.value}" if type.quantization is not None else type.dtype.value


def _where(models: Iterable[Model]) -> tuple[str, list[str]]:
    """Return where models of one operator run, and why not on the GPU."""
    titles = {DEVICE: "GPU", ALIAS: "no bytes move", HOST: "CPU"}
    placed = [placement for model in models for placement in placements(model)]
    seen = {titles[placement.backend] for placement in placed}
    where = [title for title in titles.values() if title in seen] or ["known when the file is read"]
    return ", ".join(where), _joined(dict.fromkeys(p.reason for p in placed if p.backend == HOST))


def _joined(reasons: Iterable[str]) -> list[str]:
    """Join reasons that differ only in their first word, a type."""
    groups: dict[str, list[str]] = {}
    for reason in reasons:
        first, _, following = reason.partition(" ")
        kind, words = (following, first) if first in {d.value for d in DType} else (reason, "")
        groups.setdefault(kind, []).append(words)
    return [f"{', '.join(words)} {kind}".strip() for kind, words in groups.items()]


def model_table() -> str:
    """Return the table of given models in Markdown, and below it the share of operations on the GPU."""
    entries = json.loads(shared("models/MANIFEST.json").read_text(encoding="utf-8"))["models"]
    titles = ["model", "task", "operations", "after the passes", "on the GPU", "on the CPU"]
    rows = [titles, ["---"] * len(titles)]
    device = total = 0
    for entry in sorted((e for e in entries if e["format"] == "tflite"), key=lambda e: str(e["file"])):
        row, on_device, on_host = _model_row(entry)
        rows.append(row)
        device, total = device + on_device, total + on_device + on_host
    return f"{_markdown(rows)}\nOf all, {device} of {total} run on the GPU: {100 * device / total:.1f} %.\n"


def _model_row(entry: dict[str, Any]) -> tuple[list[str], int, int]:
    name = str(entry["file"]).removeprefix("tflite/")
    try:
        model = gpunn.load(shared(f"models/{entry['file']}"))
    except gpunn.UnsupportedError:
        return [name, entry["task"], str(sum(entry["ops"].values())), "not read yet", "-", "-"], 0, 0
    placed = placements(model)
    host = [p for p in placed if p.backend == HOST]
    device = sum(p.backend == DEVICE for p in placed)
    why = "; ".join(f"{p.operation.op}: {p.reason}" for p in host)
    counts = [
        str(len(model.operations)),
        str(len(placed)),
        str(device),
        f"{len(host)} ({why})" if host else "0",
    ]
    return [name, entry["task"], *counts], device, len(host)


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


TABLES = {"operators": operator_table, "models": model_table}


def refreshed(page: str, name: str) -> str:
    """Return the page with one of its tables replaced by the current one."""
    block = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL)
    assert block.search(page), f"the page has no place for the table of {name}"
    return block.sub(lambda _: TABLES[name](), page, count=1)


def main(path: Path = PAGE) -> None:
    """Rewrite the tables of the page."""
    for name in TABLES:
        path.write_text(refreshed(path.read_text(encoding="utf-8"), name), encoding="utf-8")


if __name__ == "__main__":
    main()
