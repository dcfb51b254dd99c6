"""How callers name a preference and a device."""

from __future__ import annotations

import pytest

import gpunn
from gpunn.backends.adapter import DeviceInfo, matches
from gpunn.types import float32

SOME = DeviceInfo("NVIDIA RTX 3080", "webgpu", "DiscreteGPU", "", "Vulkan", {}, (), (0x10DE, 0x2206))


def small() -> gpunn.Model:
    """A model of one operation."""
    model = gpunn.Model("small")
    model.output(*model.add("relu", [model.input("x", float32(2))]))
    return model


@pytest.mark.parametrize(
    "name", ["sustained-speed", "SUSTAINED_SPEED", "Sustained-Speed", gpunn.Preference.SUSTAINED_SPEED]
)
def test_a_preference_has_a_name(name: str | gpunn.Preference) -> None:
    with small().compile("cpu", name) as compiled:
        assert len(list(compiled.stream([[1, 2]] * 5))) == 5
    assert gpunn.Preference(name) is gpunn.Preference.SUSTAINED_SPEED


@pytest.mark.parametrize("wrong", ["fast", "", 2, True])
def test_an_unknown_preference_is_refused(wrong: object) -> None:
    with pytest.raises(gpunn.ModelError, match="'low-power', 'fast-single-answer', 'sustained-speed', got"):
        small().compile("cpu", wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wanted", [0, "0", "10de:2206", "10DE:2206", "rtx", "3080", "nvidia rtx 3080"])
def test_a_device_matches(wanted: str | int) -> None:
    assert matches(wanted, 0, SOME, 2)


@pytest.mark.parametrize("wanted", [1, "1", "80", "8", 3080, "10de:2205", "radeon", "", " "])
def test_another_device_does_not_match(wanted: str | int) -> None:
    assert not matches(wanted, 0, SOME, 2)


def test_a_device_is_chosen_by_number_and_id(gpu: str) -> None:
    infos = [info for info in gpunn.devices() if info.backend == "webgpu"]
    for number, info in enumerate(infos):
        for wanted in (number, str(number), info.pci_id):
            with small().compile("webgpu", device=wanted) as compiled:
                assert info.name in compiled.device


def test_a_device_that_is_not_there(gpu: str) -> None:
    with pytest.raises(gpunn.DeviceError, match=r"there is no GPU adapter 99 \(adapters: 0: "):
        small().compile("webgpu", device=99)


@pytest.mark.parametrize("wrong", [1.5, True, b"x", [0]])
def test_a_device_of_no_kind_is_refused(wrong: object) -> None:
    with pytest.raises(gpunn.ModelError, match="device must be a number, a PCI id or a part of a name"):
        small().compile("webgpu", device=wrong)  # type: ignore[arg-type]
