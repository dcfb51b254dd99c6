"""Rules of TFLite operators with state (a part of the table in table.py).

The state is an input, usually a variable tensor, that the operator itself overwrites. Quantised constant
weights below float32 activations are dequantised; TFLite's hybrid kernels instead quantise the activations
(docs/quantized.md). The option asymmetric_quantize_inputs is about that, so it has no meaning here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tflite as schema

from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import Result, StepList, Steps, Value
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node, Options, symmetric
from gpunn.types import DType

_FULL = (20, 24)  # inputs of a full LSTM, without or with coefficients of layer normalisation
_INTERMEDIATES = (5, 12)  # of an integer LSTM, by its form; sequences have the first only


class _Recurrent(StepList):
    """Steps under construction, on real operands, or on quantised ones if x is quantised and `integer`."""

    def __init__(self, node: Node, integer: bool = False) -> None:
        super().__init__()
        self.node = node
        self.reals: dict[Operand, Result] = {}
        x = node.operand(0)
        self.integer = integer and x.type.quantization is not None
        if x.type.dtype is not DType.FLOAT32 and not self.integer:
            raise RefusedError(f"input 0 ({x.name}) is {x.type.dtype.name}, only FLOAT32 is supported")

    def real(self, index: int) -> Value:
        """Return input `index`, dequantised if it is a quantised constant; None if it is absent."""
        operand = self.node.inputs[index] if index < len(self.node.inputs) else None
        if operand is None or operand.value is None or operand.type.quantization is None or self.integer:
            return operand
        if operand not in self.reals:
            self.reals[operand] = self.add("dequantize", (symmetric(operand),))
        return self.reals[operand]

    def inputs(self, *counts: int) -> tuple[Value, ...]:
        """Return the operator's inputs; their number must be one of these."""
        if len(self.node.inputs) not in counts:
            expected = " or ".join(map(str, counts))
            self.node.corrupt(f"expected {expected} inputs, got {len(self.node.inputs)}")
        return tuple(self.real(index) for index in range(len(self.node.inputs)))

    def side_by_side(self, a: Value, b: Value) -> Value:
        """Concatenate two operands along their last axis; None if both are absent."""
        if a is None and b is None:
            return None
        return self.add("concat", (a, b), {"axis": -1})

    def diagonals(self, vectors: Sequence[Value]) -> Iterator[Value]:
        """Yield square matrices for the diagonals that the operator has."""
        if self.integer:
            raise RefusedError("the recurrent weights are diagonals, which is not supported of integers")
        for value in vectors:
            yield None if value is None else self.add("matrix_diag", (value,))

    def expect_rank(self, rank: int) -> None:
        """Raise FormatError unless x has this rank."""
        shape = self.node.operand(0).type.shape
        if len(shape) != rank:
            self.node.corrupt(f"input 0 should have rank {rank}, got shape {list(shape)}")

    def recurrence(self, x: Value, operands: Sequence[Value], attrs: Mapping[str, Any]) -> Result:
        """Add an RNN over a sequence; return its last state. Its second result is that of each step."""
        w, r, bias, h = operands
        sums = self.add("fully_connected", (x, w, bias), {"keep_dims": True})
        return self.add("recurrence", (sums, r, h), attrs)

    def memory(
        self, gates: Sequence[Value], places: Sequence[int], norms: Sequence[Value], attrs: Mapping[str, Any]
    ) -> tuple[Result, dict[int, Result]]:
        """Add an LSTM; return its result, and the new values of the states, the inputs at `places`.

        TFLite also takes states as vectors, with the rows of the batch one after the other.
        """
        x, states = self.node.operand(0).type, {place: self.node.operand(place) for place in places}
        batch = max(1, x.shape[1 if x.rank == 3 and attrs.get("time_major") else 0])
        vectors = {place: state.type for place, state in states.items() if state.type.rank == 1}
        rows: dict[int, Value] = dict(states)
        for place, type in vectors.items():
            shape = batch, type.size // batch
            rows[place] = self.add("reshape", (states[place],), {"shape": shape})
        scratch = self.add("lstm", (*gates, *rows.values(), *norms), attrs)
        new = {place: scratch.beside(1 + k) for k, place in enumerate(places)}
        for place, type in vectors.items():
            new[place] = self.add("reshape", (new[place],), {"shape": type.shape})
        return scratch.beside(3), new

    def joined(
        self, x: Value, auxiliary: Value, direction: int, weights: Sequence[Value], more: Sequence[Value]
    ) -> tuple[Value, list[Value]]:
        """Return the input of a direction, and its weights for that input.

        An auxiliary input with weights is concatenated to x; without weights it is the input of the second
        direction.
        """
        if auxiliary is None or all(w is None for w in more):
            return (x if auxiliary is None or direction == 0 else auxiliary), list(weights)
        pairs = zip(weights, more, strict=True)
        return self.side_by_side(x, auxiliary), [self.side_by_side(a, b) for a, b in pairs]

    def both(self, results: Sequence[Result], states: Mapping[int, Result], options: Options) -> Steps:
        """Make the answer for two directions, whose results may be merged."""
        if options.get("MergeOutputs"):
            results = [self.add("concat", results, {"axis": -1})]
        return self.answer(*results, states=states)


def _activation(options: Options) -> str | None:
    return options.activation().get("activation")


def rnn(node: Node) -> Steps:
    """Translate RNN: one step; the state is input 4."""
    steps = _Recurrent(node)
    attrs = {"activation": _activation(node.options("RNNOptions"))}
    state = steps.add("rnn", steps.inputs(5), attrs)
    return steps.answer(state.beside(1), states={4: state})


def svdf(node: Node) -> Steps:
    """Translate SVDF: one step; the state is input 4."""
    steps, options = _Recurrent(node, integer=True), node.options("SVDFOptions")
    attrs = {"rank": options.get("Rank"), "activation": _activation(options)}
    results = node.operand(4).type, *node.outputs
    declared = [None if t is None else t.quantization for t in results] if steps.integer else []
    state = steps.add("svdf", steps.inputs(5), attrs, declared)
    return steps.answer(state.beside(1), states={4: state})


def lstm(node: Node) -> Steps:
    """Translate LSTM: one step; the states are inputs 18 and 19, those of the kernel BASIC 1 and 4."""
    options = node.options("LSTMOptions")
    if options.get("KernelType") == schema.LSTMKernelType.BASIC:
        steps = _Recurrent(node, integer=True)
        first = steps.add("basic_lstm", steps.inputs(5))
        outputs = tuple(first.beside(k) for k in range(4))
        return steps.answer(*outputs, states={1: outputs[0], 4: outputs[1]})
    steps = _Recurrent(node, integer=True)
    steps.expect_rank(2)
    return _from_lstm(steps, options, steps.inputs(*_FULL), {})


def sequence_lstm(node: Node) -> Steps:
    """Translate UNIDIRECTIONAL_SEQUENCE_LSTM: the states are inputs 18 and 19."""
    steps, options = _Recurrent(node, integer=True), node.options("UnidirectionalSequenceLSTMOptions")
    steps.expect_rank(3)
    inputs = steps.inputs(*_FULL)
    if options.get("DiagonalRecurrentTensors"):
        inputs = (*inputs[:5], *steps.diagonals(inputs[5:9]), *inputs[9:])
    return _from_lstm(steps, options, inputs, {"time_major": options.get("TimeMajor")})


def _lstm_attributes(options: Options) -> dict[str, Any]:
    return {
        "activation": _activation(options),
        "cell_clip": options.get("CellClip"),
        "proj_clip": options.get("ProjClip"),
    }


def _from_lstm(
    steps: _Recurrent, options: Options, inputs: Sequence[Value], attrs: Mapping[str, Any]
) -> Steps:
    """Make the answer for one direction, of real or of quantised numbers."""
    attrs = {**_lstm_attributes(options), **attrs}
    if steps.integer:
        attrs["activation"] = _integer_activation(steps.node, attrs["activation"])
        attrs["intermediates"] = _intermediates(steps.node, "time_major" in attrs)
    result, states = steps.memory(inputs[:18], (18, 19), inputs[20:], attrs)
    return steps.answer(result, states=states)


def _integer_activation(node: Node, stated: str | None) -> str:
    """Return the activation of an integer LSTM: LiteRT has no other one than TANH, whatever a file states."""
    if stated != "tanh" and node.warn is not None:
        node.warn(f"the activation is {stated or 'none'}, but on integers it is TANH, as in LiteRT")
    return "tanh"


def _intermediates(node: Node, sequence: bool) -> tuple[tuple[float, int] | None, ...]:
    """Return scales and zero points of the intermediate tensors of an integer LSTM, if they have some."""
    expected = _INTERMEDIATES[:1] if sequence else _INTERMEDIATES
    if len(node.intermediates) not in expected:
        counts = " or ".join(map(str, expected))
        raise RefusedError(f"has {len(node.intermediates)} intermediate tensors, only {counts} are supported")
    scales = (None if t is None else t.quantization for t in node.intermediates)
    return tuple(None if q is None else (q.scale[0], q.zero_point[0]) for q in scales)


def sequence_rnn(node: Node) -> Steps:
    """Translate UNIDIRECTIONAL_SEQUENCE_RNN: a product of all steps at once, and a recurrence; the state is
    input 4.
    """
    steps, options = _Recurrent(node), node.options("SequenceRNNOptions")
    steps.expect_rank(3)
    x, w, r, bias, h = steps.inputs(5)
    attrs = {"activation": _activation(options), "time_major": options.get("TimeMajor")}
    state = steps.recurrence(x, (w, r, bias, h), attrs)
    return steps.answer(state.beside(1), states={4: state})


def bidirectional_rnn(node: Node) -> Steps:
    """Translate BIDIRECTIONAL_SEQUENCE_RNN: the states are inputs 4 and 8."""
    steps, options = _Recurrent(node), node.options("BidirectionalSequenceRNNOptions")
    steps.expect_rank(3)
    x, *rest = steps.inputs(12)
    directions, auxiliary, weights = (rest[:4], rest[4:8]), rest[8], rest[9:]
    attrs = {"activation": _activation(options), "time_major": options.get("TimeMajor")}
    found = []
    for number, ((w, r, bias, h), own) in enumerate(zip(directions, weights, strict=True)):
        source, joined = steps.joined(x, auxiliary, number, [w], [own])
        found.append(steps.recurrence(source, (*joined, r, bias, h), {**attrs, "reverse": number == 1}))
    states = dict(zip((4, 8), found, strict=True))
    return steps.both([state.beside(1) for state in found], states, options)


def bidirectional_lstm(node: Node) -> Steps:
    """Translate BIDIRECTIONAL_SEQUENCE_LSTM: the states are inputs 35 to 38."""
    steps, options = _Recurrent(node), node.options("BidirectionalSequenceLSTMOptions")
    steps.expect_rank(3)
    inputs = steps.inputs(48)
    attrs = {**_lstm_attributes(options), "time_major": options.get("TimeMajor")}
    results: list[Result] = []
    states: dict[int, Result] = {}
    for number in range(2):
        own, more = inputs[1 + 17 * number :][:17], inputs[40 + 4 * number :][:4]
        source, joined = steps.joined(inputs[0], inputs[39], number, own[:4], more)
        places = 35 + 2 * number, 36 + 2 * number
        result, own_states = steps.memory(
            (source, *joined, *own[4:]), places, (), {**attrs, "reverse": number == 1}
        )
        results.append(result)
        states |= own_states
    return steps.both(results, states, options)
