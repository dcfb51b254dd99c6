"""Ratios of a measurement, with fake programs and a fake clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from gpunn.backends.base import Stats
from gpunn.errors import DeviceError
from gpunn.model import Model
from gpunn.performance import Energy, PerformanceInfo, measure, measurement
from gpunn.performance.workload import reference_workload
from gpunn.types import Array


@dataclass
class World:
    """A fake clock, and the joules of two counters."""

    seconds: float = 0.0
    package: float = 0.0
    own: float = 0.0
    closed: int = 0
    fails: bool = False


@dataclass
class Runs:
    """A fake program whose runs take time and energy; the first, second and third run are slower."""

    world: World
    seconds: float
    package: float = 0.0
    own: float = 0.0
    stats: Stats = field(default_factory=Stats)

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        if self.world.fails:
            raise DeviceError("the device was lost")
        self.world.seconds += self.seconds * (1 if self.stats.runs > 2 else 10)
        self.world.package += self.package
        self.world.own += self.own
        self.stats.runs += 1
        return tuple(inputs)

    submit = reset_state = None  # not used

    def close(self) -> None:
        self.world.closed += 1


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(measurement, "perf_counter", lambda: made.seconds)
    return made


def measured(world: World, energy: Energy) -> PerformanceInfo:
    """Measure a device that takes 2 ms and 1 + 5 J, relative to a CPU that takes 4 ms and 3 J."""
    found = measure(
        lambda model: Runs(world, 0.002, 1, 5),  # type: ignore[arg-type, return-value]
        lambda model: Runs(world, 0.004, 3, 0),  # type: ignore[arg-type, return-value]
        energy,
    )
    assert world.closed == 4
    assert found.float32_performance.exec_time == pytest.approx(found.quantized8_performance.exec_time)
    return found.float32_performance


def test_times_are_compared_by_the_fastest_run(world: World) -> None:
    assert measured(world, Energy(reason="no counter")) == PerformanceInfo(
        pytest.approx(0.5), None, "no counter"
    )


def test_energy_includes_the_cpu_and_the_device(world: World) -> None:
    energy = Energy((lambda: world.package,), (lambda: world.own,))
    assert measured(world, energy) == PerformanceInfo(pytest.approx(0.5), pytest.approx(2))


def test_a_device_that_is_part_of_the_package(world: World) -> None:
    assert measured(world, Energy((lambda: world.package,))).power_usage == pytest.approx(1 / 3)


@pytest.mark.parametrize("reading", [None, 17.0])
def test_a_counter_that_fails_or_does_not_move_leaves_energy_unknown(
    world: World, reading: float | None
) -> None:
    info = measured(world, Energy((lambda: reading,)))
    assert info.power_usage is None
    assert "cannot be read, or hardly moves" in info.power_reason


def test_a_device_that_fails_frees_its_memory(world: World) -> None:
    world.fails = True
    with pytest.raises(DeviceError, match="lost"):
        measured(world, Energy(reason="no counter"))
    assert world.closed == 1


@pytest.mark.parametrize("quantised", [False, True])
def test_all_of_the_workload_runs_on_the_device(quantised: bool, gpu: str) -> None:
    model = Model.of(reference_workload(quantised))
    assert {operation.integer for operation in model.operations} == {quantised}
    (x,) = model.inputs
    value = np.random.default_rng(0).uniform(0, 200, x.type.shape).astype(x.type.dtype.numpy)
    with model.compile(gpu) as device:
        assert {p.backend for p in device.placement} == {"webgpu"}
        assert len(np.unique(device(value))) > 10
