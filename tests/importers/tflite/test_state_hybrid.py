"""TFLite operators with state whose weights are 8-bit integers under float32 activations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpunn.model import load
from gpunn.types import Array, DType
from tests.importers.tflite.test_state import (
    CASES,
    Case,
    as_list,
    bidirectional_lstm,
    bidirectional_rnn,
    diagonal,
    file_of,
    frames,
    is_weight,
    lstm,
    rnn,
    sequence_lstm,
    sequence_rnn,
    svdf,
    symmetric,
)
from tests.tflite_builder import litert_runs

HYBRID = [(name, DType.INT8) for name in CASES if name != "lstm basic"]  # it has no hybrid form
# The hybrid kernel of LiteRT 2.3 mixes up the steps of time-major inputs, and crashes on merged results.
NOT_IN_LITERT = {"rnn both ways, merged", "rnn both ways, second apart"}
HYBRID += [(name, DType.UINT8) for name in ("lstm", "lstm both ways", "rnn", "rnn sequence", "svdf")]


@pytest.mark.parametrize(("name", "dtype"), HYBRID)
def test_quantised_weights_are_computed_as_reals(name: str, dtype: DType, backend: str) -> None:
    """Results have the bits of those with real weights; uint8 means int8, as in LiteRT.

    LiteRT's kernels round activations to 8 bits, so that its results are only near; a negative weight read as
    uint8 would be off by 256 steps of 0.6 / 127, that is 1.2.
    """
    case = CASES[name]
    file = file_of(case, dtype)
    reals = [
        np.float32(symmetric(item)[1]) * symmetric(item)[0].astype(np.float32)
        if isinstance(item, np.ndarray) and is_weight(case, position)
        else item
        for position, item in enumerate(case.inputs)
    ]
    same = file_of(replace(case, inputs=reals))
    model = load(file)
    with model.compile(backend=backend) as a, load(same).compile(backend=backend) as b:
        found = [as_list(a(*frame)) for frame in frames(case)]
        np.testing.assert_equal(found, [as_list(b(*frame)) for frame in frames(case)])
    if name not in NOT_IN_LITERT:
        for got, near in zip(found, litert_runs(file, frames(case)), strict=True):
            for y, rounded in zip(got, near, strict=True):
                np.testing.assert_allclose(y, rounded, rtol=0, atol=0.1)


TANH = {"fused_activation_function": "TANH"}
FIRST = {
    "lstm": lstm(3, 5, 4, peephole=True),
    "lstm without input gate": lstm(3, 5, 4, cifg=True, norm=True, cell_clip=0.4),
    "lstm sequence": sequence_lstm(1, lstm(3, 5, 4, peephole=True)),
    "lstm sequence, of diagonals": sequence_lstm(1, diagonal(lstm(3, 5, 4))),
    "lstm both ways": bidirectional_lstm(1, 3, 4, 5, auxiliary="beside", time_major=True),
    "lstm both ways, second apart": bidirectional_lstm(1, 1, 4, 5, auxiliary="instead"),
    "rnn": rnn(3, 5, 4, **TANH),
    "rnn sequence": sequence_rnn(1, 3, 5, 4, **TANH, time_major=True),
    "rnn both ways": bidirectional_rnn(1, 3, 4, (4, 3), "beside", **TANH),
    "rnn both ways, second apart": bidirectional_rnn(1, 3, 4, (4, 3), "instead", **TANH, time_major=True),
    "svdf": svdf(3, 5, 6, 2, 3, fused_activation_function="RELU6"),
}


def without_loss(seed: int, shape: tuple[int, ...], asymmetric: bool) -> Array:
    """Return rows that LiteRT's kernels quantise without loss: multiples of a step, with both ends."""
    low, high = (-100, 155) if asymmetric else (-127, 127)
    steps = np.random.default_rng(seed).integers(low, high + 1, shape)
    steps[..., 0], steps[..., -1] = low, high
    return (steps / 128).astype(np.float32)


@pytest.mark.parametrize(
    ("asymmetric", "dtype"), [(False, DType.INT8), (True, DType.INT8), (True, DType.UINT8)]
)
@pytest.mark.parametrize("case", FIRST.values(), ids=FIRST)
def test_inputs_quantised_without_loss_agree_with_litert(case: Case, asymmetric: bool, dtype: DType) -> None:
    """Compare the first step, whose state is 0; LiteRT quantises the states of later steps with loss.

    LiteRT's sums of products are exact; its tanh and logistic, of few rational terms, are off by up to 1e-6,
    which layer normalisation multiplies by at most 10 here.
    """
    inputs = [
        without_loss(9, i.shape, asymmetric) if isinstance(i, np.ndarray) and i.ndim == 3 else i
        for i in case.inputs
    ]
    options = {**case.options, "asymmetric_quantize_inputs": asymmetric}
    file = file_of(replace(case, inputs=inputs, options=options), dtype)
    x = without_loss(1, case.x, asymmetric)
    (expected,) = litert_runs(file, [[x]])
    with load(file).compile(backend="cpu") as compiled:
        for y, wanted in zip(as_list(compiled(x)), expected, strict=True):
            np.testing.assert_allclose(y, wanted, rtol=0, atol=2e-5)
