"""The energy counter of an NVIDIA GPU, through the library that comes with its driver.

NVML API reference: nvmlDeviceGetTotalEnergyConsumption (millijoules since the driver was loaded, from Volta
on), nvmlDeviceGetPciInfo_v3, nvmlPciInfo_t.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

NVIDIA = 0x10DE  # PCI vendor id
_MILLI = 1e-3
_LIBRARY = {"linux": "libnvidia-ml.so.1", "win32": "nvml.dll"}


class PciInfo(ctypes.Structure):
    """nvmlPciInfo_t. pci_device_id: the device's id in the upper half, the vendor's in the lower."""

    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pci_device_id", ctypes.c_uint),
        ("pci_subsystem_id", ctypes.c_uint),
        ("bus_id", ctypes.c_char * 32),
    )


def nvml_counter(pci: tuple[int, int], library: Any = None) -> Callable[[], float | None] | str:
    """Return a counter of joules for the GPU with a PCI vendor and device id, or say why there is none.

    library: NVML, already loaded; by default the system's.
    """
    try:
        nvml = library or ctypes.CDLL(_LIBRARY[sys.platform])
    except (OSError, KeyError) as error:
        return f"NVML cannot be loaded: {error}"
    try:
        if nvml.nvmlInit_v2():
            return "NVML does not start"
        found = [handle for handle in _handles(nvml) if _pci(nvml, handle) == pci]
        if len(found) != 1:
            return f"{len(found)} of the system's NVIDIA GPUs may be the adapter"
        counter = _counter(nvml, found[0])
        return "the GPU tells NVML no energy" if counter() is None else counter
    except AttributeError as error:
        return f"NVML is too old: {error}"


def _handles(nvml: Any) -> list[ctypes.c_void_p]:
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    handles = [ctypes.c_void_p() for _ in range(count.value)]
    return [h for k, h in enumerate(handles) if not nvml.nvmlDeviceGetHandleByIndex_v2(k, ctypes.byref(h))]


def _pci(nvml: Any, handle: ctypes.c_void_p) -> tuple[int, int] | None:
    info = PciInfo()
    if nvml.nvmlDeviceGetPciInfo_v3(handle, ctypes.byref(info)):
        return None
    return info.pci_device_id & 0xFFFF, info.pci_device_id >> 16


def _counter(nvml: Any, handle: ctypes.c_void_p) -> Callable[[], float | None]:
    used = ctypes.c_ulonglong()

    def counter() -> float | None:
        failed = nvml.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(used))
        return None if failed else used.value * _MILLI

    return counter
