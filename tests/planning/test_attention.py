"""Attention in one kernel: which operations are found, where a tuner takes it; a network against LiteRT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gpunn
from benchmarks import networks
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.ops.accuracy import EPS, GENERAL
from gpunn.types import Array, float32
from tests.ops.harness import random
from tests.planning.appending import add, dispatches, whole
from tests.planning.fusing import SUSTAINED, Last, measured_alone, on_the_host
from tests.tflite_builder import litert_run

STEP = 2.0**12  # of scores: all weights are 1 / n, of the n highest scores, or 0
MASK = (2, 1, 1, 20)


def scores(model: Model, adj_b: bool = False) -> Operand:
    """Multiply two inputs: queries [2, 3, 16, 8] and 20 keys."""
    keys = (20, 8) if adj_b else (8, 20)
    inputs = [model.input(name, float32(2, 3, *shape)) for name, shape in (("q", (16, 8)), ("k", keys))]
    return add(model, "batch_matmul", *inputs, adj_b=adj_b)


def number(model: Model, value: float = 0.5) -> Operand:
    return model.constant("c", np.float32(value))


def masked(model: Model, x: Operand, shape: tuple[int, ...] = MASK, **attrs: object) -> Operand:
    return add(model, "add", x, model.input("m", float32(*shape)), **attrs)


def seen(model: Model, x: Operand, **attrs: object) -> Operand:
    """Add softmax, and the product with values of 12 columns."""
    weights = add(model, "softmax", x, **attrs)
    return add(model, "batch_matmul", weights, model.input("v", float32(2, 3, x.type.shape[-1], 12)))


def ran(model: Model, tuned: bool = True) -> tuple[list[str], int]:
    """Compare a run with one on the CPU; return dispatches, and the bytes alive.

    A result is a sum of small whole numbers, each by the same weight.
    """
    fed = [whole(*i.type.shape, seed=n) for n, i in enumerate(model.inputs)]
    for n, operand in enumerate(model.inputs):
        if operand.name in "km":
            fed[n] *= STEP
    preference = SUSTAINED if tuned else gpunn.Preference.FAST_SINGLE_ANSWER
    with model.compile("webgpu", preference) as compiled, model.compile("cpu") as cpu:
        found, expected = compiled(*fed), cpu(*fed)
        several = isinstance(found, tuple)
        for y, wanted in zip(found, expected, strict=True) if several else [(found, expected)]:
            np.testing.assert_allclose(y, wanted, rtol=GENERAL * EPS, atol=4 * GENERAL * EPS)
        return dispatches(compiled), compiled.stats.peak_live_bytes


def plain(model: Model) -> Operand:
    return seen(model, scores(model, True))


def scaled(model: Model) -> Operand:
    return seen(model, add(model, "mul", scores(model), number(model)), beta=2.0)


def with_a_mask(model: Model) -> Operand:
    return seen(model, masked(model, scores(model, True)))


def with_both_and_a_sum_behind(model: Model) -> Operand:
    y = seen(model, masked(model, add(model, "mul", scores(model), number(model))))
    return add(model, "add", y, model.input("x", float32(2, 3, 16, 12)))


def a_mask_for_further_stacks(model: Model) -> Operand:
    return seen(model, masked(model, scores(model), (2, 3, 16, 20)))


def of_pieces(model: Model) -> Operand:
    """The one kernel reads each of them where it begins."""
    given = model.input("k", float32(3, 2, 16, 8))
    q, k, v = model.add("unstack", [given], {"axis": 0})
    weights = add(model, "softmax", add(model, "batch_matmul", q, k, adj_b=True))
    return add(model, "batch_matmul", weights, v)


def one_after_the_other(model: Model) -> Operand:
    """The last product of the first three would be the first one of the next three."""
    first = seen(model, scores(model))
    weights = add(model, "softmax", first)
    return add(model, "batch_matmul", weights, model.input("w", float32(2, 3, 12, 4)))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (plain, ["batch_matmul+softmax+batch_matmul"]),
        (scaled, ["batch_matmul+mul+softmax+batch_matmul"]),
        (with_a_mask, ["batch_matmul+add+softmax+batch_matmul"]),
        (with_both_and_a_sum_behind, ["batch_matmul+mul+add+softmax+batch_matmul+add"]),
        (a_mask_for_further_stacks, ["batch_matmul+add+softmax+batch_matmul"]),
        (of_pieces, ["batch_matmul+softmax+batch_matmul"]),
        (one_after_the_other, ["batch_matmul+softmax+batch_matmul", "softmax", "batch_matmul"]),
    ],
)
def test_one_kernel_computes_attention(
    build: Callable[[Model], Operand], expected: list[str], tuner: Last
) -> None:
    model = Model("attention")
    model.output(build(model))
    assert ran(model)[0] == expected
    apart, _ = ran(model, tuned=False)
    assert "+".join(apart) == "+".join(expected)
    assert len(apart) > len(expected)


def test_scores_have_no_bytes(tuner: Last) -> None:
    model = Model("attention")
    model.output(plain(model))
    rows, per_stack = 16 * 8 + 20 * 8, 4 * 2 * 3
    kept = rows + 20 * 12
    nbytes = {tuned: ran(model, tuned)[1] for tuned in (True, False)}
    assert nbytes[True] == per_stack * (kept + 16 * 12)
    assert nbytes[False] >= per_stack * (kept + 16 * 20)


def test_a_tuner_is_offered_the_kernels_that_the_operations_have(tuner: Last) -> None:
    """The product computes the mask and the scale where it stores the scores, as it does in a plan."""
    model = Model("attention")
    model.output(with_both_and_a_sum_behind(model))
    fast = model.compile("webgpu", gpunn.Preference.FAST_SINGLE_ANSWER)
    ran(model)
    each, together = tuner.offered
    assert [k.body for k in each.kernels] == [row.kernel.body for row in fast.plan_rows()]
    assert [[a.expression for a in k.writes[0].appended] for k in each.kernels if k.writes[0].appended] == [
        [a.expression for a in fast.plan_rows()[0].kernel.writes[0].appended]
    ]
    assert [k.body for k in together.kernels] == ["attention"]


def two_readers(model: Model) -> list[Operand]:
    x = scores(model)
    return [seen(model, x), add(model, "neg", x)]


def weights_given_too(model: Model) -> list[Operand]:
    weights = add(model, "softmax", scores(model))
    return [weights, add(model, "batch_matmul", weights, model.input("v", float32(2, 3, 20, 12)))]


def along_the_queries(model: Model) -> list[Operand]:
    return [seen(model, scores(model), axis=-2)]


def factors_of_keys(model: Model) -> list[Operand]:
    return [seen(model, add(model, "mul", scores(model), model.constant("c", whole(20))))]


def clipped_scores(model: Model) -> list[Operand]:
    return [seen(model, masked(model, scores(model), activation="relu"))]


def a_mask_before_the_scale(model: Model) -> list[Operand]:
    return [seen(model, add(model, "mul", masked(model, scores(model)), number(model)))]


def rows_from_a_mask(model: Model) -> list[Operand]:
    x = add(
        model, "batch_matmul", model.input("q", float32(2, 3, 1, 8)), model.input("k", float32(2, 3, 8, 20))
    )
    return [seen(model, masked(model, x, (16, 20)))]


def weights_across(model: Model) -> list[Operand]:
    weights = add(model, "softmax", scores(model))
    return [add(model, "batch_matmul", weights, model.input("v", float32(2, 3, 16, 12)), adj_a=True)]


def a_host_between(model: Model) -> list[Operand]:
    x = scores(model)
    (hosted,) = model.add(on_the_host, [model.input("x", float32(3))])
    return [seen(model, x), hosted]


@pytest.mark.parametrize(
    "build",
    [
        two_readers,
        weights_given_too,
        along_the_queries,
        factors_of_keys,
        clipped_scores,
        a_mask_before_the_scale,
        rows_from_a_mask,
        weights_across,
        a_host_between,
    ],
)
def test_others_keep_kernels_of_their_own(build: Callable[[Model], list[Operand]], tuner: Last) -> None:
    model = Model("no attention")
    model.output(*build(model))
    names, _ = ran(model)
    assert len(names) >= 3
    assert not tuner.offered


def test_attention_is_measured_and_compared_with_exact_results(
    gpu: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured_alone(monkeypatch, tmp_path)
    model = Model("attention")
    model.output(with_both_and_a_sum_behind(model))
    (call,) = (c for c in gpunn.tune(model).calls if c.op == "attention")
    assert [way.reason.split(":")[0] for way in call.ways] == ["kernels for each of them", "all in one"]
    assert (call.chosen, [way.dropped for way in call.ways]) == (1, ["", ""])


def test_a_network_has_litert_s_answers(tuner: Last) -> None:
    """The values are computed between softmax and the last product."""
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    file = networks.vit_block()
    model = gpunn.load(file)
    x = random(1, *model.inputs[0].type.shape, low=-1, high=1)
    (expected,) = litert_run(file, [x])
    with model.compile("webgpu", SUSTAINED) as compiled:
        found: Array = compiled(x)
        assert "batch_matmul+mul+softmax+batch_matmul" in dispatches(compiled)
    # A layer adds up to 768 terms, each rounded to 2^-24; fewer than 50 layers hand the errors on.
    assert np.abs(found - expected).max() < 50 * np.sqrt(768) * 2.0**-24 * np.ptp(expected)
