"""New pipelines of a software driver: they are begun while a model is compiled, and awaited."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu import resources
from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.pipelines import Pipelines
from gpunn.errors import DeviceError
from tests.compilation.test_runtime import photo, small_model


@pytest.fixture
def noted(gpu: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[int]]:
    """Return the dispatches that are begun, and the submissions that are awaited, on a device that has no
    pipelines.
    """
    device = open_device(None, low_power=False)
    if not device.properties.software:
        pytest.skip("other drivers compile a pipeline when it is made")
    monkeypatch.setattr(device, "_pipelines", Pipelines())
    begun: list[Any] = []
    submitted: list[int] = []
    usual, usual_wait = resources.submit, resources.await_submission

    def submit(device: Any, dispatches: Any, copies: Any) -> int:
        begun.extend(dispatches)
        submitted.append(usual(device, dispatches, copies))
        return submitted[-1]

    def wait(device: Any, number: int, turn: Any) -> None:
        submitted.remove(number)
        usual_wait(device, number, turn)

    monkeypatch.setattr(resources, "submit", submit)
    monkeypatch.setattr(resources, "await_submission", wait)
    return begun, submitted


def test_each_new_pipeline_is_begun_once_and_computes_nothing(noted: tuple[list[Any], list[int]]) -> None:
    begun, submitted = noted
    with small_model().compile("cpu") as reference, small_model().compile("webgpu") as compiled:
        assert len(begun) == compiled.stats.pipelines > 1
        assert len({id(dispatch.pipeline) for dispatch in begun}) == len(begun)
        assert all(dispatch.groups == (0, 1, 1) for dispatch in begun)
        assert not submitted, "what was begun has ended when compile() returns"
        np.testing.assert_allclose(compiled(photo(1)), reference(photo(1)), rtol=1e-5)
        with small_model().compile("webgpu") as again:
            assert again.stats.pipelines == 0 and len(begun) == compiled.stats.pipelines


def test_what_was_begun_is_awaited_where_compile_fails(
    noted: tuple[list[Any], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, submitted = noted

    usual = resources.Resources._begin

    def begin(made: resources.Resources, dispatch: Any) -> None:
        usual(made, dispatch)
        raise DeviceError("no memory")

    monkeypatch.setattr(resources.Resources, "_begin", begin)
    with pytest.raises(DeviceError, match="no memory"):
        small_model().compile("webgpu")
    assert len(begun) == 1 and not submitted
