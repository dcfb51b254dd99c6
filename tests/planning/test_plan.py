"""Plans without a device: segments, crossings, lifetimes on the device, buffers."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from gpunn.graph.operation import Operand
from gpunn.kernel import Kernel, Read, Scratch, Write
from gpunn.model import Model
from gpunn.planning.arenas import GROUPS, assign, grouped
from gpunn.planning.liveness import Interval, device_intervals
from gpunn.planning.partition import ALIAS, DEVICE, HOST, partition
from gpunn.planning.plan import make_plan
from gpunn.types import float32

KERNEL = Kernel(body="unary", threads=(1, 1, 1), workgroup=(1, 1, 1), reads=())


def chain(*ops: str) -> Model:
    """A model of ops in a row on [2, 3]."""
    model = Model("chain")
    value = model.input("x", float32(2, 3))
    for name in ops:
        attrs = {"shape": (6,) if value.type.rank == 2 else (2, 3)} if name == "reshape" else {}
        (value,) = model.add(name, [value], attrs)
    model.output(value)
    return model


def planned(model: Model, *host: str):
    """Return the plan of a model with the named ops forced to the host."""
    placements = partition(model, lambda o: f"{o.op} is forced to the host" if o.op in host else (KERNEL,))
    return make_plan(model, placements)


def names(operands: tuple[Operand, ...]) -> list[str]:
    return [o.name for o in operands]


def test_a_model_on_the_device_is_one_segment_with_an_upload_and_a_read_back() -> None:
    plan = planned(chain("relu", "tanh"))
    (segment,) = plan.segments
    assert segment.backend == DEVICE
    assert names(segment.uploads) == ["x"]
    assert names(segment.readbacks) == ["tanh_1:0"]


def test_results_that_stay_on_the_device_are_not_read_back_and_live_to_the_end() -> None:
    model = chain("relu", "reshape", "tanh", "relu6")
    x, (flat,), (last,) = model.inputs[0], model.operations[1].outputs, model.operations[3].outputs
    model.output(x, flat, model.constant("c", np.zeros(1, np.float32)))
    placements = partition(model, lambda o: "forced" if o.op == "relu6" else (KERNEL,))
    plan = make_plan(model, placements, model.outputs)
    assert plan.held == (x, flat), "the host has the last result, and the constant"
    assert names(plan.segments[0].readbacks) == ["tanh_2:0"]
    lives = device_intervals(plan, lambda o: 1)
    assert [lives[plan.root(o)].last for o in (x, flat)] == [1, 1] and last not in lives


def test_a_host_operation_makes_three_segments_and_only_its_operands_cross() -> None:
    plan = planned(chain("relu", "tanh", "relu6"), "tanh")
    first, middle, last = plan.segments
    assert [s.backend for s in plan.segments] == [DEVICE, HOST, DEVICE]
    assert names(first.readbacks) == ["relu_0:0"]
    assert (middle.uploads, middle.readbacks) == ((), ())
    assert names(last.uploads) == ["tanh_1:0"]
    assert names(last.readbacks) == ["relu6_2:0"]


def test_a_tensor_of_two_device_segments_is_not_uploaded_again() -> None:
    model = Model("skip")
    x = model.input("x", float32(4))
    (a,) = model.add("relu", [x], names=["a"])
    (b,) = model.add("tanh", [a], names=["b"])
    (c,) = model.add("add", [a, b], names=["c"])
    model.output(c)
    plan = planned(model, "tanh")
    assert names(plan.segments[2].uploads) == ["b"]


@pytest.mark.parametrize(
    "ops", [("reshape", "relu"), ("relu", "reshape"), ("relu", "reshape", "tanh", "reshape")]
)
def test_aliases_share_their_root_and_make_no_segment(ops: tuple[str, ...]) -> None:
    model = chain(*ops)
    plan = planned(model)
    assert [s.backend for s in plan.segments] == [DEVICE]
    for operation in model.operations:
        if operation.op == "reshape":
            assert plan.root(operation.outputs[0]) is plan.root(operation.inputs[0])
    assert all(
        o.op != "reshape" for p in plan.segments[0].placements if p.backend != ALIAS for o in [p.operation]
    )


def test_a_model_of_aliases_alone_runs_on_the_host() -> None:
    assert [s.backend for s in planned(chain("reshape")).segments] == [HOST]


def test_live_tensors_never_overlap() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        model = Model("random")
        values = [model.input("x", float32(int(rng.integers(1, 50)), 8))]
        for _ in range(12):
            a, b = (values[i] for i in rng.integers(0, len(values), 2))
            values.extend(model.add("add", [a, b]))
        model.output(values[-1])
        spans = list(device_intervals(planned(model), lambda o: o.type.nbytes).values())
        arenas = assign(spans, 32, int(rng.choice([4000, 2**31])))
        assert arenas.peak_live_bytes <= sum(arenas.sizes)
        for i, (a, slot) in enumerate(zip(spans, arenas.slots, strict=True)):
            assert slot.offset % 32 == 0
            assert slot.offset + a.nbytes <= arenas.sizes[slot.arena]
            for b, other in zip(spans[:i], arenas.slots[:i], strict=True):
                apart = slot.offset + a.nbytes <= other.offset or other.offset + b.nbytes <= slot.offset
                together = a.first <= b.last and b.first <= a.last
                assert slot.arena != other.arena or apart or not together


def test_a_chain_needs_no_more_than_its_two_largest_neighbours() -> None:
    spans = [Interval(n, i, i + 1) for i, n in enumerate([160, 320, 96, 192, 64])]
    arenas = assign(spans, 32, 2**31)
    assert arenas.sizes == (160 + 320,)
    assert arenas.peak_live_bytes == 160 + 320


def test_tensors_that_live_long_come_first_where_that_leaves_no_gaps() -> None:
    """A residual network: each tensor but the last of a block lies beside what two operations later read."""
    spans = [
        Interval(96, 0, 2),
        Interval(96, 1, 2),
        Interval(96, 2, 6),
        Interval(96, 4, 5),
        Interval(112, 5, 8),
    ]
    arenas = assign(spans, 16, 2**31)
    assert arenas.sizes == (arenas.peak_live_bytes,) == (96 + 96 + 112,)


def test_many_tensors_that_are_alive_together_are_placed_in_short_time() -> None:
    spans = [Interval(32, k, 5000) for k in range(5000)]
    start = time.process_time()
    arenas = assign(spans, 32, 2**31)
    assert time.process_time() - start < 1.5  # it takes a tenth of that
    assert sorted(slot.offset for slot in arenas.slots) == [*range(0, 32 * 5000, 32)]


def test_a_full_arena_is_followed_by_a_second_one() -> None:
    arenas = assign([Interval(64, 0, 0), Interval(64, 0, 0), Interval(32, 0, 0)], 32, 100)
    assert arenas.sizes == (96, 64)


def test_partners_are_in_different_groups_as_long_as_there_are_some() -> None:
    assert grouped(5, [(0, 1), (1, 2), (3, 2), (3, 4)]) == [0, 1, 0, 1, 0]
    residual = [(0, 1), (1, 2), (2, 3), (1, 3)]  # the last one reads what the first two have computed
    assert grouped(4, residual) == [0, 1, 0, 2]
    assert grouped(GROUPS + 1, [(k, GROUPS) for k in range(GROUPS)]) == [0] * GROUPS + [1]
    all_of_all = [(a, b) for b in range(GROUPS + 1) for a in range(b)]
    assert grouped(GROUPS + 1, all_of_all) == [*range(GROUPS), 0]


def test_groups_share_no_arena() -> None:
    spans, groups = [Interval(n, i, i + 1) for i, n in enumerate([160, 320, 96, 192, 64])], [0, 1, 0, 1, 0]
    arenas = assign(spans, 32, 2**31, groups)
    assert arenas.sizes in ((320, 160), (160, 320))
    places = {(slot.arena, group) for slot, group in zip(arenas.slots, groups, strict=True)}
    assert len(places) == 2 and arenas.peak_live_bytes == 160 + 320
    full = assign([Interval(160, 0, 0)] * 4, 32, 200, groups[:4])
    assert sorted(slot.arena for slot in full.slots) == [0, 1, 2, 3]


def stateful() -> tuple[Model, Operand, Operand]:
    """Return a model whose first operation reads its state, the variable, and the next value of it."""
    model = Model("stateful")
    x, state = model.input("x", float32(64)), model.variable("state", float32(64))
    (following,) = model.add("add", [x, state], names=["next"])
    y = following
    for name in ("relu", "tanh", "neg"):
        (y,) = model.add(name, [y])
    model.update(state, following)
    model.output(y)
    return model, state, following


def test_state_on_the_device_never_crosses_and_its_next_value_lives_to_the_end() -> None:
    model, state, following = stateful()
    plan = planned(model)
    (segment,) = plan.segments
    assert (names(segment.uploads), names(segment.readbacks)) == (["x"], ["neg_3:0"])
    assert plan.device_updates == {state: following}
    assert plan.host_updates == {}
    intervals = device_intervals(plan, lambda o: o.type.nbytes)
    assert state not in intervals
    assert (intervals[following].first, intervals[following].last) == (0, 3)


def test_scratch_lives_for_the_step_of_its_operation() -> None:
    scratch = Scratch(float32(64))
    kernels = (
        replace(KERNEL, writes=(Write("z", scratch),)),
        replace(KERNEL, reads=(Read("z", scratch),)),
    )
    model = chain("relu", "tanh", "neg")
    placements = partition(model, lambda o: kernels if o.op == "tanh" else (KERNEL,))
    intervals = device_intervals(make_plan(model, placements), lambda o: o.type.nbytes)
    assert intervals[scratch] == Interval(256, 1, 1)
    assert len(intervals) == 5


def test_state_that_a_host_operation_touches_stays_on_the_host() -> None:
    model, state, following = stateful()
    plan = planned(model, "add")
    assert (plan.resident, plan.device_updates, plan.host_updates) == ((), {}, {state: following})
    (down,) = model.add("tanh", [state])
    model.output(down)
    plan = planned(model, "tanh")
    assert plan.resident == ()
    assert names(plan.segments[0].uploads) == ["x", "state"]
    assert "next" in names(plan.segments[0].readbacks)
