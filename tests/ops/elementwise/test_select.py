"""Choosing between two tensors by a condition."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.ops.elementwise.choice import chosen
from gpunn.ops.memory import BLOCK
from gpunn.types import Array, DType, TensorType
from tests.ops.harness import check, check_litert, model_of, random
from tests.ops.integer_checks import check_integer, integer_model
from tests.ops.quantized import quantized, stored

Shapes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
SHAPES: tuple[Shapes, ...] = (  # of the condition and the two choices
    ((7,), (7,), (7,)),
    ((2, 4, 6), (2, 4, 6), (2, 4, 6)),
    ((2, 4), (2, 4), ()),
    ((), (3, 5), (3, 5)),
    ((3, 1), (3, 8), (3, 8)),
    ((8,), (3, 8), (3, 1)),
    ((2, 1, 3), (1, 4, 3), (2, 4, 1)),
    ((5,), (2, 5), (2, 1)),
    ((2, 1, 3, 1, 2), (1, 2, 1, 3, 1), (2, 2, 3, 3, 2)),
    ((0, 3), (0, 3), (3,)),
    ((), (), ()),
)


def operands(seed: int, shapes: Shapes, dtype: type) -> list[Array]:
    generator = np.random.default_rng(seed)
    choices = [generator.integers(0, 2 if dtype is np.bool_ else 99, s).astype(dtype) for s in shapes[1:]]
    return [generator.random(shapes[0]) < 0.5, *choices]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.int8, np.bool_])
def test_broadcasting(dtype: type, backend: str) -> None:
    for seed, shapes in enumerate(SHAPES):
        check("select", operands(seed, shapes, dtype), backend=backend)


def test_generated_broadcasts(backend: str) -> None:
    generator = np.random.default_rng(3)
    for seed in range(20):
        full = [int(n) for n in generator.choice([1, 2, 3, 4, 8], int(generator.integers(1, 5)))]
        a, b, c = (tuple(n if generator.random() < 0.6 else 1 for n in full) for _ in range(3))
        check("select", operands(seed, (a, b, c), np.float32), backend=backend)


def test_numbers_pass_as_they_are(backend: str) -> None:
    x = np.array([np.nan, np.inf, -0.0, 1.5], np.float32)
    (y,) = check("select", [np.array([True, True, True, False]), x, x[::-1].copy()], backend=backend)
    assert np.isnan(y[0]) and np.isnan(y[3]) and np.signbit(y[2])


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.int64])
@pytest.mark.parametrize("one", [False, True])
def test_large_tensors(dtype: type, one: bool) -> None:
    """Bits of all kinds, chosen some elements at a time."""
    generator = np.random.default_rng(0)
    a, b = generator.integers(0, 2**63, (2, 3, 3 * BLOCK + 5)).view(dtype)[..., : 2 * BLOCK + 5]
    condition, b = generator.random(a.shape) < 0.5, b[0, 0] if one else b
    given = condition.flat, a.flat, np.broadcast_to(b, a.shape).flat
    expected = np.array([v if c else w for c, v, w in zip(*given, strict=True)])
    found = chosen(condition, a, np.asarray(b))
    np.testing.assert_array_equal(found.reshape(-1).view(np.uint8), expected.view(np.uint8))
    assert found.dtype == a.dtype and found.shape == a.shape


def test_quantised_choices_move_as_stored(backend: str) -> None:
    type = quantized(DType.INT8, (3, 5), 0.1, 7)
    condition = random(0, 3, 5) > 0
    values = [condition, stored(1, type), stored(2, type)]
    condition_type = TensorType(DType.BOOL, (3, 5))
    (y,) = check_integer("select", values, [condition_type, type, type], backend=backend)
    np.testing.assert_array_equal(y, np.where(*values))
    model = integer_model("select", values, [condition_type, type, type])
    assert model.outputs[0].type == type


def test_agrees_with_litert() -> None:
    for seed, shapes in enumerate(SHAPES[:3]):
        inputs = [np.atleast_1d(v) for v in operands(seed, shapes, np.float32)]
        check_litert("select", inputs, {}, "SELECT_V2")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([np.zeros(2, np.int32)] * 3, r"select: input 0 must be bool, got int32\[2\]"),
        (
            [np.zeros(2, np.bool_), np.zeros(2, np.int32), np.zeros(2, np.float32)],
            r"both choices must have one dtype and quantisation, got int32\[2\] and float32\[2\]",
        ),
        (
            [np.zeros(2, np.bool_), np.zeros(3, np.int32), np.zeros(3, np.int32)],
            r"shapes \[2\] and \[3\] and \[3\] cannot be broadcast together",
        ),
    ],
)
def test_errors(inputs: list[Array], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        model_of("select", inputs, {})
