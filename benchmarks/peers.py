"""The peers: how each library loads a network and calls it. A library is imported when its peer is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker process shall do; everything in it goes through JSON.

    `model` is a .tflite file, `inputs` and `answers` are .npz files with arrays "0", "1", ... in the
    peer's own layout. The ncnn_ fields are empty for other peers.
    """

    peer: str
    model: str
    inputs: str
    answers: str
    threads: int
    device: str | None = None
    ncnn_param: str = ""
    ncnn_weights: str = ""
    ncnn_inputs: tuple[str, ...] = ()
    ncnn_outputs: tuple[str, ...] = ()


def save(path: str | Path, arrays: Sequence[Array]) -> None:
    """Write arrays to a .npz file, named by their numbers."""
    np.savez(path, allow_pickle=False, **{str(i): array for i, array in enumerate(arrays)})


def read(path: str | Path) -> list[Array]:
    """What save() has written."""
    with np.load(path) as stored:
        return [stored[str(i)] for i in range(len(stored.files))]


class Peer(Protocol):
    """A library with a network; `version` and `device` describe what ran, `device` once it has loaded."""

    version: str
    device: str

    def load(self, job: Job) -> None:
        """Read the network and make it ready."""

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """One inference, from arrays in host memory to arrays in host memory."""


class Gpunn:
    """gpunn with one of its backends, compiled with the default preference (FAST_SINGLE_ANSWER)."""

    def __init__(self, backend: str) -> None:
        import gpunn

        self.version, self.device = gpunn.__version__, ""
        self._gpunn, self._backend = gpunn, backend

    def load(self, job: Job) -> None:
        device = job.device if self._backend == "webgpu" else None
        self._compiled = self._gpunn.load(job.model).compile(backend=self._backend, device=device)
        self.device = self._compiled.device

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        result = self._compiled(*inputs)
        return result if isinstance(result, tuple) else (result,)


class Ncnn:
    """ncnn in float32, on the CPU or through its own Vulkan backend."""

    def __init__(self, vulkan: bool) -> None:
        import ncnn

        self.version, self.device = version("ncnn"), "cpu"
        self._ncnn, self._vulkan = ncnn, vulkan

    def load(self, job: Job) -> None:
        net = self._net = self._ncnn.Net()
        net.opt.num_threads = job.threads
        net.opt.use_vulkan_compute = self._vulkan
        for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
            setattr(net.opt, option, False)
        if self._vulkan:
            net.set_vulkan_device(self._find(job.device))
        if net.load_param(job.ncnn_param) or net.load_model(job.ncnn_weights):
            raise RuntimeError("ncnn cannot read the network written for it")
        self._inputs, self._outputs = job.ncnn_inputs, job.ncnn_outputs

    def _find(self, name: str | None) -> int:
        """The number of the first device whose name contains `name`, ncnn's own choice without one."""
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


class Litert:
    """LiteRT, the TFLite runtime, on the CPU with XNNPACK: the reference of every answer."""

    device = "cpu"

    def __init__(self) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self.version = version("ai-edge-litert")
        self._interpreter_class = Interpreter

    def load(self, job: Job) -> None:
        interpreter = self._interpreter_class(model_path=job.model, num_threads=job.threads)
        interpreter.allocate_tensors()
        self._inputs = [d["index"] for d in interpreter.get_input_details()]
        self._outputs = [d["index"] for d in interpreter.get_output_details()]
        self._interpreter = interpreter

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        for index, value in zip(self._inputs, inputs, strict=True):
            self._interpreter.set_tensor(index, value)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(index) for index in self._outputs]


NAMES = ("gpunn-webgpu", "gpunn-cpu", "ncnn-vulkan", "ncnn", "litert")


def make(name: str) -> Peer:
    """The peer of that name; ImportError where its library is not installed."""
    if name == "litert":
        return Litert()
    if name.startswith("ncnn"):
        return Ncnn(vulkan=name == "ncnn-vulkan")
    return Gpunn(name.removeprefix("gpunn-"))
