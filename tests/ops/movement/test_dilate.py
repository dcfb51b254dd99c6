"""dilate, which puts space between and around elements: results are exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.passes import optimise
from gpunn.types import Array
from tests.ops.harness import check, model_of, random, random_complex

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}
Pairs = Sequence[tuple[int, int]]


def placed(x: Array, fill: Any, steps: Sequence[int], paddings: Pairs) -> Array:
    """Element by element."""
    extents = [max((n - 1) * s + 1, 0) for n, s in zip(x.shape, steps, strict=True)]
    shape = tuple(n + b + a for n, (b, a) in zip(extents, paddings, strict=True))
    result = np.full(shape, fill, x.dtype)
    for at in np.ndindex(x.shape):
        to = tuple(k * s + b for k, s, (b, _) in zip(at, steps, paddings, strict=True))
        if all(0 <= k < n for k, n in zip(to, shape, strict=True)):
            result[to] = x[at]
    return result


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int16, np.int8, np.bool_])
@pytest.mark.parametrize(
    ("shape", "steps", "paddings"),
    [
        ((5,), (3,), ((0, 0),)),
        ((2, 3), (2, 3), ((1, 0), (0, 2))),
        ((4, 5), (1, 2), ((-1, 0), (2, -3))),
        ((4, 5), (3, 1), ((-2, -2), (-1, 4))),
        ((2, 3, 2, 3), (1, 2, 2, 1), ((0, 0), (1, 1), (-1, 1), (0, 0))),
        ((3, 4), (1, 1), ((0, 0), (0, 0))),
        ((0, 3), (2, 2), ((1, 0), (0, 0))),
        ((3,), (2,), ((-2, -3),)),
        ((), (), ()),
    ],
)
def test_dilate(
    shape: tuple[int, ...], steps: tuple[int, ...], paddings: Pairs, dtype: Any, backend: str
) -> None:
    x, fill = random(0, *shape, low=0, high=100).astype(dtype), np.array(7, dtype)
    attrs = {"steps": steps, "paddings": paddings}
    expected = placed(x, fill, steps, paddings)
    for constants in ((1,), ()):
        (y,) = check("dilate", [x, fill], attrs, backend=backend, constants=constants, **EXACT)
        np.testing.assert_array_equal(y, expected)
    (y,) = check("dilate", [x], attrs, backend=backend, **EXACT)
    np.testing.assert_array_equal(y, placed(x, 0, steps, paddings))


def test_complex_fill(backend: str) -> None:
    x, fill, paddings = random_complex(0, 2, 3), np.array(1 + 2j, np.complex64), ((1, 0), (0, 2))
    for constants in ((1,), ()):
        attrs = {"steps": (2, 3), "paddings": paddings}
        (y,) = check("dilate", [x, fill], attrs, backend=backend, constants=constants, **EXACT)
        np.testing.assert_array_equal(y, placed(x, fill, (2, 3), paddings))


def test_no_space_after_the_last_element(backend: str) -> None:
    """Large steps do not matter for one element, which has no neighbour, nor after the last of two."""
    x = random(0, 1, 2)
    (y,) = check("dilate", [x], {"steps": (1 << 40, 1)}, backend=backend, **EXACT)
    np.testing.assert_array_equal(y, x)
    model = model_of("dilate", [x], {"steps": (1, (1 << 30) + 5)})
    (operation,) = optimise(model).operations
    assert (operation.op, operation.outputs[0].type.shape) == ("dilate", (1, (1 << 30) + 6))


def test_one_program_for_any_fill(backend: str) -> None:
    x = random(0, 3, 4)
    model = model_of("dilate", [x, np.float32(0).reshape(1)], {"steps": (2, 1), "paddings": ((0, 1), (1, 0))})
    with model.compile(backend=backend) as compiled:
        for fill in (1, -2.5, np.inf):
            expected = placed(x, fill, (2, 1), ((0, 1), (1, 0)))
            np.testing.assert_array_equal(compiled(x, np.array([fill], np.float32)), expected)
        assert compiled.stats.programs == 1


@pytest.mark.parametrize(
    ("fill", "attrs", "message"),
    [
        (None, {"steps": (1,)}, "steps must have 2 entries"),
        (None, {"steps": (0, 1)}, "at least 1"),
        (None, {"steps": (1, 1), "paddings": ((0, 0),)}, "paddings must have 2 entries"),
        (None, {"steps": (1, 1), "paddings": ((0, 0), (0,))}, "must be pairs"),
        (None, {"steps": (1, 2), "paddings": ((0, 0), (-2, -2))}, "cut more than there is"),
        (np.zeros(2, np.float32), {"steps": (1, 1)}, "one element"),
        (np.zeros(1, np.int32), {"steps": (1, 1)}, "one element"),
    ],
)
def test_errors(fill: Array | None, attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"dilate: .*{message}"):
        model_of("dilate", [random(0, 2, 2), fill], attrs)
