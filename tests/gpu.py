"""The GPU of the tests, which a machine may lack."""

from __future__ import annotations

import functools
import os

import pytest

import gpunn


@functools.cache
def why_no_gpu() -> str:
    """Return why no adapter can be used; empty if one can."""
    try:
        adapters = [d for d in gpunn.devices() if d.backend == "webgpu"]
    except gpunn.DeviceError as error:
        return str(error)
    return "" if adapters else "no GPU adapter, not even a software one, is installed"


def require_gpu() -> None:
    """Skip the test without an adapter; fail it if GPUNN_REQUIRE_GPU=1 requires one."""
    reason = why_no_gpu()
    if reason and os.environ.get("GPUNN_REQUIRE_GPU") == "1":
        pytest.fail(f"GPUNN_REQUIRE_GPU=1, but {reason}")
    if reason:
        pytest.skip(reason)
