"""A depthwise convolution and the 1 x 1 one behind it in one kernel, where a tuner takes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gpunn
from gpunn.backends.webgpu.device import open_device
from gpunn.compilation.base import Compilation
from gpunn.graph.operation import Operand
from gpunn.model import Model
from gpunn.types import float32
from tests.ops.harness import limit_device, random
from tests.planning.appending import add, constant, depthwise, dispatches, pooled, whole
from tests.planning.fusing import SUSTAINED, Last, measured_alone, on_the_host

Build = Callable[[Model, Operand], Operand]
ONE = "depthwise_conv2d+conv2d"


def separable(
    model: Model, x: Operand, channels: int = 12, activation: str | None = "relu6", size: int = 3
) -> Operand:
    """Add both convolutions; small whole numbers, so float32 computes them exactly."""
    taps, bias = constant(model, 1, size, size, x.type.shape[3]), constant(model, x.type.shape[3])
    between = add(model, "depthwise_conv2d", x, taps, bias, padding="same", activation=activation)
    filter = constant(model, channels, 1, 1, x.type.shape[3])
    return add(model, "conv2d", between, filter, constant(model, channels, seed=2))


def ran(model: Model, tuned: bool = True) -> tuple[list[str], Compilation, int]:
    """Compare the bits of a run with those on the CPU; return dispatches, what ran, and the bytes alive."""
    x = whole(*model.inputs[0].type.shape)
    preference = SUSTAINED if tuned else gpunn.Preference.FAST_SINGLE_ANSWER
    with model.compile("webgpu", preference) as compiled, model.compile("cpu") as cpu:
        found, expected = compiled(x), cpu(x)
        pairs = [(found, expected)] if len(model.outputs) == 1 else zip(found, expected, strict=True)
        for y, wanted in pairs:
            np.testing.assert_array_equal(y, wanted, strict=True)
        return dispatches(compiled), compiled, compiled.stats.peak_live_bytes


def alone(model: Model, x: Operand) -> Operand:
    return separable(model, x)


def with_a_residual_sum(model: Model, x: Operand) -> Operand:
    return add(model, "add", x, separable(model, x))


def one_after_the_other(model: Model, x: Operand) -> Operand:
    return separable(model, add(model, "neg", separable(model, x)), 7, None)


def seen_in_another_shape(model: Model, x: Operand) -> Operand:
    return add(model, "neg", add(model, "reshape", separable(model, x), shape=(12, 9, 8)))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (alone, [ONE]),
        (with_a_residual_sum, [f"{ONE}+add"]),
        (one_after_the_other, [f"{ONE}+neg", ONE]),
        (seen_in_another_shape, [f"{ONE}+neg"]),
    ],
)
def test_one_kernel_computes_both(build: Build, expected: list[str], tuner: Last) -> None:
    model = Model("separable")
    model.output(build(model, model.input("x", float32(1, 9, 8, 12))))
    names, *_ = ran(model)
    assert names == expected
    apart, *_ = ran(model, tuned=False)
    assert "+".join(apart) == "+".join(names)
    assert len(apart) == 2 * len(names)


def test_operations_in_between_keep_their_kernels(tuner: Last) -> None:
    """The convolutions compute the sum: the pool, which runs between the two, is there before."""
    model = Model("separable")
    x = model.input("x", float32(1, 9, 8, 12))
    between = depthwise(model, x, 12)
    other = pooled(model, x, 12)
    model.output(add(model, "add", pointwise(model, between), other))
    names, *_ = ran(model)
    assert names == ["max_pool2d", f"{ONE}+add"]


def test_the_layers_stay_those_of_the_graph(tuner: Last) -> None:
    model = Model("separable")
    x = model.input("x", float32(1, 9, 8, 12))
    model.output(with_a_residual_sum(model, x))
    _, compiled, _ = ran(model)
    depthwise, conv, sum_ = compiled.placement
    assert [p.operation.op for p in compiled.placement] == ["depthwise_conv2d", "conv2d", "add"]
    assert depthwise.within is sum_.within is conv.operation
    assert [len(p.kernels) for p in compiled.placement] == [0, 1, 0]
    assert depthwise.reason == "computed with the conv2d behind it"
    (row,) = gpunn.profile(model, backend="webgpu", preference=SUSTAINED, runs=2, warmup=0).rows
    others = [o.op for o in row.prepended], [o.op for o in row.appended]
    assert (row.op, *others) == ("conv2d", ["depthwise_conv2d"], ["add"])
    assert row.flops == 9 * 8 * 12 * (2 * 9 + 2 * 12 + 1)


def test_what_lies_between_has_no_bytes(tuner: Last) -> None:
    """100 channels lie between 4 and 4."""
    model = Model("separable")
    x = add(model, "tile", model.input("x", float32(1, 16, 16, 4)), multiples=(1, 1, 1, 25))
    model.output(separable(model, x, 4))
    nbytes = {tuned: ran(model, tuned)[2] for tuned in (True, False)}
    assert nbytes == {False: 2 * 16 * 16 * 100 * 4, True: 16 * 16 * (100 + 4) * 4}


def test_a_tuner_is_offered_the_kernels_that_the_two_have(tuner: Last) -> None:
    model = Model("separable")
    model.output(separable(model, model.input("x", float32(1, 9, 8, 12))))
    _, apart, _ = ran(model, tuned=False)
    ran(model)
    each, *both = tuner.offered
    assert [k.body for k in each.kernels] == [row.kernel.body for row in apart.plan_rows()]
    assert [k.body for way in both for k in way.kernels] == ["separable_workgroup"] * 2, "of two sizes"


def pointwise(model: Model, x: Operand, *, size: int = 1, depth: int = 12, **attrs: object) -> Operand:
    return add(model, "conv2d", x, constant(model, 12, size, size, depth), **attrs)


def two_readers(model: Model, x: Operand) -> list[Operand]:
    between = depthwise(model, x, 12)
    return [add(model, "add", pointwise(model, between), between)]


def an_output_between(model: Model, x: Operand) -> list[Operand]:
    between = depthwise(model, x, 12)
    return [between, pointwise(model, between)]


def windows_of_nine_pixels(model: Model, x: Operand) -> list[Operand]:
    return [pointwise(model, depthwise(model, x, 12), size=3)]


def every_other_pixel(model: Model, x: Operand) -> list[Operand]:
    return [pointwise(model, depthwise(model, x, 12), stride=(2, 2))]


def a_border(model: Model, x: Operand) -> list[Operand]:
    return [pointwise(model, depthwise(model, x, 12), padding=((1, 1), (1, 1)))]


def groups(model: Model, x: Operand) -> list[Operand]:
    return [pointwise(model, depthwise(model, x, 12), depth=6)]


def a_multiplier(model: Model, x: Operand) -> list[Operand]:
    return [pointwise(model, depthwise(model, x, 24), depth=24)]


def a_computed_filter(model: Model, x: Operand) -> list[Operand]:
    filter = add(model, "reshape", add(model, "reduce_max", x, axes=(0, 1)), shape=(8, 1, 1, 12))
    return [add(model, "conv2d", depthwise(model, x, 12), filter)]


def a_part_of_a_larger_tensor(model: Model, x: Operand) -> list[Operand]:
    return [model.add("concat", [separable(model, x), add(model, "abs", x)], {"axis": 3})[0]]


NOT_SEPARABLE = (
    two_readers,
    an_output_between,
    windows_of_nine_pixels,
    every_other_pixel,
    a_border,
    groups,
    a_multiplier,
    a_computed_filter,
    a_part_of_a_larger_tensor,
)


@pytest.mark.parametrize("build", NOT_SEPARABLE)
def test_others_keep_kernels_of_their_own(
    build: Callable[[Model, Operand], list[Operand]], tuner: Last
) -> None:
    model = Model("not separable")
    model.output(*build(model, model.input("x", float32(1, 9, 8, 12))))
    names, *_ = ran(model)
    assert not any(ONE in name for name in names)
    assert not tuner.offered


def test_the_host_does_nothing_in_between(tuner: Last) -> None:
    model = Model("not separable")
    x = model.input("x", float32(1, 9, 8, 12))
    between = depthwise(model, x, 12)
    (hosted,) = model.add(on_the_host, [x])
    model.output(pointwise(model, between), hosted)
    names, *_ = ran(model)
    assert names == ["depthwise_conv2d", "conv2d"]


def test_a_tensor_that_takes_several_bindings_keeps_its_kernels(
    tuner: Last, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = open_device(None, False).properties.limits
    limit_device(monkeypatch, limits={**limits, "max-storage-buffer-binding-size": 9 * 8 * 12 * 4})
    for channels, pairs in ((12, True), (16, False)):
        model = Model("separable")
        model.output(separable(model, model.input("x", float32(1, 9, 8, 12)), channels))
        names, *_ = ran(model)
        assert (names == [ONE]) == pairs


def test_what_is_stored_has_the_type_of_what_lies_between(tuner: Last) -> None:
    """A relaxed model has float16 between operations, which holds these numbers, and gives float32."""
    model = Model("separable")
    x = model.input("x", float32(1, 9, 8, 12))
    model.output(separable(model, separable(model, x)))
    given = whole(*x.type.shape)
    with model.compile("webgpu", SUSTAINED, relaxed=True) as compiled, model.compile("cpu") as cpu:
        assert dispatches(compiled)[-3:] == [ONE, "depthwise_conv2d", "conv2d"]
        np.testing.assert_array_equal(compiled(given), cpu(given), strict=True)


def test_software_is_not_offered_the_kernel(tuner: Last, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_device(monkeypatch, software=True)
    model = Model("separable")
    model.output(separable(model, model.input("x", float32(1, 9, 8, 12))))
    names, *_ = ran(model)
    assert names == ["depthwise_conv2d", "conv2d"]
    assert not tuner.offered


@pytest.mark.parametrize(
    ("image", "size", "invocations", "together"),
    [
        ((1, 9, 8), 3, 1 << 15, True),
        ((1, 9, 8), 3, 1 << 8, False),
        ((2, 90, 80), 3, 1 << 15, False),
        ((1, 9, 8), 5, 1 << 15, False),
    ],
)
def test_the_rule_takes_one_kernel_for_few_pixels(
    image: tuple[int, ...],
    size: int,
    invocations: int,
    together: bool,
    gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few for the device, and of small windows: a workgroup has whole rows of them."""
    limit_device(monkeypatch, software=False, parallel_invocations=invocations)
    model = Model("separable")
    x = model.input("x", float32(*image, 48))
    model.output(add(model, "add", x, separable(model, x, 48, size=size)))
    names, compiled, _ = ran(model, tuned=False)
    assert names == ([f"{ONE}+add"] if together else ["depthwise_conv2d", "conv2d+add"])
    assert ("separable_rows" in [row.kernel.body for row in compiled.plan_rows()]) == together


def test_fused_convolutions_are_measured_and_compared_with_exact_results(
    gpu: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured_alone(monkeypatch, tmp_path)
    model = Model("separable")
    x = model.input("x", float32(1, 9, 8, 12))
    taps, filter = (model.constant("c", random(k, *s)) for k, s in enumerate(((1, 3, 3, 12), (7, 1, 1, 12))))
    (between,) = model.add("depthwise_conv2d", [x, taps], {"activation": "relu6"}, origin="layer 0")
    model.output(*model.add("conv2d", [between, filter], origin="layer 1"))
    *_, call = gpunn.tune(model).calls
    assert (call.op, call.origins, call.shape) == ("separable_conv2d", ("layer 0 and layer 1",), (1, 7, 6, 7))
    ways = ["kernels for each of them", "both in one", "both in one"]
    assert [way.reason.split(":")[0] for way in call.ways] == ways
    assert (call.chosen > 0, [way.dropped for way in call.ways]) == (True, [""] * 3)
    with model.compile(gpu, SUSTAINED) as compiled:
        assert dispatches(compiled) == [ONE]
