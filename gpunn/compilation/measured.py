"""The device that was measured best: what backend "auto" takes."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING

from gpunn.backends.adapter import SOFTWARE, rank
from gpunn.cache import Key
from gpunn.compilation.assembly import Settings, built
from gpunn.compilation.sections import Section
from gpunn.errors import DeviceError
from gpunn.performance import Capabilities, Energy, PerformanceInfo, best, measure, remembered

if TYPE_CHECKING:
    from gpunn.backends.webgpu.device import Device


def best_device(gpus: ModuleType, quantised: bool, low_power: bool) -> Device | None:
    """Return the device that was measured best for a kind of model, None for the CPU backend.

    gpus: the module of GPU devices. An adapter that fails is as good as none.
    """
    found: dict[Device, PerformanceInfo] = {}
    for index, info in enumerate(gpus.adapter_infos()):
        if info.kind != SOFTWARE:
            with suppress(DeviceError):
                device = gpus.device_at(index)
                measured = capabilities(device)
                found[device] = measured.quantized8_performance if quantised else measured.float32_performance
    return best(found, low_power, lambda device: rank(device.info.kind, low_power))


def capabilities(device: Device) -> Capabilities:
    """Return the performance of a device relative to the CPU backend, measured at the first call.

    Raises DeviceError when the device fails.
    """
    info = device.info
    return remembered(
        Key(info.name, info.driver, info.api),
        lambda: measure(
            lambda model: built(Section(model), Settings(device)).program,
            lambda model: built(Section(model), Settings(None)).program,
            Energy.of(info),
        ),
    )
