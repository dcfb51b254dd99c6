"""Branches and loops of .mlmodel files: what no conformance case has, on both backends."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import gpunn
from gpunn.importers.coreml.statements import Block, Effect
from tests.importers.coreml.builder import Message, assign, below, constant, layer, linear, model

N = np.ndarray


def start(shape: Sequence[int] = (1,), **names: float) -> Message:
    """A specification that has read "x", and constants by name that layers may change."""
    made = model(shape, exact=True)
    for name, value in names.items():
        constant(made, f"{name} first", [value])
        layer(made, "copy", [f"{name} first"], [name])
    return made


def run(made: Message, backend: str, *inputs: Sequence[float]) -> list[float]:
    """The output for inputs of one axis."""
    return give(made, backend, *(np.array(x, np.float32) for x in inputs)).tolist()


def give(made: Message, backend: str, *inputs: N) -> N:
    """The output for inputs."""
    with gpunn.load(made.SerializeToString()).compile(backend) as compiled:
        found = compiled(*inputs)
        np.testing.assert_array_equal(compiled(*inputs), found)  # nothing is left from the run before
    return found


def test_statements_keep_only_what_they_write() -> None:
    """A block of n statements with two names each holds n names of what follows, not n * n."""

    @dataclass(frozen=True)
    class Statement:
        effect: Effect

    names = [frozenset({f"t{k}"}) for k in range(51)]
    effects = [Effect(before, after) for before, after in itertools.pairwise(names)]
    block = Block.of([Statement(effect) for effect in effects])
    kept = [after for _, after in block.followed(names[-1])]
    assert kept == names[1:]


def test_loops_in_loops(backend: str) -> None:
    made = start(total=0, outer=0)
    loop = layer(made, "loop", [], [])
    loop.maxLoopIterations = 3
    assign(loop.bodyNetwork, "outer", "outer", beta=1)
    inner = layer(loop.bodyNetwork, "loop", ["outer"], [])  # 1, then 2, then 3 rounds
    layer(inner.bodyNetwork, "addBroadcastable", ["total", "x"], ["sum"])
    layer(inner.bodyNetwork, "copy", ["sum"], ["total"])
    layer(made, "copy", ["total"], ["y"])
    assert run(made, backend, [10]) == [60]


def test_break_ends_the_inner_loop_only(backend: str) -> None:
    made = start(total=0)
    outer = layer(made, "loop", [], [])
    outer.maxLoopIterations = 3
    inner = layer(outer.bodyNetwork, "loop", [], [])
    inner.maxLoopIterations = 100
    assign(inner.bodyNetwork, "total", "total", beta=1)
    below(inner.bodyNetwork, "total", "go on", 5)
    branch = layer(inner.bodyNetwork, "branch", ["go on"], [])
    layer(branch.ifBranch, "copy", ["total"], ["unused"])
    layer(branch.elseBranch, "loopBreak", [], [])
    assign(inner.bodyNetwork, "total", "total", beta=0.25)  # not after the break
    assign(outer.bodyNetwork, "total", "total", beta=10)  # after it
    layer(made, "copy", ["total"], ["y"])
    # 1.25, 2.5, 3.75, 5 (break, the last round without 0.25): 4.75 + 1 = 5.75 -> +10, then +1 +10 twice
    total = 0.0
    for _ in range(3):
        for _ in range(100):
            total += 1
            if total >= 5:
                break
            total += 0.25
        total += 10
    assert run(made, backend, [0]) == [total]


def test_continue_and_several_ways_out(backend: str) -> None:
    made = start(k=0, odd=0, small=0)
    constant(made, "two", [2])
    body = layer(made, "loop", ["x"], []).bodyNetwork
    assign(body, "k", "k", beta=1)
    below(body, "k", "first ones", 4)
    skip = layer(body, "branch", ["first ones"], [])
    assign(skip.ifBranch, "small", "small", beta=1)
    layer(skip.ifBranch, "loopContinue", [], [])
    layer(body, "greaterThan", ["k"], ["last ones"]).alpha = 8
    layer(layer(body, "branch", ["last ones"], []).ifBranch, "loopBreak", [], [])
    layer(body, "modBroadcastable", ["k", "two"], ["rest"])
    even = layer(body, "branch", ["rest"], [])
    assign(even.ifBranch, "odd", "odd", beta=1)
    layer(even.elseBranch, "loopContinue", [], [])
    assign(body, "odd", "odd", beta=100)
    layer(made, "concatND", ["k", "odd", "small"], ["y"])
    assert run(made, backend, [20]) == [9, 202, 3]  # odd: 5 and 7
    assert run(made, backend, [5]) == [5, 101, 3]
    assert run(made, backend, [0]) == [0, 0, 0]


def test_condition_and_number_of_rounds(backend: str) -> None:
    made = start(k=0)
    loop = layer(made, "loop", ["x"], [])
    loop.maxLoopIterations = 1  # the input counts
    loop.conditionVar = "go on"
    below(loop.conditionNetwork, "k", "go on", 4)
    assign(loop.bodyNetwork, "k", "k", beta=1)
    layer(made, "copy", ["k"], ["y"])
    assert [run(made, backend, [n]) for n in (-1, 0, 2, 2.9, 9)] == [[0], [0], [2], [2], [4]]


def test_the_condition_may_compute_for_the_body(backend: str) -> None:
    made = start(k=0)
    loop = layer(made, "loop", [], [])
    loop.conditionVar = "go on"
    assign(loop.conditionNetwork, "k", "k", beta=1)  # once more than there are rounds
    linear(loop.conditionNetwork, "k", "ten times", 10)
    below(loop.conditionNetwork, "k", "go on", 4)
    layer(loop.bodyNetwork, "copy", ["ten times"], ["last"])
    layer(made, "concatND", ["k", "ten times", "last"], ["y"])
    assert run(made, backend, [0]) == [4, 40, 30]


def test_break_in_a_loop_with_a_condition_leaves_the_condition_out(backend: str) -> None:
    made = start(k=0)
    loop = layer(made, "loop", [], [])
    loop.conditionVar = "go on"
    assign(loop.conditionNetwork, "k", "k", beta=1)
    below(loop.conditionNetwork, "k", "go on", 100)
    layer(loop.bodyNetwork, "greaterThan", ["k"], ["enough"]).alpha = 2
    layer(layer(loop.bodyNetwork, "branch", ["enough"], []).ifBranch, "loopBreak", [], [])
    layer(made, "copy", ["k"], ["y"])
    assert run(made, backend, [0]) == [3]


def test_a_break_without_a_branch(backend: str) -> None:
    made = start(k=0)
    body = layer(made, "loop", ["x"], []).bodyNetwork
    assign(body, "k", "k", beta=1)
    layer(body, "loopBreak", [], [])
    assign(body, "k", "k", beta=10)
    layer(made, "copy", ["k"], ["y"])
    assert [run(made, backend, [n]) for n in (0, 1, 5)] == [[0], [1], [1]]


def test_a_tensor_that_begins_in_a_loop(backend: str) -> None:
    """It is zeros without a round, and stays as it was in a round that ends before it."""
    made = start(k=0)
    body = layer(made, "loop", ["x"], []).bodyNetwork
    assign(body, "k", "k", beta=1)
    layer(body, "greaterThan", ["k"], ["late"]).alpha = 2
    layer(layer(body, "branch", ["late"], []).ifBranch, "loopContinue", [], [])
    linear(body, "k", "squares", 10)
    layer(made, "copy", ["squares"], ["y"])
    assert [run(made, backend, [n]) for n in (0, 1, 2, 7)] == [[0], [10], [20], [20]]


def test_a_branch_without_else_and_one_that_leaves_a_tensor(backend: str) -> None:
    made = start((3,))
    layer(made, "reduceSum", ["x"], ["sum"]).reduceAll = True
    layer(made, "copy", ["x"], ["z"])
    empty = layer(made, "branch", ["sum"], [])
    assign(empty.ifBranch, "z", "z", 2)
    layer(made, "copy", ["z"], ["y"])
    assert run(made, backend, [1, 2, 3]) == [2, 4, 6]
    assert run(made, backend, [1, -2, 1]) == [1, -2, 1]
    assert run(made, backend, [1e-7, 0, 0]) == [np.float32(1e-7), 0, 0]  # too little to be true


def test_branches_of_other_shapes(backend: str) -> None:
    made = start((4,))
    layer(made, "reduceSum", ["x"], ["sum"]).reduceAll = True
    branch = layer(made, "branch", ["sum"], [])
    layer(branch.ifBranch, "concatND", ["x", "x"], ["z"])
    linear(branch.elseBranch, "x", "z", 3)
    linear(made, "z", "y", 1, 1)
    assert run(made, backend, [1, 0, 0, 2]) == [2, 1, 1, 3, 2, 1, 1, 3]
    assert run(made, backend, [1, -1, 0, 0]) == [4, -2, 1, 1]


def test_shapes_that_grow_from_round_to_round(backend: str) -> None:
    made = start((2,))
    made.description.input.add(name="n").type.multiArrayType.shape.append(1)
    layer(made, "copy", ["x"], ["list"])
    body = layer(made, "loop", ["n"], []).bodyNetwork
    linear(body, "list", "doubled", 2)
    layer(body, "concatND", ["x", "doubled"], ["longer"])
    layer(body, "copy", ["longer"], ["list"])
    layer(made, "copy", ["list"], ["y"])
    assert run(made, backend, [1, 3], [0]) == [1, 3]
    assert run(made, backend, [1, 3], [2]) == [1, 3, 2, 6, 4, 12]


def test_control_flow_on_tensors_whose_shape_only_a_run_tells(backend: str) -> None:
    made = start((6,))
    made.description.input.add(name="shape").type.multiArrayType.shape.append(2)
    layer(made, "reshapeDynamic", ["x", "shape"], ["table"])
    layer(made, "reduceSum", ["table"], ["sums"]).axes.append(0)
    layer(made, "copy", ["sums"], ["z"])
    loop = layer(made, "loop", [], [])
    loop.maxLoopIterations = 5
    layer(loop.bodyNetwork, "reduceMax", ["z"], ["most"]).reduceAll = True
    below(loop.bodyNetwork, "most", "go on", 40)
    branch = layer(loop.bodyNetwork, "branch", ["go on"], [])
    assign(branch.ifBranch, "z", "z", 2)
    layer(branch.elseBranch, "loopBreak", [], [])
    layer(made, "copy", ["z"], ["y"])
    loaded = gpunn.load(made.SerializeToString())
    assert [entry.op for entry in loaded.pending][-3:] == ["loop", "copy", "output"]
    x = [0, 1, 2, 3, 4, 5]
    assert run(made, backend, x, [2, 3]) == [24, 40, 56]
    assert run(made, backend, x, [6, 1]) == [60]


def test_inputs_of_other_shapes(backend: str) -> None:
    made = start((2,))
    body = layer(made, "loop", [], [])
    body.maxLoopIterations = 3
    layer(made, "copy", ["x"], ["z"])
    made.neuralNetwork.layers.append(made.neuralNetwork.layers[0])
    del made.neuralNetwork.layers[0]
    loop = made.neuralNetwork.layers[1].loop
    assign(loop.bodyNetwork, "z", "z", 2)
    layer(made, "copy", ["z"], ["y"])
    with gpunn.load(made.SerializeToString()).compile(backend, shapes={"x": (2, 3)}) as compiled:
        assert compiled(np.ones((2, 3), np.float32)).tolist() == [[8] * 3] * 2


def test_a_known_condition_leaves_no_branch() -> None:
    made = start(yes=1)
    branch = layer(made, "branch", ["yes"], [])
    linear(branch.ifBranch, "x", "y", 2)
    linear(branch.elseBranch, "x", "y", 3)
    loaded = gpunn.load(made.SerializeToString())
    assert not [o for o in loaded.operations if o.op == "if_else"]
    assert run(made, "cpu", [4]) == [8]


def test_a_loop_that_cannot_run_is_left_out() -> None:
    made = start(k=7)
    assign(layer(made, "loop", [], []).bodyNetwork, "k", "k", beta=1)
    layer(made, "copy", ["k"], ["y"])
    assert run(made, "cpu", [0]) == [7]
