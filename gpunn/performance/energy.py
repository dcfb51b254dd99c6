"""Energy counters that a system offers without further packages: Linux's sysfs, NVIDIA's NVML.

The CPU's counter is RAPL, for whole packages (Documentation/power/powercap/powercap.rst of the Linux kernel);
an integrated GPU is part of its package. A discrete GPU has a counter of energy or of power in sysfs
(Documentation/ABI/testing/sysfs-driver-intel-i915-hwmon; Documentation/gpu/amdgpu: power1_average and
power1_input, in microwatts) or in NVML. An inference on a GPU costs the energy of the packages during the
run, plus the energy of the GPU, including its idle power.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from gpunn.backends.adapter import SOFTWARE, DeviceInfo
from gpunn.performance.nvml import NVIDIA, nvml_counter

INTEGRATED = "IntegratedGPU"  # an adapter_type
SYSFS = Path("/sys")
MICRO = 1e-6

# Joules since some time in the past, or None where a counter cannot be read.
Counter = Callable[[], float | None]


class Meter:
    """Counters read together, run by run.

    Some counters move only ten times a second, so the meter uses the time between two steps of a counter.
    """

    def __init__(self, counters: Sequence[Counter]) -> None:
        self._counters = counters
        self._last = [counter() for counter in counters]
        self._steps: list[list[tuple[int, float]]] = [[] for _ in counters]

    def note(self, runs: int) -> None:
        """Read the counters after so many runs. One that has begun anew starts again."""
        for k, counter in enumerate(self._counters):
            now, last, steps = counter(), self._last[k], self._steps[k]
            if now is None or last is None or now < last:
                steps.clear()
            elif now > last:
                steps.append((runs, now))
            self._last[k] = now

    def joules(self) -> float | None:
        """Return the energy of a run; None if a counter cannot be read, or did not move twice."""
        if not all(len(steps) > 1 and steps[-1][0] > steps[0][0] for steps in self._steps):
            return None
        return sum((s[-1][1] - s[0][1]) / (s[-1][0] - s[0][0]) for s in self._steps)


@dataclass(frozen=True, slots=True)
class Energy:
    """The counters for the energy of an adapter and the CPU; `reason`: why some are missing."""

    packages: tuple[Counter, ...] = ()
    own: tuple[Counter, ...] = ()
    reason: str = ""

    @classmethod
    def of(cls, info: DeviceInfo, sysfs: Path = SYSFS) -> Energy:
        """Find the counters for an adapter; `sysfs` is the folder in which the system shows its devices."""
        packages = _packages(sysfs)
        if isinstance(packages, str):
            return cls(reason=packages)
        own = () if info.kind in (SOFTWARE, INTEGRATED) else _own(info, sysfs)
        return cls(reason=own) if isinstance(own, str) else cls(packages, own)

    def cpu(self) -> Meter:
        """Make a meter of the CPU."""
        return Meter(self.packages)

    def device(self) -> Meter:
        """Make a meter of everything that a run on the adapter uses."""
        return Meter((*self.packages, *self.own))


def _packages(sysfs: Path) -> tuple[Counter, ...] | str:
    """Find the counters of the CPU's packages, or say why there are none."""
    domains = sorted((sysfs / "class/powercap").glob("intel-rapl:*"))
    files = [d / "energy_uj" for d in domains if _text(d / "name").startswith("package")]
    if not files:
        return "the system shows no energy counter of the CPU (RAPL)"
    counters = tuple(_joules(file) for file in files)
    unreadable = next((f for f, counter in zip(files, counters, strict=True) if counter() is None), None)
    return counters if unreadable is None else f"{unreadable} cannot be read: mostly only root may"


def _own(info: DeviceInfo, sysfs: Path) -> tuple[Counter, ...] | str:
    """Find the counter of a discrete GPU, or say why there is none."""
    if info.pci is None:
        return f"nothing tells which of the system's devices {info.name!r} is"
    if info.pci[0] == NVIDIA:
        found = nvml_counter(info.pci)
        return found if isinstance(found, str) else (found,)
    cards = [c for c in sorted((sysfs / "class/drm").glob("card*")) if _pci(c / "device") == info.pci]
    folders = {c.resolve(): c for c in cards if c.name.removeprefix("card").isdigit()}
    if len(folders) != 1:
        return f"{len(folders)} of the system's cards may be {info.name!r}"
    (card,) = folders.values()
    for pattern, counter in _COUNTERS.items():
        for file in sorted(card.glob(f"device/hwmon/hwmon*/{pattern}")):
            if _number(file) is not None:
                return (counter(file),)
    return f"the driver shows no energy or power of {info.name!r} under {card}/device/hwmon"


def _text(file: Path) -> str:
    """Read a file of sysfs; return "" if it cannot be read."""
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _number(file: Path, base: int = 10) -> int | None:
    try:
        return int(_text(file), base)
    except ValueError:
        return None


def _pci(device: Path) -> tuple[int | None, int | None]:
    """Return PCI vendor and device id."""
    return _number(device / "vendor", 16), _number(device / "device", 16)


def _joules(file: Path) -> Counter:
    """Make a counter from a file with microjoules."""

    def counter() -> float | None:
        number = _number(file)
        return None if number is None else number * MICRO

    return counter


def _watts(file: Path, clock: Callable[[], float] = perf_counter) -> Counter:
    """Make a counter from a file with a power in microwatts; the power counts since the last reading."""
    total, last = 0.0, clock()

    def counter() -> float | None:
        nonlocal total, last
        power, now = _number(file), clock()
        total, last = total + (power or 0) * MICRO * (now - last), now
        return None if power is None else total

    return counter


_COUNTERS = {"energy1_input": _joules, "power1_average": _watts, "power1_input": _watts}
