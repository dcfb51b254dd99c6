"""PyTorch, with a module that the package onnx2torch makes from an ONNX file of the same model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpunn.bench.job import Job
from gpunn.bench.peers import CHANNELS_LAST, CUDA, FLOAT16, GRAPH
from gpunn.bench.peers.onnx import OnnxFile
from gpunn.types import Array

_WARM_UP = 3  # runs before a CUDA graph is captured, in which libraries choose their kernels


class Torch(OnnxFile):
    """PyTorch without gradients, one operation after the other, on the CPU in float32.

    forms: CUDA, on a CUDA device instead; CHANNELS_LAST, tensors of rank 4 lie in memory as [N, H, W, C];
    GRAPH, runs are replays of one CUDA graph; FLOAT16, weights and tensors are. TensorFloat-32 is off.
    """

    def __init__(self, *forms: str) -> None:
        import onnx
        import onnx2torch
        import torch

        self.version = torch.__version__
        self._onnx, self._convert, self._torch, self._forms = onnx, onnx2torch.convert, torch, forms
        self._device = "cuda" if CUDA in forms else "cpu"
        self._type = torch.float16 if FLOAT16 in forms else torch.float32
        self._run: Callable[[Sequence[Any]], Sequence[Any]] = self._captured if GRAPH in forms else self._once

    def load(self, job: Job) -> None:
        torch = self._torch
        if CUDA in self._forms:
            if not torch.cuda.is_available():
                raise RuntimeError("PyTorch finds no CUDA device")
            self.device = torch.cuda.get_device_name()
        torch.set_num_threads(job.threads)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True  # it measures its kernels, as gpunn's SUSTAINED_SPEED does
        file = self._onnx.load(job.onnx)
        self.describe(
            job, *([_shape(tensor) for tensor in some] for some in (file.graph.input, file.graph.output))
        )
        self._module = self._convert(file).eval()
        # Numbers that operations read on the host, such as shapes, stay there.
        for tensor in (*self._module.parameters(), *self._module.buffers()):
            if tensor.is_floating_point() and tensor.dim():
                tensor.data = self._placed(tensor.data)

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        with self._torch.inference_mode():
            found = self._run([self._torch.from_numpy(value) for value in inputs])
            return [np.asarray(y.float().cpu().contiguous()) for y in found]

    def _placed(self, tensor: Any) -> Any:
        """Put a tensor where it is computed, in the type and order of axes of the form."""
        last = CHANNELS_LAST in self._forms and tensor.dim() == 4
        order = self._torch.channels_last if last else self._torch.contiguous_format
        return tensor.to(self._device, self._type, memory_format=order)

    def _once(self, inputs: Sequence[Any]) -> Sequence[Any]:
        found = self._module(*map(self._placed, inputs))
        return found if isinstance(found, (tuple, list)) else (found,)

    def _captured(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """Capture a graph, and replay it from then on."""
        cuda = self._torch.cuda
        places = [self._placed(value) for value in inputs]
        beside = cuda.Stream()
        beside.wait_stream(cuda.current_stream())
        with cuda.stream(beside):
            for _ in range(_WARM_UP):
                self._once(places)
        cuda.current_stream().wait_stream(beside)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            found = self._once(places)

        def replay(values: Sequence[Any]) -> Sequence[Any]:
            for place, value in zip(places, values, strict=True):
                place.copy_(value)
            graph.replay()
            return found

        self._run = replay
        return replay(inputs)


def _shape(tensor: Any) -> list[int | None]:
    """Return the shape that an ONNX file declares of an input or output; None for extents left open."""
    extents = tensor.type.tensor_type.shape.dim
    return [extent.dim_value if extent.HasField("dim_value") else None for extent in extents]
