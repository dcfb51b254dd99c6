"""Capabilities, status, supported operations: the rules of types.hal for devices."""

from __future__ import annotations

import numpy as np

from gpunn.nnapi import (
    Capabilities,
    DeviceStatus,
    Model,
    PerformanceInfo,
    ResultCode,
    get_capabilities,
    get_status,
    get_supported_operations,
)
from tests.nnapi.builder import INT, expect, relu, single, tensor


def test_capabilities_are_relative_to_the_cpu() -> None:
    same = PerformanceInfo(1.0, 1.0)
    assert get_capabilities("cpu") == Capabilities(same, same)


def test_an_adapter_is_measured_once(gpu: str) -> None:
    first = get_capabilities(gpu)
    for performance in (first.float32_performance, first.quantized8_performance):
        assert 0 < performance.exec_time < 1000
        assert (performance.power_usage is None) == bool(performance.power_reason)
    assert get_capabilities(gpu) is first


def test_status(gpu: str) -> None:
    assert get_status("cpu") is DeviceStatus.AVAILABLE
    assert get_status(gpu) is DeviceStatus.AVAILABLE
    assert get_status(gpu, "no such adapter") is DeviceStatus.OFFLINE


def test_supported_operations_have_reasons(gpu: str) -> None:
    outputs = [tensor(32, code=INT)]
    inputs = [np.ones((4, 8), np.float32), tensor(5, code=INT), (tensor(5), None), 2]
    model = single("LSH_PROJECTION", inputs, outputs)
    (support,) = get_supported_operations(model, gpu)
    assert not support.supported and "numpy" in support.reason
    (support,) = get_supported_operations(model, "cpu")
    assert support.supported and not support.reason
    assert [s.supported for s in get_supported_operations(relu(2), gpu)] == [True]


def test_operations_that_wait_for_an_execution_are_reported() -> None:
    (support,) = get_supported_operations(single("RELU", [tensor(0)], [tensor(0)]), "cpu")
    assert not support.supported and "come with an execution" in support.reason


def test_wrong_use(gpu: str) -> None:
    with expect(ResultCode.BAD_DATA, "backend"):
        get_capabilities("tpu")
    with expect(ResultCode.BAD_DATA, "backend"):
        get_status("auto")
    with expect(ResultCode.OP_FAILED, "no such adapter"):
        get_capabilities(gpu, "no such adapter")
    with expect(ResultCode.UNEXPECTED_NULL):
        get_supported_operations(None)  # type: ignore[arg-type]
    with expect(ResultCode.BAD_DATA, "not been finished"):
        get_supported_operations(Model())
