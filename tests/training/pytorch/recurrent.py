"""Functions of PyTorch for recurrent ops: its cells where they fit, and the documented formulas elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.training.pytorch.tools import Function, activated, limited, torch

States = tuple[Any, ...]


def over_time(
    x: Any,
    states: States,
    step: Callable[..., States],
    time_major: bool = False,
    reverse: bool = False,
) -> tuple[Any, ...]:
    """Run step(x[t], *states) -> states; return the last ones, and the first of each step."""
    axis, found = 0 if time_major else 1, []
    parts = x.unbind(axis)
    for part in reversed(parts) if reverse else parts:
        states = step(part, *states)
        found.append(states[0])
    return *states, torch.stack(found[::-1] if reverse else found, axis)


def rnn(x: Any, w: Any, r: Any, bias: Any, h: Any, *, activation: str | None = None) -> Any:
    cells = {"tanh": "rnn_tanh_cell", "relu": "rnn_relu_cell"}
    if activation in cells:
        y = getattr(torch, cells[activation])(x, h, w, r, bias, torch.zeros_like(bias))
    else:
        y = activated(x @ w.T + h @ r.T + bias, activation)
    return y, y


def recurrence(x: Any, r: Any, h: Any, *, activation: Any = None, clip: float = 0.0, **order: bool) -> Any:
    whole, none = torch.eye(len(r), dtype=x.dtype), x.new_zeros(len(r))

    def step(sums: Any, h: Any) -> States:
        if activation == "tanh" and not clip:
            return (torch.rnn_tanh_cell(sums, h, whole, r, none, none),)
        return (activated(limited(sums + h @ r.T, clip), activation),)

    return over_time(x, (h,), step, **order)


def gru_recurrence(
    x: Any, r: Any, h: Any, *, activations: Any = ("logistic", "tanh"), clip: float = 0.0, **order: bool
) -> Any:
    """Core ML's form, where the reset gate multiplies the state: torch.gru_cell's multiplies its product.

    Both are the same where the matrix of the candidate is a diagonal one: see test_the_forms_of_a_gru().
    """
    gate, inner = activations
    of_update, of_reset, of_candidate = r.chunk(3)

    def step(sums: Any, h: Any) -> States:
        x0, x1, x2 = sums.chunk(3, 1)
        update = activated(limited(x0 + h @ of_update.T, clip), gate)
        reset = activated(limited(x1 + h @ of_reset.T, clip), gate)
        candidate = activated(limited(x2 + (reset * h) @ of_candidate.T, clip), inner)
        return (candidate + update * (h - candidate),)

    return over_time(x, (h,), step, **order)


def gru_reset_after(
    x: Any, r: Any, h: Any, bias: Any = None, *, activations: Any = ("logistic", "tanh"), **order: bool
) -> Any:
    """torch.gru_cell's form."""
    units = r.shape[1]
    none = torch.zeros(3 * units, dtype=r.dtype)
    inside = none if bias is None else torch.cat((none[: 2 * units], bias))
    whole = torch.eye(3 * units, dtype=r.dtype)

    def step(sums: Any, h: Any) -> States:
        return (torch.gru_cell(sums, h, whole, r, none, inside),)

    assert activations == ("logistic", "tanh")
    return over_time(x, (h,), step, **order)


LSTM = ("logistic", "tanh", "tanh")


def lstm_recurrence(
    x: Any, r: Any, h: Any, c: Any, peepholes: Any = None, *, activations: Any = LSTM, **how: Any
) -> Any:
    """torch.lstm_cell has neither clips nor peepholes, and no coupled gates: the formula has."""
    order = {name: how.pop(name) for name in ("time_major", "reverse") if name in how}
    whole, none = torch.eye(len(r), dtype=x.dtype), x.new_zeros(len(r))
    gate, inner, outer = activations
    clip, holes = how.get("clip", 0.0), [0.0] * 3 if peepholes is None else peepholes.split(r.shape[1])

    def cell(sums: Any, h: Any, c: Any) -> States:
        return tuple(torch.lstm_cell(sums, (h, c), whole, r, none, none))

    def step(sums: Any, h: Any, c: Any) -> States:
        *first, last = (sums + h @ r.T).split(r.shape[1], 1)
        entry = activated(limited(first[0] + holes[0] * c, clip), gate)
        forget = 1 - entry if how.get("coupled") else activated(limited(first[1] + holes[1] * c, clip), gate)
        c = limited(
            forget * c + entry * activated(limited(first[-1], clip), inner), how.get("cell_clip", 0.0)
        )
        return activated(limited(last + holes[-1] * c, clip), gate) * activated(c, outer), c

    plain = peepholes is None and not how and activations == LSTM
    return over_time(x, (h, c), cell if plain else step, **order)


def svdf(
    x: Any,
    feature: Any,
    time: Any,
    bias: Any = None,
    state: Any = None,
    *,
    rank: int,
    activation: str | None = None,
) -> Any:
    """What the filters find is a new last entry of their memories; the first one is forgotten."""
    filters, memory = time.shape
    kept = state.reshape(-1, filters, memory)[:, :, : memory - 1]
    kept = torch.cat([kept, (x @ feature.T)[:, :, None]], 2)
    y = torch.einsum("bfm,fm->bf", kept, time).unflatten(1, (-1, rank)).sum(2)
    y = y if bias is None else y + bias
    moved = torch.nn.functional.pad(kept[:, :, 1:], (0, 1))
    return moved.reshape(state.shape), activated(y, activation)


def basic_lstm(x: Any, h: Any, weights: Any, bias: Any, c: Any) -> Any:
    """torch.lstm_cell with the gates of its weights in another order."""
    operands, units = torch.cat([x, h], 1), c.shape[1]

    def reordered(w: Any) -> Any:
        entry, cell, forget, output = w.split(units)
        return torch.cat([entry, forget, cell, output])

    w, r = reordered(weights).split([x.shape[1], units], 1)
    y, new = torch.lstm_cell(x, (h, c), w, r, reordered(bias), torch.zeros_like(bias))
    return y, new, operands, torch.nn.functional.linear(operands, weights, bias)


def lstm(
    *operands: Any,
    activation: str | None = "tanh",
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    time_major: bool = False,
    reverse: bool = False,
) -> Any:
    """The operands are those of the op, in its order; absent ones are None."""
    x, *rest = (*operands, *[None] * (24 - len(operands)))
    entries, recurrents, holes, biases = rest[:4], rest[4:8], rest[8:11], rest[11:15]
    projection, projection_bias, h, c, *norms = rest[15:]
    sequence = x if x.ndim == 3 else x[None]
    last: list[Any] = []

    def gate(k: int, part: Any, h: Any, c: Any) -> Any:
        total = part @ entries[k].T + h @ recurrents[k].T
        hole = {0: holes[0], 1: holes[1], 3: holes[2]}.get(k)
        total = total if hole is None else total + hole * c
        if norms[k] is not None:
            total = torch.nn.functional.layer_norm(total, total.shape[1:], norms[k], eps=1e-8)
        return activated(total + biases[k], activation if k == 2 else "logistic")

    def step(part: Any, h: Any, c: Any) -> States:
        forget = gate(1, part, h, c)
        entry = 1 - forget if entries[0] is None else gate(0, part, h, c)
        cell = gate(2, part, h, c)
        c = limited(forget * c + entry * cell, cell_clip)
        output = gate(3, part, h, c)
        y = output * activated(c, activation)
        if projection is not None:
            y = limited(torch.nn.functional.linear(y, projection, projection_bias), proj_clip)
        last[:] = [*([] if entries[0] is None else [entry]), cell, forget, output]
        return y, c

    h, c, y = over_time(sequence, (h, c), step, time_major or x.ndim == 2, reverse)
    return torch.cat(last, 1), h, c, y if x.ndim == 3 else y[0]


RECURRENT: Mapping[str, Function] = {
    "basic_lstm": basic_lstm,
    "gru_recurrence": gru_recurrence,
    "gru_reset_after": gru_reset_after,
    "lstm": lstm,
    "lstm_recurrence": lstm_recurrence,
    "recurrence": recurrence,
    "rnn": rnn,
    "svdf": svdf,
}
