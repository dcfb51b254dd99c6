"""Operations beside a chain, such as pads of residual operands, and those that run later for one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.pointwise import Reach, Repeat
from gpunn.types import DType, Quantization, TensorType, float32
from tests.ops.harness import limit_device
from tests.planning.appending import (
    add,
    agree,
    as_built,
    as_on_a_gpu,
    conv,
    depthwise,
    looked_up,
    pooled,
    product,
    whole,
)

Pairs = tuple[tuple[int, int], ...]

BEHIND: Pairs = ((0, 0), (0, 0), (0, 0), (0, 4))


def padded(model: Model, x: Operand, paddings: Pairs = BEHIND, value: float = 0) -> Operand:
    return add(model, "pad", x, paddings=paddings, value=value)


@pytest.mark.parametrize("value", [0, -3])
@pytest.mark.parametrize(
    ("shape", "paddings"),
    [
        ((2, 5, 4, 8), BEHIND),
        ((2, 5, 4, 8), ((0, 0), (0, 0), (0, 0), (4, 8))),
        ((2, 5, 4, 8), ((0, 0), (0, 0), (0, 0), (3, 1))),
        ((2, 5, 4, 6), ((0, 0), (0, 0), (0, 0), (0, 1))),
        ((2, 5, 4, 1), ((0, 0), (0, 0), (0, 0), (1, 1))),
        ((2, 5, 4, 3), ((0, 0), (0, 0), (2, 1), (0, 0))),
        ((2, 5, 4, 4), ((0, 0), (1, 0), (0, 0), (0, 0))),
        ((1, 5, 4, 4), ((0, 2), (0, 0), (0, 0), (0, 0))),
        ((2, 5, 4, 4), ((0, 0), (0, 0), (0, 0), (0, 0))),
    ],
    ids=str,
)
def test_a_padded_operand(
    shape: tuple[int, ...], paddings: Pairs, value: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model("padded")
    longer = tuple(n + sum(pair) for n, pair in zip(shape, paddings, strict=True))
    x, other = model.input("x", float32(*longer)), model.input("other", float32(*shape))
    (y,) = model.add("add", [conv(model, x, longer[3]), padded(model, other, paddings, value)])
    model.output(add(model, "relu", y))
    names = agree(model, [whole(*longer), whole(*shape, seed=5)], monkeypatch)
    assert names == ["conv2d+pad+add" if any(map(any, paddings)) else "conv2d+add"]


@pytest.mark.parametrize("producer", [depthwise, pooled, product])
def test_a_pad_before_the_kernel_that_computes_it(
    producer: Callable[[Model, Operand, int], Operand], gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes first in the graph, and its operand has another reader."""
    model = Model("before")
    x = model.input("x", float32(2, 5, 4, 12))
    small = add(model, "exp", model.input("small", float32(2, 5, 4, 8)))
    longer = padded(model, small)
    y = producer(model, x, 12)
    if y.type.shape != x.type.shape:
        y = add(model, "reshape", y, shape=x.type.shape)
    model.output(add(model, "sub", longer, y), add(model, "softmax", small))
    names = agree(model, [whole(2, 5, 4, 12), whole(2, 5, 4, 8)], monkeypatch, exact=False)
    op = next(o.op for o in model.operations if o.op not in ("exp", "pad"))
    assert names == ["exp", f"{op}+pad+sub", "softmax"]


def test_any_elementwise_operation(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them: of a tensor that others read, so that its producer cannot store their results instead."""
    model = Model("any")
    x = model.input("x", float32(1, 5, 4, 8))
    shared = pooled(model, x, 8)
    y = add(model, "mul", conv(model, x, 8), add(model, "relu", shared))
    y = add(model, "maximum", add(model, "neg", shared), y)
    model.output(y, add(model, "reduce_max", shared, axes=(1, 2), keep_dims=False))
    names = agree(model, [whole(1, 5, 4, 8)], monkeypatch)
    assert names == ["max_pool2d", "conv2d+relu+mul+neg+maximum", "reduce_max"]


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("before", [0, 1])
def test_quantised_pads_have_the_same_bits(
    before: int, dtype: DType, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    zero = 100 if dtype is DType.UINT8 else -20
    scale = Quantization((0.05,), (zero,))
    model = Model("quantised")
    x = model.input("x", TensorType(dtype, (1, 4, 5, 12), scale))
    small = model.input("small", TensorType(dtype, (1, 4, 5, 12 - 4 - before), scale))
    longer = padded(model, small, ((0, 0), (0, 0), (0, 0), (before, 4)), zero)
    (y,) = model.add("add", [pooled(model, x, 12), longer], quantization=[Quantization((0.11,), (zero,))])
    model.output(y)
    low, high = (0, 255) if zero > 0 else (-128, 127)
    rng = np.random.default_rng(0)
    given = [rng.integers(low, high, i.type.shape).astype(dtype.numpy) for i in model.inputs]
    as_on_a_gpu(monkeypatch)
    assert agree(model, given, monkeypatch) == ["max_pool2d+pad+add"]


def test_a_pad_in_a_relaxed_model(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are float16 in memory, and rounded between operations."""
    model = Model("relaxed")
    x, small = model.input("x", float32(1, 4, 4, 12)), model.input("small", float32(1, 4, 4, 8))
    model.output(add(model, "add", conv(model, x, 12), padded(model, small, value=0.3)))
    as_on_a_gpu(monkeypatch)
    given = [whole(1, 4, 4, 12), whole(1, 4, 4, 8)]
    assert agree(model, given, monkeypatch, exact=False, relaxed=True)[-1] == "conv2d+pad+add"


def other_reader(model: Model, x: Operand, small: Operand) -> list[str]:
    longer = padded(model, small)
    model.output(add(model, "add", conv(model, x, 12), longer), add(model, "softmax", longer))
    return ["pad", "conv2d+add", "softmax"]


def an_output(model: Model, x: Operand, small: Operand) -> list[str]:
    longer = padded(model, small)
    model.output(add(model, "add", conv(model, x, 12), longer), longer)
    return ["pad", "conv2d+add"]


def along_two_axes(model: Model, x: Operand, small: Operand) -> list[str]:
    longer = padded(model, small, ((0, 0), (1, 0), (0, 0), (4, 0)))
    taller = padded(model, x, ((0, 0), (1, 0), (0, 0), (0, 0)))
    model.output(add(model, "add", conv(model, pooled(model, taller, 12), 12), longer))
    return ["pad", "pad", "max_pool2d", "conv2d+add"]


def of_a_late_operand(model: Model, x: Operand, small: Operand) -> list[str]:
    y = conv(model, x, 12)
    model.output(add(model, "add", y, padded(model, add(model, "softmax", small))))
    return ["conv2d", "softmax", "pad+add"]


def of_a_variable(model: Model, x: Operand, small: Operand) -> list[str]:
    state = model.variable("state", small.type)
    longer = padded(model, state)
    model.update(state, add(model, "exp", small))
    model.output(add(model, "add", conv(model, x, 12), longer))
    return ["pad", "exp", "conv2d+add"]


def before_the_host(model: Model, x: Operand, small: Operand) -> list[str]:
    longer = padded(model, small)
    found = looked_up(model, 1, 5, 4, 12)
    model.output(add(model, "add", add(model, "mul", conv(model, x, 12), found), longer))
    return ["pad", "conv2d+mul+add"]


def of_two_values(model: Model, x: Operand, small: Operand) -> list[str]:
    """A value of the chain is taken from itself behind what is beside: a compiler makes 0 of x - x."""
    y = conv(model, x, 12)
    z = add(model, "add", y, padded(model, small))
    model.output(add(model, "sub", z, y))
    return ["conv2d", "pad+add+sub"]


@pytest.mark.parametrize(
    "build",
    [
        other_reader,
        an_output,
        along_two_axes,
        of_a_late_operand,
        of_a_variable,
        before_the_host,
        of_two_values,
    ],
)
def test_what_is_computed_beside(
    build: Callable[[Model, Operand, Operand], list[str]], gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model("beside")
    x, small = model.input("x", float32(1, 5, 4, 12)), model.input("small", float32(1, 5, 4, 8))
    expected = build(model, x, small)
    given = [whole(*i.type.shape) for i in (x, small)]
    given += [np.array([1, 3], np.int32) for _ in model.inputs[2:]]
    assert agree(model, given, monkeypatch, exact=False) == expected


def test_what_is_beside_is_read_where_a_chain_has_no_more_buffers(
    gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A convolution has four, and what is beside reads two."""
    model = Model("buffers")
    x = model.input("x", float32(1, 5, 4, 8))
    shared = [pooled(model, model.input(name, x.type), 8) for name in "ab"]
    lower = add(model, "minimum", *shared)
    model.output(add(model, "mul", conv(model, x, 8), lower), *shared)
    given = [whole(1, 5, 4, 8, seed=k) for k in range(3)]
    limits = open_device(None, False).properties.limits
    for most, expected in ((6, ["conv2d+minimum+mul"]), (5, ["conv2d", "minimum+mul"])):
        limit_device(monkeypatch, limits={**limits, "max-storage-buffers-per-shader-stage": most})
        assert agree(model, given, monkeypatch) == ["max_pool2d", "max_pool2d", *expected]


def moments(model: Model, x: Operand) -> tuple[Operand, Operand, Operand]:
    """A tensor that others read, too, and two small ones that follow from it."""
    y = add(model, "round", pooled(model, x, x.type.shape[3]))
    most = add(model, "reduce_max", y, axes=(1, 2), keep_dims=True)
    return y, most, add(model, "neg", most)


def a_normalisation(model: Model, x: Operand) -> list[str]:
    """x f + (b - mean f), where the large product stands first."""
    y, factor, mean = moments(model, x)
    scaled = add(model, "mul", y, factor)
    model.output(add(model, "add", scaled, add(model, "softmax", mean)))
    return ["max_pool2d+round", "reduce_max", "neg", "softmax", "mul+add"]


def two_in_turn(model: Model, x: Operand) -> list[str]:
    y, most, _ = moments(model, x)
    shifted = add(model, "abs", add(model, "sub", y, most))
    model.output(add(model, "mul", shifted, add(model, "softmax", most)))
    return ["max_pool2d+round", "reduce_max", "softmax", "sub+abs+mul"]


def that_a_producer_stores(model: Model, x: Operand) -> list[str]:
    y = add(model, "neg", pooled(model, x, 12))
    model.output(add(model, "add", y, add(model, "softmax", x)))
    return ["max_pool2d+neg", "softmax+add"]


def of_a_state(model: Model, x: Operand) -> list[str]:
    state = model.variable("state", x.type)
    scaled = add(model, "neg", state)
    model.update(state, add(model, "exp", x))
    model.output(add(model, "add", scaled, add(model, "softmax", x)))
    return ["neg", "exp", "softmax+add"]


def an_output_itself(model: Model, x: Operand) -> list[str]:
    y, *_ = moments(model, x)
    scaled = add(model, "neg", y)
    model.output(add(model, "add", scaled, add(model, "softmax", y)), scaled)
    return ["max_pool2d+round", "neg", "softmax+add"]


@pytest.mark.parametrize(
    "build", [a_normalisation, two_in_turn, that_a_producer_stores, of_a_state, an_output_itself]
)
def test_what_runs_later(
    build: Callable[[Model, Operand], list[str]], gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_built(build, (1, 5, 4, 12), monkeypatch)


def test_infinities_beside_a_value(gpu: str) -> None:
    model = Model("infinite")
    x = model.input("x", float32(1, 1, 1, 4))
    y = pooled(model, x, 4)
    small = model.input("small", float32(1, 1, 1, 3))
    model.output(add(model, "sub", y, padded(model, small, (*BEHIND[:3], (0, 1)))))
    with model.compile("webgpu") as compiled:
        found = compiled(
            np.array([np.inf, -np.inf, np.nan, np.inf], np.float32).reshape(1, 1, 1, 4),
            np.array([np.inf, 1, 2], np.float32).reshape(1, 1, 1, 3),
        )
    np.testing.assert_array_equal(found.reshape(-1), [np.nan, -np.inf, np.nan, np.inf])


def test_how_rows_of_an_operand_are_padded() -> None:
    assert Reach.of(Repeat(8, row=12), 48) is Reach.PADDED_FOURS
    assert Reach.of(Repeat(8, row=12, before=4), 48) is Reach.PADDED_FOURS
    for short in (Repeat(8, row=12, before=2), Repeat(8, row=11), Repeat(7, row=12)):
        assert Reach.of(short, 48) is Reach.PADDED
    assert Reach.PADDED.padded and not Reach.PADDED.together
    assert Reach.PADDED_FOURS.padded and Reach.PADDED_FOURS.together
