"""backend="auto": the choice among made-up adapters, by their measured performance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.backends.adapter import SOFTWARE, DeviceInfo
from gpunn.backends.webgpu import device
from gpunn.backends.webgpu.device import open_device
from gpunn.compilation import measured
from gpunn.errors import DeviceError
from gpunn.model import Model
from gpunn.performance import Capabilities, PerformanceInfo, best
from gpunn.performance.workload import reference_workload
from gpunn.types import float32

LOW_POWER, FAST, SUSTAINED = gpunn.Preference


@dataclass(frozen=True)
class Adapter:
    """A made-up adapter: its kind, and its time and energy for float32 and for quantised data."""

    kind: str
    time: float | None  # None: it fails
    power: float | None = None
    quantised: tuple[float, float | None] | None = None


def chosen(
    monkeypatch: pytest.MonkeyPatch,
    adapters: Sequence[Adapter],
    preference: gpunn.Preference = FAST,
    model: Model | None = None,
    **arguments: Any,
) -> str:
    """Return what `auto` chooses: "cpu", or the number of an adapter. All of them run on the real one."""
    real = open_device(None, False)
    infos = tuple(DeviceInfo(str(k), "webgpu", a.kind, "d", "Vulkan", {}, ()) for k, a in enumerate(adapters))

    class Fake:
        def __init__(self, index: int) -> None:
            self.info = infos[index]

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    def capabilities(device: Any) -> Capabilities:
        adapter = adapters[int(device.info.name)]
        if adapter.time is None:
            raise DeviceError("it fails")
        single = PerformanceInfo(adapter.time, adapter.power)
        return Capabilities(single, PerformanceInfo(*adapter.quantised) if adapter.quantised else single)

    monkeypatch.setattr(device, "adapter_infos", lambda: infos)
    monkeypatch.setattr(device, "device_at", Fake)
    monkeypatch.setattr(measured, "capabilities", capabilities)
    with (model or small()).compile("auto", preference, **arguments) as compiled:
        return compiled.device.partition(" ")[0]


def small() -> Model:
    model = Model()
    model.output(*model.add("relu", [model.input("x", float32(4))]))
    return model


@pytest.mark.parametrize(
    ("adapters", "expected"),
    [
        ([], "cpu"),
        ([Adapter("DiscreteGPU", 0.2)], "0"),
        ([Adapter("DiscreteGPU", 1.5)], "cpu"),
        ([Adapter("DiscreteGPU", 1.0)], "cpu"),
        ([Adapter("DiscreteGPU", 0.6), Adapter("IntegratedGPU", 0.4)], "1"),
        ([Adapter("DiscreteGPU", 0.6, 9.0), Adapter("IntegratedGPU", 0.7, 0.1)], "0"),
        ([Adapter("CPU", 0.01), Adapter("DiscreteGPU", 1.5)], "cpu"),
        ([Adapter("CPU", 0.01), Adapter("Unknown", 0.5)], "1"),
        ([Adapter("DiscreteGPU", None)], "cpu"),
        ([Adapter("DiscreteGPU", None), Adapter("IntegratedGPU", 0.5)], "1"),
    ],
)
@pytest.mark.parametrize("preference", [FAST, SUSTAINED])
def test_the_fastest_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
    gpu: str,
    adapters: list[Adapter],
    expected: str,
    preference: gpunn.Preference,
) -> None:
    assert chosen(monkeypatch, adapters, preference) == expected


@pytest.mark.parametrize(
    ("adapters", "expected"),
    [
        ([], "cpu"),
        ([Adapter("DiscreteGPU", 0.1, 2.0)], "cpu"),
        ([Adapter("DiscreteGPU", 0.1, 2.0), Adapter("IntegratedGPU", 3.0, 0.5)], "1"),
        ([Adapter("DiscreteGPU", 0.1, 0.4), Adapter("IntegratedGPU", 3.0, 0.5)], "0"),
        ([Adapter("DiscreteGPU", 0.1, None), Adapter("IntegratedGPU", 3.0, 0.5)], "1"),
        ([Adapter("DiscreteGPU", 0.1, None), Adapter("IntegratedGPU", 3.0, 1.5)], "cpu"),
        # Of no adapter the energy is known: the low-power kind.
        ([Adapter("DiscreteGPU", 0.1), Adapter("IntegratedGPU", 3.0)], "1"),
        ([Adapter("DiscreteGPU", 3.0)], "0"),
        ([Adapter("CPU", 0.1, 0.1)], "cpu"),
    ],
)
def test_the_one_that_needs_least_energy_is_chosen(
    monkeypatch: pytest.MonkeyPatch, gpu: str, adapters: list[Adapter], expected: str
) -> None:
    assert chosen(monkeypatch, adapters, LOW_POWER) == expected


def test_quantised_models_need_quantised_performance(monkeypatch: pytest.MonkeyPatch, gpu: str) -> None:
    adapters = [
        Adapter("DiscreteGPU", 0.1, None, (2.0, None)),
        Adapter("IntegratedGPU", 2.0, None, (0.5, None)),
    ]
    assert chosen(monkeypatch, adapters) == "0"
    assert chosen(monkeypatch, adapters, model=Model.of(reference_workload(True))) == "1"
    assert chosen(monkeypatch, adapters, model=Model.of(reference_workload(False))) == "0"


def test_nothing_is_measured_if_there_is_no_choice(monkeypatch: pytest.MonkeyPatch, gpu: str) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("this must not be measured")

    monkeypatch.setattr(measured, "capabilities", fail)
    infos = tuple(replace(open_device(None, False).info, kind=SOFTWARE) for _ in range(2))
    monkeypatch.setattr(device, "adapter_infos", lambda: infos)
    for preference in gpunn.Preference:
        for backend, expected in (("auto", "cpu"), ("cpu", "cpu"), (gpu, "webgpu")):
            with small().compile(backend, preference) as compiled:
                assert compiled.backend == expected
    with small().compile("auto", device=infos[0].name) as compiled:
        assert compiled.backend == "webgpu"


def test_a_measured_device_computes(monkeypatch: pytest.MonkeyPatch, gpu: str) -> None:
    """From end to end, with the real adapter taken for a GPU: it is chosen if and only if it was faster."""
    info = replace(open_device(None, False).info, kind="DiscreteGPU")
    monkeypatch.setattr(device, "adapter_infos", lambda: (info,))
    found = measured.capabilities(open_device(None, False)).float32_performance
    with small().compile() as compiled:
        assert compiled.backend == ("webgpu" if found.exec_time < 1 else "cpu")
        assert np.asarray(compiled(np.float32([-1, 2, -3, 4]))).tolist() == [0, 2, 0, 4]


def test_of_equal_adapters_the_first_is_chosen() -> None:
    same = PerformanceInfo(0.5, 0.5)
    for low_power in (False, True):
        assert best({"a": same, "b": same}, low_power, rank=lambda _: 0) == "a"
