"""What can be compared: a model on the backends by name."""

from __future__ import annotations

import enum
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpunn.backends.webgpu.device import adapter_infos
from gpunn.comparison.inputs import Sample
from gpunn.comparison.parts import run_parts
from gpunn.compilation.compiler import compile_model
from gpunn.compilation.runtime import Compilation
from gpunn.errors import ModelError
from gpunn.graph.graph import Graph
from gpunn.ops.fixed_point.affine import dequantize
from gpunn.types import Array, DType, TensorType


class Arithmetic(enum.Enum):
    """How a side computes, which says how far it may be from the exact answer (gpunn.comparison.tolerance).

    FLOAT16: as FLOAT32, but stored as float16 (gpunn.passes.relax). OTHER: it says nothing.
    """

    EXACT = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    LITERT = "litert"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class SideInfo:
    """A side of a comparison: its name, the file it runs, on what, and how it computes.

    adapter: of a GPU its kind and the API that it is driven through.
    """

    name: str
    model: str
    device: str
    arithmetic: Arithmetic
    adapter: str = ""


class Side(Protocol):
    """Something that answers samples."""

    @property
    def info(self) -> SideInfo:
        """What it is."""

    def run(self, sample: Sample) -> tuple[Array, ...]:
        """The outputs, from initial state, as stored: integers of quantised tensors, float64 from an exact
        side."""

    def close(self) -> None:
        """Free what it holds."""


class ExactSide:
    """The ops' meaning, reals in float64; quantised tensors in the ops' integer arithmetic."""

    def __init__(self, name: str, model: Graph) -> None:
        self.info = SideInfo(name, model.name, "numpy, float64", Arithmetic.EXACT)
        self._model = model

    def run(self, sample: Sample) -> tuple[Array, ...]:
        return run_parts(self._model, sample.arrays)

    def close(self) -> None:
        pass


class CompiledSide:
    """The model compiled for one of gpunn's backends."""

    def __init__(self, name: str, model: Graph, backend: str, device: str | None, relaxed: bool) -> None:
        self.backend, self.device, self.relaxed = backend, device, relaxed
        self._compiled = compile_model(model, backend, device=device, relaxed=relaxed)
        arithmetic = Arithmetic.FLOAT16 if relaxed else Arithmetic.FLOAT32
        place = self._compiled.device
        adapter = _adapter(place) if backend == WEBGPU else ""
        self.info = SideInfo(name, model.name, place, arithmetic, adapter)

    def compile(self, model: Graph) -> Compilation:
        """Another model in the same place."""
        return compile_model(model, self.backend, device=self.device)

    def run(self, sample: Sample) -> tuple[Array, ...]:
        self._compiled.reset_state()
        result = self._compiled(*sample.arrays)
        return result if isinstance(result, tuple) else (result,)

    def close(self) -> None:
        self._compiled.close()


EXACT, CPU, WEBGPU = "cpu64", "cpu", "webgpu"
RELAXED = "-relaxed"  # behind the name of a backend of gpunn


def _adapter(device: str) -> str:
    """Kind and API of the adapter that a device's description begins with."""
    found = (f"{info.kind}, {info.api}" for info in adapter_infos() if device.startswith(info.name))
    return next(found, "")


def open_side(name: str, model: Graph, others: Sequence[str] = ()) -> Side:
    """A model on the backend of a name.

    "cpu64": the reference; "cpu", "webgpu": gpunn's backends; anything else: the adapter whose name
    contains it (gpunn.devices()); these with "-relaxed" behind them store float32 as float16. `others`:
    further names, for the message. Raises ModelError for a name that is none of these, and what compile()
    raises.
    """
    if name == EXACT:
        return ExactSide(name, model)
    backend, relaxed = name.removesuffix(RELAXED), name.endswith(RELAXED)
    if backend in (CPU, WEBGPU):
        return CompiledSide(name, model, backend, None, relaxed)
    adapters = [info.name for info in adapter_infos()]
    if backend and any(backend.lower() in adapter.lower() for adapter in adapters):
        return CompiledSide(name, model, WEBGPU, backend, relaxed)
    known = ", ".join([EXACT, CPU, WEBGPU, *others, *(repr(a) for a in adapters)])
    raise ModelError(
        f"there is no backend {name!r}; known are {known}, an adapter by part of its name, and gpunn's own "
        f"with {RELAXED} behind"
    )


def reals(value: Array, type: TensorType) -> Array:
    """A tensor as float64: what it stands for.

    Of strings it is their CRC-32: all that counts is whether they are equal.
    """
    if type.dtype is DType.STRING:
        return np.array([zlib.crc32(text) for text in value.reshape(-1)], np.float64).reshape(value.shape)
    integers = type.quantization is not None and value.dtype.kind != "f"
    return (dequantize(value, type) if integers else value).astype(np.float64)


def stored(type: TensorType) -> bool:
    """Whether a tensor is compared in steps: quantised integers."""
    return type.quantization is not None and type.dtype in (DType.UINT8, DType.INT8, DType.INT16, DType.INT32)


def pick_names(backends: Sequence[str], reference: str, others: bool) -> list[str]:
    """The backends without the reference, each once; ModelError where none is left, nor any others."""
    names = [name for name in dict.fromkeys(backends) if name != reference]
    if not names and not others:
        raise ModelError(f"nothing to compare with the reference {reference!r}: name another backend")
    return names
