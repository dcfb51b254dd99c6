"""Dense copies of transposed arrays, strip by strip."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.ops.movement.turn import strips, turned
from tests.ops.harness import model_of

FAR = [  # numpy itself would fetch each cache line again and again
    ((1, 112, 112, 64), (0, 3, 1, 2)),
    ((1024, 1024), (1, 0)),
    ((1025, 512), (1, 0)),
    ((1, 112, 61, 64), (3, 2, 1, 0)),
    ((1, 257, 257, 21), (0, 3, 1, 2)),
    ((3, 1, 1000, 64), (0, 3, 1, 2)),
    ((20, 30, 40, 60), (3, 1, 2, 0)),
]
OTHERS = [  # lines are near, or strips would be short
    ((1, 56, 56, 64), (0, 2, 1, 3)),
    ((1000, 1000), (1, 0)),
    ((64, 64), (1, 0)),
    ((3, 100, 200), (0, 1, 2)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize(("shape", "perm"), [*FAR, *OTHERS])
def test_elements_are_where_numpy_puts_them(
    shape: tuple[int, ...], perm: tuple[int, ...], dtype: type[np.generic]
) -> None:
    x = np.random.default_rng(0).integers(0, 2**40, shape).astype(dtype)
    expected = np.ascontiguousarray(x.transpose(perm))
    np.testing.assert_array_equal(turned(x, x.transpose(perm)), expected)
    with model_of("transpose", [x], {"perm": perm}).compile(backend="cpu") as compiled:
        np.testing.assert_array_equal(compiled(x), expected)


@pytest.mark.parametrize(("shape", "perm"), [*FAR, *OTHERS])
def test_strips_serve_where_lines_lie_far_apart(shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    view = x.transpose(perm)
    assert (strips(view) is not None) == ((shape, perm) in FAR)


def test_unstacked_slices_of_the_last_axis() -> None:
    x = np.random.default_rng(0).normal(size=(4, 112, 112, 5)).astype(np.float32)
    with model_of("unstack", [x], {"axis": 3}).compile(backend="cpu") as compiled:
        for k, found in enumerate(compiled(x)):
            np.testing.assert_array_equal(found, x[..., k])
