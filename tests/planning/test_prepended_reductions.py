"""Reductions whose loads compute the elementwise operations before them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import DType, Shape, TensorType, float32
from tests.ops.harness import assert_close, limit_device, random
from tests.planning.appending import add, agree, as_built, as_on_a_gpu, bundled, constant, pooled, shared

Build = Callable[[Model, Operand], list[str]]


@pytest.mark.parametrize("channels", [1, 3, 8])
@pytest.mark.parametrize("axes", [(1, 2), (3,), (0, 1, 2), (1,), (0, 3), (0, 1, 2, 3)], ids=str)
@pytest.mark.parametrize("hardware", [False, True])
def test_variances(
    axes: tuple[int, ...], channels: int, hardware: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean of squared differences, as TensorFlow computes moments: near to float64."""
    if hardware:
        as_on_a_gpu(monkeypatch)
        limit_device(monkeypatch, software=False, parallel_invocations=1 << 14)
    values = random(0, 2, 7, 40, channels)
    model = Model("variance")
    y = pooled(model, model.input("x", float32(*values.shape)), channels)
    mean = add(model, "mean", y, axes=axes, keep_dims=True)
    squares = add(model, "squared_difference", y, mean)
    model.output(add(model, "mean", squares, axes=axes, keep_dims=False), y, mean)
    names = agree(model, [values], monkeypatch, exact=False)
    alike = axes == (3,) and channels == 1  # the mean is as large as what it is taken from
    assert ("squared_difference+mean" in names[-2:]) == (not alike)  # the last may join parts
    with model.compile("webgpu") as compiled:
        found, x, mean_found = (v.astype(np.float64) for v in compiled(values))
    differences = np.square(x - mean_found)
    count = differences.size // found.size
    # Each difference, its square, and the sums are rounded.
    atol = (count + 4) * np.finfo(np.float32).eps * differences.mean(axes)
    assert_close(found, differences.mean(axes), atol=atol, rtol=0)


def of_a_chain(model: Model, x: Operand) -> list[str]:
    y = shared(model, x)
    z = add(model, "mul", add(model, "abs", y), constant(model, 8))
    model.output(add(model, "reduce_sum", add(model, "add", z, constant(model, 1)), axes=(1, 2)))
    return ["max_pool2d", "abs+mul+add+reduce_sum"]


def with_more_behind(model: Model, x: Operand) -> list[str]:
    y = shared(model, x)
    most = add(model, "reduce_max", add(model, "neg", y), axes=(1, 2), keep_dims=True)
    model.output(add(model, "mul", most, constant(model, 8)))
    return ["max_pool2d", "neg+reduce_max+mul"]


def of_an_input(model: Model, x: Operand) -> list[str]:
    model.output(add(model, "reduce_sum", add(model, "neg", x), axes=(1, 2)))
    return ["neg", "reduce_sum"]


def that_others_read(model: Model, x: Operand) -> list[str]:
    negative = add(model, "neg", shared(model, x))
    model.output(add(model, "reduce_sum", negative, axes=(1, 2)), pooled(model, negative, 8))
    return ["max_pool2d", "neg", "reduce_sum", "max_pool2d"]


def of_integers(model: Model, x: Operand) -> list[str]:
    y = add(model, "cast", shared(model, x), dtype="int32")
    model.output(add(model, "reduce_sum", y, axes=(1, 2)))
    return ["max_pool2d", "cast", "reduce_sum"]


def with_factors_of_each_sample(model: Model, x: Operand) -> list[str]:
    y = shared(model, x)
    factors = add(model, "reduce_max", x, axes=(1, 2), keep_dims=True)
    model.output(add(model, "reduce_sum", add(model, "mul", y, factors), axes=(3,)))
    return ["max_pool2d", "reduce_max", "mul+reduce_sum"]


def of_squares(model: Model, x: Operand) -> list[str]:
    """As LiteRT Torch writes variances."""
    y = shared(model, x)
    model.output(add(model, "reduce_sum", add(model, "mul", y, y), axes=(1, 2)))
    return ["max_pool2d", "mul+reduce_sum"]


def of_differences_from_itself(model: Model, x: Operand) -> list[str]:
    """Which are NaN for infinities; a compiler would make 0 of them."""
    y = shared(model, x)
    model.output(add(model, "reduce_sum", add(model, "sub", y, y), axes=(1, 2)))
    return ["max_pool2d", "sub", "reduce_sum"]


def of_a_part(model: Model, x: Operand) -> list[str]:
    """What it loads lies in rows of a larger tensor."""
    whole = pooled(model, x, 8)
    left, right = model.add("split", [whole], {"axis": 3, "sizes": (4, 4)})
    model.output(add(model, "reduce_sum", add(model, "abs", left), axes=(1, 2)), add(model, "neg", right))
    return ["max_pool2d", "abs+reduce_sum", "neg"]


def of_a_padded_tensor(model: Model, x: Operand) -> list[str]:
    y, z = shared(model, x), pooled(model, add(model, "abs", x), 8)
    model.output(z)
    longer = add(model, "pad", y, paddings=((0, 0), (0, 0), (0, 0), (0, 4)), value=1)
    model.output(add(model, "reduce_sum", longer, axes=(1, 2)))
    return ["max_pool2d", "abs", "max_pool2d", "pad", "reduce_sum"]


@pytest.mark.parametrize(
    "build",
    [
        of_a_chain,
        with_more_behind,
        of_an_input,
        that_others_read,
        of_integers,
        with_factors_of_each_sample,
        of_squares,
        of_differences_from_itself,
        of_a_part,
        of_a_padded_tensor,
    ],
)
def test_what_reductions_load(build: Build, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_built(build, (2, 5, 4, 8), monkeypatch)


def test_infinities_less_themselves(gpu: str) -> None:
    """A compiler may make 0 of x - x: the mean of one element is this element."""
    model = Model("infinite")
    y = shared(model, model.input("x", float32(1, 1, 1, 4)))
    mean = add(model, "mean", y, axes=(1, 2), keep_dims=True)
    model.output(add(model, "mean", add(model, "squared_difference", y, mean), axes=(1, 2), keep_dims=False))
    values = np.array([np.inf, -np.inf, np.nan, 1], np.float32).reshape(1, 1, 1, 4)
    with model.compile("webgpu") as compiled:
        np.testing.assert_array_equal(compiled(values)[1].reshape(-1), [np.nan, np.nan, np.nan, 0])


@pytest.mark.parametrize("shape", [(2, 5, 4, 8), (1, 3, 5, 3)], ids=str)
def test_relaxed_models(shape: Shape, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of float16 are rounded between operations, in loads as in tensors."""
    as_on_a_gpu(monkeypatch)
    model = Model("relaxed")
    y = shared(model, model.input("x", TensorType(DType.FLOAT32, shape)))
    scaled = add(model, "mul", y, constant(model, 1, seed=3))
    model.output(add(model, "reduce_max", add(model, "abs", scaled), axes=(1, 2)))
    given = random(0, *shape)
    assert agree(model, [given], monkeypatch, exact=False, relaxed=True)[-1] == "mul+abs+reduce_max"


def test_bundles(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def normalised(model: Model, y: Operand) -> Operand:
        mean = add(model, "mean", y, axes=(1, 2), keep_dims=True)
        squares = add(model, "squared_difference", y, mean)
        factor = add(model, "rsqrt", add(model, "mean", squares, axes=(1, 2), keep_dims=True))
        scaled = add(model, "mul", y, factor)
        shift = add(model, "sub", constant(model, 8), add(model, "mul", mean, factor))
        return add(model, "softmax", add(model, "add", scaled, shift))

    names = bundled(normalised, 8, (2, 3, 3, 8), monkeypatch)
    assert names.count("squared_difference+mean+rsqrt") == names.count("mul+add") == 8
