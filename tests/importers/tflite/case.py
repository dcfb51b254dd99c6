"""A generated .tflite file of one operator, and LiteRT's results for it: the rows of cases*.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from gpunn.ops.check import FLOATS
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.harness import type_of
from tests.ops.quantized import stored
from tests.tflite_builder import ABSENT, Graph, litert_run

F32 = DType.FLOAT32
# Quantised operators with LiteRT's reference bits; its default kernels differ (docs/quantized.md).
AS_REFERENCE = {"DEQUANTIZE", "LOG_SOFTMAX", "MUL", "QUANTIZE", "SOFTMAX"}
DRAFTS = {"SLICE": (1, 2, 3)}  # LiteRT does not compute its output shape


@dataclass(frozen=True, slots=True)
class Fed:
    """An input of the graph, with its value."""

    value: Array


@dataclass(frozen=True, slots=True)
class Known:
    """A constant of random values."""

    type: TensorType


Item = Array | TensorType | Fed | Known | None


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One operator with its options.

    inputs: an array is a constant, a TensorType an input that is fed with random values, None an optional
    input that is absent. outputs: a DType leaves the shape to LiteRT, and is quantised as the first input.
    steps: by how many steps a quantised result may differ, if the kernels round differently.
    """

    operator: str
    inputs: Sequence[Item]
    outputs: Sequence[DType | TensorType] = (F32,)
    options: Mapping[str, Any] | None = field(default_factory=dict)
    version: int = 1
    steps: int = 0

    @property
    def by_reference(self) -> bool:
        """Tell whether LiteRT's reference kernels decide on the right result, not its default ones."""
        types = [t for t in (*self.types(), *self.outputs) if isinstance(t, TensorType)]
        return self.operator in AS_REFERENCE and any(t.quantization is not None for t in types)

    def types(self) -> list[TensorType]:
        """Return the types of the graph's inputs."""
        kinds = [type_of(i.value) if isinstance(i, Fed) else i for i in self.inputs]
        return [k for k in kinds if isinstance(k, TensorType)]

    def __str__(self) -> str:
        return f"{self.operator}-{'-'.join(t.dtype.value for t in self.types()[:1])}"


@dataclass(frozen=True, slots=True)
class Prepared:
    """The file of a case, its inputs, and LiteRT's results."""

    file: bytes
    inputs: list[Array]
    answers: list[Array]


def ints(*values: Any) -> Array:
    """Return an int32 array: a shape, axes, bounds."""
    return np.array(values, np.int32)


def prepare(case: Case) -> Prepared:
    """Build the file, run it in LiteRT, and state the shapes of its results in the file."""
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    inputs = [_fed(i, k) for k, i in enumerate(case.inputs) if isinstance(i, (Fed, TensorType))]
    types = [_draft(case, output) for output in case.outputs]
    answers = litert_run(_file(case, types), inputs, reference=case.by_reference)
    types = [t.with_shape(a.shape) for t, a in zip(types, answers, strict=True)]
    return Prepared(_file(case, types), inputs, answers)


def values(type: TensorType, seed: int) -> Array:
    """Return random values of a type: of the whole range if quantised, else numbers around 0."""
    rng = np.random.default_rng(seed)
    if type.quantization is not None:
        return stored(seed, type)
    if type.dtype is DType.COMPLEX64:
        parts = rng.standard_normal((2, *type.shape))
        return np.asarray(parts[0] + 1j * parts[1], np.complex64)
    if type.dtype in FLOATS:
        return rng.standard_normal(type.shape).astype(type.dtype.numpy)
    if type.dtype is DType.BOOL:
        return rng.random(type.shape) < 0.7
    return rng.integers(0 if type.dtype is DType.UINT8 else -100, 100, type.shape).astype(type.dtype.numpy)


def _fed(item: Fed | TensorType, seed: int) -> Array:
    """Return the value of an input: its own, else random values; int64 numbers have all lengths."""
    if isinstance(item, Fed):
        return item.value
    found = values(item, seed)
    by = np.arange(found.size).reshape(found.shape) % 50
    return found << by if item.dtype is DType.INT64 else found


def _draft(case: Case, output: DType | TensorType) -> TensorType:
    if isinstance(output, TensorType):
        return output
    first = case.types()[0] if case.types() else float32()
    scale = first.quantization if first.dtype is output else None
    return TensorType(output, DRAFTS.get(case.operator, (1,)), scale)


def _file(case: Case, outputs: Sequence[TensorType]) -> bytes:
    graph = Graph()
    numbers = [_number(graph, item, k) for k, item in enumerate(case.inputs)]
    return graph.build(graph.add(case.operator, numbers, outputs, case.options, version=case.version))


def _number(graph: Graph, item: Item, seed: int) -> int:
    if item is None:
        return ABSENT
    if isinstance(item, Known):
        return graph.tensor(item.type, data=values(item.type, seed).tobytes())
    if isinstance(item, Fed):
        return graph.input(type_of(item.value))
    return graph.input(item) if isinstance(item, TensorType) else graph.constant(item)
