"""Rules of reductions: the layer of the first versions, and those that reduce any axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpunn.importers.common.node import RefusedError
from gpunn.importers.coreml.node import Node, Value

AXES = ((-3, -2, -1), (-2, -1), (-3,), (-2,), (-1,))  # ReduceLayerParams.ReduceAxis
EPSILON = 1e-6  # of LOGSUM, where none is set
Reduce = Callable[[Node, Value, Mapping[str, Any]], Value]


def _of(op: str, before: str | None = None, after: str | None = None) -> Reduce:
    """Return a reduction of a function of the elements, and a function of the result."""

    def reduce(node: Node, x: Value, attrs: Mapping[str, Any]) -> Value:
        y = node.add(op, x if before is None else node.add(before, x), **attrs)
        return y if after is None else node.add(after, y)

    return reduce


def _log_sum_exp(node: Node, x: Value, attrs: Mapping[str, Any]) -> Value:
    """Return log(sum(exp(x))), with the maximum taken out, as exp would overflow."""
    most = node.add("reduce_max", x, axes=attrs["axes"], keep_dims=True)
    total = node.add("reduce_sum", node.add("exp", node.add("sub", x, most)), **attrs)
    log = node.add("log", total)
    return node.add("add", log, node.add("reshape", most, shape=node.shape(log)))


L1, L2 = _of("reduce_sum", "abs"), _of("reduce_sum", "square", "sqrt")
FUNCTIONS: Mapping[str, Reduce] = {
    "reduceL1": L1,
    "reduceL2": L2,
    "reduceMax": _of("reduce_max"),
    "reduceMin": _of("reduce_min"),
    "reduceSum": _of("reduce_sum"),
    "reduceProd": _of("reduce_prod"),
    "reduceMean": _of("mean"),
    "reduceLogSum": _of("reduce_sum", after="log"),
    "reduceSumSquare": _of("reduce_sum", "square"),
    "reduceLogSumExp": _log_sum_exp,
}


def reduction(reduce: Reduce) -> Callable[[Node], Value]:
    """Return the rule of a reduction along axes, or along all of them."""

    def rule(node: Node) -> Value:
        params, x = node.params, node.only()
        axes = tuple(node.axis(axis, x.type.rank) for axis in params.axes)
        if params.reduceAll or not axes:
            axes = tuple(range(x.type.rank))
        return reduce(node, x, {"axes": axes, "keep_dims": params.keepDims})

    return rule


def _log_sum(node: Node, x: Value, attrs: Mapping[str, Any]) -> Value:
    shifted = node.add("add", x, node.scalar(node.params.epsilon or EPSILON))
    return node.add("reduce_sum", node.add("log", shifted), **attrs)


def _arg_max(node: Node, x: Value, attrs: Mapping[str, Any]) -> Value:
    (axis,) = attrs["axes"]
    return argument(node, x, "arg_max", axis, keep=True)


def argument(node: Node, x: Value, op: str, axis: int, *, keep: bool) -> Value:
    """Return the index of the greatest or least element along an axis, as a number."""
    shape = list(node.shape(x))
    shape[axis : len(shape) if axis == -1 else axis + 1] = [1] if keep else []
    found = node.add("cast", node.add(op, x, axis=axis), dtype="float32")
    return node.add("reshape", found, shape=tuple(shape) or (1,))


_MODES: tuple[Reduce, ...] = (  # ReduceLayerParams.ReduceOperation
    _of("reduce_sum"),
    _of("mean"),
    _of("reduce_prod"),
    _log_sum,
    _of("reduce_sum", "square"),
    L1,
    L2,
    _of("reduce_max"),
    _of("reduce_min"),
    _arg_max,
)


def reduce(node: Node) -> Value:
    """Return a reduction of channels, height or width; the rank stays."""
    params, x = node.params, node.only()
    if not 0 <= params.mode < len(_MODES) or not 0 <= params.axis < len(AXES):
        raise RefusedError(f"its mode {params.mode} or axis {params.axis} is not in the format's document")
    axes = AXES[params.axis]
    if x.type.rank < -min(axes):
        node.corrupt(f"it has no axes {list(axes)}, its input has shape {list(x.type.shape)}")
    if _MODES[params.mode] is _arg_max and len(axes) > 1:
        node.corrupt("ARGMAX is for one axis")
    function: Reduce = _MODES[params.mode]
    return function(node, x, {"axes": axes, "keep_dims": True})


def index_of(op: str) -> Callable[[Node], Value]:
    """Return the rule of an index of the greatest or least element."""

    def rule(node: Node) -> Value:
        x = node.only()
        axis = node.axis(node.params.axis, x.type.rank)
        return argument(node, x, op, axis, keep=not node.params.removeDim)

    return rule


RULES: Mapping[str, Callable[[Node], Value]] = {
    **{name: reduction(how) for name, how in FUNCTIONS.items()},
    "argMax": index_of("arg_max"),
    "argMin": index_of("arg_min"),
}
