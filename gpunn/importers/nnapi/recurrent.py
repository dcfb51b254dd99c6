"""Rules of NNAPI's recurrent operations (a part of the table in rules.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpunn.importers.common.answers import Step
from gpunn.importers.nnapi.node import ACTIVATIONS, Node

LSTM_ACTIVATIONS = {0: None, 1: "relu", 3: "relu6", 4: "tanh", 6: "logistic"}


def _recurrent_activation(node: Node, known: Mapping[Any, str | None]) -> str | None:
    """Return the activation of a recurrent operation, which is optional."""
    return node.code("fuse", known) if node.has("fuse") else None


def rnn(node: Node) -> Step:
    """Translate RNN, one step."""
    attrs = {"activation": _recurrent_activation(node, ACTIVATIONS)}
    inputs = ("x", "weights", "recurrent_weights", "bias", "state")
    return Step("rnn", tuple(node.tensor(name) for name in inputs), attrs)


def svdf(node: Node) -> Step:
    """Translate SVDF, one step."""
    attrs = {"rank": node.integer("rank", 1), "activation": _recurrent_activation(node, ACTIVATIONS)}
    inputs = ("x", "weights_feature", "weights_time")
    tensors = tuple(node.tensor(name) for name in inputs)
    return Step("svdf", (*tensors, node.optional("bias"), node.tensor("state")), attrs)


def lstm(node: Node) -> Step:
    """Translate LSTM, one step; the op itself checks which optional inputs go together."""
    attrs: dict[str, Any] = {"activation": _recurrent_activation(node, LSTM_ACTIVATIONS)}
    attrs.update({name: node.real(name) for name in ("cell_clip", "proj_clip")})
    tensors = [name for name in node.parameters if node.type(name).type.is_tensor]
    return Step("lstm", tuple(node.optional(name) for name in tensors), attrs)
