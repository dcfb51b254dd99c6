"""Options and operands of operators: the attributes that they become, and refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpunn.errors import FormatError, ModelError, UnsupportedError
from gpunn.model import load
from gpunn.types import Array, DType, TensorType, float32
from tests.importers.tflite.case import Case, ints
from tests.importers.tflite.test_operators import check
from tests.tflite_builder import Graph, single_op

RNG = np.random.default_rng(3)


def rand(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


IMAGE = float32(2, 7, 6, 4)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_strided_slice_bounds_agree_with_litert(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    count = data.draw(st.integers(1, len(shape)))
    bound = st.lists(st.integers(-7, 7), min_size=count, max_size=count)
    begin, end = data.draw(bound), data.draw(bound)
    strides = data.draw(st.lists(st.integers(-3, 3).filter(bool), min_size=count, max_size=count))
    mask = st.integers(0, 2**count - 1)
    options = {"begin_mask": data.draw(mask), "end_mask": data.draw(mask)}
    taken = [
        slice(
            None if options["begin_mask"] >> i & 1 else begin[i],
            None if options["end_mask"] >> i & 1 else end[i],
            strides[i],
        )
        for i in range(count)
    ]
    assume(np.empty(shape)[tuple(taken)].size)
    bounds = [ints(*begin), ints(*end), ints(*strides)]
    check(Case("STRIDED_SLICE", [float32(*shape), *bounds], options=options), "cpu")


@pytest.mark.parametrize("operator", ["ADD", "CONCATENATION", "CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D"])
@pytest.mark.parametrize(
    ("fused", "name"),
    [
        ("RELU", "relu"),
        ("RELU_N1_TO_1", "relu1"),
        ("RELU6", "relu6"),
        ("TANH", "tanh"),
        ("SIGN_BIT", "sign_bit"),
    ],
)
def test_fused_activation_is_an_attribute(operator: str, fused: str, name: str) -> None:
    file = one(operator, {"fused_activation_function": fused})
    assert load(file).operations[0].attrs["activation"] == name


def one(operator: str, options: Mapping[str, Any]) -> bytes:
    """Return a file with a small instance of an operator."""
    square, row = float32(1, 2, 2, 2), float32(1, 4)
    window = {"stride_w": 1, "stride_h": 1}
    inputs, output, more = {
        "ADD": ([row, row], row, {}),
        "CONCATENATION": ([row, row], float32(1, 8), {"axis": 1}),
        "CONV_2D": ([square, rand(2, 1, 1, 2)], square, window),
        "FULLY_CONNECTED": ([row, rand(4, 4)], row, {}),
        "MAX_POOL_2D": ([square], square, {**window, "filter_width": 1, "filter_height": 1}),
    }[operator]
    return single_op(operator, inputs, [output], {**more, **options})


INDICES = TensorType(DType.INT32, (2,))
REFUSED: dict[str, tuple[str, Sequence[Array | TensorType | None], Mapping[str, Any] | None, str]] = {
    "shuffled weights": (
        "FULLY_CONNECTED",
        [float32(2, 3), rand(3, 3)],
        {"weights_format": 1},
        "with shuffled weights, input and weights must be UINT8 and the output INT16",
    ),
    "integers": ("FULLY_CONNECTED", [INDICES, INDICES], None, r"input 0 \(t0\) is INT32, only FLOAT32"),
    "no rule": ("STABLEHLO_SORT", [float32(2, 3)], None, "this operator is not supported"),
    "custom": ("TFLite_Detection", [float32(2, 3)], None, "CUSTOM TFLite_Detection v1"),
}


@pytest.mark.parametrize(("operator", "inputs", "options", "reason"), REFUSED.values(), ids=REFUSED)
def test_refusals_have_reasons(
    operator: str,
    inputs: Sequence[Array | TensorType | None],
    options: Mapping[str, Any] | None,
    reason: str,
) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        load(single_op(operator, inputs, [float32(2, 3)], options))


WINDOW = {"stride_w": 1, "stride_h": 1}
WRONG: dict[str, tuple[str, Sequence[Array | TensorType | None], Mapping[str, Any] | None, str]] = {
    "weights format": (
        "FULLY_CONNECTED",
        [float32(2, 3), rand(3, 3)],
        {"weights_format": 2},
        "there is no weights",
    ),
    "stride 0": ("CONV_2D", [IMAGE, rand(5, 3, 2, 4)], None, "stride must be"),
    "negative stride": ("CONV_2D", [IMAGE, rand(5, 3, 2, 4)], {**WINDOW, "stride_w": -1}, "stride must be"),
    "padding name": ("CONV_2D", [IMAGE, rand(5, 3, 2, 4)], {**WINDOW, "padding": 7}, "no padding number 7"),
    "activation": ("ADD", [IMAGE, IMAGE], {"fused_activation_function": 99}, "no fused activation number 99"),
    "no window": ("MAX_POOL_2D", [IMAGE], WINDOW, "window size must be"),
    "no operand": ("MEAN", [IMAGE], None, "input 1 is missing"),
    "axis": ("MEAN", [IMAGE, ints(7)], None, "axis 7 is out of range"),
    "float axes": ("MEAN", [IMAGE, rand(1)], None, "axes should be int32 or int64, got float32"),
    "paddings": ("PAD", [IMAGE, ints([1, 2])], None, r"should have shape \[4, 2\], got \[1, 2\]"),
    "negative paddings": ("PAD", [float32(2), ints([1, -2])], None, "paddings must be >= 0"),
    "two padding values": ("PADV2", [float32(2), ints([1, 2]), rand(2)], None, "one padding value, got 2"),
    "two unknown extents": ("RESHAPE", [IMAGE, ints(-1, -1)], None, "at most one -1"),
    "other size": ("RESHAPE", [IMAGE, ints(5, 5)], None, "cannot take shape"),
    "resize modes": (
        "RESIZE_BILINEAR",
        [IMAGE, ints(2, 2)],
        {"align_corners": True, "half_pixel_centers": True},
        "exclude each other",
    ),
    "resize to nothing": ("RESIZE_BILINEAR", [IMAGE, ints(0, 2)], None, "size must be positive"),
    "three extents": ("RESIZE_BILINEAR", [IMAGE, ints(2, 2, 2)], None, "expected 2 extents, got 3"),
    "no permutation": ("TRANSPOSE", [IMAGE, ints(0, 1, 2, 2)], None, "perm must name each"),
    "stride of a slice": ("STRIDED_SLICE", [IMAGE, ints(0), ints(1), ints(0)], None, "stride is 0"),
    "many slices": ("STRIDED_SLICE", [float32(2), ints(0, 0), ints(1, 1), ints(1, 1)], None, "more slices"),
    "index": (
        "STRIDED_SLICE",
        [float32(2), ints(2), ints(3), ints(1)],
        {"shrink_axis_mask": 1},
        "must be an index into shape",
    ),
    "channels": ("CONV_2D", [IMAGE, rand(5, 3, 2, 3)], WINDOW, "channels"),
    "many inputs": ("RELU", [IMAGE, IMAGE], None, "takes inputs"),
    "shapes": ("ADD", [float32(2, 3), float32(2, 2)], None, "cannot be broadcast"),
}


@pytest.mark.parametrize(("operator", "inputs", "options", "reason"), WRONG.values(), ids=WRONG)
def test_wrong_operators_are_refused(
    operator: str,
    inputs: Sequence[Array | TensorType | None],
    options: Mapping[str, Any] | None,
    reason: str,
) -> None:
    with pytest.raises((FormatError, ModelError), match=reason) as caught:
        load(single_op(operator, inputs, [float32(1)], options))
    assert f"model: operation 0, {operator}" in str(caught.value)


def test_option_table_of_another_operator_is_refused() -> None:
    graph = Graph()
    x = graph.input(float32(1, 2))
    (y,) = graph.add("ADD", [x, x], [float32(1, 2)])
    file = bytearray(graph.build([y]))
    add_options, reshape_options = 11, 17  # union BuiltinOptions
    positions = [i for i, byte in enumerate(file) if byte == add_options]
    messages = []
    for position in positions:
        changed = bytearray(file)
        changed[position] = reshape_options
        try:
            load(bytes(changed))
        except (FormatError, ModelError) as error:
            messages.append(str(error))
    assert any("expected the option table AddOptions, got ReshapeOptions" in m for m in messages)


def test_first_extent_of_a_reshape_follows_the_batch() -> None:
    model = load(single_op("RESHAPE", [float32(1, 2, 3), ints(1, 6)], [float32(1, 6)]))
    for batch in (1, 3):
        reshaped = model.reshaped({model.inputs[0].name: (batch, 2, 3)})
        assert reshaped.outputs[0].type.shape == (batch, 6)
    with pytest.raises(ModelError, match="cannot take shape"):
        model.reshaped({model.inputs[0].name: (1, 4, 3)})


@pytest.mark.parametrize(
    ("extents", "shape", "expected"),
    [
        ((1, -1, 2), (4, 3, 8), (4, 12, 2)),  # the samples of a detector stay apart
        ((1, -1, 2), (1, 5, 8), (1, 20, 2)),
        ((1, -1, 2), (3, 5, 8), (1, 60, 2)),  # what belongs to a sample is not known
        ((-1, 12, 2), (4, 3, 8), (4, 12, 2)),
    ],
)
def test_first_extent_of_a_reshape_beside_an_open_one(
    extents: tuple[int, ...], shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    model = load(single_op("RESHAPE", [float32(1, 3, 8), ints(*extents)], [float32(1, 12, 2)]))
    assert model.outputs[0].type.shape == (1, 12, 2)
    assert model.reshaped({model.inputs[0].name: shape}).outputs[0].type.shape == expected
