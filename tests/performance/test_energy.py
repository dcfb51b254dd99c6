"""Counters of energy in a fake /sys, and in a fake NVML."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import pytest

from gpunn.backends.adapter import DeviceInfo
from gpunn.performance import energy
from gpunn.performance.energy import Energy, Meter
from gpunn.performance.nvml import nvml_counter

AMD, INTEL, NVIDIA = (0x1002, 0x744C), (0x8086, 0x56A0), (0x10DE, 0x2335)


def info(kind: str = "DiscreteGPU", pci: tuple[int, int] | None = AMD) -> DeviceInfo:
    return DeviceInfo("made up", "webgpu", kind, "driver", "Vulkan", {}, (), pci)


class Sysfs:
    """A /sys of two CPU packages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for number in range(2):
            self.write(f"class/powercap/intel-rapl:{number}/name", f"package-{number}\n")
            self.package(number, 1_000_000)
        self.write("class/powercap/intel-rapl:0:0/name", "core\n")
        self.write("class/powercap/intel-rapl:0:0/energy_uj", "5\n")
        self.write("class/powercap/intel-rapl-mmio:0/name", "package-0\n")
        self.write("class/powercap/intel-rapl-mmio:0/energy_uj", "5\n")

    def write(self, path: str, text: str | int) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(text))
        return file

    def package(self, number: int, microjoules: int) -> None:
        self.write(f"class/powercap/intel-rapl:{number}/energy_uj", f"{microjoules}\n")

    def card(self, number: int, pci: tuple[int, int], name: str = "", value: str | int = "") -> Path:
        """Add a graphics card; `name` is a file of its driver."""
        self.write(f"class/drm/card{number}/device/vendor", f"0x{pci[0]:04x}\n")
        self.write(f"class/drm/card{number}/device/device", f"0x{pci[1]:04x}\n")
        return self.write(f"class/drm/card{number}/device/hwmon/hwmon3/{name or 'temp1_input'}", value)


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path)


@pytest.mark.parametrize("kind", ["IntegratedGPU", "CPU"])
def test_a_device_in_a_package_uses_the_energy_of_the_packages(sysfs: Sysfs, kind: str) -> None:
    found = Energy.of(info(kind), sysfs.root)
    assert found.reason == ""
    for meter in (found.cpu(), found.device()):
        for runs in range(1, 5):
            sysfs.package(0, 1_000_000 + runs * 500_000)
            sysfs.package(1, 1_000_000 + runs * 250_000)
            meter.note(runs)
        assert meter.joules() == pytest.approx(0.75)
        sysfs.package(0, 1_000_000)
        sysfs.package(1, 1_000_000)


def test_energy_is_measured_between_two_steps_of_a_counter(sysfs: Sysfs) -> None:
    """A slow counter moves in runs 3, 5 and 9, by 2 J for each run."""
    shown = {3: 6, 5: 10, 9: 18}
    sysfs.card(0, AMD, "energy1_input", 0)
    meter = Meter(Energy.of(info(), sysfs.root).own)
    for runs in range(1, 12):
        if runs in shown:
            sysfs.card(0, AMD, "energy1_input", shown[runs] * 1_000_000)
        meter.note(runs)
        assert (meter.joules() is None) == (runs < 5)
    assert meter.joules() == pytest.approx(2)


def test_a_counter_that_was_reset_starts_again(sysfs: Sysfs) -> None:
    sysfs.card(0, AMD, "energy1_input", 900)
    meter = Meter(Energy.of(info(), sysfs.root).own)
    for runs, microjoules in enumerate((1_000, 2_000, 10, 500_010, 1_000_010), 1):
        sysfs.card(0, AMD, "energy1_input", microjoules)
        meter.note(runs)
    assert meter.joules() == pytest.approx(0.5)


def test_the_energy_of_a_discrete_card_is_added(sysfs: Sysfs) -> None:
    sysfs.card(0, AMD, "energy1_input", 7)
    counter = sysfs.card(1, INTEL, "energy1_input", 0)
    found = Energy.of(info(pci=INTEL), sysfs.root)
    cpu, device = found.cpu(), found.device()
    for runs in range(1, 4):
        sysfs.package(0, 1_000_000 + runs * 500_000)
        sysfs.package(1, 1_000_000 + runs)
        counter.write_text(str(runs * 3_000_000))
        cpu.note(runs)
        device.note(runs)
    assert cpu.joules() == pytest.approx(0.500_001)
    assert device.joules() == pytest.approx(3.500_001)


@pytest.mark.parametrize("name", ["power1_average", "power1_input"])
def test_power_is_summed_over_the_time(sysfs: Sysfs, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    file = sysfs.card(0, AMD, name, 20_000_000)
    monkeypatch.setitem(energy._COUNTERS, name, lambda path: energy._watts(path, lambda: now))
    meter = Meter(Energy.of(info(), sysfs.root).own)
    for runs, watts in enumerate((20, 20, 40), 1):
        file.write_text(str(watts * 1_000_000))
        now += 0.25
        meter.note(runs)
    assert meter.joules() == pytest.approx((20 + 40) / 2 * 0.25)


def test_a_counter_that_disappears_makes_the_energy_unknown(sysfs: Sysfs) -> None:
    file = sysfs.card(0, AMD, "energy1_input", 5)
    meter = Meter(Energy.of(info(), sysfs.root).own)
    for runs in range(1, 4):
        file.write_text(str(5 + runs))
        meter.note(runs)
    assert meter.joules() is not None
    file.unlink()
    meter.note(4)
    assert meter.joules() is None


def test_reasons_for_unknown_energy(sysfs: Sysfs, tmp_path: Path) -> None:
    def reason(**changed: Any) -> str:
        found = Energy.of(info(**changed), sysfs.root)
        assert not found.own and not found.packages
        return found.reason

    assert "0 of the system's cards" in reason()
    sysfs.card(0, AMD)
    assert "the driver shows no energy or power" in reason()
    sysfs.card(1, AMD, "energy1_input", 5)
    assert "2 of the system's cards" in reason()
    assert "nothing tells which" in reason(pci=None)
    sysfs.package(1, 0)
    (tmp_path / "class/powercap/intel-rapl:1/energy_uj").write_text("no number")
    assert "intel-rapl:1/energy_uj cannot be read" in reason()
    assert "no energy counter of the CPU" in Energy.of(info(), tmp_path / "nowhere").reason


class FakeNvml:
    """NVML with some GPUs, each with its PCI id and its energy, if it reports one."""

    def __init__(self, *gpus: tuple[tuple[int, int], int | None]) -> None:
        self.gpus = list(gpus)

    def nvmlInit_v2(self) -> int:  # noqa: N802 (NVML's names)
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        count._obj.value = len(self.gpus)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, handle: Any) -> int:  # noqa: N802
        handle._obj.value = index + 1
        return 0

    def nvmlDeviceGetPciInfo_v3(self, handle: ctypes.c_void_p, found: Any) -> int:  # noqa: N802
        (vendor, device), _ = self.gpus[(handle.value or 0) - 1]
        found._obj.pci_device_id = device << 16 | vendor
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: ctypes.c_void_p, used: Any) -> int:  # noqa: N802
        _, millijoules = self.gpus[(handle.value or 0) - 1]
        if millijoules is None:
            return 3  # NVML_ERROR_NOT_SUPPORTED
        used._obj.value = millijoules
        return 0


def test_nvml_counts_the_gpu_of_that_pci_id() -> None:
    library = FakeNvml(((0x10DE, 1), 5), (NVIDIA, 1500))
    counter = nvml_counter(NVIDIA, library)
    assert callable(counter)
    assert counter() == pytest.approx(1.5)
    library.gpus[1] = (NVIDIA, 4000)
    assert counter() == pytest.approx(4)


def test_reasons_for_unknown_energy_in_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "0 of the system's NVIDIA GPUs" in str(nvml_counter(NVIDIA, FakeNvml()))
    assert "2 of the system's" in str(nvml_counter(NVIDIA, FakeNvml((NVIDIA, 1), (NVIDIA, 2))))
    assert "tells NVML no energy" in str(nvml_counter(NVIDIA, FakeNvml((NVIDIA, None))))
    monkeypatch.delattr(FakeNvml, "nvmlDeviceGetPciInfo_v3")
    assert "too old" in str(nvml_counter(NVIDIA, FakeNvml((NVIDIA, 1))))
    for libraries in ({}, {sys.platform: "libno-such-library.so"}):
        monkeypatch.setattr("gpunn.performance.nvml._LIBRARY", libraries)
        assert "cannot be loaded" in str(nvml_counter(NVIDIA))
    monkeypatch.setattr(FakeNvml, "nvmlInit_v2", lambda self: 9)
    assert "does not start" in str(nvml_counter(NVIDIA, FakeNvml((NVIDIA, 1))))


def test_the_energy_of_an_nvidia_gpu_comes_from_nvml(sysfs: Sysfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "nvml_counter", lambda pci: f"asked for {pci}")
    assert Energy.of(info(pci=NVIDIA), sysfs.root).reason == f"asked for {NVIDIA}"
