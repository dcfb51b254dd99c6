"""gpunn.profile: its counts, times and traces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.profiling import Profile
from gpunn.types import float32


def small_model() -> Model:
    """Return a model of conv2d 3 x 3 from 4 to 8 channels with bias and relu, softmax, and a reshape."""
    model = Model("small")
    x = model.input("x", float32(1, 6, 5, 4))
    weights = model.constant("w", np.ones((8, 3, 3, 4), np.float32))
    bias = model.constant("b", np.ones(8, np.float32))
    (y,) = model.add("conv2d", [x, weights, bias], {"activation": "relu"}, origin="first", names=["conv"])
    (y,) = model.add("softmax", [y], origin="second", names=["softmax"])
    (y,) = model.add("reshape", [y], {"shape": (96,)}, names=["flat"])
    model.output(y)
    return model


def check(found: Profile) -> None:
    assert [row.op for row in found.rows] == ["conv2d", "softmax"]
    conv, softmax = found.rows
    assert conv.flops == 2 * (4 * 3 * 8) * (3 * 3 * 4)  # results times terms, two operations each
    assert softmax.flops == 96
    assert conv.bytes == 4 * (6 * 5 * 4 + 8 * 36 + 8 + 96)
    assert softmax.bytes == 4 * 2 * 96
    assert (conv.origin, conv.activation, conv.name, conv.shape) == ("first", "relu", "conv", (1, 4, 3, 8))
    assert found.operations_seconds == pytest.approx(conv.seconds + softmax.seconds)
    assert found.run_seconds > 0
    assert sum(row.share for row in found.rows) == pytest.approx(1)
    for row in found.rows:
        assert row.flops_per_second == pytest.approx(row.flops / row.seconds)


def test_on_the_cpu() -> None:
    found = gpunn.profile(small_model(), backend="cpu", runs=4)
    check(found)
    assert found.method == "host clock"
    assert found.device_seconds is None
    assert all(row.backend == "cpu" and not row.kernels for row in found.rows)
    assert all(span.seconds >= 0 and span.kernel is None for span in found.spans)


@pytest.mark.parametrize("timestamps", [True, False])
def test_on_the_gpu(gpu: str, timestamps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not timestamps:
        monkeypatch.setattr("gpunn.backends.webgpu.stopwatch.TIMESTAMPS", "a feature that no device has")
    found = gpunn.profile(small_model(), backend=gpu, runs=6)
    check(found)
    assert found.method == ("timestamps" if timestamps else "submissions")
    assert found.device_seconds is not None and found.device_seconds > 0
    assert [row.kernels for row in found.rows] == [("conv_tile",), ("normalize",)]
    assert [s.name for s in found.spans] == ["upload", "conv_tile", "normalize", "read back"]


def test_a_traced_run_gives_the_same_state_and_counts_every_dispatch(gpu: str) -> None:
    model = Model("counter")
    x, before = model.input("x", float32(1)), model.variable("sum", float32(1))
    (after,) = model.add("add", [x, before])
    model.update(before, after)
    model.output(after)
    with model.compile(gpu) as compiled:
        compiled.trace(np.float32([1]))
        assert compiled.trace(np.float32([2]), whole=True).outputs[0] == 3
        assert compiled(np.float32([4])) == 7
        assert compiled.stats.runs == 3
        assert compiled.stats.dispatches == 3


def test_a_trace_waits_for_one_of_the_submitted_runs(backend: str) -> None:
    model = Model("double")
    x = model.input("x", float32(1))
    model.output(*model.add("add", [x, x]))
    with model.compile(backend) as compiled:
        pending = [compiled.submit(np.float32([k])) for k in range(4)]
        assert compiled.trace(np.float32([4])).outputs[0] == 8
        assert [event.result()[0].item() for event in pending] == [0, 2, 4, 6]


def test_a_trace_finds_the_state_that_submitted_runs_leave(backend: str) -> None:
    """The products take a while, so that these runs have not ended."""
    model = Model("counter")
    x, before = model.input("x", float32(200, 200)), model.variable("sum", float32(1))
    y = x
    for _ in range(20):
        (y,) = model.add("batch_matmul", [y, x])
    (most,) = model.add("reduce_max", [y], {"axes": (0, 1)})
    (one,) = model.add("add", [most, model.constant("one", np.float32([1]))])
    (after,) = model.add("add", [before, one])
    model.update(before, after)
    model.output(after)
    zeros = np.zeros((200, 200), np.float32)
    with model.compile(backend) as compiled:
        for ran in range(0, 20, 4):
            pending = [compiled.submit(zeros) for _ in range(3)]
            assert compiled.trace(zeros).outputs[0] == ran + 4
            assert [event.result()[0].item() for event in pending] == [ran + 1, ran + 2, ran + 3]


def test_dispatches_are_timed_together_as_runs_have_them(gpu: str) -> None:
    """Of a trace as a whole, dispatches have no spans of their own; loops and bundles are one dispatch."""
    with small_model().compile(gpu) as compiled:
        x = np.ones((1, 6, 5, 4), np.float32)
        apart, whole = compiled.trace(x), compiled.trace(x, whole=True)
    assert apart.device_seconds is None
    assert whole.device_seconds is not None and whole.device_seconds > 0
    assert [span.name for span in whole.spans] == ["upload", "read back"]
    np.testing.assert_array_equal(whole.outputs[0], apart.outputs[0])


def test_more_dispatches_than_a_query_set_holds(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpunn.backends.webgpu.stopwatch._PASSES", 2)
    model = Model("chain")
    y = model.input("x", float32(4))
    for _ in range(5):
        (y,) = model.add("softmax", [y])
    model.output(y)
    with model.compile(gpu) as compiled:
        spans = compiled.trace(np.zeros(4, np.float32)).spans
    assert sum(span.kernel is not None for span in spans) == 5


def test_operations_of_the_host_are_listed_among_those_of_the_gpu(gpu: str) -> None:
    model = Model("mixed")
    x = model.input("x", gpunn.TensorType(gpunn.DType.INT32, (3,)))
    keys, values = (model.constant(name, np.arange(3, dtype=np.int32)) for name in ("keys", "values"))
    model.output(*model.add("hashtable_lookup", [x, keys, values], names=["host", "hits"]))
    found = gpunn.profile(model, [np.arange(3, dtype=np.int32)], backend=gpu, runs=2)
    assert [(row.name, row.backend) for row in found.rows] == [("host", "cpu")]
    assert found.inputs == "given"


def test_chrome_trace(backend: str) -> None:
    found = gpunn.profile(small_model(), backend=backend, runs=2)
    events: list[dict[str, Any]] = found.to_chrome_trace()["traceEvents"]
    complete = [e for e in events if e["ph"] == "X"]
    assert len(complete) == len(found.spans)
    for event, span in zip(complete, found.spans, strict=True):
        assert event["ts"] == pytest.approx(span.begin * 1e6)
        assert event["dur"] == pytest.approx(span.seconds * 1e6)
        assert event["tid"] == (2 if span.kernel else 1)


def test_progress_is_reported() -> None:
    told: list[tuple[str, int, int | None]] = []
    gpunn.profile(small_model(), backend="cpu", runs=5, progress=lambda *what: told.append(what))
    assert told == [("running", k, 3) for k in (1, 2, 3)] + [("tracing", k, 2) for k in (1, 2)]


def test_a_preference_by_its_name() -> None:
    found = gpunn.profile(small_model(), backend="cpu", preference="sustained-speed", runs=1, warmup=0)
    assert found.preference == "SUSTAINED_SPEED"
    with pytest.raises(gpunn.ModelError, match="preference must be"):
        gpunn.profile(small_model(), backend="cpu", preference="fastest")


@pytest.mark.parametrize(("runs", "warmup"), [(0, 1), (2, -1), (1.5, 1), (2, "3")])
def test_impossible_counts(runs: Any, warmup: Any) -> None:
    with pytest.raises(gpunn.ModelError, match=r"(runs|warmup) must be an integer of [01] or more"):
        gpunn.profile(small_model(), backend="cpu", runs=runs, warmup=warmup)


def test_an_activation_with_numbers_is_shown_by_its_name() -> None:
    model = Model()
    inputs = [model.input(f"x{k}", float32(*shape)) for k, shape in enumerate(((1, 2, 3), (3, 3), (1, 3)))]
    model.output(*model.add("recurrence", inputs, {"activation": ("hard_sigmoid", 0.2, 0.5)}))
    (row,) = gpunn.profile(model, backend="cpu").rows
    assert row.activation == "hard_sigmoid"


def test_wrong_inputs_are_refused() -> None:
    with pytest.raises(gpunn.ModelError, match="shape"):
        gpunn.profile(small_model(), [np.zeros((1, 2), np.float32)], backend="cpu")
    with pytest.raises(gpunn.ModelError, match="inputs must be a list of arrays, got 5"):
        gpunn.profile(small_model(), 5, backend="cpu")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "expected"),
    [
        ("depthwise_conv2d", [(1, 5, 4, 2), (1, 3, 2, 4)], {}, 2 * (3 * 3 * 4) * 6),
        ("fully_connected", [(3, 8), (5, 8)], {}, 2 * 15 * 8),
        ("batch_matmul", [(2, 7, 3), (2, 7, 4)], {"adj_a": True}, 2 * (2 * 3 * 4) * 7),
        ("average_pool2d", [(1, 4, 4, 3)], {"size": (2, 2), "stride": (2, 2)}, 2 * 2 * 3 * 4),
        ("mean", [(2, 9)], {"axes": (1,)}, 18),
        ("rnn", [(2, 3), (5, 3), (5, 5), (5,), (2, 5)], {}, 2 * 2 * 5 * (3 + 5)),
        ("gru_recurrence", [(2, 7, 12), (12, 4), (2, 4)], {}, 2 * (2 * 7) * (12 * 4)),
        ("tanh", [(5,)], {}, 5),
        ("transpose", [(2, 3)], {"perm": (1, 0)}, 0),
    ],
)
def test_counts_of_ops(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any], expected: int) -> None:
    model = Model(op)
    model.add(op, [model.input(f"x{k}", float32(*shape)) for k, shape in enumerate(shapes)], attrs)
    assert OPS[op].count_flops(model.operations[0].call()) == expected
