"""concat of differently quantised tensors, and movements, which keep stored values."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.ops.fixed_point.affine import LIMITS
from gpunn.types import DType
from tests.ops.integer_checks import check_integer, computed, litert_integer
from tests.ops.quantized import Draw, both, every_width, near, reals, seeds, stored


@seeds
@every_width
def test_concat(seed: int, dtype: DType, backend: str) -> None:
    draw = Draw(seed, dtype)
    for depths in ((3, 5), (4, 8), (8, 4, 1)):
        types = [draw.type(2, 3, 7, depth) for depth in depths]
        types[0] = types[-1].with_shape(types[0].shape) if seed == 0 else types[0]
        values = [draw.values(t) for t in types]
        y = draw.type(2, 3, 7, sum(depths), low=0.02)
        real = np.concatenate([reals(v, t) for v, t in zip(values, types, strict=True)], -1)
        for activation in (None, "relu6"):
            attrs = {"axis": -1, "activation": activation}
            (got,) = check_integer("concat", values, types, attrs, y.quantization, backend=backend)
            near(got, np.clip(real, 0, 6) if activation else real, y, 1.01 if activation else 0.501)


@seeds
@both
def test_concat_as_litert(seed: int, dtype: DType) -> None:
    draw = Draw(seed, dtype)
    types = [draw.type(2, 3, 7, depth) for depth in (3, 5)]
    y = draw.type(2, 3, 7, 8)
    if dtype is DType.INT8:  # LiteRT wants one quantisation there
        types = [y.with_shape(t.shape) for t in types]
    values = [draw.values(t) for t in types]
    (expected,) = litert_integer("CONCATENATION", values, types, [y], {"axis": 3}, version=2)
    np.testing.assert_array_equal(computed("concat", values, types, {"axis": 3}, y.quantization), expected)


@every_width
@pytest.mark.parametrize("shape", [(2, 3, 7, 8), (1, 5, 6, 3)])
def test_movements_keep_stored_values(shape: tuple[int, ...], dtype: DType, backend: str) -> None:
    x = Draw(2, dtype).type(*shape)
    values = stored(2, x)
    fill = LIMITS[dtype][0] + 9
    pairs = ((0, 0), (1, 2), (2, 1), (0, 0))
    every_other = {"begin": (0, 1, 0, 0), "end": (None,) * 4, "strides": (1, 1, 1, 2)}
    for op, attrs, expected in (
        ("transpose", {"perm": (0, 2, 1, 3)}, values.transpose(0, 2, 1, 3)),
        ("transpose", {"perm": (3, 2, 1, 0)}, values.transpose(3, 2, 1, 0)),
        ("pad", {"paddings": pairs, "value": fill}, np.pad(values, pairs, constant_values=fill)),
        ("strided_slice", every_other, values[:, 1:, :, ::2]),
        ("reshape", {"shape": (-1,)}, values.reshape(-1)),
    ):
        (got,) = check_integer(op, [values], [x], attrs, backend=backend)
        np.testing.assert_array_equal(got, expected)
