"""Compares quantised element-wise operators with LiteRT over random scales and zero points, bit by bit.

    python -m benchmarks.quantized_sweep LOGISTIC TANH --dtype int8 --sets 1000

A set is a random choice of scales and zero points. Functions of one tensor get all 256 stored values in each
set, functions of two tensors get all 65,536 pairs. Operators of benchmarks/quantized_layers.py get random
shapes and values instead. With --results N there are as many sets as N results take. The oracle is
ai-edge-litert with its default kernels.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import gpunn
from benchmarks.quantized_layers import LAYERS, WIDE, drawn_layer
from gpunn.types import Array, DType, Quantization, TensorType
from tests.tflite_builder import litert_runs, single_op

PAIRS = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "PRELU")
ALIKE = ("MAXIMUM", "MINIMUM", "NEG")  # LiteRT wants one quantisation for all tensors
POSITIVE = ("LOG", "SQRT", "RSQRT")  # of these there is no result below 0
RESULTS = {"LOGISTIC": (2.0**-8, -128), "TANH": (2.0**-7, 0)}  # scale, and zero point of int8, in TFLite


def main() -> None:
    """Run the sweeps that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("operators", nargs="+", metavar="OPERATOR")
    parser.add_argument("--dtype", choices=["int8", "uint8", "int16", "int32"], default="int8")
    parser.add_argument("--bias", choices=["int32", "int64"], default="int64", help="of layers of int16")
    parser.add_argument("--sets", type=int, default=100, metavar="N")
    parser.add_argument("--results", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for operator in options.operators:
        rng = np.random.default_rng(options.seed)
        total = differing = sets = number = 0
        largest, example = 0, ""
        while total < options.results or number < options.sets * (not options.results):
            types, arrays, (ours, theirs) = compared(rng, operator, DType(options.dtype), DType(options.bias))
            apart = np.abs(ours.astype(int) - theirs.astype(int)).reshape(-1)
            total, differing = total + apart.size, differing + int(np.count_nonzero(apart))
            sets, number = sets + bool(apart.any()), number + 1
            if apart.max(initial=0) > largest:
                largest, at = int(apart.max()), int(apart.argmax())
                stored = ", ".join(str(a[at]) for a in arrays)
                quantization = "; ".join(str(t.quantization) for t in types)
                found = f"{ours.reshape(-1)[at]}, LiteRT {theirs.reshape(-1)[at]}"
                example = f"; of ({stored}): {found}, with {quantization}"
        print(
            f"{operator} {options.dtype}: {differing} of {total} results differ, in {sets} of {number} "
            f"sets, by at most {largest}{example}",
            flush=True,
        )


def compared(
    rng: np.random.Generator, operator: str, dtype: DType, bias: DType
) -> tuple[Sequence[TensorType], Sequence[Array], tuple[Array, Array]]:
    """Draw a set; return the types and values of a function's operands, and what gpunn and LiteRT give."""
    if operator in LAYERS or (operator in WIDE and dtype is DType.INT16):
        layer = drawn_layer(rng, operator, dtype, bias)
        return (), (), results(layer.file, layer.frames)
    types, arrays = drawn(rng, operator, dtype)
    return types, arrays, results(single_op(operator, types[:-1], [types[-1]]), [arrays])


def drawn(rng: np.random.Generator, operator: str, dtype: DType) -> tuple[list[TensorType], list[Array]]:
    """Draw the types of inputs and result, and return them with all combinations of stored values."""
    low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
    wide = dtype is DType.INT16  # whose zero points are 0
    values = np.arange(0 if wide and operator in POSITIVE else low, high + 1, dtype=np.int64)
    count = 2 if operator in PAIRS else 1
    grid = [g.reshape(-1).astype(dtype.numpy) for g in np.meshgrid(*[values] * count, indexing="ij")]

    def type(scale: float, zero: int) -> TensorType:
        return TensorType(dtype, grid[0].shape, Quantization((float(np.float32(scale)),), (zero,)))

    def random(scale: float) -> TensorType:
        zero = int(rng.integers(low, high + 1))
        return type(scale * 2.0 ** rng.uniform(-2, 2), 0 if wide else zero)

    inputs = [random(2.0**-4) for _ in range(count)]
    if operator in ALIKE:
        return [inputs[0]] * (count + 1), grid
    if operator in POSITIVE and not wide and inputs[0].quantization:  # nothing below the zero point
        inputs[0] = type(inputs[0].quantization.scale[0], low)
    if operator in RESULTS:
        if wide:
            return [*inputs, type(2.0**-15, 0)], grid
        scale, zero = RESULTS[operator]
        return [*inputs, type(scale, zero + low + 128)], grid
    largest = max(t.quantization.scale[0] for t in inputs if t.quantization)
    return [*inputs, random(largest if operator != "MUL" else 4 * largest)], grid


def results(data: bytes, frames: Sequence[Sequence[Array]]) -> tuple[Array, Array]:
    """Return what gpunn's CPU backend and what LiteRT give, for one frame of inputs after the other."""
    with gpunn.load(data).compile("cpu") as compiled:
        ours = [compiled(*frame).reshape(-1) for frame in frames]
    theirs = [y.reshape(-1) for (y,) in litert_runs(data, frames)]
    return np.concatenate(ours), np.concatenate(theirs)


if __name__ == "__main__":
    main()
