"""The measured libraries by name, and gpunn itself; the others have modules of their own."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpunn.bench.job import Job
from gpunn.types import Array

FLOAT32, FLOAT16 = "float32", "float16"  # what peers compute in
CUDA, CHANNELS_LAST, GRAPH = "cuda", "channels-last", "graph"  # forms of PyTorch


class Peer(Protocol):
    """A library with a model. `version` and `device` describe what ran, once load() has returned."""

    version: str
    device: str

    def load(self, job: Job) -> None:
        """Read the model and make it ready."""

    def prepare(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """Convert the model's inputs to the library's layout; not timed."""

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        """Run once, from arrays in host memory to arrays in host memory."""

    def stream(self, frames: Iterable[Sequence[Array]]) -> Iterator[object]:
        """Run one frame after another, in the library's fastest way."""

    def restore(self, outputs: Sequence[Array]) -> Sequence[Array]:
        """Convert the results of call() to the model's layout; not timed."""


class Plain:
    """A library with the model's layouts that can only repeat single runs."""

    version = ""
    device = "cpu"

    def prepare(self, inputs: Sequence[Array]) -> Sequence[Array]:
        return inputs

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        raise NotImplementedError

    def stream(self, frames: Iterable[Sequence[Array]]) -> Iterator[object]:
        return map(self.call, frames)

    def restore(self, outputs: Sequence[Array]) -> Sequence[Array]:
        return outputs


class Gpunn(Plain):
    """gpunn with one of its backends; in float16 its models are relaxed."""

    def __init__(self, backend: str, precision: str = FLOAT32) -> None:
        self._backend, self._relaxed = backend, precision == FLOAT16

    def load(self, job: Job) -> None:
        import gpunn

        self.version = gpunn.__version__
        model = gpunn.load(job.model)
        self._compiled = model.compile(
            backend=self._backend,
            preference=gpunn.Preference[job.preference] if job.preference else None,
            relaxed=self._relaxed,
            device=job.device if self._backend == "webgpu" else None,
            shapes={i.name: s for i, s in zip(model.inputs, job.shapes, strict=False)},
        )
        self.device = self._compiled.device

    def call(self, inputs: Sequence[Array]) -> Sequence[Array]:
        result = self._compiled(*inputs)
        return result if isinstance(result, tuple) else (result,)

    def stream(self, frames: Iterable[Sequence[Array]]) -> Iterator[object]:
        return self._compiled.stream(tuple(frame) for frame in frames)


@dataclass(frozen=True, slots=True)
class Kind:
    """A way to make a peer: `maker` of `module` with `arguments`.

    statement: the import whose time is the peer's. packages: what must be installed, by the modules in it.
    """

    statement: str
    packages: Mapping[str, str]
    module: str
    maker: str
    arguments: tuple[str, ...] = ()

    def make(self) -> Peer:
        """Make a peer without a model; raise ImportError if its library is not installed."""
        peer: Peer = getattr(importlib.import_module(self.module), self.maker)(*self.arguments)
        return peer

    @property
    def missing(self) -> str:
        """Say why it cannot be started; "" if it is installed."""
        absent = (name for module, name in self.packages.items() if importlib.util.find_spec(module) is None)
        return next((f"the package {name} is not installed" for name in absent), "")

    @property
    def precision(self) -> str:
        """Return FLOAT16 if it may compute in float16, else FLOAT32."""
        return FLOAT16 if FLOAT16 in self.arguments else FLOAT32

    @property
    def takes_device(self) -> bool:
        """Tell whether it runs on the GPU that is asked for."""
        return self.arguments[:1] in (("webgpu",), ("vulkan",))


def _gpunn(*arguments: str) -> Kind:
    # The package alone would import nothing.
    return Kind("from gpunn import load", {"gpunn": "gpunn"}, __name__, "Gpunn", arguments)


def _litert(module: str, maker: str, *arguments: str) -> Kind:
    packages = {"ai_edge_litert": "ai-edge-litert"}
    return Kind(f"import ai_edge_litert.{module}", packages, f"{__name__}.litert", maker, arguments)


def _onnxruntime(package: str, provider: str) -> Kind:
    return Kind("import onnxruntime", {"onnxruntime": package}, f"{__name__}.onnx", "Onnx", (provider,))


def _ncnn(*arguments: str) -> Kind:
    return Kind("import ncnn", {"ncnn": "ncnn"}, f"{__name__}.ncnn", "Ncnn", arguments)


def _torch(*forms: str) -> Kind:
    packages = {name: name for name in ("torch", "onnx", "onnx2torch")}
    return Kind("import torch", packages, f"{__name__}.torch", "Torch", forms)


OURS = {
    "gpunn-webgpu": _gpunn("webgpu"),
    "gpunn-cpu": _gpunn("cpu"),
    "gpunn-webgpu-f16": _gpunn("webgpu", FLOAT16),
}
OTHERS = {
    "litert": _litert("interpreter", "Litert"),
    "litert-gpu": _litert("compiled_model", "LitertGpu"),
    "litert-gpu-f16": _litert("compiled_model", "LitertGpu", FLOAT16),
    "onnxruntime": _onnxruntime("onnxruntime", "CPUExecutionProvider"),
    "onnxruntime-webgpu": _onnxruntime("onnxruntime-webgpu", "WebGpuExecutionProvider"),
    "ncnn": _ncnn("cpu"),
    "ncnn-vulkan": _ncnn("vulkan"),
    "ncnn-vulkan-f16": _ncnn("vulkan", FLOAT16),
    "torch": _torch(),
    "torch-channels-last": _torch(CHANNELS_LAST),
    "torch-cuda": _torch(CUDA),
    "torch-cuda-channels-last": _torch(CUDA, CHANNELS_LAST),
    "torch-cuda-graph": _torch(CUDA, GRAPH),
    "torch-cuda-f16": _torch(CUDA, CHANNELS_LAST, FLOAT16),
    "torch-cuda-graph-f16": _torch(CUDA, CHANNELS_LAST, GRAPH, FLOAT16),
}
PEERS = {**OURS, **OTHERS}
