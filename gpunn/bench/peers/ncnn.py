"""ncnn, on the CPU or through its own Vulkan backend."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import numpy as np

from gpunn.bench.job import Job
from gpunn.bench.peers import FLOAT16, FLOAT32, Plain
from gpunn.bench.peers.ncnn_model import as_ncnn, from_ncnn
from gpunn.types import Array


class Ncnn(Plain):
    """ncnn with a model that gpunn.bench.peers.ncnn_model has written."""

    def __init__(self, device: str, precision: str = FLOAT32) -> None:
        import ncnn

        self.version = version("ncnn")
        self._ncnn, self._vulkan, self._halves = ncnn, device == "vulkan", precision == FLOAT16

    def load(self, job: Job) -> None:
        net = self._net = self._ncnn.Net()
        net.opt.num_threads = job.threads
        net.opt.use_vulkan_compute = self._vulkan
        for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
            setattr(net.opt, option, self._halves)
        if self._vulkan:
            net.set_vulkan_device(self._find(job.device))
        if net.load_param(job.ncnn_param) or net.load_model(job.ncnn_weights):
            raise RuntimeError("ncnn cannot read the network written for it")
        self._inputs, self._outputs = job.ncnn_inputs, job.ncnn_outputs
        self._shapes = [shape for _, shape in job.outputs]

    def _find(self, name: str | None) -> int:
        """Return the number of the first device whose name contains `name`; without a name, ncnn's own
        choice.
        """
        count = self._ncnn.get_gpu_count()
        if count == 0:
            raise RuntimeError("ncnn finds no Vulkan device")
        names = [str(self._ncnn.get_gpu_info(i).device_name()) for i in range(count)]
        chosen = self._ncnn.get_default_gpu_index()
        if name is not None:
            chosen = next((i for i, n in enumerate(names) if name.lower() in n.lower()), None)
        if chosen is None:
            raise RuntimeError(f"ncnn finds no Vulkan device called {name!r}, only {', '.join(names)}")
        self.device = names[chosen]
        return int(chosen)

    def prepare(self, inputs: Sequence[Array]) -> Sequence[Array]:
        return [as_ncnn(value) for value in inputs]

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        extractor = self._net.create_extractor()
        for blob, value in zip(self._inputs, inputs, strict=True):
            extractor.input(blob, self._ncnn.Mat(value))
        results = []
        for blob in self._outputs:
            code, mat = extractor.extract(blob)
            if code:
                raise RuntimeError(f"ncnn gives code {code} for {blob}")
            results.append(np.array(mat))
        return results

    def restore(self, outputs: Sequence[Array]) -> Sequence[Array]:
        return [from_ncnn(y, shape) for y, shape in zip(outputs, self._shapes, strict=True)]
