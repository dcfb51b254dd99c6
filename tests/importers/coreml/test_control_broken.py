"""Branches and loops of .mlmodel files that contradict themselves, or go too far."""

from __future__ import annotations

import pytest

import gpunn
from tests.importers.coreml.builder import Message, assign, below, layer, linear
from tests.importers.coreml.test_control import run, start


def refused(made: Message, error: type[gpunn.GpunnError], message: str) -> None:
    """Expect that the file is refused."""
    with pytest.raises(error, match=message):
        gpunn.load(made.SerializeToString())


def test_what_a_body_reads_must_be_there() -> None:
    made = start(k=0)
    layer(made, "softmaxND", ["k"], ["y"])
    loop = layer(made, "loop", ["x"], [])
    linear(loop.bodyNetwork, "nothing", "k2", 1)
    place = r"layer 3 'the loop', layer 0 'the activation', activation: input 'nothing'"
    refused(made, gpunn.FormatError, place)


@pytest.mark.parametrize("read", ["layer", "output"])
def test_what_one_branch_computes_is_not_there(read: str) -> None:
    made = start()
    branch = layer(made, "branch", ["x"], [])
    linear(branch.ifBranch, "x", "half" if read == "layer" else "y", 0.5)
    if read == "layer":
        linear(made, "half", "y", 1)
        refused(
            made, gpunn.FormatError, "input 'half' is computed in one branch of layer 0 'the branch' only"
        )
    else:
        refused(made, gpunn.FormatError, "no layer computes 'y'")


def test_what_a_round_only_may_compute_is_not_there() -> None:
    made = start()
    branch = layer(layer(made, "loop", ["x"], []).bodyNetwork, "branch", ["x"], [])
    linear(branch.ifBranch, "x", "y", 0.5)
    refused(made, gpunn.FormatError, "'y' is computed in one branch only")


def test_a_value_of_the_round_before_must_begin_somewhere() -> None:
    made = start()
    body = layer(made, "loop", ["x"], []).bodyNetwork
    linear(body, "y", "next", 2)
    layer(body, "copy", ["next"], ["y"])
    refused(made, gpunn.FormatError, "input 'y' is computed by no layer before")


def _condition_of_another_name(made: Message) -> None:
    loop = layer(made, "loop", [], [])
    loop.conditionVar = "stop"
    below(loop.conditionNetwork, "x", "go on", 4)


def _outputs(kind: str) -> None:
    def add(made: Message) -> None:
        layer(made, kind, ["x"], ["y"])

    return add


def _break_in_a_condition(made: Message) -> None:
    loop = layer(made, "loop", [], [])
    layer(loop.conditionNetwork, "loopBreak", [], [])


def _condition_of_many(made: Message) -> None:
    layer(made, "concatND", ["x", "x"], ["two"])
    branch = layer(made, "branch", ["two"], [])
    linear(branch.ifBranch, "x", "z")
    linear(branch.elseBranch, "x", "z")
    layer(made, "copy", ["z"], ["y"])


def _rounds_of_many(made: Message) -> None:
    layer(made, "concatND", ["x", "x"], ["two"])
    layer(made, "copy", ["x"], ["y"])
    assign(layer(made, "loop", ["two"], []).bodyNetwork, "y", "y", 2)


BROKEN = {
    "condition": (_condition_of_another_name, "loop: its condition does not compute 'stop'"),
    "outputs of a loop": (_outputs("loop"), "loop: expected at most 1 input and no outputs"),
    "outputs of a branch": (_outputs("branch"), "branch: expected 1 input and no outputs"),
    "break outside": (
        lambda made: layer(made, "loopBreak", [], []),
        "loopBreak: stands in no body of a loop",
    ),
    "break in a condition": (_break_in_a_condition, "condition, .*loopBreak: stands in no body of a loop"),
    "condition of many": (_condition_of_many, r"branch: the condition has shape \[2\]"),
    "rounds of many": (_rounds_of_many, r"loop: the number of rounds has shape \[2\]"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_control_flow_is_refused(name: str) -> None:
    change, message = BROKEN[name]
    made = start()
    change(made)
    refused(made, gpunn.FormatError, message)


def test_layers_in_bodies_are_refused_with_their_places() -> None:
    made = start()
    body = layer(made, "loop", ["x"], []).bodyNetwork
    layer(body, "activation", ["x"], ["a"])  # of no function
    branch = layer(body, "branch", ["x"], [])
    layer(branch.ifBranch, "custom", ["x"], ["b"]).className = "Mine"
    linear(made, "b", "y")
    refused(made, gpunn.UnsupportedError, "'the loop', layer 0 'the activation', activation")
    refused(made, gpunn.UnsupportedError, "'the loop', layer 1 'the branch', layer 0 'the custom', custom")


def nested(depth: int, kind: str = "loop") -> Message:
    """A specification with loops or branches in one another."""
    made = start(k=0)
    network = made
    for _ in range(depth):
        params = layer(network, kind, ["x"], [])
        network = params.bodyNetwork if kind == "loop" else params.ifBranch
    assign(network, "k", "k", beta=1)
    layer(made, "copy", ["k"], ["y"])
    return made


@pytest.mark.parametrize("kind", ["loop", "branch"])
def test_nesting_is_bounded(kind: str) -> None:
    assert run(nested(12, kind), "cpu", [1]) == [1]
    refused(nested(17, kind), gpunn.FormatError, "in one another more than 16 deep")


def test_bodies_that_would_be_read_too_often_are_refused() -> None:
    made = start(k=0)
    network = made
    for depth in range(12):  # each condition is read twice
        loop = layer(network, "loop", [], [])
        loop.conditionVar = f"go on {depth}"
        below(loop.conditionNetwork, "x", loop.conditionVar, 4)
        network = loop.conditionNetwork
    refused(made, gpunn.FormatError, r"its loops and branches stand for \d+ layers, at most 32768 are read")
