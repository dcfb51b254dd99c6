"""Functions of PyTorch for ops that work element by element, and for reductions and normalisations."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from tests.training.pytorch.tools import Function, functional, named, torch


def folded(name: str) -> Function:
    """Make a function of many tensors of one of two."""
    return lambda *xs: functools.reduce(getattr(torch, name), xs)


def fake_quant(x: Any, *, min: float, max: float, num_bits: int = 8, narrow_range: bool = False) -> Any:
    low, high = int(narrow_range), 2**num_bits - 1
    scale = (max - min) / (high - low)
    return torch.fake_quantize_per_tensor_affine(x, scale, low + round(-min / scale), low, high)


def prelu(x: Any, alpha: Any) -> Any:
    """With a slope for each element, which torch.nn.functional.prelu does not take: for each channel."""
    weight = torch.broadcast_to(alpha, x.shape).reshape(-1)
    return torch.nn.functional.prelu(x.reshape(1, -1), weight).reshape(x.shape)


ELEMENTWISE: Mapping[str, Function] = {
    **{op: functional(op) for op in ("relu", "relu6", "elu", "gelu", "silu")},
    **{
        op: named(op)
        for op in (
            *("abs", "acosh", "asinh", "atanh", "ceil", "cos", "cosh", "erf", "exp", "floor", "log", "neg"),
            *("round", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tanh"),
            *("add", "atan2", "div", "maximum", "minimum", "mul", "pow", "sub"),
        )
    },
    **{op: folded(pair) for op, pair in (("add_n", "add"), ("mul_n", "mul"))},
    **{op: folded(pair) for op, pair in (("maximum_n", "maximum"), ("minimum_n", "minimum"))},
    "cast": lambda x, *, dtype: x.to(getattr(torch, dtype)).to(torch.float64),
    "clamp": lambda x, low, high: torch.clamp(x, low, high),
    "fake_quant": fake_quant,
    "floor_div": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "floor_mod": lambda a, b: torch.remainder(a, b),
    "gelu_tanh": functional("gelu", approximate="tanh"),
    "hard_swish": functional("hardswish"),
    "leaky_relu": lambda x, *, alpha: torch.nn.functional.leaky_relu(x, alpha),
    "logistic": functional("sigmoid"),
    "prelu": prelu,
    "relu01": functional("hardtanh", 0.0, 1.0),
    "relu1": functional("hardtanh"),
    "select": lambda condition, a, b: torch.where(condition, a, b),
    "squared_difference": lambda a, b: (a - b).square(),
}


def reduced(name: str) -> Function:
    """Make a reduction along axes, one after the other if PyTorch's takes only one."""

    def function(x: Any, *, axes: Sequence[int], keep_dims: bool = False) -> Any:
        axes = sorted({axis % x.ndim for axis in axes}, reverse=True)
        if name != "prod":
            return getattr(torch, name)(x, axes, keep_dims) if axes else x.clone()
        for axis in axes:
            x = x.prod(axis, keepdim=keep_dims)
        return x

    return function


def cumsum(
    x: Any, along: Any = None, *, axis: int | None = None, exclusive: bool = False, reverse: bool = False
) -> Any:
    axis = int(along) if axis is None else axis
    x = x.flip(axis) if reverse else x
    total = x.cumsum(axis) - x if exclusive else x.cumsum(axis)
    return total.flip(axis) if reverse else total


def local_response_normalization(
    x: Any, *, radius: int, bias: float, alpha: float, beta: float, axis: int = -1
) -> Any:
    """PyTorch divides alpha by the size of the window, and takes dimension 1."""
    size = 2 * radius + 1
    moved = x.movedim(axis, 1)
    found = torch.nn.functional.local_response_norm(moved, size, alpha * size, beta, bias)
    return found.movedim(1, axis)


def layer_normalization(x: Any, *, axes: Sequence[int] = (-1,), epsilon: float, centred: bool = True) -> Any:
    last = tuple(range(-len(axes), 0))
    rows = x.movedim(tuple(axes), last)
    norm = torch.nn.functional.layer_norm if centred else torch.nn.functional.rms_norm
    return norm(rows, rows.shape[-len(axes) :], eps=epsilon).movedim(last, tuple(axes))


def rotary_embedding(x: Any, cos: Any, sin: Any, *, axis: int = -1) -> Any:
    """x cos + concat(-b, a) sin, as in the models of Hugging Face, with tables of x's shape."""
    axis %= x.ndim

    def whole(table: Any) -> Any:
        missing = x.ndim - table.ndim
        half = axis >= missing and table.shape[axis - missing] not in (1, x.shape[axis])
        return torch.cat((table, table), axis - missing) if half else table

    a, b = x.chunk(2, axis)
    return x * whole(cos) + torch.cat((-b, a), axis) * whole(sin)


REDUCTIONS: Mapping[str, Function] = {
    "cumsum": cumsum,
    "layer_normalization": layer_normalization,
    "rotary_embedding": rotary_embedding,
    "l2_normalization": lambda x, *, axis=-1: torch.nn.functional.normalize(x, dim=axis),
    "local_response_normalization": local_response_normalization,
    "log_softmax": lambda x, *, axis=-1: torch.log_softmax(x, axis),
    "mean": reduced("mean"),
    "reduce_max": reduced("amax"),
    "reduce_min": reduced("amin"),
    "reduce_prod": reduced("prod"),
    "reduce_sum": reduced("sum"),
    "softmax": lambda x, *, axis=-1, beta=1.0: torch.softmax(beta * x, axis),
    "top_k": lambda x, *, k: x.topk(k).values,
}
