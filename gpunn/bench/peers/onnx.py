"""Libraries that run an ONNX file of the same model, and onnxruntime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from gpunn.bench.job import Job
from gpunn.bench.peers import Plain
from gpunn.bench.peers.onnx_model import CHANNELS_FIRST
from gpunn.types import Array

Declared: TypeAlias = Sequence[int | str | None]  # a shape in a file; extents that are no numbers are open


class OnnxFile(Plain):
    """A library that runs an ONNX file, whose arrays may have their axes in another order."""

    def describe(self, job: Job, inputs: Sequence[Declared], outputs: Sequence[Declared]) -> None:
        """Take the shapes that the file declares; raise RuntimeError if the outputs are not the model's."""
        self._first, self._inputs = job.channels_first, inputs
        self._outputs = self._axes("output", [shape for _, shape in job.outputs], outputs)

    def prepare(self, inputs: Sequence[Array]) -> Sequence[Array]:
        axes = self._axes("input", [value.shape for value in inputs], self._inputs)
        return [np.ascontiguousarray(v.transpose(a)) for v, a in zip(inputs, axes, strict=True)]

    def restore(self, outputs: Sequence[Array]) -> Sequence[Array]:
        return [y.transpose(np.argsort(a)) for y, a in zip(outputs, self._outputs, strict=True)]

    def _axes(
        self, what: str, shapes: Sequence[Sequence[int]], declared: Sequence[Declared]
    ) -> list[tuple[int, ...]]:
        """Return for each of the model's shapes the order of its axes in the file."""
        if not self._first:
            return layouts(what, shapes, declared)
        return [CHANNELS_FIRST if len(s) == 4 else tuple(range(len(s))) for s in shapes]


class Onnx(OnnxFile):
    """onnxruntime with one of its execution providers; operations that it does not support run on the CPU."""

    def __init__(self, provider: str) -> None:
        self._provider = provider

    def load(self, job: Job) -> None:
        import onnxruntime

        self.version = onnxruntime.__version__
        found = onnxruntime.get_available_providers()
        if self._provider not in found:
            raise RuntimeError(f"this onnxruntime has no {self._provider}, only {', '.join(found)}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = job.threads, 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(job.onnx, options, providers=[self._provider])
        if self._session.get_providers()[0] != self._provider:
            raise RuntimeError(f"onnxruntime's {self._provider} finds no device")
        self.device = "cpu" if self._provider.startswith("CPU") else self._provider
        self._names = [tensor.name for tensor in self._session.get_inputs()]
        tensors = (self._session.get_inputs(), self._session.get_outputs())
        self.describe(job, *([tuple(tensor.shape) for tensor in some] for some in tensors))

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        found: Sequence[Array] = self._session.run(None, dict(zip(self._names, inputs, strict=True)))
        return found


def layouts(
    what: str, shapes: Iterable[Sequence[int]], declared: Sequence[Declared]
) -> list[tuple[int, ...]]:
    """Return for each of the model's shapes the order of its axes in the ONNX file.

    Raises RuntimeError if a shape is neither the file's nor its NHWC form as NCHW. Extents that the file
    leaves open, which are not numbers, match any extent.
    """
    wanted = list(shapes)
    if len(wanted) != len(declared):
        raise RuntimeError(f"the ONNX file has {len(declared)} {what}s, the network {len(wanted)}")
    return [_axes(f"{what} {i}", *pair) for i, pair in enumerate(zip(wanted, declared, strict=True))]


def _axes(what: str, shape: Sequence[int], declared: Declared) -> tuple[int, ...]:
    if len(shape) == len(declared):
        orders = [tuple(range(len(shape)))] + [CHANNELS_FIRST] * (len(shape) == 4)
        for axes in orders:
            if all(shape[a] == n for a, n in zip(axes, declared, strict=True) if isinstance(n, int)):
                return axes
    raise RuntimeError(f"{what} is {list(shape)}, in the ONNX file {list(declared)}")
