"""Differentiation of whole graphs: numbers worked by hand, sums over readers, variables, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import ModelError, UnsupportedError
from gpunn.graph.operation import Lifetime, Operand
from gpunn.model import Model
from gpunn.training.differentiate import differentiate
from gpunn.training.gradients import gradients
from gpunn.types import Array, DType, TensorType, float32


def array(*values: float) -> Array:
    return np.array(values, np.float32)


def total(model: Model, x: Operand) -> Operand:
    return model.add("reduce_sum", [x], {"axes": tuple(range(x.type.rank))})[0]


def test_a_line_by_hand(backend: str) -> None:
    """loss = ((2 w + b) - 7)^2 at w = 3, b = 2 is 1; its derivatives are 2 * 1 * 2 and 2 * 1."""
    model = Model()
    w, b = model.constant("w", array(3)), model.constant("b", array(2))
    line = model.add("add", [model.add("mul", [w, model.input("x", float32(1))])[0], b])
    error = model.add("squared_difference", [*line, model.input("target", float32(1))])
    model.output(*error)
    found = gradients(model, error[0], ["w", "b"])
    assert [i.name for i in found.inputs] == ["x", "target", "w", "b"]
    assert [o.name for o in found.outputs][1:] == ["gradient of w", "gradient of b"]
    with found.compile(backend) as compiled:
        got = compiled(array(2), array(7), array(3), array(2))
        again = compiled(array(2), array(7), array(1), array(2))
    assert [v.item() for v in got] == [1, 4, 2]
    assert [v.item() for v in again] == [9, -12, -6]
    assert model.inputs == [i for i in found.inputs if i.name in ("x", "target")]  # the model stays as it was


def test_a_convolution_by_hand(backend: str) -> None:
    """A window of 2 x 2 over the image 1 ... 9: sums of four pixels, and how often a window meets each."""
    model = Model()
    x = model.input("x", float32(1, 3, 3, 1))
    filter = model.constant("filter", np.ones((1, 2, 2, 1), np.float32))
    bias = model.constant("bias", array(0))
    loss = total(model, *model.add("conv2d", [x, filter, bias]))
    found = gradients(model, loss, [x, filter, bias])
    image = np.arange(1, 10, dtype=np.float32).reshape(1, 3, 3, 1)
    with found.compile(backend) as compiled:
        _, to_x, to_filter, to_bias = compiled(image, filter.value, bias.value)
    assert to_filter.reshape(-1).tolist() == [12, 16, 24, 28]
    assert to_x.reshape(3, 3).tolist() == [[1, 2, 1], [2, 4, 2], [1, 2, 1]]
    assert to_bias.tolist() == [4]


def test_of_equal_maxima_the_first_gets_the_gradient(backend: str) -> None:
    """As in PyTorch, row by row."""
    model = Model()
    x = model.input("x", float32(1, 2, 4, 1))
    loss = total(model, *model.add("max_pool2d", [x], {"size": (2, 2), "stride": (2, 2)}))
    with gradients(model, loss, [x]).compile(backend) as compiled:
        _, found = compiled(array(1, 1, 0, 5, 1, 1, 5, 5).reshape(1, 2, 4, 1))
    assert found.reshape(2, 4).tolist() == [[1, 0, 0, 1], [0, 0, 0, 0]]


def test_flat_sides_and_halves(backend: str) -> None:
    """At 0 relu is flat; equal operands of maximum share the gradient; so do equal maxima of a reduction."""
    model = Model()
    x = model.input("x", float32(4))
    relu, zero = model.add("relu", [x])[0], model.constant("zero", array(0))
    both = model.add("add", [relu, *model.add("maximum", [x, zero])])
    most = model.add("reduce_max", [x], {"axes": (0,)})
    loss = total(model, *model.add("add", [*both, *most]))
    with gradients(model, loss, [x]).compile(backend) as compiled:
        _, found = compiled(array(-1, 0, 2, 2))
    assert found.tolist() == [0, 0.5, 4, 4]


def test_gradients_of_all_readers_are_summed(backend: str) -> None:
    """loss = x x + 3 x + x: 2 x + 4."""
    model = Model()
    x = model.input("x", float32(2))
    (square,) = model.add("mul", [x, x])
    (three,) = model.add("mul", [x, model.constant("three", array(3))])
    loss = total(model, *model.add("add_n", [square, three, x]))
    with gradients(model, loss, [x]).compile(backend) as compiled:
        assert compiled(array(1, -2))[1].tolist() == [6, 0]


def test_only_what_leads_from_a_parameter_to_the_loss_is_differentiated() -> None:
    model = Model()
    x, w = model.input("x", float32(3)), model.constant("w", array(1, 2, 3))
    (early,) = model.add("reduce_prod", [x], {"axes": (0,), "keep_dims": True})  # has no gradient
    (product,) = model.add("mul", [early, w])
    (late,) = model.add("reduce_prod", [product], {"axes": (0,)})
    model.output(late)
    found = gradients(model, total(model, product), ["w"], outputs=True)
    assert [o.name for o in found.outputs][1:] == [late.name, "gradient of w"]
    results = found.evaluate([array(1, 2, 2), array(1, 2, 3)])
    assert results[2].tolist() == [4, 4, 4]


def test_operations_without_a_gradient_are_named() -> None:
    model = Model()
    x = model.input("x", float32(3, 2))
    (first,) = model.add("share_of_maximum", [x, x], origin="operator 7")
    (second,) = model.add("share_of_maximum", [first, x], origin="operator 8")
    with pytest.raises(UnsupportedError) as refused:
        gradients(model, total(model, second), [x])
    names = (f"share_of_maximum (operator {k}) has no gradient" for k in (7, 8))
    assert str(refused.value) == "; ".join(names)


def test_complex_numbers_are_no_way_around() -> None:
    """What goes through a Fourier transform acts on the loss, so its gradient is not 0."""
    model = Model()
    x = model.input("x", float32(1, 4))
    (y,) = model.add("rfft2d", [x], {"length": (1, 4)})
    with pytest.raises(UnsupportedError, match=r"rfft2d .*has no gradient"):
        gradients(model, total(model, *model.add("complex_abs", [y])), [x])


def test_quantised_operations_have_no_gradient() -> None:
    model = Model()
    x = model.input("x", float32(3))
    (stored,) = model.add("quantize", [x], {"dtype": "int8", "scale": 0.5, "zero_point": 0})
    (changed,) = model.add("relu", [stored], origin="operator 7")
    loss = total(model, *model.add("dequantize", [changed]))
    with pytest.raises(UnsupportedError, match=r"relu \(operator 7\) computes with quantised integers; deq"):
        gradients(model, loss, [x])
    with pytest.raises(ModelError, match=r"a gradient needs real numbers, .* has none"):
        gradients(model, loss, [stored])


def test_integers_and_truths_end_the_way() -> None:
    """As a comparison is constant between jumps, its gradient is 0."""
    model = Model()
    x = model.input("x", float32(3))
    (greater,) = model.add("greater", [x, model.constant("one", array(1))])
    (one,) = model.add("cast", [greater], {"dtype": "float32"})
    loss = total(model, *model.add("mul", [x, one]))
    assert gradients(model, loss, [x]).evaluate([array(0, 2, 3)])[1].tolist() == [0, 1, 1]


def test_without_a_way_to_the_loss_gradients_are_zeros(backend: str) -> None:
    model = Model()
    x, other = model.input("x", float32(2)), model.input("other", float32(2, 2))
    with gradients(model, total(model, x), [other, x]).compile(backend) as compiled:
        _, to_other, to_x = compiled(array(1, 2), np.ones((2, 2), np.float32))
    assert to_other.tolist() == [[0, 0], [0, 0]]
    assert to_x.tolist() == [1, 1]


def test_a_training_step_over_variables(backend: str) -> None:
    """w := w - rate (2 (w x - t) x): from 0 with x = 1, t = 1, rate = 1/4 the error halves with each step."""
    model = Model()
    x = model.input("x", float32(1))
    w = model.constant("w", array(0))
    (error,) = model.add("squared_difference", [*model.add("mul", [w, x]), model.constant("one", array(1))])
    step = differentiate(model, error, [w])
    assert step.parameters[0].lifetime is Lifetime.VARIABLE and step.parameters[0].name == "w"
    rate = step.graph.input("rate", float32())
    (change,) = step.graph.add("mul", [step.gradients[0], rate])
    step.graph.update(step.parameters[0], step.graph.add("sub", [step.parameters[0], change])[0])
    step.graph.output(step.loss)
    with Model.of(step.graph).compile(backend) as compiled:
        losses = [compiled(array(1), np.float32(0.25)).item() for _ in range(4)]
        assert compiled.stats.programs == 1
        assert compiled.variables()["w"].tolist() == [1 - 2.0**-4]
    assert losses == [1, 0.25, 0.0625, 0.015625]


def test_wrong_requests() -> None:
    model = Model()
    x, n = model.input("x", float32(2)), model.input("n", TensorType(DType.INT32, (2,)))
    loss = total(model, x)
    for arguments, reason in (
        ((loss, ["y"]), "has no operand 'y'"),
        ((loss, [n]), "a gradient needs real numbers"),
        ((x, [x]), "the loss must have one element"),
        ((loss, [x, x]), "a parameter is named twice"),
        ((loss, [Model().input("z", float32(2))]), "is no operand of model"),
    ):
        with pytest.raises(ModelError, match=reason):
            gradients(model, *arguments)
    model.input("x", float32(2))
    with pytest.raises(ModelError, match="has 2 operands 'x'"):
        gradients(model, loss, ["x"])


def test_fake_quant_lets_gradients_through(backend: str) -> None:
    model = Model()
    x = model.input("x", float32(4))
    loss = total(model, *model.add("fake_quant", [x], {"min": 0.0, "max": 25.5}))
    with gradients(model, loss, [x]).compile(backend) as compiled:
        assert compiled(array(-1, 3.14, 25, 26))[1].tolist() == [0, 1, 1, 0]


def test_ends_and_origins(backend: str) -> None:
    """Where there is no derivative, or two: the conventions of docs/training.md, none of which is NaN."""
    corner = np.zeros((1, 2, 2, 1), np.float32)
    window = {"size": (2, 2)}
    for op, inputs, attrs, expected in (
        ("leaky_relu", [array(-1, 0, 1)], {"alpha": 0.25}, [0.25, 0.25, 1]),
        ("prelu", [array(-1, 0, 1), array(0.5)], {}, [0.5, 0.5, 1]),
        ("atan2", [array(0, 0, 1), array(0, 2, 0)], {}, [0, 0.5, 0]),
        ("l2_pool2d", [corner], window, [0] * 4),
        ("l2_pool2d", [corner + 1], window, [0.25] * 4),
        ("l2_normalization", [array(0, 0)], {}, [0, 0]),
        ("clamp", [array(-2, -1, 0, 1, 2), array(-1), array(1)], {}, [0, 0.5, 1, 0.5, 0]),
        ("top_k", [array(1, 3, 3, 3)], {"k": 2}, [0, 1, 1, 0]),
    ):
        model = Model(op)
        operands = [model.input(f"x{k}", float32(*x.shape)) for k, x in enumerate(inputs)]
        loss = total(model, model.add(op, operands, attrs)[0])
        with gradients(model, loss, operands[:1]).compile(backend) as compiled:
            assert compiled(*inputs)[1].reshape(-1).tolist() == expected, op


def test_a_cast_casts_back() -> None:
    model = Model()
    x = model.input("x", float32(2))
    (half,) = model.add("cast", [x], {"dtype": "float16"})
    (square,) = model.add("square", [half])
    loss = total(model, *model.add("cast", [square], {"dtype": "float32"}))
    found = gradients(model, loss, [x])
    assert found.outputs[1].type == x.type
    assert found.evaluate([array(1, -3)])[1].tolist() == [2, -6]
