"""compile_model() and devices(): a model compiled for the device that suits it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from gpunn.arguments import expect_flag, expect_integer
from gpunn.backends.adapter import SOFTWARE, DeviceInfo
from gpunn.backends.base import DeviceMemory
from gpunn.backends.blas import choose_threads
from gpunn.backends.worker import beside, undisturbed
from gpunn.compilation.preference import FRAMES_IN_FLIGHT, Preference
from gpunn.errors import ModelError
from gpunn.garbage import rare_collections
from gpunn.graph.graph import Graph
from gpunn.limits import Limits
from gpunn.ops.compiled import installed

if TYPE_CHECKING:
    from gpunn.backends.webgpu.device import Device
    from gpunn.compilation.base import Compilation
    from gpunn.tuning.tuner import Tuner

BACKENDS = ("auto", "webgpu", "cpu")


def compile_model(
    model: Graph,
    backend: str = "auto",
    preference: Preference | str | None = None,
    *,
    relaxed: bool = False,
    device: str | int | None = None,
    threads: int | None = None,
    device_memory_limit: int | None = None,
) -> Compilation:
    """Compile a model.

    backend: "webgpu", "cpu", or "auto": what is quickest, or for LOW_POWER uses least energy, by a short
    measurement that is made once for an adapter and remembered (gpunn.performance); a software adapter is
    never chosen over the CPU backend unless asked for. device: an adapter, by its place in gpunn.devices(), a
    part of its name, or its PCI id ("10de:2330"). preference: a Preference or its name ("sustained-speed");
    default FAST_SINGLE_ANSWER, as in NeuralNetworks.h. SUSTAINED_SPEED measures which kernels are the
    quickest, once for a GPU and its driver (docs/tuning.md). relaxed: float32 may be stored as float16
    between operations, on either backend; see gpunn.passes.relax for what stays float32.
    threads: of numpy's BLAS library for large products, on the CPU backend and in what the host computes for
    another one, and of those that share compiled loops on the CPU backend, at most one for each processor;
    None: as many as processors are free now, by affinity, control groups and the load average. Small products
    and loops run on one thread. device_memory_limit: bytes that all compilations together may have on
    the GPU (gpunn.memory()) when this one takes memory there, now or in a run on other shapes; the model may
    have further limits (gpunn.Limits).
    Raises ModelError for an unknown backend or preference, a `relaxed` that is no bool, `threads` below 1, a
    limit below 0, a `device` for the CPU backend, or a model without outputs, DeviceError when there is no
    such adapter, memory is out, a shader is rejected, or `threads` has no effect.
    """
    if backend not in BACKENDS:
        raise ModelError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    if not model.outputs:
        raise ModelError(f"model {model.name!r} has no outputs")
    purpose, relaxed = purpose_of(preference), expect_flag("relaxed", relaxed)
    limit = device_memory_limit
    if limit is not None:
        limit = expect_integer("device_memory_limit", limit, 0)
    return undisturbed(partial(_compiled, model, backend, purpose, relaxed, device, threads, limit))


@rare_collections()
def _compiled(
    model: Graph,
    backend: str,
    purpose: Preference,
    relaxed: bool,
    device: str | int | None,
    threads: int | None,
    limit: int | None,
) -> Compilation:
    if backend == "cpu" and device is not None:
        raise ModelError(f"device {device!r} goes with backend 'webgpu' or 'auto', got backend 'cpu'")
    frames = FRAMES_IN_FLIGHT[purpose]
    sustained = purpose is Preference.SUSTAINED_SPEED
    own_threads = choose_threads(threads, shared_loops=sustained and backend == "cpu" and installed())
    gpu = _choose(model, backend, purpose is Preference.LOW_POWER, device)
    from gpunn.compilation.assembly import Settings, built, compilation

    given = [n for n in (limit, model.limits.device_bytes) if n is not None]
    limits = replace(model.limits, device_bytes=min(given, default=None))
    tuner = _tuner(gpu, limits) if gpu is not None and sustained else None
    build = partial(built, settings=Settings(gpu, frames, relaxed, own_threads, limits, tuner, sustained))
    made = compilation(model, build, gpu, frames)
    chosen = None if gpu is None else gpu.info.name
    made.recipe = partial(
        compile_model,
        model,
        made.backend,
        purpose,
        relaxed=relaxed,
        device=chosen,
        threads=threads,
        device_memory_limit=limit,
    )
    return made


def _tuner(gpu: Device, limits: Limits) -> Tuner:
    """Return a tuner; under a limit of compile_seconds it takes what is known and measures nothing."""
    from gpunn.tuning.tuner import Tuner

    return Tuner(gpu, limit=limits.device_bytes, measures=limits.compile_seconds is None)


def purpose_of(preference: Preference | str | None) -> Preference:
    """Return the preference of a name or a member; see compile_model()."""
    if preference is None:
        return Preference.FAST_SINGLE_ANSWER
    if isinstance(preference, (Preference, str)):
        with suppress(ValueError):
            return Preference(preference)
    names = ", ".join(repr(p.name.lower().replace("_", "-")) for p in Preference)
    raise ModelError(f"preference must be a gpunn.Preference or one of {names}, got {preference!r}")


def _choose(model: Graph, backend: str, low_power: bool, device: str | int | None) -> Device | None:
    """Return the device to use, None for the CPU backend."""
    if backend == "cpu":
        return None
    if device is not None and (isinstance(device, bool) or not isinstance(device, (str, int))):
        raise ModelError(f"device must be a number, a PCI id or a part of a name, got {device!r}")
    if backend == "webgpu" or device is not None:
        opened: Device = beside(partial(gpu_devices().open_device, device, low_power), _import_what_follows)
        return opened
    # Quantised constants alone make no arithmetic on integers.
    results = [o for operation in model.operations for o in operation.outputs]
    from gpunn.compilation.measured import best_device  # which a first answer on a named backend does without

    quantised = any(o.type.quantization is not None for o in results)
    return best_device(gpu_devices(), quantised, low_power)


def _import_what_follows() -> None:
    """Import what compiles for a GPU device, which takes about as long as a driver needs to open one."""
    import gpunn.backends.webgpu.lower
    import gpunn.backends.webgpu.program
    import gpunn.compilation.assembly  # noqa: F401


def gpu_devices() -> ModuleType:
    """Return the module of GPU devices, imported here: wgpu takes long, and much needs no GPU."""
    from gpunn.backends.webgpu import device

    return device


memory_elsewhere: list[Callable[[], Iterable[DeviceMemory]]] = []  # what other processes have


def memory() -> tuple[DeviceMemory, ...]:
    """Return what gpunn has on each GPU that it has opened, in bytes, for all compilations together.

    Worker processes count, too. What forgotten compilations have left is freed before.
    """
    gpus = sys.modules.get("gpunn.backends.webgpu.device")  # without it nothing is open here
    here = () if gpus is None else undisturbed(gpus.opened_memory)
    found = {m.device: m for m in here}
    for tell in memory_elsewhere:
        for more in tell():
            found[more.device] = more.plus(found.get(more.device))
    return tuple(found.values())


def devices() -> tuple[DeviceInfo, ...]:
    """List every GPU adapter with its limits and features, and last the CPU backend."""
    cpu = DeviceInfo("cpu (numpy)", "cpu", SOFTWARE, f"numpy {np.__version__}", "numpy", {}, ())
    return (*gpu_devices().adapter_infos(), cpu)
