"""The four bytes of a word, with shifts and without: all values in all places pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpunn.backends.webgpu import shader
from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE, DeviceProperties
from gpunn.kernel import Kernel
from gpunn.model import Model
from gpunn.types import Array, DType, TensorType
from tests.ops.harness import check, limit_device

SINGLY = replace(BASELINE, software=True, subgroup_sizes=(4, 4))


@pytest.mark.parametrize(
    ("device", "without"),
    [
        (SINGLY, True),
        (BASELINE, False),
        (replace(SINGLY, software=False), False),
        (replace(SINGLY, subgroup_sizes=(8, 8)), False),
    ],
)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT32])
def test_where_the_device_shifts_elements_one_by_one(
    device: DeviceProperties, without: bool, dtype: DType
) -> None:
    model = Model()
    x = model.input("x", TensorType(dtype, (8,)))
    model.output(*model.add("maximum", [x, x]))
    operation = model.operations[0]
    (kernel,) = lower(operation, device)
    assert isinstance(kernel, Kernel)
    key = shader.key_of(kernel, operation)
    assert ("bytes_by_reals" in key.libraries) == (without and dtype is DType.INT8)
    assert shader.generate(key).count("fn packed_bytes") == (dtype is DType.INT8)


def in_all_places(dtype: type[np.generic]) -> Array:
    """Return words whose bytes have all 256 values in each place, in another order in each."""
    places = [np.random.default_rng(k).permutation(256) for k in range(4)]
    return np.stack(places, 1).astype(np.uint8).view(dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_all_bytes_in_all_places(dtype: type[np.generic], gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_device(monkeypatch, subgroup_sizes=(4, 4), software=True)
    x = in_all_places(dtype)
    check("maximum", [x, x[::-1].copy()], backend=gpu)
    check("minimum", [x, x[::-1].copy()], backend=gpu)
