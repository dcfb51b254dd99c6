"""Element-wise ops of two tensors and broadcasting."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops import binary
from gpunn.types import Array, float32
from tests.ops.harness import check, check_litert, model_of, random

# One pair for each way of walking the operands (shaders/binary_flat.wgsl, shaders/binary_strided.wgsl).
PAIRS = (
    ((5, 7), (5, 7)),
    ((2, 4, 6), (2, 4, 6)),
    ((3, 5), ()),
    ((3, 4), (1, 1)),
    ((2, 3, 3, 8), (8,)),
    ((2, 3, 3, 7), (7,)),
    ((2, 3, 4), (1, 3, 4)),
    ((2, 3, 3, 8), (2, 1, 1, 8)),
    ((2, 3, 3, 8), (2, 3, 3, 1)),
    ((2, 3, 5, 3), (2, 1, 5, 1)),
    ((6, 1), (1, 9)),
    ((4, 1), (1, 8)),
    ((3, 1, 5, 1, 2), (1, 4, 1, 3, 2)),
    ((2, 1, 3, 1, 2, 1, 3, 1), (1, 2, 1, 3, 1, 2, 1, 3)),
    ((2, 1, 3, 1, 2, 1, 3, 1), (2, 1, 2, 1, 2, 1, 4)),
    ((1, 2, 1, 2, 1, 2, 1, 2, 1), (2, 1, 2, 1, 2, 1, 2, 1, 2)),
    ((0, 3), (1, 3)),
    ((0, 3), (3,)),
    ((5,), (0, 5)),
    ((), ()),
)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 1e30, -1e30], np.float32)
LITERT = {
    "add": "ADD",
    "sub": "SUB",
    "mul": "MUL",
    "div": "DIV",
    "maximum": "MAXIMUM",
    "minimum": "MINIMUM",
    "prelu": "PRELU",
}

lines = pytest.mark.parametrize("line", binary.TABLE, ids=lambda line: line.name)


def operands(line: binary.Binary, seed: int, a: tuple[int, ...], b: tuple[int, ...]) -> list[Array]:
    """Two arrays; a divisor keeps away from 0, where quotients leave float32."""
    divisor = random(seed + 1, *b, low=0.5) * np.where(random(seed + 2, *b) < 0, -1, 1)
    second = divisor if line.name == "div" else random(seed + 1, *b)
    return [random(seed, *a), np.asarray(second, np.float32)]


def rank_limit(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    """The reason why a pair has no kernel; nine dimensions that alternate cannot be merged."""
    return "9 dimensions" if len(a) == len(b) == 9 else ""


@lines
def test_broadcasting(line: binary.Binary, backend: str) -> None:
    for seed, (a, b) in enumerate(PAIRS):
        if line.name != "prelu" or np.broadcast_shapes(a, b) == a:
            check(line.name, operands(line, seed, a, b), backend=backend, host=rank_limit(a, b))


@pytest.mark.parametrize("line", binary.TABLE[:2], ids=lambda line: line.name)
def test_broadcasting_of_the_first_operand(line: binary.Binary, backend: str) -> None:
    for seed, (a, b) in enumerate(PAIRS):
        check(line.name, operands(line, seed, b, a), backend=backend, host=rank_limit(a, b))


@lines
def test_nan_and_infinities(line: binary.Binary, backend: str) -> None:
    a, b = (np.ascontiguousarray(side.reshape(-1)) for side in np.meshgrid(SPECIAL, SPECIAL))
    check(line.name, [a, b], backend=backend)


@pytest.mark.parametrize(
    "name", [line.name for line in binary.TABLE if np.int32 in [d.numpy for d in line.dtypes]]
)
def test_integers_wrap_around(name: str, backend: str) -> None:
    a = np.array([2**31 - 1, -(2**31), 7, -7, 0, 65_537, -3], np.int32)
    check(name, [a[:, None], a], backend=backend)


def test_constant_operands(backend: str) -> None:
    check("mul", [random(0, 3, 5, 8), random(1, 8)], constants=(1,), backend=backend)
    check("sub", [random(0, 1), random(1, 5, 3)], constants=(0,), backend=backend)


@pytest.mark.parametrize("name", [line.name for line in binary.TABLE if line.fusible])
def test_fused_activation(name: str, backend: str) -> None:
    line = next(line for line in binary.TABLE if line.name == name)
    for seed, (a, b) in enumerate((((3, 8), (3, 8)), ((2, 3, 5), (2, 1, 5)))):
        check(name, operands(line, seed, a, b), {"activation": "relu6"}, backend=backend)


def test_one_tensor_as_both_operands(backend: str) -> None:
    model = Model()
    x = model.input("x", float32(3, 5))
    model.output(*model.add("mul", [x, x]), *model.add("concat", [x, x], {"axis": 0}))
    value = random(0, 3, 5)
    with model.compile(backend=backend) as compilation:
        square, twice = compilation(value)
    np.testing.assert_array_equal(square, value * value)
    np.testing.assert_array_equal(twice, np.concatenate([value, value]))


def test_generated_broadcasts(backend: str) -> None:
    generator = np.random.default_rng(7)
    for seed in range(25):
        rank = int(generator.integers(1, 6))
        full = [int(n) for n in generator.choice([1, 2, 3, 4, 5, 8], rank)]
        a, b = (tuple(n if generator.random() < 0.6 else 1 for n in full) for _ in range(2))
        check(
            "add",
            [random(seed, *a), random(seed + 1, *b[int(generator.integers(0, rank)) :])],
            backend=backend,
        )


def test_more_groups_than_one_dimension_of_the_grid_holds(backend: str) -> None:
    check("add", [random(0, 65_535 * 64 + 65), random(1, 1)], backend=backend)


@lines
def test_agrees_with_litert(line: binary.Binary) -> None:
    for seed, (a, b) in enumerate(
        (((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 3, 4, 5), (5,)), ((2, 3, 4, 5), (1, 3, 1, 5)))
    ):
        if line.name == "prelu" and len(b) == 1:
            b = (1, 1, 5)
        operand = operands(line, seed, a, b)
        check_litert(line.name, operand, {}, LITERT[line.name])


@pytest.mark.parametrize(
    ("op", "a", "b", "message"),
    [
        (
            "add",
            np.zeros((2, 3)),
            np.zeros((4, 3)),
            r"add: shapes \[2, 3\] and \[4, 3\] cannot be broadcast together",
        ),
        ("add", np.zeros(2), np.zeros(2, np.int32), "add: inputs must have one dtype, got float32, int32"),
        (
            "mul",
            np.zeros(2, np.uint8),
            np.zeros(2, np.uint8),
            r"mul: input 0 must be float32 .*, got uint8\[2\]",
        ),
        (
            "div",
            np.zeros(2, np.int32),
            np.zeros(2, np.int32),
            r"div: input 0 must be float32 or float16, got int32",
        ),
        ("prelu", np.zeros((2, 1)), np.zeros(3), r"prelu: alpha must broadcast to \[2, 1\], got \[3\]"),
    ],
)
def test_errors(op: str, a: Array, b: Array, message: str) -> None:
    inputs = [x.astype(np.float32) if x.dtype == np.float64 else x for x in (a, b)]
    with pytest.raises(ModelError, match=message):
        model_of(op, inputs, {})
