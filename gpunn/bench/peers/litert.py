"""LiteRT, the TFLite runtime (package ai-edge-litert), on the CPU and on the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from gpunn.bench.job import Job
from gpunn.bench.peers import FLOAT32, Plain
from gpunn.types import Array


class Litert(Plain):
    """LiteRT's interpreter with the default delegate, XNNPACK."""

    def load(self, job: Job) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self.version = version("ai-edge-litert")
        interpreter = Interpreter(model_path=job.model, num_threads=job.threads)
        self._inputs = [d["index"] for d in interpreter.get_input_details()]
        for index, shape in zip(self._inputs, job.shapes, strict=False):
            interpreter.resize_tensor_input(index, list(shape))
        interpreter.allocate_tensors()
        self._outputs = [d["index"] for d in interpreter.get_output_details()]
        self._interpreter = interpreter

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        for index, value in zip(self._inputs, inputs, strict=True):
            self._interpreter.set_tensor(index, value)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(index) for index in self._outputs]


class LitertGpu(Plain):
    """LiteRT's compiled model on a GPU that it selects; refused if a part stays on the CPU."""

    device = "the GPU that LiteRT chooses"

    def __init__(self, precision: str = FLOAT32) -> None:
        self._exact = precision == FLOAT32

    def load(self, job: Job) -> None:
        from ai_edge_litert.compiled_model import CompiledModel
        from ai_edge_litert.gpu_options import GpuOptions
        from ai_edge_litert.hardware_accelerator import HardwareAccelerator
        from ai_edge_litert.options import Options

        self.version = version("ai-edge-litert")
        options = Options(
            hardware_accelerators=HardwareAccelerator.GPU, gpu_options=GpuOptions(enforce_f32=self._exact)
        )
        try:
            self._model: Any = CompiledModel.from_file(job.model, options=options)
        except RuntimeError:
            raise RuntimeError("LiteRT's GPU accelerator cannot be started with this network") from None
        if not self._model.is_fully_accelerated():
            raise RuntimeError("LiteRT's GPU accelerator takes only a part of this network")
        for index, shape in enumerate(job.shapes):
            self._model.resize_input_tensor(index, list(shape), strict=False)
        self._inputs = self._model.create_input_buffers(0)
        self._outputs = self._model.create_output_buffers(0)
        self._types = [(np.dtype(dtype).type, tuple(shape)) for dtype, shape in job.outputs]

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        for buffer, value in zip(self._inputs, inputs, strict=True):
            buffer.write(value)
        self._model.run_by_index(0, self._inputs, self._outputs)
        pairs = zip(self._outputs, self._types, strict=True)
        return [np.asarray(b.read(int(np.prod(s)), dtype)).reshape(s) for b, (dtype, s) in pairs]
