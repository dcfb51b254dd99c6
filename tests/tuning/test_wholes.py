"""Programs compared as a whole: the chosen kernels and those of the rule, parameters as constants or not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu.device import open_device
from gpunn.errors import OutOfMemoryError
from gpunn.planning.plan import Plan
from gpunn.tuning import calls, measurement
from tests.tuning.candidates import FAST, SUSTAINED, Offer, X, bodies, model


@pytest.fixture
def wholes(limited: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> dict[bool, list[bool]]:
    """Compare plans as on hardware, but with known outcomes.

    What is returned says, of each comparison with and without parameters as constants, whether the change is
    quicker; each takes the first answer out, unless it is the last one.
    """
    limited(software=False)
    compare, answers = measurement.Bench.compare, {False: [True], True: [False]}

    def compared(bench: measurement.Bench, plans: Sequence[Plan]) -> tuple[float, ...]:
        found = compare(bench, plans)
        assert found is not None and min(found) > 0
        before, changed = (plan.segments[0].placements[0].kernels[0] for plan in plans)
        assert not before.inlined
        listed = answers[changed.inlined]
        quicker = listed.pop(0) if len(listed) > 1 else listed[0]
        return (2e-3, 1e-3) if quicker else (1e-3, 2e-3)

    monkeypatch.setattr(measurement.Bench, "compare", compared)
    return answers


def test_hardware_takes_what_is_quicker_as_a_whole(
    gpu: str,
    offer: Offer,
    new_process: Callable[[], None],
    wholes: dict[bool, list[bool]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What was found holds in other processes, until it is measured again; the log tells of the rule's."""
    caplog.set_level(logging.INFO, "gpunn.tuning")
    offer("slow", "quick")
    wholes[False] = [True, False]
    assert bodies(model(), gpu, SUSTAINED) == ["the quick"]
    new_process()
    assert bodies(model(), gpu, SUSTAINED) == ["the quick"] and wholes[False] == [False]
    assert not caplog.messages
    whole, _ = gpunn.tune(model(), again=True).wholes
    assert (whole.change, whole.measured, whole.taken) == ("chosen", True, False)
    new_process()
    caplog.clear()
    assert bodies(model(), gpu, SUSTAINED) == ["the slow"]
    (told,) = caplog.messages
    assert told == "the rule's kernels are taken: all together the chosen take 2 ms, these 1"
    whole, _ = gpunn.tune(model()).wholes
    assert (whole.change, whole.measured, whole.taken) == ("chosen", False, False)
    assert (whole.seconds, whole.seconds_without) == (2e-3, 1e-3)


@pytest.mark.parametrize("quicker", [True, False])
@pytest.mark.parametrize("ways", [("slow", "quick"), ("quick", "slow")])
def test_hardware_has_parameters_as_constants_where_that_is_quicker(
    gpu: str,
    offer: Offer,
    new_process: Callable[[], None],
    wholes: dict[bool, list[bool]],
    ways: tuple[str, str],
    quicker: bool,
) -> None:
    offer(*ways)
    wholes[True] = [quicker, not quicker]
    for _ in range(2):  # the second one finds what the first one has measured
        with model().compile(gpu, SUSTAINED) as compiled:
            np.testing.assert_allclose(compiled(X), X + 1, atol=1e-5)
            (row,) = compiled.plan_rows()
        assert row.kernel.inlined == quicker and row.kernel.reason.startswith("the quick one")
        new_process()
    whole = gpunn.tune(model()).wholes[-1]
    assert (whole.change, whole.measured, whole.taken) == ("inlined", False, quicker)
    with model().compile(gpu, FAST) as compiled:
        assert not any(row.kernel.inlined for row in compiled.plan_rows())


def test_equal_plans_are_not_compared(gpu: str, offer: Offer, wholes: dict[bool, list[bool]]) -> None:
    offer("quick", "slow")
    wholes[False] = []
    assert bodies(model(), gpu, SUSTAINED) == ["the quick"]
    (whole,) = gpunn.tune(model()).wholes
    assert whole.change == "inlined" and not whole.taken


def test_plans_with_little_work_are_not_compared(
    gpu: str, limited: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(software=False)
    monkeypatch.delattr(measurement.Bench, "compare")
    little = model(calls=2, size=calls.LEAST_WORK // 8)
    with little.compile(gpu, SUSTAINED) as compiled:
        assert not any(row.kernel.inlined for row in compiled.plan_rows())


def test_software_compares_no_plans(gpu: str, offer: Offer, monkeypatch: pytest.MonkeyPatch) -> None:
    if not open_device(None, low_power=False).properties.software:
        pytest.skip("the adapter is hardware")
    monkeypatch.delattr(measurement.Bench, "compare")
    offer("slow", "quick")
    assert bodies(model(), gpu, SUSTAINED) == ["the quick"]


@pytest.mark.parametrize("reason", ["no memory", "too long"])
def test_what_cannot_be_compared_is_as_chosen(
    gpu: str, offer: Offer, limited: Callable[..., None], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(software=False)
    offer("slow", "quick")
    bench, compare = measurement.Bench, measurement.Bench.compare

    def hindered(self: measurement.Bench, plans: Sequence[Plan]) -> tuple[float, ...] | None:
        with monkeypatch.context() as patch:
            if reason == "too long":
                patch.setattr(measurement, "TOO_LONG", 0)
            else:
                patch.setattr(measurement, "WebGpuProgram", no_memory)
            return compare(self, plans)

    def no_memory(*_: object) -> object:
        raise OutOfMemoryError("no memory")

    monkeypatch.setattr(bench, "compare", hindered)
    assert bodies(model(), gpu, SUSTAINED) == ["the quick"]
    assert not gpunn.tune(model()).wholes
