"""The result of a comparison as data; to_json() gives it as docs/schemas/compare.schema.json describes it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpunn.comparison.classes import Accuracy, Agreement
from gpunn.comparison.metrics import HISTOGRAM_EDGES, LARGEST, Health, Metrics
from gpunn.comparison.sides import SideInfo
from gpunn.document import as_document
from gpunn.types import DType, Shape
from gpunn.vision import Guess, PhotoInput


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a comparison: `samples` runs. `skipped`: files in folders that are not photos;
    `unreadable`: those that cannot be read, with the reason. pixels: what becomes of the pixels of photos;
    None without photos.
    """

    description: str
    samples: int
    skipped: tuple[str, ...]
    unreadable: tuple[str, ...] = ()
    pixels: PhotoInput | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One tensor of a backend, compared with the exact tensor.

    values: the Health of the backend's values. tolerance: the largest allowed error of the worst element, in
    steps for quantised tensors. ratio: the error of this element divided by its tolerance; infinite if no
    error is allowed, or if only one side is finite. over: the number of elements over their tolerance, of all
    samples. worst: the index of the worst element; None if all are equal.
    """

    metrics: Metrics
    values: Health
    tolerance: float
    ratio: float
    over: int
    worst: Shape | None

    @property
    def ok(self) -> bool:
        """Tell whether every element is within its tolerance."""
        return self.ratio <= 1


@dataclass(frozen=True, slots=True)
class LayerSide:
    """A layer on one backend. place: "webgpu", "cpu", "alias" or "litert"; reason: why it is not on the GPU.
    shaders: the WGSL files that compute it there.

    isolated: with exact inputs, rounded to the backend's dtypes; this finds a wrong kernel. accumulated: with
    the inputs that the backend itself computed; this shows drift. None if the backend has no such tensor.
    """

    backend: str
    place: str
    reason: str
    shaders: tuple[str, ...]
    isolated: Check | None
    accumulated: Check | None


@dataclass(frozen=True, slots=True)
class Layer:
    """One result of one operation of the optimised model, which is the model that runs.

    index: the operation's place in that model; output: the number of the result. quantised: tolerances are in
    steps. values: the Health of the exact values.
    """

    index: int
    output: int
    name: str
    op: str
    activation: str | None
    origin: str
    dtype: str
    shape: Shape
    quantised: bool
    values: Health
    sides: tuple[LayerSide, ...]

    @property
    def called(self) -> str:
        """Return the name of the operation with its fused activation."""
        return f"{self.op} + {self.activation}" if self.activation else self.op


@dataclass(frozen=True, slots=True)
class OutputPair:
    """One output of the model on two sides.

    tolerance: the largest allowed difference, in steps for a quantised output; None if none can be stated.
    """

    name: str
    dtype: str
    shape: Shape
    quantised: bool
    metrics: Metrics
    reference: Health
    candidate: Health
    tolerance: float | None

    @property
    def ratio(self) -> float | None:
        """Return the largest error divided by the tolerance; None without a tolerance."""
        if self.tolerance is None:
            return None
        if self.metrics.unmatched:
            # Noise beyond the range of the type may decide whether a number is infinite.
            return 0.0 if self.tolerance > LARGEST.get(DType(self.dtype), math.inf) else math.inf
        steps = self.metrics.max_steps
        return over(self.metrics.max_abs_error if steps is None else steps, self.tolerance)

    @property
    def ok(self) -> bool | None:
        """Tell whether the candidate is within the tolerance; None without a tolerance."""
        return None if self.ratio is None else self.ratio <= 1


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides over all samples; `agreement` is for classifiers."""

    reference: str
    candidate: str
    outputs: tuple[OutputPair, ...]
    agreement: Agreement | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The best classes of each side for one input of a classifier. truth: the true class, if known."""

    name: str
    photo: str
    truth: str | None
    guesses: Mapping[str, tuple[Guess, ...]]

    @property
    def unanimous(self) -> bool:
        """Tell whether every side has the same best class."""
        return len({guesses[0].index for guesses in self.guesses.values()}) <= 1


@dataclass(frozen=True, slots=True)
class LayerPair:
    """Two matching tensors of two files of a model; `by`: "name" or "order"."""

    by: str
    name: str
    other: str
    shape: Shape
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class Finding:
    """A statement for the top of a report. kind: "wrong kernel", "drift", "output", "plan", "not finite",
    "float16".

    fault: whether it says that something is wrong. layer: the index of the layer that it is about, if any.
    """

    kind: str
    fault: bool
    backend: str
    layer: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of gpunn.compare. `sides`: the reference first. `pairs`: the reference with every other
    side, then the other sides with one another. knows: which classes the answers are chosen from; None for a
    model that is no classifier with names.
    """

    model: str
    inputs: Inputs
    sides: tuple[SideInfo, ...]
    pairs: tuple[Pair, ...]
    accuracy: tuple[Accuracy, ...]
    answers: tuple[Answer, ...]
    layers: tuple[Layer, ...]
    layer_pairs: tuple[LayerPair, ...]
    findings: tuple[Finding, ...]
    machine: str
    versions: Mapping[str, str]
    knows: str | None = None

    @property
    def ok(self) -> bool:
        """Tell whether every layer and every output is within its tolerance."""
        return not any(finding.fault for finding in self.findings)

    def pair(self, candidate: str, reference: str | None = None) -> Pair:
        """Return the pair of two sides, by default with the reference; raise KeyError if there is none."""
        wanted = {candidate, reference or self.sides[0].name}
        for pair in self.pairs:
            if {pair.reference, pair.candidate} == wanted:
                return pair
        raise KeyError(candidate)

    def first_wrong(self, backend: str) -> Layer | None:
        """Return the first layer that exceeds its tolerance isolated: its kernel is wrong."""
        for layer in self.layers:
            for side in layer.sides:
                if side.backend == backend and side.isolated is not None and not side.isolated.ok:
                    return layer
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain data; infinities and NaN are "inf", "-inf" and None."""
        document: dict[str, Any] = {"ok": self.ok, **as_document(self)}
        pixels = self.inputs.pixels
        document["inputs"]["pixels"] = None if pixels is None else pixels.to_json()
        document["histogram_edges"] = [float(f"{edge:.4g}") for edge in HISTOGRAM_EDGES]
        for pair, found in zip(document["pairs"], self.pairs, strict=True):
            for row, output in zip(pair["outputs"], found.outputs, strict=True):
                row["ok"] = output.ok
        for row, layer in zip(document["layers"], self.layers, strict=True):
            for side, found_side in zip(row["sides"], layer.sides, strict=True):
                for mode in ("isolated", "accumulated"):
                    check: Check | None = getattr(found_side, mode)
                    if check is not None:
                        side[mode]["ok"] = check.ok
        return document


def over(error: float, tolerance: float) -> float:
    """Divide an error by its tolerance: 0 / 0 is 0, x / 0 infinite."""
    return error / tolerance if tolerance > 0 else (math.inf if error > 0 else 0.0)
