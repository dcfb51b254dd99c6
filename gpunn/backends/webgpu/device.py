"""Adapters and devices: the only place where a GPU device is made."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import wgpu
from wgpu.backends.wgpu_native.extras import set_instance_extras

from gpunn.backends.adapter import DeviceInfo, matches, rank
from gpunn.backends.base import DeviceMemory
from gpunn.backends.fork import exit_without_handlers, free, in_child
from gpunn.backends.interrupt import driver_lock, holding
from gpunn.backends.locks import make_lock
from gpunn.backends.processors import usable_processors
from gpunn.backends.webgpu.memory import Allocator, ConstantStore, Reclaimer
from gpunn.backends.webgpu.native import (
    abandon_objects,
    await_submission,
    finite_shader,
    subgroup_sizes,
    submit,
)
from gpunn.backends.webgpu.pipelines import Pipelines
from gpunn.backends.webgpu.properties import properties
from gpunn.backends.webgpu.shader import ShaderKey, compile_error, generate
from gpunn.backends.webgpu.textures import TEXELS
from gpunn.backends.worker import side_by_side, to_the_end
from gpunn.device import FEATURES
from gpunn.errors import DeviceError

_INSTANCE_APIS = ("Vulkan", "Metal", "DX12")  # as wgpu-native's instance flags spell them
_ADAPTER_APIS = ("Vulkan", "Metal", "D3D12")  # as its adapters report them

_COMPILERS = 8  # threads that compile shaders: more of them wait for one another in the driver

_FORKED = "opened before fork; use spawn"


@dataclass(slots=True)
class _Drivers:
    """The GPU drivers of this process: whether they have been asked for, and whether before a fork."""

    asked: bool = False
    forked: bool = False

    def leave(self) -> None:
        """Do without the drivers in a child process: nothing that the parent has opened works there."""
        self.forked = self.asked
        if self.forked:
            abandon_objects()
            exit_without_handlers()


_drivers = _Drivers()


@functools.cache
def _adapters() -> tuple[Any, ...]:
    """Return the system's adapters; the system is asked once per process."""
    if _drivers.forked:
        raise DeviceError(f"the GPU driver was {_FORKED}")
    _drivers.asked = True
    try:
        set_instance_extras(backends=_INSTANCE_APIS)
        with _runtime_dir():
            found = wgpu.gpu.enumerate_adapters_sync()
    except Exception as error:
        raise DeviceError(f"the GPU driver cannot be used: {error}") from error
    return tuple(a for a in found if a.info["backend_type"] in _ADAPTER_APIS)


@contextmanager
def _runtime_dir() -> Iterator[None]:
    """Set XDG_RUNTIME_DIR for a moment; without it, Mesa's search for Wayland complains on stderr."""
    if "XDG_RUNTIME_DIR" in os.environ:
        yield
        return
    os.environ["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    try:
        yield
    finally:
        del os.environ["XDG_RUNTIME_DIR"]


def adapter_infos() -> tuple[DeviceInfo, ...]:
    """Return a description of every adapter; empty if there is none."""
    return tuple(_describe(a) for a in _adapters())


def _describe(adapter: Any) -> DeviceInfo:
    info = adapter.info
    return DeviceInfo(
        name=info["device"],
        backend="webgpu",
        kind=info["adapter_type"],
        driver=info["description"] or info["vendor"],  # with its version, if the driver tells it
        api=info["backend_type"],
        limits=dict(adapter.limits),
        features=tuple(sorted(adapter.features)),
        pci=(info["vendor_id"], info["device_id"]),
    )


def open_device(wanted: str | int | None, low_power: bool) -> Device:
    """Return the shared device of an adapter: see matches(); of several, the best one for the purpose.

    Raises DeviceError when there is no such adapter or it gives no device.
    """
    return device_at(find_adapter(wanted, low_power))


def find_adapter(wanted: str | int | None, low_power: bool) -> int:
    """Return the place of an adapter in adapter_infos(), as open_device() chooses it; opens nothing."""
    infos = adapter_infos()
    found = [k for k, info in enumerate(infos) if wanted is None or matches(wanted, k, info, len(infos))]
    if not found:
        known = ", ".join(f"{k}: {info.name!r}" for k, info in enumerate(infos)) or "none"
        missing = "no GPU adapter was found" if wanted is None else f"there is no GPU adapter {wanted!r}"
        advice = "" if infos else "; install a Vulkan driver, or Mesa's software Vulkan"
        raise DeviceError(f"{missing} (adapters: {known}){advice}")
    return min(found, key=lambda k: rank(infos[k].kind, low_power))


def _after_fork(opening: Any) -> None:
    free(opening)
    _drivers.leave()


_opening = in_child(make_lock(), _after_fork)
_devices: dict[int, Device] = {}


def device_at(index: int) -> Device:
    """Return the shared device of an adapter, by its place in adapter_infos(). Raises DeviceError."""
    with holding(_opening):
        if _drivers.forked:
            raise DeviceError(f"the GPU driver was {_FORKED}")
        device = _devices.get(index)
        if device is None or not device.answers():
            device = _devices[index] = Device(_adapters()[index])
        return device


def opened_memory() -> list[DeviceMemory]:
    """Return what gpunn has on each device, once forgotten compilations have been freed."""
    found: list[DeviceMemory] = []
    for device in () if _drivers.forked else tuple(_devices.values()):
        device.collect()
        found.append(DeviceMemory(device.info.name, **device.memory.used()))
    return found


class Device:
    """A GPU device with its pipelines and constants, shared by all compilations of one adapter."""

    def __init__(self, adapter: Any) -> None:
        self.info = _describe(adapter)
        self.lost = False
        self.lock = driver_lock()
        self.turn = driver_lock()  # to wait for the device; see native.MappedRead
        try:
            features = sorted(adapter.features.intersection(FEATURES))
            self.wgpu = adapter.request_device_sync(
                required_limits=dict(adapter.limits), required_features=features
            )
        except Exception as error:
            raise DeviceError(f"adapter {self.info.name!r} gives no device: {error}") from error
        self._destroy, self.wgpu.destroy = self.wgpu.destroy, self.destroy
        self.properties = properties(self.info, features, dict(self.wgpu.limits), subgroup_sizes(adapter))
        self.memory = Allocator(self.wgpu)
        self.lost_recordings = 0  # see webgpu.recordings
        self.reclaimer = Reclaimer()
        self.constants = ConstantStore(self.memory, self.lock)
        self._pipelines = Pipelines()
        self._layouts: dict[tuple[str, ...], Any] = {}

    @property
    def forked(self) -> bool:
        """Tell whether this is a child process, where the device cannot be used and owns nothing."""
        return _drivers.forked

    def check_usable(self) -> None:
        """Raise DeviceError where runs cannot use the device any more."""
        if self.forked:
            raise DeviceError(f"the device {self.info.name!r} was {_FORKED}")
        if self.lost:
            advice = "compile the model again, or call recover()"
            raise DeviceError(f"the device {self.info.name!r} was lost; {advice}")

    def destroy(self) -> None:
        """Give the device up, also with runs in flight, which fail; the next compile opens another one."""
        with holding(self.lock), holding(self.turn):
            self.lost = True
            self._destroy()

    def answers(self) -> bool:
        """Tell whether the device takes work; a driver may have given it up between two calls."""
        if not self.lost:
            try:
                self.wgpu.create_buffer(size=16, usage=wgpu.BufferUsage.COPY_DST).destroy()
            except Exception:
                self.lost = True
        return not self.lost

    def drain(self) -> None:
        """Wait until the device has done all that was submitted, and frees what has been destroyed."""
        with holding(self.lock):
            number = submit(self.wgpu, (), ())
        await_submission(self.wgpu, number, self.turn)

    def collect(self) -> None:
        """Free what forgotten compilations have left on the device."""
        if self.reclaimer.waiting and not self.forked:
            to_the_end(self._collect)

    def _collect(self) -> None:
        with holding(self.lock):
            self.reclaimer.collect()

    def pipeline(self, key: ShaderKey) -> tuple[Any, Any]:
        """Return the compute pipeline and the bind group layout of a key; both are made once."""
        with self.lock:
            found = self._pipelines.get(key)
            if found is None:
                found = self._build(key)
                self._pipelines.add(key, found)
            return found, self._layout(key.kinds)

    def prepare(self, keys: Iterable[ShaderKey]) -> None:
        """Make the pipelines of keys side by side, where the driver compiles shaders meanwhile.

        Software drivers compile them for the first dispatch. A key that is rejected stays without a pipeline:
        pipeline() says why.
        """
        if self.properties.software:
            return
        with holding(self.lock):
            missing = [key for key in dict.fromkeys(keys) if key not in self._pipelines]
            for key in missing:
                self._layout(key.kinds)  # shared, so not made by one of several threads
            builds = [partial(self._build_or_none, key) for key in missing]
            threads = min(usable_processors(), _COMPILERS)
            for key, made in zip(missing, side_by_side(builds, threads), strict=True):
                if made is not None:
                    self._pipelines.add(key, made)

    @property
    def pipeline_count(self) -> int:
        """Return the number of pipelines made so far."""
        return self._pipelines.made

    def trim_pipelines(self) -> None:
        """Free pipelines that nothing uses, but for some that were asked for last."""
        to_the_end(self._trim_pipelines)

    def _trim_pipelines(self) -> None:
        with holding(self.lock):
            self._pipelines.trim()

    def _build(self, key: ShaderKey) -> Any:
        layout = self._layout(key.kinds)
        source = generate(key)
        try:
            module = finite_shader(self.wgpu, key.body, source)
            return self.wgpu.create_compute_pipeline(
                layout=self.wgpu.create_pipeline_layout(bind_group_layouts=[layout]),
                compute={"module": module, "entry_point": "main"},
            )
        except wgpu.GPUError as error:
            raise compile_error(key, source, str(error)) from error

    def _build_or_none(self, key: ShaderKey) -> Any | None:
        with suppress(DeviceError):
            return self._build(key)
        return None

    def _layout(self, kinds: tuple[str, ...]) -> Any:
        if kinds not in self._layouts:
            entries = [
                {"binding": i, "visibility": wgpu.ShaderStage.COMPUTE, **_bound(kind)}
                for i, kind in enumerate(kinds)
            ]
            self._layouts[kinds] = self.wgpu.create_bind_group_layout(entries=entries)
        return self._layouts[kinds]


def _bound(kind: str) -> dict[str, dict[str, str]]:
    """Return what a layout says of a binding of some kind (Binding.kind)."""
    if kind in (texels.sampled for texels in TEXELS.values()):
        return {"texture": {"sample_type": kind, "view_dimension": "2d"}}
    return {"buffer": {"type": kind}}
