"""PyTorch, where it is installed, and what functions in it share."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

# The tables of functions are read without PyTorch, too: only calls of the functions need it.
torch: Any = importlib.import_module("torch") if importlib.util.find_spec("torch") else None

Function = Callable[..., Any]
Pairs = Sequence[tuple[int, int]]


def named(name: str) -> Function:
    """Return the function of PyTorch with a name, which is looked up when it is called."""
    return lambda *tensors: getattr(torch, name)(*tensors)


def functional(name: str, *arguments: Any, **options: Any) -> Function:
    """Return a function of torch.nn.functional with its arguments behind the tensor."""
    return lambda x: getattr(torch.nn.functional, name)(x, *arguments, **options)


def channels_last(function: Function) -> Function:
    """Make a function of images [N, H, W, C] of one of images [N, C, H, W]; of volumes likewise."""
    return lambda x, *more: function(x.movedim(-1, 1), *more).movedim(1, -1)


def surrounded(x: Any, pairs: Pairs, value: float = 0.0) -> Any:
    """Pad the last dimensions of x, a pair (before, after) for each; pairs below 0 cut."""
    return torch.nn.functional.pad(x, [n for pair in reversed(pairs) for n in pair], value=value)


def window_pairs(
    padding: Any,
    extents: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int] | int,
    dilation: Sequence[int] | int = 1,
) -> Pairs:
    """Return what is added around each extent; with "same" there are ceil(extent / stride) windows."""
    if padding == "valid":
        return [(0, 0)] * len(extents)
    if padding != "same":
        return [tuple(pair) for pair in padding]
    found = []
    steps = ((v,) * len(size) if isinstance(v, int) else v for v in (stride, dilation))
    for n, k, s, d in zip(extents, size, *steps, strict=True):
        more = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        found.append((more // 2, more - more // 2))
    return found


def activated(x: Any, activation: Any) -> Any:
    """Apply an activation: a name, or a form with two numbers."""
    if activation is None:
        return x
    if isinstance(activation, str):
        names = {"relu": "relu", "relu6": "relu6", "logistic": "sigmoid", "tanh": "tanh", "relu1": "hardtanh"}
        return getattr(torch.nn.functional, names[activation])(x)
    form, alpha, beta = activation
    if form == "scaled_tanh":
        return alpha * torch.tanh(beta * x)
    line = alpha * x + beta
    return line if form == "affine" else line.clamp(0, 1)


def limited(x: Any, bound: float) -> Any:
    """Clip x to a bound on both sides; 0 is no bound."""
    return x.clamp(-bound, bound) if bound > 0 else x
