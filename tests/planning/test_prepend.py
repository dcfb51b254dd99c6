"""Prepended operations: loads by rows compute the elementwise operations before a product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.planning.prepend import MOST_TIMES
from gpunn.types import Shape, float32
from tests.ops.harness import as_software, assert_close, random
from tests.planning.appending import (
    add,
    agree,
    as_built,
    as_on_a_gpu,
    bundled,
    constant,
    depthwise,
    looked_up,
    planned_for,
    pointwise,
    pooled,
    swapped_off,
    whole,
)
from tests.planning.preferring import BODIES, prefer


def shapes() -> Iterator[tuple[str, Shape, int]]:
    """Draw bodies, inputs of at least eight pixels, and output channels: parts of tiles, one and several
    samples.
    """
    yield "matmul_broadcast", (1, 4, 4, 8), 32
    yield "matmul_broadcast", (2, 3, 3, 4), 1
    for seed in range(9):
        drawn = np.random.default_rng(seed).integers((1, 3, 3, 1, 1), (4, 8, 8, 20, 75))
        batch, height, width, fours, channels = (int(n) for n in drawn)
        yield BODIES[seed % 3], (batch, height, width, 4 * fours), channels


@pytest.mark.parametrize(("body", "shape", "channels"), [*shapes()])
def test_gates(body: str, shape: Shape, channels: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Squeeze and excitation, and the product behind it: the bits of single dispatches, near to float64."""
    monkeypatch.setattr("gpunn.planning.prepend.MOST_TIMES", 100)
    prefer(monkeypatch, body)
    batch, _, _, depth = shape
    values = random(0, *shape), random(1, channels, 1, 1, depth), random(2, channels)
    model = Model("gate")
    x = model.input("x", float32(*shape))
    y = pooled(model, x, depth)
    gate = add(model, "logistic", add(model, "mean", y, axes=(1, 2), keep_dims=True))
    filter, bias = (model.constant(n, v) for n, v in zip("wb", values[1:], strict=True))
    product = add(model, "conv2d", add(model, "mul", y, gate), filter, bias, activation="relu")
    model.output(product, y, gate)
    assert agree(model, [values[0]], monkeypatch, exact=False)[-1] == "mul+conv2d"
    with model.compile("webgpu") as compiled:
        assert compiled.plan_rows()[-1].kernel.body == body
        found, *seen = (v.reshape(batch, -1, v.shape[-1]).astype(np.float64) for v in compiled(values[0]))
    rows, weights = seen[0] * seen[1], values[1].reshape(channels, depth).astype(np.float64)
    sums, sizes = (rows @ weights.T + values[2]), (np.abs(rows) @ np.abs(weights).T + np.abs(values[2]))
    # The products with a gate and with a weight are rounded, and each of the sums.
    atol = (depth + 2) * np.finfo(np.float32).eps * sizes
    assert_close(found, np.maximum(sums, 0), atol=atol, rtol=0)


Build = Callable[[Model, Operand], list[str]]


def gated(model: Model, y: Operand, gate: Operand, channels: int = 40) -> None:
    model.output(pointwise(model, add(model, "mul", y, gate), channels))


def of_a_channel(model: Model, x: Operand) -> list[str]:
    gated(model, pooled(model, x, 8), add(model, "mean", x, axes=(1, 2), keep_dims=True))
    return ["max_pool2d", "mean", "mul+conv2d"]


def of_everything(model: Model, x: Operand) -> list[str]:
    gated(model, pooled(model, x, 8), add(model, "mean", x, axes=(0, 1, 2, 3), keep_dims=True))
    return ["max_pool2d", "mean", "mul+conv2d"]


def the_other_way_round(model: Model, x: Operand) -> list[str]:
    y = pooled(model, x, 8)
    gated(model, add(model, "mean", x, axes=(1, 2), keep_dims=True), y)
    return ["max_pool2d", "mean", "mul+conv2d"]


def with_more_on_either_side(model: Model, x: Operand) -> list[str]:
    y = pooled(model, x, 8)
    low = add(model, "add", add(model, "mul", y, constant(model, 8, seed=5)), constant(model, 8, seed=6))
    z = pointwise(model, add(model, "maximum", add(model, "neg", low), constant(model, 1)), 8)
    model.output(add(model, "add", z, y))
    return ["max_pool2d", "mul+add+neg+maximum+conv2d+add"]


def before_a_matrix(model: Model, x: Operand) -> list[str]:
    y = pooled(model, x, 8)
    flat = add(model, "reshape", add(model, "relu", y), shape=(16, 8))
    model.output(add(model, "fully_connected", flat, constant(model, 40, 8)), y)
    return ["max_pool2d", "relu+fully_connected"]


def a_computed_filter(model: Model, x: Operand) -> list[str]:
    y, filter = pooled(model, x, 8), model.input("w", float32(8, 1, 1, 8))
    model.output(add(model, "conv2d", add(model, "relu", y), filter), y)
    return ["max_pool2d", "conv2d", "relu+conv2d"]


def in_one_buffer_with_others(model: Model, x: Operand) -> list[str]:
    y, gate = pooled(model, x, 8), add(model, "mean", x, axes=(1, 2), keep_dims=True)
    z = pointwise(model, add(model, "mul", y, gate), 8)
    model.output(add(model, "concat", z, depthwise(model, y, 8), axis=3))
    return ["max_pool2d", "mean", "mul+conv2d", "depthwise_conv2d"]


@pytest.mark.parametrize(
    "build",
    [
        of_a_channel,
        of_everything,
        the_other_way_round,
        with_more_on_either_side,
        before_a_matrix,
        a_computed_filter,
        in_one_buffer_with_others,
    ],
)
def test_what_is_prepended(build: Build, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_built(build, (1, 4, 4, 8), monkeypatch)


@pytest.mark.sample(2)
@pytest.mark.parametrize("op", ["gelu", "elu", "sin"])
@pytest.mark.parametrize("size", [1, 3])
def test_slow_functions_of_few(op: str, size: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is loaded once is computed there, and its library comes along."""
    model, weights = Model("slow"), random(1, 2, size, size, 8)
    y = pooled(model, model.input("x", float32(1, 32, 32, 8)), 8)
    model.output(add(model, "conv2d", add(model, op, y), model.constant("w", weights), padding="same"), y)
    names = agree(model, [random(0, 1, 32, 32, 8)], monkeypatch, exact=False)
    assert size > 1 or names == ["max_pool2d", f"{op}+conv2d"]


def of_a_pixel(model: Model, x: Operand) -> list[str]:
    gated(model, pooled(model, x, 8), add(model, "mean", x, axes=(3,), keep_dims=True))
    return ["max_pool2d", "mean", "mul", "conv2d"]


def two_large_ones(model: Model, x: Operand) -> list[str]:
    y, z = pooled(model, x, 8), add(model, "transpose", x, perm=(0, 2, 1, 3))
    model.output(pointwise(model, add(model, "mul", y, z), 40), y, z)
    return ["max_pool2d", "transpose", "mul", "conv2d"]


def another_reader(model: Model, x: Operand) -> list[str]:
    y = add(model, "mul", pooled(model, x, 8), add(model, "mean", x, axes=(1, 2), keep_dims=True))
    model.output(pointwise(model, y, 40), pooled(model, y, 8))
    return ["max_pool2d", "mean", "mul", "conv2d", "max_pool2d"]


def an_output(model: Model, x: Operand) -> list[str]:
    y = add(model, "mul", pooled(model, x, 8), add(model, "mean", x, axes=(1, 2), keep_dims=True))
    model.output(pointwise(model, y, 40), y)
    return ["max_pool2d", "mean", "mul", "conv2d"]


def of_an_input(model: Model, x: Operand) -> list[str]:
    gated(model, x, add(model, "mean", x, axes=(1, 2), keep_dims=True))
    return ["mean", "mul", "conv2d"]


def of_a_variable(model: Model, x: Operand) -> list[str]:
    state = model.variable("state", x.type)
    gated(model, state, add(model, "mean", x, axes=(1, 2), keep_dims=True))
    model.update(state, pooled(model, x, 8))
    return ["mean", "mul", "conv2d", "max_pool2d"]


def windows(model: Model, x: Operand) -> list[str]:
    y = add(model, "mul", pooled(model, x, 8), add(model, "mean", x, axes=(1, 2), keep_dims=True))
    model.output(add(model, "conv2d", y, constant(model, 8, 3, 3, 8)))
    return ["max_pool2d", "mean", "mul", "conv2d"]


def a_slow_function(model: Model, x: Operand) -> list[str]:
    y = pooled(model, x, 8)
    model.output(pointwise(model, add(model, "logistic", y), 40), y)
    return ["max_pool2d", "logistic", "conv2d"]


def with_a_single_row(model: Model, x: Operand) -> list[str]:
    y = add(model, "max_pool2d", x, size=(4, 4), stride=(4, 4), padding="valid")
    model.output(pointwise(model, add(model, "relu", y), 40), y)
    return ["max_pool2d", "relu", "conv2d"]


@pytest.mark.parametrize(
    "build",
    [
        of_a_pixel,
        two_large_ones,
        another_reader,
        an_output,
        of_an_input,
        of_a_variable,
        windows,
        a_slow_function,
        with_a_single_row,
    ],
)
def test_what_is_not_prepended(build: Build, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prefer(monkeypatch, "matmul_tile")
    as_built(build, (1, 4, 4, 8), monkeypatch, exact=build is not a_slow_function)


@pytest.mark.parametrize(
    ("steps", "device", "most"),
    [
        (1, {"software": True}, MOST_TIMES),
        (2, {"software": True}, MOST_TIMES),
        (1, {"software": False, "parallel_invocations": 1}, 20),
        (1, {"software": False, "parallel_invocations": 4}, 32),
        (2, {"software": False, "parallel_invocations": 1}, 10),
        (3, {"software": False, "parallel_invocations": 2}, 8),
    ],
)
def test_how_often_elements_are_loaded(
    steps: int, device: dict[str, Any], most: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles of eight channels load each of 128 elements `most` times, at most.

    On hardware so many that (steps x most - 16) x 128 is up to 512 for each invocation.
    """
    prefer(monkeypatch, "matmul_tile")
    planned_for(monkeypatch, "prepend", **device)
    for times, prepended in ((most, True), (most + 1, False)):
        model = Model("wide")
        y, gate = with_gate(model)
        z = add(model, "mul", y, gate)
        for op in ("neg", "relu")[: steps - 1]:
            z = add(model, op, z)
        model.output(pointwise(model, z, 8 * times), y)
        names = agree(model, [whole(1, 4, 4, 8)], monkeypatch, exact=False)
        assert (len(names) == 3) is prepended, (times, names)


def test_operands_whose_rows_4_does_not_divide(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("ragged")
    y = pooled(model, model.input("x", float32(1, 4, 4, 6)), 6)
    gated(model, y, add(model, "mean", y, axes=(1, 2), keep_dims=True))
    assert agree(model, [whole(1, 4, 4, 6)], monkeypatch, exact=False)[-2:] == ["mul", "conv2d"]


@pytest.mark.parametrize("software", [True, False], ids=["software", "hardware"])
def test_relaxed_results_are_rounded_in_between(
    software: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is loaded is float32, for the mean; the product would be float16."""
    as_software(monkeypatch) if software else as_on_a_gpu(monkeypatch)
    model = Model("relaxed")
    y = pooled(model, model.input("x", float32(1, 4, 4, 8)), 8)
    gated(model, y, add(model, "mean", y, axes=(1, 2), keep_dims=True))
    names = agree(model, [random(0, 1, 4, 4, 8)], monkeypatch, exact=False, relaxed=True)
    assert names[-2:] == ["mul", "conv2d"] if software else names[-1] == "mul+conv2d"


def test_nothing_is_prepended_across_the_host(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("host between")
    y = pooled(model, model.input("x", float32(1, 4, 4, 8)), 8)
    gated(model, y, looked_up(model, 1, 1, 1, 8))
    inputs = [whole(1, 4, 4, 8), np.array([3, 1], np.int32)]
    assert agree(model, inputs, monkeypatch) == ["max_pool2d", "mul", "conv2d"]


def test_as_many_operands_as_a_kernel_may_bind(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("many")
    gated(model, *with_gate(model))
    for most, expected in ((5, "mul+conv2d"), (4, "conv2d")):
        with monkeypatch.context() as patch:
            planned_for(patch, "prepend", limits={"max-storage-buffers-per-shader-stage": most})
            assert agree(model, [whole(1, 4, 4, 8)], patch)[-1] == expected


def with_gate(model: Model) -> tuple[Operand, Operand]:
    y = pooled(model, model.input("x", float32(1, 4, 4, 8)), 8)
    return y, add(model, "mean", y, axes=(1, 2), keep_dims=True)


def test_the_product_needs_no_memory(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both factors live until the layer has read them, and nothing else lies where they do."""
    model = Model("memory")
    x = model.input("x", float32(1, 64, 64, 8))
    y = pooled(model, x, 8)
    z = pointwise(model, add(model, "mul", y, add(model, "mean", y, axes=(1, 2), keep_dims=True)), 8)
    model.output(add(model, "softmax", z))
    agree(model, [whole(1, 64, 64, 8)], monkeypatch, exact=False)
    with model.compile("webgpu") as compiled:
        together = compiled.stats.arena_bytes
    swapped_off(monkeypatch)
    with model.compile("webgpu") as compiled:
        assert together <= compiled.stats.arena_bytes
    assert together <= 3 * 64 * 64 * 8 * 4


def test_bundles(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def gated(model: Model, y: Operand) -> Operand:
        gate = add(model, "mean", y, axes=(1, 2), keep_dims=True)
        return add(model, "softmax", pointwise(model, add(model, "mul", y, gate), 8))

    assert bundled(gated, 20, (1, 3, 3, 8), monkeypatch).count("mul+conv2d") == 20


def test_profiles_and_placements_name_every_operation(gpu: str) -> None:
    model = Model("named")
    y, gate = with_gate(model)
    (product,) = model.add("mul", [y, gate], {"activation": "relu"}, origin="the gate", names=["gated"])
    model.output(add(model, "add", pointwise(model, product, 8), y))
    *_, row = gpunn.profile(model, backend="webgpu", runs=2).rows
    assert [(a.op, a.activation, a.origin) for a in row.prepended] == [("mul", "relu", "the gate")]
    assert (row.op, [a.op for a in row.appended], row.shape) == ("conv2d", ["add"], (1, 4, 4, 8))
    assert row.flops == 16 * 8 + 2 * 16 * 8 * 8 + 16 * 8
    assert row.bytes == 4 * (16 * 8 + 8 + 8 * 8 + 8 + 16 * 8)
    with model.compile("webgpu") as compiled:
        *_, before, layer, _ = compiled.placement
    assert (before.backend, before.kernels, before.within) == ("webgpu", (), layer.operation)
    assert before.reason == "computed where conv2d loads its result"
    assert layer.kernels[0].reason.endswith("its loads compute mul")
