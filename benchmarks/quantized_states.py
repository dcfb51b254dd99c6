"""Random quantised recurrent layers: LSTM and SVDF over whole sequences from empty states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.quantized_drawing import I32, Drawing, Layer
from gpunn.types import DType, Quantization, TensorType
from tests.tflite_builder import ABSENT

CELL_STEPS = range(-15, -8)  # powers of two that the scale of a cell state may be


def _constant(
    drawing: Drawing, dtype: DType, shape: Sequence[int], step: float, most: int, there: bool = True
) -> None:
    """Add random integers from -most to most, in steps of about `step`; or nothing."""
    if not there:
        drawing.numbers.append(ABSENT)
        return
    kind = drawing.type(*shape, about=step, dtype=dtype)
    assert kind.quantization is not None
    kind = TensorType(dtype, kind.shape, Quantization(kind.quantization.scale, (0,)))
    value = drawing.rng.integers(-most, most + 1, shape).astype(dtype.numpy)
    drawing.numbers.append(drawing.graph.tensor(kind, data=value.tobytes()))


def _state(drawing: Drawing, kind: TensorType) -> None:
    drawing.numbers.append(drawing.graph.tensor(kind, is_variable=True))


def lstm(drawing: Drawing) -> Layer:
    """Draw UNIDIRECTIONAL_SEQUENCE_LSTM of int8 with a cell state of int16, in any of its forms."""
    batch, steps, depth, units = (
        drawing.between(low, high) for low, high in ((1, 6), (1, 20), (1, 40), (1, 40))
    )
    coupled, peepholes, normalised, projected = (bool(drawing.between(0, 1)) for _ in range(4))
    # LiteRT reads as many peepholes as the projection is wide, also of a cell of another width.
    out = drawing.between(1, 40) if projected and not peepholes else units
    there = [not coupled, True, True, True]  # gates: input, forget, cell, output
    drawing.input(batch, steps, depth)
    y = drawing.type(batch, steps, out, about=0.01)
    for size in (depth, out):
        for gate in there:
            _constant(drawing, DType.INT8, (units, size), 0.01, 127, gate)
    for k in (0, 1, 3):
        _constant(drawing, DType.INT16, (units,), 2e-5, 32767, peepholes and there[k])
    for gate in there:
        _constant(drawing, I32, (units,), 1e-4, 2_000_000 if normalised else 20_000, gate)
    _constant(drawing, DType.INT8, (out, units), 0.003, 127, projected)
    _constant(drawing, I32, (out,), 8e-5, 5000, projected)
    _state(drawing, y.with_shape((batch, out)))
    cell = 2.0 ** int(drawing.rng.choice(CELL_STEPS))
    _state(drawing, TensorType(DType.INT16, (batch, units), Quantization((cell,), (0,))))
    for gate in there:
        _constant(drawing, DType.INT16, (units,), 5e-4, 6500, normalised and gate)
    hidden = drawing.type(0, about=0.008) if projected else y.with_shape((0,))
    sums = [drawing.type(0, about=2.0**-12, dtype=DType.INT16) for _ in range(4)]
    between = [drawing.graph.tensor(kind) for kind in (*sums, hidden)]
    options = {"fused_activation_function": "TANH"}
    return drawing.layer("UNIDIRECTIONAL_SEQUENCE_LSTM", y, options, 3, intermediates=between)


def basic_lstm(drawing: Drawing) -> Layer:
    """Draw a step of LSTM of uint8, of the kernel BASIC, from empty states."""
    batch, depth, units = (drawing.between(1, most) for most in (30, 60, 60))
    x, y = (TensorType(DType.UINT8, (batch, n), Quantization((2.0**-7,), (128,))) for n in (depth, units))
    drawing.input(*x.shape, like=x)
    _state(drawing, y)
    w = drawing.type(4 * units, depth + units, about=0.01)
    assert w.quantization is not None
    drawing.numbers.append(drawing.graph.tensor(w, data=drawing.fill(w).tobytes()))
    bias = TensorType(
        I32, (4 * units,), Quantization((float(np.float32(w.quantization.scale[0] / 128)),), (0,))
    )
    values = drawing.rng.integers(-8000, 8000, bias.shape, np.int32)
    drawing.numbers.append(drawing.graph.tensor(bias, data=values.tobytes()))
    cell = TensorType(DType.INT16, (batch, units), Quantization((2.0**-11,), (0,)))
    _state(drawing, cell)
    gates = TensorType(DType.INT16, (batch, 4 * units), Quantization((2.0**-12,), (0,)))
    options = {"fused_activation_function": "TANH", "kernel_type": 1}
    hidden = [cell, x.with_shape((batch, depth + units)), gates]
    return drawing.layer("LSTM", y, options, 2, more=hidden, runs=4)


def svdf(drawing: Drawing) -> Layer:
    """Draw a step of SVDF of int8 with a state of int16, from an empty state."""
    batch, depth, units, rank, memory = (drawing.between(1, most) for most in (30, 60, 60, 3, 8))
    drawing.input(batch, depth)
    _constant(drawing, DType.INT8, (units * rank, depth), 0.01, 127)
    _constant(drawing, DType.INT16, (units * rank, memory), 2e-5, 32767)
    _constant(drawing, I32, (units,), 1e-8, 2_000_000, bool(drawing.between(0, 1)))
    state = TensorType(DType.INT16, (batch, units * rank * memory), Quantization((5e-4,), (0,)))
    _state(drawing, state)
    y = drawing.type(batch, units, about=0.02)
    assert y.quantization is not None
    y = TensorType(y.dtype, y.shape, Quantization(y.quantization.scale, (-128,)))
    return drawing.layer("SVDF", y, {"rank": rank, "fused_activation_function": "RELU"}, 3, runs=8)


STATES: Mapping[str, Callable[[Drawing], Layer]] = {"LSTM": lstm, "BASIC_LSTM": basic_lstm, "SVDF": svdf}
