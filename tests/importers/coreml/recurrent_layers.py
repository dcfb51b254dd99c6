"""Small files with one recurrent layer, and the equations of the format's document, written out in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import gpunn
from gpunn.types import Array
from tests.importers.coreml.builder import Message, floats, layer, model

STEPS, BATCH, DEPTH, UNITS = 4, 2, 3, 5
RNN = ("",)
GRU = ("updateGate", "resetGate", "outputGate")
LSTM = ("inputGate", "forgetGate", "blockInput", "outputGate")
PEEPHOLES = ("inputGate", "forgetGate", "outputGate")
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "linear": lambda v: v,
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "tanh": np.tanh,
    "ReLU": lambda v: np.maximum(v, 0),
    "sigmoidHard": lambda v: np.clip(0.2 * v + 0.5, 0, 1),
}
Weights = Mapping[str, Array]


def weights_for(kind: str, gates: Sequence[str], seed: int = 0) -> dict[str, Array]:
    """Random weights by the names of their fields, for a layer type."""
    random = np.random.default_rng(seed)
    names: dict[str, tuple[int, ...]] = {}
    for gate in gates:
        names[f"{gate}WeightMatrix"] = (UNITS, DEPTH)
        names[f"{gate}RecursionMatrix"] = (UNITS, UNITS)
        names[f"{gate}BiasVector"] = (UNITS,)
    if kind.endswith("LSTM"):
        names |= {f"{gate}PeepholeVector": (UNITS,) for gate in PEEPHOLES}
    fields = {name[:1].lower() + name[1:]: shape for name, shape in names.items()}
    return {k: random.uniform(-0.5, 0.5, shape).astype(np.float32) for k, shape in fields.items()}


def store(message: Message, weights: Weights) -> None:
    for name, values in weights.items():
        getattr(message, name).floatValue.append(floats(values))


def activate(messages: Any, *kinds: str) -> None:
    for kind in kinds:
        getattr(messages.add(), kind).SetInParent()


def sizes(params: Message) -> Message:
    """The parameters, with the sizes that all layers here have."""
    params.inputVectorSize, params.outputVectorSize = DEPTH, UNITS
    return params


def specification(states: int, outputs: Sequence[str]) -> Message:
    """A specification with a sequence "x" and states "s1" ..., of five axes, and these outputs."""
    made = model((STEPS, BATCH, DEPTH, 1, 1), exact=True)
    for number in range(states):
        given = made.description.input.add(name=f"s{number + 1}").type.multiArrayType
        given.shape.extend((1, BATCH, UNITS, 1, 1))
        given.dataType = 65568
    for name in outputs[1:]:
        made.description.output.add(name=name).type.multiArrayType.dataType = 65568
    return made


def recurrent(kind: str, states: int = 0, outputs: Sequence[str] = ("y",)) -> tuple[Message, Message]:
    """A specification with one layer of the type, and the layer's parameters."""
    made = specification(states, outputs)
    inputs = ["x", *(f"s{k + 1}" for k in range(states))]
    return made, sizes(layer(made, kind, inputs, outputs))


def answers(made: Message, inputs: Mapping[str, Array], backend: str) -> dict[str, Array]:
    with gpunn.load(made.SerializeToString()).compile(backend) as compiled:
        return dict(compiled.run(dict(inputs)))


def given(states: int = 0, seed: int = 5) -> dict[str, Array]:
    """A sequence and states for specification()."""
    random = np.random.default_rng(seed)
    shapes = {"x": (STEPS, BATCH, DEPTH, 1, 1)}
    shapes |= {f"s{k + 1}": (1, BATCH, UNITS, 1, 1) for k in range(states)}
    return {k: random.uniform(-1, 1, shape).astype(np.float32) for k, shape in shapes.items()}


def plain(value: Array) -> Array:
    """A tensor of five axes without the last two, in float64; states without the first as well."""
    found = value.astype(np.float64)[..., 0, 0]
    return found[0] if len(found) == 1 else found


def steps_of(inputs: Mapping[str, Array], reverse: bool) -> Array:
    return plain(inputs["x"])[:: -1 if reverse else 1]


def state_of(inputs: Mapping[str, Array], number: int) -> Array:
    name = f"s{number}"
    return plain(inputs[name]) if name in inputs else np.zeros((BATCH, UNITS))


def affine(weights: Weights, gate: str, x: Array, h: Array, bias: bool, extra: Array | float = 0.0) -> Array:
    """clip(W x + R h + b + extra), by the names of a gate's fields."""
    prefix = (f"{gate}{{}}" if gate else "{}").format
    w, r, b = (
        weights[name[:1].lower() + name[1:]].astype(np.float64)
        for name in (prefix("WeightMatrix"), prefix("RecursionMatrix"), prefix("BiasVector"))
    )
    return np.clip(x @ w.T + h @ r.T + (b if bias else 0) + extra, -50, 50)


def lstm_of(
    weights: Weights,
    inputs: Mapping[str, Array],
    kinds: Sequence[str],
    options: Mapping[str, Any],
    first: int = 1,
) -> tuple[Array, Array, Array]:
    """All outputs in the order of processing, the last one, and the cell state."""
    f, g, k = (ACTIVATIONS[kind] for kind in kinds)
    bias, limit = options.get("hasBiasVectors", False), options.get("cellClipThreshold") or 50.0
    h, c, found = state_of(inputs, first), state_of(inputs, first + 1), []

    def gate(name: str, x: Array, cell: Array) -> Array:
        seen = weights[f"{name}PeepholeVector"] * cell if options.get("hasPeepholeVectors") else 0.0
        return f(affine(weights, name, x, h, bias, seen))

    for x in steps_of(inputs, options.get("reverseInput", False)):
        entry = gate("inputGate", x, c)
        forget = 1 - entry if options.get("coupledInputAndForgetGate") else gate("forgetGate", x, c)
        c = np.clip(forget * c + entry * g(affine(weights, "blockInput", x, h, bias)), -limit, limit)
        h = gate("outputGate", x, c) * k(c)
        found.append(h)
    return np.array(found), h, c


def assert_like(found: Array, expected: Array, shape: Sequence[int]) -> None:
    assert found.shape == (*shape, 1, 1)
    np.testing.assert_allclose(found[..., 0, 0].reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)
