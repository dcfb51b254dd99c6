"""Tiling and mirrored padding: results are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from tests.ops.harness import check, check_litert, model_of, random

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}
DTYPES = (np.int32, np.uint8, np.int8, np.bool_)


@pytest.mark.parametrize(
    ("shape", "multiples"),
    [
        ((3,), (4,)),
        ((1,), (8,)),
        ((1, 1), (3, 4)),
        ((2, 4), (1, 3)),
        ((2, 3, 1), (2, 1, 4)),
        ((1, 2, 3, 4), (2, 3, 1, 2)),
        ((2, 3), (0, 2)),
        ((2, 3), (1, 1)),
        ((), ()),
    ],
)
def test_tile(shape: tuple[int, ...], multiples: tuple[int, ...], backend: str) -> None:
    check("tile", [random(0, *shape)], {"multiples": multiples}, backend=backend, **EXACT)


def test_tile_in_many_dimensions(backend: str) -> None:
    attrs = {"multiples": (2,) * 5}
    check("tile", [random(0, *[2] * 5)], attrs, backend=backend, host="10 dimensions", **EXACT)


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((), (3,)),
        ((1, 4), (3, 4)),
        ((3, 1, 4), (2, 3, 5, 4)),
        ((2, 1), (2, 7)),
        ((1,), (0,)),
        ((2, 3), (2, 3)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, *DTYPES])
def test_broadcast(shape: tuple[int, ...], target: tuple[int, ...], dtype: Any, backend: str) -> None:
    low = 0 if dtype is np.uint8 else -4  # casts of negative numbers to it differ among processors
    x = np.asarray(random(0, *shape, low=low).astype(dtype))
    (y,) = check("broadcast_to", [x], {"shape": target}, backend=backend, **EXACT)
    np.testing.assert_array_equal(y, np.broadcast_to(x, target))


@pytest.mark.parametrize(
    ("shape", "dims", "target"),
    [
        ((3,), (0,), (3, 4)),
        ((3,), (1,), (2, 3)),
        ((4, 3), (2, 0), (3, 5, 4)),
        ((1, 3), (1, 2), (2, 6, 3)),
        ((), (), (2, 2)),
        ((0, 1), (1, 0), (3, 0)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_broadcast_in_dim(
    shape: tuple[int, ...], dims: tuple[int, ...], target: tuple[int, ...], dtype: Any, backend: str
) -> None:
    x = np.asarray(random(0, *shape).astype(dtype))
    (y,) = check("broadcast_in_dim", [x], {"shape": target, "dims": dims}, backend=backend, **EXACT)
    for at in np.ndindex(target):
        assert y[at] == x[tuple(0 if n == 1 else at[d] for n, d in zip(shape, dims, strict=True))]


@pytest.mark.parametrize("dims", [(0,), (0, 0), (0, 2), (1, 0)])
def test_wrong_broadcast_in_dim(dims: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"broadcast_in_dim: dimensions .* do not lead from"):
        model_of("broadcast_in_dim", [random(0, 2, 3)], {"shape": (2, 3), "dims": dims})


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ((3, 4), "cannot be broadcast together"),
        ((3,), "does not broadcast to"),
        ((2, -3), "does not broadcast"),
    ],
)
def test_wrong_targets_of_broadcast_to(target: tuple[int, ...], message: str) -> None:
    with pytest.raises(ModelError, match=f"broadcast_to: .*{message}"):
        model_of("broadcast_to", [random(0, 2, 3)], {"shape": target})


PADDINGS: list[tuple[tuple[int, ...], list[tuple[int, int]]]] = [
    ((5,), [(4, 3)]),
    ((1, 4, 5, 3), [(0, 0), (1, 2), (3, 0), (0, 0)]),
    ((1, 4, 5, 8), [(0, 0), (1, 2), (3, 4), (0, 0)]),
    ((3, 4), [(2, 2), (3, 1)]),
    ((2, 4, 4), [(0, 1), (0, 0), (0, 0)]),
    ((2, 3, 2, 3, 2, 3), [(1, 0), (0, 0), (0, 1), (1, 1), (0, 0), (0, 2)]),
    ((3, 4), [(0, 0), (0, 0)]),
    ((0, 3), [(0, 0), (1, 1)]),
    ((), []),
]


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
def test_mirror_pad(mode: str, backend: str) -> None:
    for shape, paddings in PADDINGS:
        attrs = {"paddings": paddings, "mode": mode}
        check("mirror_pad", [random(0, *shape)], attrs, backend=backend, **EXACT)


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_dtypes(dtype: type, backend: str) -> None:
    x = np.random.default_rng(0).integers(0, 100, (3, 5, 4)).astype(dtype)
    check("tile", [x], {"multiples": (2, 1, 3)}, backend=backend)
    attrs = {"paddings": [(0, 1), (2, 2), (0, 0)], "mode": "reflect"}
    check("mirror_pad", [x], attrs, backend=backend)


def test_agrees_with_litert() -> None:
    for shape, multiples in (((2, 3), (2, 1)), ((1, 2, 3, 4), (2, 3, 1, 2))):
        operands = [np.array(multiples, np.int32)]
        check_litert("tile", [random(0, *shape)], {"multiples": multiples}, "TILE", operands=operands)
    for shape, paddings in PADDINGS[:5]:
        for mode in ("reflect", "symmetric"):
            attrs = {"paddings": paddings, "mode": mode}
            operands = [np.array(paddings, np.int32)]
            options = {"mode": mode.upper()}
            check_litert("mirror_pad", [random(0, *shape)], attrs, "MIRROR_PAD", options, operands=operands)


@pytest.mark.parametrize(
    ("op", "attrs", "message"),
    [
        ("tile", {"multiples": (1,)}, "multiples must have 2 entries, got 1"),
        ("tile", {"multiples": (1, -2)}, r"multiples must be >= 0, got \[1, -2\]"),
        ("mirror_pad", {"paddings": [(0, 0)] * 2, "mode": "wrap"}, "mode must be reflect or symmetric"),
        ("mirror_pad", {"paddings": [(0, 0)], "mode": "reflect"}, "paddings must have 2 entries"),
        ("mirror_pad", {"paddings": [(0, 0), (0, -1)], "mode": "reflect"}, "paddings must be >= 0"),
        (
            "mirror_pad",
            {"paddings": [(0, 0), (0, 3)], "mode": "reflect"},
            r"dimension 1 of 3 elements has 2 to mirror \(reflect\), got \(0, 3\)",
        ),
        (
            "mirror_pad",
            {"paddings": [(3, 0), (0, 0)], "mode": "symmetric"},
            "dimension 0 of 2 elements has 2",
        ),
    ],
)
def test_errors(op: str, attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"{op}: {message}"):
        model_of(op, [random(0, 2, 3)], attrs)
