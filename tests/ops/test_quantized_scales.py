"""Ops on quantised tensors whose scales lie at the ends of float32."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.types import DType, Quantization, float32
from tests.ops.elementwise.test_quantized_binary import BINARY
from tests.ops.elementwise.test_quantized_unary import attributes
from tests.ops.integer_checks import check_integer
from tests.ops.quantized import both, every_width, quantized, stored

FAR = (1e-44, 1e-20, 1.0, 1e20, 1e38)


@pytest.mark.sample(2)
@every_width
@pytest.mark.parametrize(
    "op", ["add", "mul", "prelu", "maximum", "relu6", "leaky_relu", "hard_swish", "concat"]
)
def test_scales_at_the_ends_of_float32(op: str, dtype: DType, backend: str) -> None:
    count = 2 if op in (*BINARY, "concat") else 1
    fused = {"activation": "relu6"} if op == "add" else {}
    attrs = {**attributes(op), **({"axis": 0} if op == "concat" else fused)}
    for a in FAR:
        for y in FAR:
            types = [
                quantized(dtype, (8,), a, 3),
                quantized(dtype, (8,), 1e20, -1 if dtype is DType.INT8 else 9),
            ]
            values = [stored(k, t) for k, t in enumerate(types)]
            output = Quantization((float(np.float32(y)),), (5,))
            check_integer(op, values[:count], types[:count], attrs, output, backend=backend)


@both
def test_other_ops_under_scales_at_the_ends_of_float32(dtype: DType, backend: str) -> None:
    for a in FAR:
        x = quantized(dtype, (2, 8), a, 3)
        values = stored(1, x)
        check_integer("softmax", [values], [x], backend=backend)
        check_integer("logistic", [values], [x], backend=backend)
        check_integer("dequantize", [values], [x], backend=backend)
        for y in FAR:
            output = Quantization((float(np.float32(y)),), (5,))
            check_integer("mean", [values], [x], {"axes": (1,)}, output, backend=backend)
            attrs = {"dtype": dtype.value, "scale": output.scale[0], "zero_point": 5}
            check_integer("quantize", [values], [x], attrs, backend=backend)
            check_integer("quantize", [np.float32([-1, 0, 1e30])], [float32(3)], attrs, backend=backend)
