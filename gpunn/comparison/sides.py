"""The sides of a comparison: a model on a backend with a name."""

from __future__ import annotations

import enum
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpunn.backends.adapter import matches
from gpunn.comparison.inputs import Sample
from gpunn.comparison.parts import run_parts
from gpunn.compilation.base import Compilation
from gpunn.compilation.compiler import compile_model, gpu_devices
from gpunn.errors import ModelError
from gpunn.graph.graph import Graph
from gpunn.ops.fixed_point.affine import dequantize
from gpunn.types import Array, DType, TensorType


class Arithmetic(enum.Enum):
    """The arithmetic of a side; it decides how far the side may be from the exact answer
    (gpunn.comparison.tolerance).

    FLOAT16: as FLOAT32, but stored as float16 (gpunn.passes.relax). HALF_PRODUCTS: as FLOAT16, and some
    products are computed in f16. OTHER: unknown.
    """

    EXACT = "float64"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    HALF_PRODUCTS = "float16 products"
    LITERT = "litert"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class SideInfo:
    """A side of a comparison: its name, its file, its device, and its arithmetic.

    adapter: for a GPU its kind, and the API that drives it.
    """

    name: str
    model: str
    device: str
    arithmetic: Arithmetic
    adapter: str = ""


class Side(Protocol):
    """A backend that computes the outputs of samples."""

    @property
    def info(self) -> SideInfo:
        """Return the description of the side."""

    def run(self, sample: Sample) -> tuple[Array, ...]:
        """Compute the outputs as stored, from the initial state: integers for quantised tensors, float64 from
        an exact side.
        """

    def close(self) -> None:
        """Free the side's resources."""


class ExactSide:
    """The ops' meaning: real numbers in float64, quantised tensors in the ops' integer arithmetic."""

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
        arithmetic = _arithmetic(self._compiled, relaxed)
        place = self._compiled.device
        adapter = _adapter(place) if backend == WEBGPU else ""
        self.info = SideInfo(name, model.name, place, arithmetic, adapter)

    def compile(self, model: Graph) -> Compilation:
        """Compile another model for the same backend and device."""
        return compile_model(model, self.backend, device=self.device)

    def run(self, sample: Sample) -> tuple[Array, ...]:
        self._compiled.reset_state()
        result = self._compiled(*sample.arrays)
        return result if isinstance(result, tuple) else (result,)

    def close(self) -> None:
        self._compiled.close()


EXACT, CPU, WEBGPU = "cpu64", "cpu", "webgpu"
RELAXED = "-relaxed"  # behind the name of a backend of gpunn


def _arithmetic(compiled: Compilation, relaxed: bool) -> Arithmetic:
    if any(row.kernel.halves for row in compiled.plan_rows()):
        return Arithmetic.HALF_PRODUCTS
    return Arithmetic.FLOAT16 if relaxed else Arithmetic.FLOAT32


def _adapter(device: str) -> str:
    """Return kind and API of the adapter whose name begins a device's description."""
    adapters = gpu_devices().adapter_infos()
    return next((f"{info.kind}, {info.api}" for info in adapters if device.startswith(info.name)), "")


def open_side(name: str, model: Graph, others: Sequence[str] = ()) -> Side:
    """Open a model on the backend with this name.

    "cpu64": the reference; "cpu", "webgpu": gpunn's backends; any other name: an adapter, by its place in
    gpunn.devices(), its PCI id or a part of its name.

    With "-relaxed" at the end, these store float32 as float16. `others`: further names,
    for the message. Raises ModelError for other names, and the errors of compile().
    """
    if name == EXACT:
        return ExactSide(name, model)
    backend, relaxed = name.removesuffix(RELAXED), name.endswith(RELAXED)
    if backend in (CPU, WEBGPU):
        return CompiledSide(name, model, backend, None, relaxed)
    adapters = gpu_devices().adapter_infos()
    if backend and any(matches(backend, k, info, len(adapters)) for k, info in enumerate(adapters)):
        return CompiledSide(name, model, WEBGPU, backend, relaxed)
    known = ", ".join([EXACT, CPU, WEBGPU, *others, *(repr(a.name) for a in adapters)])
    raise ModelError(
        f"there is no backend {name!r}; known are {known}, an adapter by part of its name, and gpunn's own "
        f"with {RELAXED} behind"
    )


def reals(value: Array, type: TensorType) -> Array:
    """Convert a tensor to the float64 numbers that it stands for.

    Complex numbers become pairs along a new last axis. For strings return their CRC-32: only their equality
    matters.
    """
    if type.dtype is DType.STRING:
        return np.array([zlib.crc32(text) for text in value.reshape(-1)], np.float64).reshape(value.shape)
    if value.dtype.kind == "c":
        return np.stack((value.real, value.imag), axis=-1).astype(np.float64)
    integers = type.quantization is not None and value.dtype.kind != "f"
    return (dequantize(value, type) if integers else value).astype(np.float64)


def pick_names(backends: Sequence[str], reference: str, others: bool) -> list[str]:
    """Return the backends without the reference, each once; raise ModelError if nothing is left and `others`
    is false.
    """
    names = [name for name in dict.fromkeys(backends) if name != reference]
    if not names and not others:
        raise ModelError(f"nothing to compare with the reference {reference!r}: name another backend")
    return names
