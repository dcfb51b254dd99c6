"""Rules of element-wise layers: activations, unary functions, arithmetic, comparison, logic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from gpunn.graph.operation import Operand
from gpunn.importers.common.node import RefusedError
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.node import Node, Value
from gpunn.importers.coreml.weights import stored_count
from gpunn.types import Array

LINE = 1e-6  # |x| above it is true; also the epsilon of unary functions that state none


def pair(node: Node) -> tuple[Operand, Operand]:
    """Return the two inputs. Raises FormatError for another number of inputs."""
    if len(node.inputs) != 2:
        node.corrupt(f"expected 2 inputs, got {len(node.inputs)}")
    return node.operand(0), node.operand(1)


def fold(node: Node, op: str, alpha: float | None = None) -> Value:
    """Return op of all inputs, one of ops.elementwise.several; of one input and `alpha` if it is alone."""
    values = [node.operand(index) for index in range(max(len(node.inputs), 1))]
    if len(values) > 1:
        return node.add(op, *values)
    return values[0] if alpha is None else node.add(op, values[0], node.scalar(alpha))


def average(node: Node) -> Value:
    """Return the mean of all inputs."""
    total = fold(node, "add_n")
    return node.add("mul", total, node.scalar(1 / len(node.inputs)))


def activation(node: Node) -> Value:
    """Return the activation that the parameters name, of the one input."""
    return activated(node, node.params, node.only())


def activated(node: Node, params: Message, x: Value) -> Value:
    """Return an ActivationParams message's function of x."""
    kind = params.WhichOneof("NonlinearityType")
    if kind is None:
        raise RefusedError("its function is not in the format's document")
    return _ACTIVATIONS[kind](node, getattr(params, kind), x)


def _line(node: Node, x: Value, scale: float, shift: float) -> Value:
    """Return scale * x + shift, without what changes nothing."""
    y = x if scale == 1 else node.add("mul", x, node.scalar(scale))
    return y if shift == 0 else node.add("add", y, node.scalar(shift))


def _along_channels(node: Node, message: Message, x: Value, what: str) -> Operand:
    """Return one value, or one for each channel, in a shape that broadcasts along axis -3."""
    shape = node.shape(x)
    channels = shape[-3] if len(shape) >= 3 else 1
    single = stored_count(message, node.chunks) == 1
    values = node.weights(message, 1 if single else channels, what=what)
    return node.floats(values.reshape(-1, 1, 1) if len(shape) >= 3 else values)


def _prelu(node: Node, params: Message, x: Value) -> Value:
    return node.add("prelu", x, _along_channels(node, params.alpha, x, "alpha"))


def _thresholded(node: Node, params: Message, x: Value) -> Value:
    below = node.add("less", x, node.scalar(params.alpha))
    return node.add("select", below, node.add("zeros_like", x), x)


def _elu(node: Node, params: Message, x: Value) -> Value:
    if params.alpha == 1:
        return node.add("elu", x)
    below = node.add("minimum", node.add("elu", x), node.scalar(0))
    return node.add("add", node.add("relu", x), node.add("mul", below, node.scalar(params.alpha)))


def _softsign(node: Node, params: Message, x: Value) -> Value:
    return node.add("div", x, node.add("add", node.add("abs", x), node.scalar(1)))


def _softplus(node: Node, x: Value) -> Value:
    """Return log(1 + exp(x)), as max(x, 0) + log(1 + exp(-|x|)): no intermediate result overflows."""
    small = node.add("exp", node.add("neg", node.add("abs", x)))
    return node.add("add", node.add("relu", x), node.add("log", node.add("add", small, node.scalar(1))))


def _parametric_softplus(node: Node, params: Message, x: Value) -> Value:
    alpha, beta = (_along_channels(node, m, x, what) for m, what in _parameters(params))
    return node.add("mul", _softplus(node, node.add("mul", x, beta)), alpha)


def _parameters(params: Message) -> tuple[tuple[Message, str], ...]:
    return (params.alpha, "alpha"), (params.beta, "beta")


def _scaled_tanh(node: Node, params: Message, x: Value) -> Value:
    return _line(node, node.add("tanh", _line(node, x, params.beta, 0)), params.alpha, 0)


_ACTIVATIONS: Mapping[str, Callable[[Node, Message, Value], Value]] = {
    "linear": lambda node, params, x: _line(node, x, params.alpha, params.beta),
    "ReLU": lambda node, params, x: node.add("relu", x),
    "leakyReLU": lambda node, params, x: node.add("leaky_relu", x, alpha=params.alpha),
    "thresholdedReLU": _thresholded,
    "PReLU": _prelu,
    "tanh": lambda node, params, x: node.add("tanh", x),
    "scaledTanh": _scaled_tanh,
    "sigmoid": lambda node, params, x: node.add("logistic", x),
    "sigmoidHard": lambda node, params, x: node.add("relu01", _line(node, x, params.alpha, params.beta)),
    "ELU": _elu,
    "softsign": _softsign,
    "softplus": lambda node, params, x: _softplus(node, x),
    "parametricSoftplus": _parametric_softplus,
}


def unary(node: Node) -> Value:
    """Return a function of scale * x + shift. A scale or an epsilon of 0 is one that is not set."""
    params = node.params
    x = _line(node, node.only(), params.scale or 1.0, params.shift)
    epsilon = node.scalar(params.epsilon or LINE)
    functions: tuple[Callable[[], Value], ...] = (
        lambda: node.add("sqrt", x),
        lambda: node.add("rsqrt", node.add("add", x, epsilon)),
        lambda: node.add("div", node.scalar(1), node.add("add", x, epsilon)),
        lambda: node.add("pow", x, node.scalar(params.alpha)),
        lambda: node.add("exp", x),
        # The document has no epsilon here; Core ML's own tests need it where it is set.
        lambda: node.add("log", _line(node, x, 1, params.epsilon)),
        lambda: node.add("abs", x),
        lambda: node.add("maximum", x, node.scalar(params.alpha)),
    )
    if not 0 <= params.type < len(functions):
        raise RefusedError(f"its function number {params.type} is not in the format's document")
    function: Callable[[], Value] = functions[params.type]
    return function()


def clip(node: Node) -> Value:
    """Return x between two bounds."""
    return node.add("clamp", node.only(), *(node.scalar(v) for v in (node.params.minVal, node.params.maxVal)))


def clamped_relu(node: Node) -> Value:
    """Return min(beta, x), with alpha * x below 0."""
    y = node.add("leaky_relu", node.only(), alpha=node.params.alpha)
    return node.add("minimum", y, node.scalar(node.params.beta))


def gelu(node: Node) -> Value:
    """Return GELU: exact, by tanh, or as x * sigmoid(1.702 x)."""
    x, mode = node.only(), node.params.mode
    if mode in (0, 1):
        return node.add("gelu_tanh" if mode else "gelu", x)
    return node.add("mul", x, node.add("logistic", node.add("mul", x, node.scalar(1.702))))


def _last_three(node: Node, values: Message, shape: Array, what: str) -> Operand:
    """Return a constant of shape [1], [C], [1, H, W] or [C, H, W] as it broadcasts to the last three axes."""
    extents = tuple(int(n) for n in shape) or (1,)
    if len(extents) > 3 or math.prod(extents) == 0:
        node.corrupt(f"the {what} has shape {list(extents[:4])}, expected [1], [C], [1, H, W] or [C, H, W]")
    array = node.weights(values, *extents, what=what)
    return node.floats(array.reshape(-1, 1, 1) if len(extents) == 1 and extents != (1,) else array)


def scale(node: Node) -> Value:
    """Return x times a constant, plus another one if there is one."""
    params = node.params
    y = node.add("mul", node.only(), _last_three(node, params.scale, params.shapeScale, "scale"))
    if not params.hasBias:
        return y
    return node.add("add", y, _last_three(node, params.bias, params.shapeBias, "bias"))


def bias(node: Node) -> Value:
    """Return x plus a constant."""
    return node.add("add", node.only(), _last_three(node, node.params.bias, node.params.shape, "bias"))


def dot(node: Node) -> Value:
    """Return the dot product along the channels, or the cosine of the angle."""
    a, b = pair(node)

    def product(x: Value, y: Value) -> Value:
        return node.add("reduce_sum", node.add("mul", x, y), axes=(-3,), keep_dims=True)

    if not node.params.cosineSimilarity:
        return product(a, b)
    lengths = node.add("sqrt", node.add("mul", product(a, a), product(b, b)))
    return node.add("div", product(a, b), lengths)


def comparison(op: str) -> Callable[[Node], Value]:
    """Return the rule of a comparison of two tensors, or of one with a number; 1 is true, 0 false."""

    def rule(node: Node) -> Value:
        one = len(node.inputs) == 1
        a, b = (node.operand(0), node.scalar(node.params.alpha)) if one else pair(node)
        return as_number(node, node.add(op, a, b))

    return rule


def logic(op: str) -> Callable[[Node], Value]:
    """Return the rule of a logical function; every input but 0 is true."""

    def rule(node: Node) -> Value:
        truths = [truth(node, node.operand(index)) for index in range(len(node.inputs))]
        return as_number(node, node.add(op, *truths))

    return rule


def truth(node: Node, x: Value) -> Value:
    """Return whether numbers are true."""
    return node.add("not_equal", x, node.scalar(0))


def as_number(node: Node, x: Value) -> Value:
    """Return truth values or integers as numbers."""
    return node.add("cast", x, dtype="float32")


def where_broadcastable(node: Node) -> Value:
    """Return the second input where the first is true, else the third."""
    if len(node.inputs) != 3:
        node.corrupt(f"expected 3 inputs, got {len(node.inputs)}")
    shapes = [node.operand(k).type.shape for k in range(3)]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        node.corrupt(f"shapes {', '.join(str(list(s)) for s in shapes)} cannot be broadcast together")
    condition = truth(node, node.operand(0))
    return node.add("select", *(_broadcast(node, v, shape) for v in (condition, *node.inputs[1:]) if v))


def _broadcast(node: Node, x: Value, shape: tuple[int, ...]) -> Value:
    return x if node.shape(x) == shape else node.add("broadcast_to", x, shape=shape)


def _one_less_square(node: Node, x: Value) -> Value:
    """Return sqrt(1 - x^2), as sqrt((1 - x) (1 + x)), which is exact near 1."""
    one = node.scalar(1)
    product = node.add("mul", node.add("sub", one, x), node.add("add", one, x))
    return node.add("sqrt", product)


def asin(node: Node) -> Value:
    """Return the angle of a sine."""
    return node.add("atan2", node.only(), _one_less_square(node, node.only()))


def acos(node: Node) -> Value:
    """Return the angle of a cosine."""
    return node.add("atan2", _one_less_square(node, node.only()), node.only())


def tan(node: Node) -> Value:
    """Return the tangent."""
    return node.add("div", node.add("sin", node.only()), node.add("cos", node.only()))
