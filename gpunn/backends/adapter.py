"""DeviceInfo: an adapter as people see it, and how they choose one; no driver is asked here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

SOFTWARE = "CPU"  # adapter_type of software rasterisers such as Mesa's lavapipe

_THROUGHPUT_ORDER = ("DiscreteGPU", "IntegratedGPU", "Unknown", SOFTWARE)
_LOW_POWER_ORDER = ("IntegratedGPU", "DiscreteGPU", "Unknown", SOFTWARE)


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device for gpunn: an adapter of the system, or the CPU backend. `pci`: vendor and device id."""

    name: str
    backend: str
    kind: str
    driver: str
    api: str
    limits: Mapping[str, int] = field(repr=False)
    features: tuple[str, ...] = field(repr=False)
    pci: tuple[int, int] | None = None

    @property
    def pci_id(self) -> str:
        """Return vendor and device id in hexadecimal digits, as lspci shows them; "" if there is none."""
        return "" if self.pci is None else "{:04x}:{:04x}".format(*self.pci)


def matches(wanted: str | int, number: int, info: DeviceInfo, count: int) -> bool:
    """Tell whether adapter `number` of `count` is the wanted one.

    It is wanted by number, also as text, by its PCI id (vendor:device in hexadecimal digits), or by a part of
    its name.
    """
    text = str(wanted).lower()
    if text.isdecimal() and (isinstance(wanted, int) or int(text) < count):
        return int(text) == number
    if text.isdecimal():  # a model number such as 4090, not some digits of a version
        return isinstance(wanted, str) and text in re.findall(r"[\d.]+", info.name)
    named = isinstance(wanted, str) and bool(text.strip()) and text in info.name.lower()
    return text == info.pci_id != "" or named


def rank(kind: str, low_power: bool) -> int:
    """Return the position of a kind of adapter in the order of preference."""
    order = _LOW_POWER_ORDER if low_power else _THROUGHPUT_ORDER
    return order.index(kind) if kind in order else len(order)
