"""Rules of recurrent layers: all steps' products with the input at once, and a recurrence.

Sequences are [steps, batch, channels, 1, 1], states [1, batch, units, 1, 1]. States that a layer does not get
are 0. The sums of gates are limited to -50 ... 50.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import Result
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.rules.movement import flipped
from gpunn.ops.recurrent.gate_activation import GateActivation

_CLIP = 50.0
_ACTIVATIONS = {"linear": None, "ReLU": "relu", "sigmoid": "logistic", "tanh": "tanh"}
_FORMS = {  # with alpha and beta for those that are not set, that is, 0
    "linear": ("affine", 1.0, 0.0),
    "sigmoidHard": ("hard_sigmoid", 0.2, 0.5),
    "scaledTanh": ("scaled_tanh", 1.0, 1.0),
}
_GRU_GATES = ("updateGate", "resetGate", "outputGate")
_LSTM_GATES = ("inputGate", "forgetGate", "blockInput", "outputGate")


class _Sequence:
    """The sequence that a layer reads, and the states that it may get."""

    def __init__(self, node: Node) -> None:
        self.node = node
        x = node.operand(0)
        self.inputs, self.units = int(node.params.inputVectorSize), int(node.params.outputVectorSize)
        if x.type.rank != 5 or math.prod(x.type.shape[2:]) != self.inputs or self.units < 1:
            node.corrupt(
                f"expected [sequence, batch, {self.inputs}, 1, 1], got {list(x.type.shape)}, "
                f"for {self.units} units"
            )
        self.steps, self.batch = x.type.shape[:2]
        self.x = node.add("reshape", x, shape=(self.steps, self.batch, self.inputs))

    def sums(self, message: Message, gates: Sequence[str], biases: bool) -> Value:
        """Return the products of all steps with the input weights of all gates, with the biases."""
        node = self.node
        weights = self.matrix(message, [f"{gate}WeightMatrix" for gate in gates], self.inputs)
        bias = self.matrix(message, [f"{gate}BiasVector" for gate in gates]) if biases else None
        return node.add("fully_connected", self.x, weights, bias, keep_dims=True)

    def matrix(self, message: Message, names: Iterable[str], *depth: int) -> Operand:
        """Return weights of several gates, one after the other: [gates * units, depth] or [gates * units]."""
        found = [self.node.weights(getattr(message, name), self.units, *depth, what=name) for name in names]
        return self.node.floats(np.concatenate(found))

    def state(self, index: int) -> Value:
        """Return a state [batch, units] from input `index`; zeros if the layer does not get it."""
        node, shape = self.node, (self.batch, self.units)
        if index >= len(node.inputs):
            return node.add("fill", node.scalar(0), shape=shape)
        given = node.operand(index)
        if given.type.size not in (self.units, self.batch * self.units):
            node.corrupt(f"input {index}: expected a state {[1, *shape, 1, 1]}, got {list(given.type.shape)}")
        rows = node.add("reshape", given, shape=(given.type.size // self.units, self.units))
        return rows if node.shape(rows) == shape else node.add("broadcast_to", rows, shape=shape)

    def outputs(self, y: Value, states: Iterable[Value]) -> list[Value]:
        """Return y and as many of the states as the layer gives, with five axes.

        Without sequenceOutput, `y` is what the last step gives.
        """
        found = [y, *states][: self.node.count]
        return [self.node.add("reshape", value, shape=self._five(self.node.shape(value))) for value in found]

    def _five(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*(1,) * (3 - len(shape)), *shape, 1, 1)


def _activation(node: Node, message: Message) -> GateActivation:
    """Return an activation of gates. Raises FormatError for one that recurrent layers do not have."""
    kind = message.WhichOneof("NonlinearityType")
    if kind not in _ACTIVATIONS and kind not in _FORMS:
        node.corrupt(f"{kind or 'nothing'} is no activation of recurrent layers")
    stated = getattr(message, kind)
    if kind in _ACTIVATIONS and not any(getattr(stated, name, 0) for name in ("alpha", "beta")):
        return _ACTIVATIONS[kind]
    name, alpha, beta = _FORMS[kind]
    return name, stated.alpha or alpha, stated.beta or beta


def _activations(node: Node, messages: Sequence[Message], count: int) -> tuple[GateActivation, ...]:
    if len(messages) != count:
        node.corrupt(f"has {len(messages)} activations, expected {count}")
    return tuple(_activation(node, message) for message in messages)


def simple_recurrent(node: Node) -> list[Value]:
    """Return y[t] = f(W x[t] + R y[t - 1] + b), and the last y."""
    params, sequence = node.params, _Sequence(node)
    weights = sequence.matrix(params, ["weightMatrix"], sequence.inputs)
    bias = sequence.matrix(params, ["biasVector"]) if params.hasBiasVector else None
    sums = node.add("fully_connected", sequence.x, weights, bias, keep_dims=True)
    state = node.add(
        "recurrence",
        sums,
        sequence.matrix(params, ["recursionMatrix"], sequence.units),
        sequence.state(1),
        activation=_activation(node, params.activation),
        clip=_CLIP,
        time_major=True,
        reverse=params.reverseInput,
    )
    return sequence.outputs(_in_order(node, params.sequenceOutput, state, 1), [state])


def gru(node: Node) -> list[Value]:
    """Return the outputs of a gated recurrent unit, and the last one.

    The reset gate acts before the product with the recurrent weights.
    """
    params, sequence = node.params, _Sequence(node)
    state = node.add(
        "gru_recurrence",
        sequence.sums(params, _GRU_GATES, params.hasBiasVectors),
        sequence.matrix(params, [f"{gate}RecursionMatrix" for gate in _GRU_GATES], sequence.units),
        sequence.state(1),
        activations=_activations(node, params.activations, 2),
        clip=_CLIP,
        time_major=True,
        reverse=params.reverseInput,
    )
    return sequence.outputs(_in_order(node, params.sequenceOutput, state, 1), [state])


def lstm(node: Node) -> list[Value]:
    """Return the outputs of a long short-term memory, the last output, and the cell state."""
    params, sequence = node.params, _Sequence(node)
    state = _lstm(sequence, params.weightParams, params.activations, 1, params.reverseInput)
    y = _in_order(node, params.params.sequenceOutput, state, 2)
    return sequence.outputs(y, [state, state.beside(1)])


def bidirectional_lstm(node: Node) -> list[Value]:
    """Return the outputs of two long short-term memories, side by side for each step, and their states.

    The second one begins at the end of the sequence.
    """
    params, sequence = node.params, _Sequence(node)
    if len(params.weightParams) != 2:
        node.corrupt(f"has weights for {len(params.weightParams)} directions, expected 2")
    activations = params.activationsForwardLSTM, params.activationsBackwardLSTM
    ahead, back = (
        _lstm(sequence, params.weightParams[k], activations[k], 1 + 2 * k, k == 1) for k in range(2)
    )
    whole = params.params.sequenceOutput
    parts = [state.beside(2) if whole else state for state in (ahead, back)]
    y = node.add("concat", *parts, axis=-1)
    return sequence.outputs(y, [ahead, ahead.beside(1), back, back.beside(1)])


def _lstm(
    sequence: _Sequence, weights: Message, activations: Sequence[Message], first: int, reverse: bool
) -> Result:
    """Add one direction of an LSTM, with the states from input `first` on; return its output state.

    Its second result is the cell state, its third one the outputs. The bias of the forget gate already has
    what `forgetBias` speaks of.
    """
    node, params = sequence.node, sequence.node.params.params
    coupled = params.coupledInputAndForgetGate
    gates = [gate for gate in _LSTM_GATES if not coupled or gate != "forgetGate"]
    peepholes = [f"{gate}PeepholeVector" for gate in gates if gate != "blockInput"]
    return node.add(
        "lstm_recurrence",
        sequence.sums(weights, gates, params.hasBiasVectors),
        sequence.matrix(weights, [f"{gate}RecursionMatrix" for gate in gates], sequence.units),
        sequence.state(first),
        sequence.state(first + 1),
        sequence.matrix(weights, peepholes) if params.hasPeepholeVectors else None,
        activations=_activations(node, activations, 3),
        coupled=coupled,
        clip=_CLIP,
        cell_clip=params.cellClipThreshold or _CLIP,
        time_major=True,
        reverse=reverse,
    )


def _in_order(node: Node, whole: bool, state: Result, index: int) -> Value:
    """Return what a layer of one direction gives: the last output, or all in the order of processing."""
    if not whole:
        return state
    y = state.beside(index)
    return flipped(node, y, (0,)) if node.params.reverseInput else y
