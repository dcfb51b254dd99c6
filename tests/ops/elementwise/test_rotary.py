"""rotary_embedding: against float64 and complex numbers, with tables of all shapes, and of pieces."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.types import Array, Shape, float32
from tests.ops.harness import EPS, assert_close, check, limit_device, model_of, random
from tests.planning.joining import PIECES, clamped, copied, values

# x, cos, sin, and the axis.
SHAPES: list[tuple[Shape, Shape, Shape, int]] = [
    ((8,), (8,), (8,), 0),
    ((2, 3, 8), (3, 8), (3, 8), -1),
    ((2, 3, 16), (3, 8), (1, 8), -1),
    ((2, 3, 6), (3, 3), (2, 3, 6), 2),
    ((1, 5, 4, 64), (5, 1, 64), (1, 5, 1, 32), 3),
    ((2, 6, 4), (6, 1), (3, 4), 1),
    ((2, 8, 3, 4), (2, 4, 1, 1), (8, 3, 1), -3),
    ((6, 5, 4), (4,), (1, 5, 1), 0),
    ((3, 2), (3, 1), (1, 2), 1),
    ((3, 4), (1,), (), 1),
    ((0, 4), (4,), (2,), 1),
    ((3, 2, 2, 2, 3, 4), (2, 1, 2, 1, 4), (2, 2, 1, 1, 2), 5),
]


@pytest.mark.parametrize(("x", "cos", "sin", "axis"), SHAPES, ids=str)
def test_shapes(x: Shape, cos: Shape, sin: Shape, axis: int, backend: str) -> None:
    """Two products of numbers up to 4 and their sum have three roundings, of up to 32 in all."""
    given = [random(k, *shape) for k, shape in enumerate((x, cos, sin))]
    check("rotary_embedding", given, {"axis": axis}, backend=backend, atol=3 * 32 * EPS)


def turned(x: Array, angles: Array) -> Array:
    """Turn pairs as complex numbers, whose parts are the halves of the last axis."""
    a, b = np.split(x, 2, -1)
    products = (a + 1j * b) * np.exp(1j * angles)
    return np.concatenate([products.real, products.imag], -1)


@pytest.mark.parametrize("whole", [True, False])
def test_complex_numbers(whole: bool, backend: str) -> None:
    x, angles = random(1, 2, 7, 3, 12), random(2, 7, 1, 6)
    tables = [np.tile(f(angles), 2) if whole else f(angles) for f in (np.cos, np.sin)]
    expected = turned(x.astype(np.float64), angles.astype(np.float64))
    np.testing.assert_allclose(
        OPS["rotary_embedding"].reference(*(o.astype(np.float64) for o in (x, *tables))), expected, atol=1e-6
    )
    with model_of("rotary_embedding", [x, *tables], {}).compile(backend) as compiled:
        assert_close(compiled(x, *tables), expected)


def test_numbers_by_hand(backend: str) -> None:
    x = np.array([[1, 2, 3, 4]], np.float32)
    tables = np.array([0, 0.5], np.float32), np.array([1, 2], np.float32)
    with model_of("rotary_embedding", [x, *tables], {}).compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(x, *tables), [[-3, 1 - 8, 1, 2 + 4]])


def test_tables_of_both_halves_may_differ(backend: str) -> None:
    x = np.array([1, 2, 3, 4], np.float32)
    tables = np.array([1, 2, 3, 4], np.float32), np.array([5, 6, 7, 8], np.float32)
    with model_of("rotary_embedding", [x, *tables], {}).compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(x, *tables), [1 - 15, 4 - 24, 9 + 7, 16 + 16])


@pytest.mark.parametrize("software", [True, False])
@pytest.mark.parametrize("shape", [(3, 4, 8), (2, 5, 6)], ids=str)
def test_pieces_are_read_where_they_lie(
    shape: Shape, software: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries and keys often are pieces of one product."""
    limit_device(monkeypatch, software=software)
    model = Model("pieces")
    x = clamped(model, model.input("x", float32(*shape)))
    tables = [model.constant(name, random(k, shape[-1])) for k, name in enumerate(("cos", "sin"))]
    for piece in model.add("unstack", [x], {"axis": 1}):
        model.output(*model.add("rotary_embedding", [piece, *tables]))
    assert copied(model, values(model), PIECES, 3 * 32 * EPS) == 0


@pytest.mark.parametrize(
    ("shapes", "axis", "message"),
    [
        (((3, 5), (5,), (5,)), 1, "the extent along axis 1 must be even"),
        (((3, 4), (3,), (4,)), 1, "cos must be broadcast to .* or to half of it along axis 1"),
        (((3, 4), (4,), (2, 4)), 1, "sin must be broadcast"),
        (((3, 4), (4,), (1, 3, 4)), 1, "sin must be broadcast"),
        (((3, 4), (4,), (4,)), 2, "axis 2 is out of range"),
    ],
)
def test_errors(shapes: tuple[Shape, ...], axis: int, message: str) -> None:
    with pytest.raises(ModelError, match=f"rotary_embedding: .*{message}"):
        model_of("rotary_embedding", [random(0, *shape) for shape in shapes], {"axis": axis})


def test_one_dtype() -> None:
    tables = [random(1, 4).astype(np.float16), random(2, 4)]
    with pytest.raises(ModelError, match="rotary_embedding: input 1 must be float32, got float16"):
        model_of("rotary_embedding", [random(0, 3, 4), *tables], {})
