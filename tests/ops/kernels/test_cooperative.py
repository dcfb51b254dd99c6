"""Which invocations share a result: on software few do, because barriers cost more than the terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpunn.device import BASELINE
from gpunn.ops.kernels.cooperative import WORKGROUP, cooperative_group
from tests.ops.harness import EPS, check, model_of, random

SOFTWARE = replace(BASELINE, software=True)
ALONE, SHARED = 1, WORKGROUP


@pytest.mark.parametrize(
    ("results", "terms", "software", "hardware"),
    [
        (1, 64, ALONE, ALONE),
        (500, 64, ALONE, ALONE),
        (127, 65, SHARED, SHARED),
        (128, 65, ALONE, SHARED),
        (128, 4096, ALONE, SHARED),
        (128, 4097, SHARED, SHARED),
    ],
)
def test_who_shares(results: int, terms: int, software: int, hardware: int) -> None:
    assert cooperative_group(results, terms, SOFTWARE).size == software
    assert cooperative_group(results, terms, BASELINE).size == hardware


# A sum of 70 terms has 69 roundings; exponentials of numbers down to -2, squares and quotients have fewer
# than 11. Results are up to 1.
ROWS: tuple[tuple[str, Mapping[str, Any], float], ...] = (
    ("softmax", {"axis": -1}, 80 * EPS),
    ("l2_normalization", {"axis": -1}, 80 * EPS),
    ("mean", {"axes": (-1,)}, 80 * EPS),
    ("arg_max", {"axis": -1}, 0.0),
)


@pytest.mark.parametrize("rows", [127, 128, 131])
@pytest.mark.parametrize(("op", "attrs", "atol"), ROWS, ids=[op for op, _, _ in ROWS])
def test_rows_of_both_kinds(op: str, attrs: Mapping[str, Any], atol: float, rows: int, gpu: str) -> None:
    """Where lavapipe's way changes, rows are what they were, also in a last workgroup that is not full."""
    x = random(rows, rows, 70, low=-1, high=1)
    check(op, [x], attrs, backend=gpu, atol=atol)
    with model_of(op, [x], attrs).compile(gpu) as compiled:
        (row,) = compiled.plan_rows()
    assert row.kernel.constants["GROUP_SIZE"] == (SHARED if rows < 2 * WORKGROUP else ALONE)
