"""State has a row for each sample: files state it for their own batch, runs may have another."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.model import load
from tests.importers.tflite.test_state import (
    TOLERANCE,
    Case,
    as_list,
    bidirectional_rnn,
    file_of,
    lstm,
    rnn,
    sequence_rnn,
    svdf,
)
from tests.ops.harness import random
from tests.tflite_builder import litert_runs


@pytest.mark.parametrize(
    "case",
    [
        rnn(1, 3, 4, fused_activation_function="TANH"),
        svdf(1, 3, 4, 2, 5),
        sequence_rnn(4, 1, 3, 4, time_major=False),
        sequence_rnn(4, 1, 3, 4, time_major=True),
        sequence_rnn(1, 1, 3, 4, time_major=True),
        lstm(1, 3, 4),
        bidirectional_rnn(4, 1, 3, (4, 5), time_major=True),
    ],
    ids=lambda case: f"{case.operator} {case.x}",
)
def test_state_has_a_row_for_each_sample(case: Case, backend: str) -> None:
    """The file states one sample; each of three gives what it gives alone, from a first state of zeros."""
    file, axis = file_of(case), 1 if case.options.get("time_major") else 0
    samples = [random(seed, *case.x, low=-1, high=1) for seed in range(3)]
    alone = [litert_runs(file, [[sample]])[0] for sample in samples]
    x = np.concatenate(samples, axis)
    model = load(file)
    with model.compile(backend, shapes={model.inputs[0].name: x.shape}) as compiled:
        for found, parts in zip(as_list(compiled(x)), zip(*alone, strict=True), strict=True):
            np.testing.assert_allclose(found, np.concatenate(parts, axis), rtol=0, atol=TOLERANCE)


def test_more_steps_of_time_leave_the_state_as_it_is(backend: str) -> None:
    """One step and one sample in the file, and so one row of state: the first axis is time, not the batch."""
    model = load(file_of(sequence_rnn(1, 1, 3, 4, time_major=True)))
    x = random(0, 5, 1, 3, low=-1, high=1)
    with (
        model.compile(backend) as one,
        model.compile(backend, shapes={model.inputs[0].name: x.shape}) as all_,
    ):
        steps = np.concatenate([one(step[None]) for step in x])
        np.testing.assert_allclose(all_(x), steps, rtol=0, atol=TOLERANCE)
