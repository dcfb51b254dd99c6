"""Random networks with branches and loops, against an interpreter of their layers."""

from __future__ import annotations

import random

import numpy as np
import pytest

import gpunn
from tests.importers.coreml.builder import Message, assign, below, constant, layer, model

NAMES = ("a", "b", "c")
MAX_ROUNDS = 3


class LoopEndedError(Exception):
    """The loop ends."""


class RoundEndedError(Exception):
    """The round ends."""


def interpret(network: Message, values: dict[str, float]) -> None:
    """Run layers one after the other, as the format's document says, on tensors of one number."""
    for entry in network.layers:
        kind = entry.WhichOneof("layer")
        params, inputs = getattr(entry, kind), [values[name] for name in entry.input]
        if kind == "loopBreak":
            raise LoopEndedError
        if kind == "loopContinue":
            raise RoundEndedError
        if kind == "branch":
            interpret(params.ifBranch if inputs[0] else params.elseBranch, values)
        elif kind == "loop":
            repeat(params, inputs[0] if inputs else params.maxLoopIterations, values)
        elif kind == "activation":
            values[entry.output[0]] = params.linear.alpha * inputs[0] + params.linear.beta
        elif kind == "maxBroadcastable":
            values[entry.output[0]] = max(inputs)
        elif kind == "lessThan":
            values[entry.output[0]] = float(inputs[0] < params.alpha)
        elif kind == "copy":
            values[entry.output[0]] = inputs[0]
        else:
            values[entry.output[0]] = np.frombuffer(params.data.floatValue[0], "<f4")[0]


def repeat(loop: Message, most: float, values: dict[str, float]) -> None:
    """Run a loop."""
    done = 0
    interpret(loop.conditionNetwork, values)
    while done < most and (not loop.conditionNetwork.layers or values[loop.conditionVar]):
        try:
            interpret(loop.bodyNetwork, values)
        except RoundEndedError:
            pass
        except LoopEndedError:
            break
        done += 1
        interpret(loop.conditionNetwork, values)


class Maker:
    """Makes a network of whole numbers, which no order of computation rounds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def model(self) -> Message:
        """A specification on the inputs NAMES, which gives what they become."""
        made = model((1,), exact=True)
        made.description.input[0].name = "in a"
        for name in NAMES[1:]:
            made.description.input.add(name=f"in {name}").type.multiArrayType.shape.append(1)
        for name in NAMES:
            layer(made, "copy", [f"in {name}"], [name])
        self.fill(made, 3, False, 4)
        layer(made, "concatND", list(NAMES), ["y"])
        return made

    def fill(self, network: Message, depth: int, inside: bool, most: int = 3) -> None:
        """Add some layers; `inside` of a loop some may end a round."""
        for _ in range(self.random.randint(1, most)):
            choice = self.random.random()
            if depth and choice < 0.3:
                self.branch(network, depth, inside)
            elif depth and choice < 0.55:
                self.loop(network, depth)
            elif inside and choice < 0.65:
                self.exit(network)
            else:
                self.assign(network)

    def fresh(self, what: str) -> str:
        """A name that is used once."""
        self.count += 1
        return f"{what} {self.count}"

    def assign(self, network: Message) -> None:
        """Give a tensor a new value."""
        target, source, other = (self.random.choice(NAMES) for _ in range(3))
        name = self.fresh("next")
        if self.random.random() < 0.3:
            layer(network, "maxBroadcastable", [source, other], [name])
        elif self.random.random() < 0.1:
            constant(network, name, [self.random.randint(-3, 3)])
        else:
            params = layer(network, "activation", [source], [name]).linear
            params.alpha, params.beta = self.random.choice((1, -1)), self.random.randint(-2, 3)
        layer(network, "copy", [name], [target])

    def test(self, network: Message) -> str:
        """Add a comparison, and return its name."""
        name = self.fresh("test")
        below(network, self.random.choice(NAMES), name, self.random.randint(-3, 4))
        return name

    def branch(self, network: Message, depth: int, inside: bool) -> None:
        params = layer(network, "branch", [self.test(network)], [])
        self.fill(params.ifBranch, depth - 1, inside)
        if self.random.random() < 0.6:
            self.fill(params.elseBranch, depth - 1, inside)

    def exit(self, network: Message) -> None:
        """End a round, mostly if a test holds."""
        kind = self.random.choice(("loopBreak", "loopContinue"))
        if self.random.random() < 0.9:
            network = layer(network, "branch", [self.test(network)], []).ifBranch
        layer(network, kind, [], [])

    def loop(self, network: Message, depth: int) -> None:
        by_input = self.random.random() < 0.3
        if by_input:
            count = self.fresh("count")
            constant(network, count, [self.random.randint(0, MAX_ROUNDS)])
        params = layer(network, "loop", [count] if by_input else [], [])
        params.maxLoopIterations = self.random.randint(1, MAX_ROUNDS)
        if self.random.random() < 0.4:
            if self.random.random() < 0.5:
                assign(params.conditionNetwork, self.random.choice(NAMES), self.random.choice(NAMES), 1, 1)
            params.conditionVar = self.test(params.conditionNetwork)
        self.fill(params.bodyNetwork, depth - 1, True)


def check(seed: int, backend: str) -> None:
    """Compare a network on several inputs."""
    made = Maker(seed).model()
    random_ = random.Random(seed)
    with gpunn.load(made.SerializeToString()).compile(backend) as compiled:
        for _ in range(3):
            numbers = [float(random_.randint(-4, 4)) for _ in NAMES]
            values = {f"in {name}": number for name, number in zip(NAMES, numbers, strict=True)}
            last = made.neuralNetwork.layers.pop()  # which puts the outputs together
            interpret(made.neuralNetwork, values)
            made.neuralNetwork.layers.append(last)
            got = compiled(*(np.array([n], np.float32) for n in numbers))
            assert got.tolist() == [values[name] for name in NAMES], (seed, numbers)


@pytest.mark.parametrize("part", range(6))
def test_random_networks(part: int) -> None:
    for seed in range(part * 12, part * 12 + 12):
        check(seed, "cpu")


@pytest.mark.parametrize("seed", range(8))
def test_random_networks_on_the_gpu(seed: int, gpu: str) -> None:
    check(1000 + seed, gpu)
