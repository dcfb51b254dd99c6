"""merge_layers: layers of queries, keys and values that read the same tensor become one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.passes import optimise
from gpunn.passes.merge_layers import merge_layers
from gpunn.types import DType, float32
from tests.passes.same import of_rounded_weights, ops, same

HEADS, TOKENS, DEPTH = 2, 5, 4
WIDTH = HEADS * DEPTH


def add(model: Model, op: str, *inputs: Operand | None, **attrs: Any) -> Operand:
    return model.add(op, inputs, attrs)[0]


def weights(model: Model, seed: int, *shape: int) -> Operand:
    return model.constant("w", np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def layer(
    model: Model, x: Operand, seed: int, bias: bool = True, width: int = WIDTH, **attrs: Any
) -> Operand:
    filter = weights(model, seed, width, x.type.shape[-1])
    added = weights(model, seed + 10, width) if bias else None
    return add(model, "fully_connected", x, filter, added, keep_dims=True, **attrs)


def heads(model: Model, x: Operand, count: int = HEADS) -> Operand:
    parted = add(model, "reshape", x, shape=(1, TOKENS, count, x.type.shape[-1] // count))
    return add(model, "transpose", parted, perm=(0, 2, 1, 3))


def given(model: Model) -> Operand:
    return add(model, "tanh", model.input("x", float32(1, TOKENS, 6)))


def attention(model: Model, biases: tuple[bool, bool, bool] = (True, True, True)) -> None:
    x = given(model)
    q, k, v = (heads(model, layer(model, x, seed, bias)) for seed, bias in enumerate(biases))
    scores = add(model, "softmax", add(model, "batch_matmul", q, k, adj_b=True), beta=1.0, axis=-1)
    model.output(add(model, "batch_matmul", scores, v, adj_b=False))


@pytest.mark.parametrize("biases", [(True, True, True), (False, False, False), (True, False, True)])
def test_one_layer_computes_all_three(biases: tuple[bool, bool, bool]) -> None:
    model = Model()
    attention(model, biases)
    changed = same(model, merge_layers, tolerance=of_rounded_weights)
    (merged,) = (o for o in changed.operations if o.op == "fully_connected")
    assert merged.outputs[0].type.shape == (1, TOKENS, 3 * WIDTH)
    assert (merged.inputs[2] is not None) == any(biases)
    assert ops(changed).count("transpose") == 1
    assert merge_layers(changed) is changed
    same(model, optimise, tolerance=of_rounded_weights)


def test_both_backends_compute_it(gpu: str) -> None:
    model = Model()
    attention(model)
    x = np.random.default_rng(0).standard_normal((1, TOKENS, 6)).astype(np.float32)
    results = []
    for backend in (gpu, "cpu"):
        with model.compile(backend) as compiled:
            results.append(np.asarray(compiled(x)))
            assert [p.operation.op for p in compiled.placement].count("fully_connected") == 1
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


def test_blocks_with_the_same_weights_share_the_merged_ones() -> None:
    """As in ALBERT."""
    model = Model()
    x = given(model)
    filters = [weights(model, k, WIDTH, 6) for k in range(3)]
    for y in (x, add(model, "neg", x)):
        made = [add(model, "fully_connected", y, w, None, keep_dims=True) for w in filters]
        model.output(*(add(model, "neg", heads(model, z)) for z in made))
    first, second = (o for o in merge_layers(model).operations if o.op == "fully_connected")
    assert first.inputs[1] is second.inputs[1]


def test_filters_that_are_too_large_together_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    attention(model)
    for most, count in ((3 * WIDTH * 6 * 4, 3), (3 * WIDTH * 7 * 4, 1)):  # the biases count, too
        monkeypatch.setitem(merge_layers.__globals__, "MAX_SCALED_BYTES", most)
        assert ops(merge_layers(model)).count("fully_connected") == count


def of_other_tensors(model: Model, x: Operand) -> list[Operand]:
    return [heads(model, layer(model, add(model, "neg", x), seed)) for seed in range(3)]


def with_activations(model: Model, x: Operand) -> list[Operand]:
    return [heads(model, layer(model, x, seed, activation="relu")) for seed in range(2)]


def of_other_heads(model: Model, x: Operand) -> list[Operand]:
    return [heads(model, layer(model, x, seed), count) for seed, count in enumerate((2, 4))]


def of_other_widths(model: Model, x: Operand) -> list[Operand]:
    return [heads(model, layer(model, x, seed, width=width)) for seed, width in enumerate((8, 16))]


def read_as_they_are(model: Model, x: Operand) -> list[Operand]:
    return [layer(model, x, seed) for seed in range(3)]


def read_before(model: Model, x: Operand) -> list[Operand]:
    made = [layer(model, x, seed) for seed in range(2)]
    return [*made, *(heads(model, y) for y in made)]


def with_computed_filters(model: Model, x: Operand) -> list[Operand]:
    filter = add(model, "neg", model.input("w", float32(WIDTH, 6)))
    made = [add(model, "fully_connected", x, filter, None, keep_dims=True) for _ in range(2)]
    return [heads(model, y) for y in made]


@pytest.mark.parametrize(
    "build",
    [
        of_other_tensors,
        with_activations,
        of_other_heads,
        of_other_widths,
        read_as_they_are,
        read_before,
        with_computed_filters,
    ],
)
def test_other_layers_stay(build: Callable[[Model, Operand], list[Operand]]) -> None:
    model = Model()
    model.output(*(add(model, "neg", y) for y in build(model, given(model))))
    assert merge_layers(model) is model


def test_float16_stays() -> None:
    model = Model()
    x = add(model, "cast", given(model), dtype=DType.FLOAT16.value)
    filters = [model.constant("w", np.ones((WIDTH, 6), np.float16)) for _ in range(2)]
    made = [add(model, "fully_connected", x, w, None, keep_dims=True) for w in filters]
    model.output(*(add(model, "neg", heads(model, y)) for y in made))
    assert merge_layers(model) is model
