"""Guards of computed values: the device notes the first wrong one, and the run is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.types import Array, DType, TensorType, float32
from tests.compilation.test_state import host_only
from tests.ops.harness import random, type_of

INT = TensorType(DType.INT32, (3,))


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


def computed(op: str, inputs: list[Array], attrs: Mapping[str, Any], guarded: tuple[int, ...]) -> Model:
    """A model of one operation; operations before it compute its inputs `guarded`."""
    model = Model(op)
    operands = [model.input(f"input_{k}", type_of(value)) for k, value in enumerate(inputs)]
    for k in guarded:
        zero = model.constant(f"zero_{k}", np.zeros(1, inputs[k].dtype))
        shape = {"shape": inputs[k].shape}
        (operands[k],) = model.add("reshape", model.add("add", [operands[k], zero]), shape)
    model.output(*model.add(op, operands, attrs))
    return model


# op, inputs, attributes, which inputs are guarded, wrong values: (input, place, value, what is said).
CASES: list[tuple[str, list[Array], dict[str, Any], list[tuple[int, Any, int, str]]]] = [
    (
        "gather",
        [random(0, 2, 5, 4), ints([0, 4], [2, 1])],
        {"axis": 1},
        [(1, (1, 0), 5, "indices must be in 0 ... 4, got 5"), (1, (0, 0), -1, "got -1")],
    ),
    (
        "gather",
        [random(0, 5, 4), np.array([4, 0], np.int64)],
        {},
        [(1, 1, 2**40, "in 0 ... 4, got 1099511627776"), (1, 0, -(2**40), "got -1099511627776")],
    ),
    (
        "gather_nd",
        [random(0, 3, 5, 2), ints([0, 4], [2, 1])],
        {},
        [
            (1, (1, 0), 3, "indices must be in 0 ... 2, got 3"),
            (1, (1, 1), 5, "indices must be in 0 ... 4, got 5"),
        ],
    ),
    (
        "embedding_lookup",
        [ints(3, 0), random(0, 4, 2)],
        {},
        [(0, 1, 4, "indices must be in 0 ... 3, got 4")],
    ),
    (
        "concat_embeddings",
        [ints([0, 2], [1, 0]), random(0, 2, 4), random(1, 3, 4)],
        {"columns": (1, 1)},
        [(0, (1, 0), 2, "ids must be in 0 ... 1, got 2"), (0, (1, 1), 3, "ids must be in 0 ... 2, got 3")],
    ),
    (
        "scatter_nd",
        [ints([0, 2], [1, 0]), random(0, 2)],
        {"shape": (2, 3)},
        [(0, (0, 1), 3, "in 0 ... 2, got 3"), (0, (0, 0), -(2**31), "in 0 ... 1, got -2147483648")],
    ),
    (
        "sparse_to_dense",
        [ints(4, 0), random(0, 2), random(1)],
        {"shape": (5,)},
        [(0, 0, 2**31 - 1, "in 0 ... 4, got 2147483647")],
    ),
    (
        "segment_sum",
        [random(0, 3, 4), ints(0, -1, 1)],
        {"segments": 2, "drops": True},
        [(1, 2, 2, "ids must be at most 1, got 2")],
    ),
    ("segment_max", [random(0, 3), ints(0, 1, 1)], {"segments": 2}, [(1, 0, -1, "in 0 ... 1, got -1")]),
    (
        "embedding_lookup_sparse",
        [ints(3, 0), ints([0, 7], [1, -7]), random(0, 2), random(1, 4, 2)],
        {"shape": (2, 2)},
        [(0, 1, 4, "ids must be in 0 ... 3, got 4"), (1, (1, 0), 2, "indices must be in 0 ... 1, got 2")],
    ),
    (
        "reverse_sequence",
        [random(0, 2, 3), ints(3, 0)],
        {"axis": 1},
        [(1, 1, 4, "lengths must be in 0 ... 3, got 4")],
    ),
]


@pytest.mark.parametrize(("op", "inputs", "attrs", "wrong"), CASES, ids=[case[0] for case in CASES])
def test_computed_values_are_refused_with_the_same_message(
    op: str, inputs: list[Array], attrs: dict[str, Any], wrong: list[tuple[int, Any, int, str]], backend: str
) -> None:
    model = computed(op, inputs, attrs, tuple(dict.fromkeys(k for k, *_ in wrong)))
    with model.compile(backend=backend) as compiled, model.compile(backend="cpu") as host:
        assert {p.backend for p in compiled.placement} <= {backend, "alias"}
        for k, place, value, message in wrong:
            given = [v.copy() for v in inputs]
            given[k][place] = value
            with pytest.raises(ModelError, match=f"{op}: .*{re.escape(message)}"):
                compiled(*given)
            np.testing.assert_allclose(compiled(*inputs), host(*inputs), rtol=1e-6)


def test_16_bit_indices_and_an_error_at_a_large_index(backend: str) -> None:
    model = Model("short")
    (chosen,) = model.add("cast", [model.input("x", TensorType(DType.INT32, (50_000,)))], {"dtype": "int16"})
    model.output(*model.add("gather", [model.constant("table", random(0, 5)), chosen]))
    with model.compile(backend=backend) as compiled:
        assert {p.backend for p in compiled.placement} == {backend}
        x = np.zeros(50_000, np.int32)
        assert (compiled(x) == random(0, 5)[0]).all()
        x[40_000] = 5
        with pytest.raises(ModelError, match=r"in 0 \.\.\. 4, got 5"):
            compiled(x)


def picking(*, count: int = 3, rows: int = 5) -> Model:
    """A model that gathers rows of a table by indices + 1, and doubles them."""
    model = Model("picking")
    x = model.input("x", TensorType(DType.INT32, (count,)))
    (chosen,) = model.add("add", [x, model.constant("one", ints(1))])
    (found,) = model.add("gather", [model.constant("table", random(0, rows, 4)), chosen])
    model.output(*model.add("add", [found, found]))
    return model


def test_one_submission_checks_and_names_the_first_wrong_value(gpu: str) -> None:
    with picking(count=2000).compile(backend="webgpu") as compiled:
        good = np.arange(2000, dtype=np.int32) % 5 - 1
        np.testing.assert_array_equal(compiled(good), 2 * random(0, 5, 4)[good + 1])
        assert (compiled.stats.submits, compiled.stats.dispatches) == (1, 3)
        bad = good.copy()
        bad[[700, 701, 1999, 956]] = 70, 80, 90, 60
        for _ in range(2):
            with pytest.raises(ModelError, match=r"in 0 \.\.\. 4, got 71"):
                compiled(bad)


def test_an_empty_table_refuses_every_index(backend: str) -> None:
    model = Model("nothing")
    x = model.input("x", INT)
    model.output(*model.add("gather", [model.input("table", float32(0, 4)), *model.add("neg", [x])]))
    with (
        model.compile(backend=backend) as compiled,
        pytest.raises(ModelError, match=r"in 0 \.\.\. -1, got -7"),
    ):
        compiled(ints(7, 0, 1), np.zeros((0, 4), np.float32))


def test_an_empty_list_of_indices_is_allowed(backend: str) -> None:
    with picking(count=0).compile(backend=backend) as compiled:
        assert compiled(ints()).shape == (0, 4)


def test_runs_in_flight_are_checked_one_by_one(backend: str) -> None:
    model = picking()
    frames = [ints(0, k % 6, 1) - 1 for k in range(20)]
    with model.compile(backend=backend, preference=gpunn.Preference.SUSTAINED_SPEED) as compiled:
        events = [compiled.submit(frame) for frame in frames]
        for frame, event in zip(frames, events, strict=True):
            if (frame == 4).any():
                with pytest.raises(ModelError, match="got 5"):
                    event.result()
            else:
                np.testing.assert_array_equal(event.result(), 2 * random(0, 5, 4)[frame + 1])
        answers = compiled.stream(frames[:6])
        for frame in frames[:5]:
            np.testing.assert_array_equal(next(answers), 2 * random(0, 5, 4)[frame + 1])
        with pytest.raises(ModelError, match="got 5"):
            next(answers)


def test_the_first_operation_that_refuses_is_named(backend: str) -> None:
    model = Model("two")
    x = model.input("x", INT)
    (chosen,) = model.add("neg", [x])
    found = [model.add("gather", [model.constant(f"table_{n}", random(0, n, 4)), chosen])[0] for n in (5, 3)]
    model.output(*model.add("add", found))
    with model.compile(backend=backend) as compiled:
        for wrong, most in ((-3, 2), (-5, 4)):
            with pytest.raises(ModelError, match=rf"in 0 \.\.\. {most}, got {-wrong}"):
                compiled(ints(0, wrong, 0))


def test_host_operations_before_and_after_change_nothing(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("between")
    (before,) = model.add("neg", [model.input("x", INT)])
    (chosen,) = model.add("abs", [before])
    (found,) = model.add("gather", [model.constant("table", random(0, 3, 4)), chosen])
    model.output(*model.add("tanh", [found]))
    monkeypatch.setattr("gpunn.backends.webgpu.lower.lower", host_only("neg", "tanh"))
    with model.compile(backend="webgpu") as compiled:
        assert [p.backend for p in compiled.placement] == ["cpu", "webgpu", "webgpu", "cpu"]
        for _ in range(2):
            with pytest.raises(ModelError, match="got 3"):
                compiled(ints(0, 3, 1))
            np.testing.assert_allclose(
                compiled(ints(0, -2, 1)), np.tanh(random(0, 3, 4)[[0, 2, 1]]), rtol=1e-5
            )


def test_a_run_that_is_refused_leaves_the_state_as_it_was(backend: str) -> None:
    """The state is the sum of the indices of all runs so far."""
    model = Model("state")
    state, x = model.variable("state", INT), model.input("x", INT)
    (following,) = model.add("add", [state, x])
    model.update(state, following)
    model.output(*model.add("gather", [model.constant("table", random(0, 5, 2)), following]))
    model.output(*model.add("gather", [model.constant("other", random(1, 5, 2)), state]))
    with model.compile(backend=backend) as compiled:
        for step, expected in ((1, 1), (2, 3), (4, None), (1, 4), (1, None)):
            event = compiled.submit if expected is None else compiled
            if expected is None:
                with pytest.raises(ModelError, match="in 0"):
                    event(ints(step, 0, step)).result()
            else:
                found = event(ints(step, 0, step))
                np.testing.assert_array_equal(found[0], random(0, 5, 2)[[expected, 0, expected]])
                before = expected - step
                np.testing.assert_array_equal(found[1], random(1, 5, 2)[[before, 0, before]])


def test_bodies_refuse_computed_values(backend: str) -> None:
    condition, body, model = Model("condition"), Model("body"), Model()
    (most,) = condition.add("reduce_max", [condition.input("i", INT)], {"axes": (0,)})
    condition.input("sum", float32(3))
    condition.output(*condition.add("less", [most, condition.constant("end", ints(9)[0])]))
    i, total = body.input("i", INT), body.input("sum", float32(3))
    (following,) = body.add("add", [i, body.constant("step", ints(2))])
    (found,) = body.add("gather", [body.constant("table", np.arange(8, dtype=np.float32)), following])
    body.output(following)
    body.output(*body.add("add", [total, found]))
    attrs = {"condition": condition, "body": body}
    starts = [model.input("i", INT), model.input("sum", float32(3))]
    for result in model.add("while_loop", starts, attrs):
        model.output(result)
    with model.compile(backend=backend) as compiled:
        for _ in range(2):
            with pytest.raises(ModelError, match=r"gather: indices must be in 0 \.\.\. 7, got 9"):
                compiled(ints(0, 3, 1), np.zeros(3, np.float32))


def test_a_trace_and_a_comparison_refuse_too(gpu: str) -> None:
    model = picking()
    with model.compile(backend="webgpu") as compiled:
        spans = compiled.trace(ints(0, 1, 2)).spans
        assert [s.kernel.body for s in spans if s.kernel is not None] == [
            "binary_flat",
            "check_ranges",
            "gather_rows",
        ]
        with pytest.raises(ModelError, match="got 5"):
            compiled.trace(ints(0, 4, 2))
    assert gpunn.compare(model, [ints(0, 1, 2)], backends=["webgpu", "cpu"])
    with pytest.raises(ModelError, match="got 5"):
        gpunn.compare(model, [ints(0, 4, 2)], backends=["webgpu", "cpu"])
