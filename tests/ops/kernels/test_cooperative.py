"""Which invocations share a result: on software few do, because barriers cost more than the terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import candidates
from gpunn.device import BASELINE
from gpunn.ops.kernels.cooperative import WORKGROUP, cooperative_group
from tests.ops.harness import EPS, as_software, check, limit_device, model_of, random, take_candidate

SOFTWARE = replace(BASELINE, software=True)
HARDWARE = replace(BASELINE, parallel_invocations=1 << 15)
ALONE, SHARED, WIDE = 1, WORKGROUP, 256


@pytest.mark.parametrize(
    ("results", "terms", "software", "few", "hardware"),
    [
        (1, 64, ALONE, ALONE, ALONE),
        (500, 64, ALONE, ALONE, ALONE),
        (1, 65, SHARED, ALONE, SHARED),
        (3, 65, SHARED, ALONE, SHARED),
        (4, 65, ALONE, ALONE, SHARED),
        (4, 1024, ALONE, ALONE, SHARED),
        (4, 1025, SHARED, ALONE, SHARED),
        (15, 4096, SHARED, ALONE, SHARED),
        (16, 4096, ALONE, ALONE, SHARED),
        (1, 4097, SHARED, SHARED, SHARED),
        (128, 4097, SHARED, SHARED, SHARED),
    ],
)
def test_who_shares(results: int, terms: int, software: int, few: int, hardware: int) -> None:
    assert cooperative_group(results, terms, SOFTWARE).size == software
    assert cooperative_group(results, terms, SOFTWARE, few=True).size == few
    assert cooperative_group(results, terms, BASELINE, few=True).size == hardware
    assert cooperative_group(results, terms, BASELINE).size == hardware


@pytest.mark.parametrize(
    ("results", "terms", "most", "parts"),
    [
        (3, 1024, None, 0),
        (3, 1025, None, 2),
        (15, 4096, None, 4),
        (16, 4096, None, 1),
        (16, 4097, None, 5),
        (1, 1 << 20, None, 64),
        (1, 1 << 20, 1 << 14, 64),
        (1, 1 << 20, (1 << 14) - 1, 0),
    ],
)
def test_software_joins_parts(results: int, terms: int, most: int | None, parts: int) -> None:
    """Up to 64 parts, if loops are long enough for these; 0: a workgroup shares each result."""
    device = replace(SOFTWARE, max_loop_iterations=most)
    group = cooperative_group(results, terms, device, parted=True)
    assert group.size == (ALONE if parts else SHARED)
    assert group.parts == max(parts, 1)
    assert cooperative_group(results, terms, BASELINE, parted=True).parts == 1


@pytest.mark.parametrize("rows", [3, 17])
@pytest.mark.parametrize("terms", [1025, 4097, 70000])
def test_long_rows_and_columns_on_software(
    rows: int, terms: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_software(monkeypatch)
    for shape, axis in (((rows, terms), 1), ((terms, 4 * rows), 0)):
        x = random(terms, *shape, low=-1, high=1)
        for op, factor in (("mean", 1.0), ("reduce_sum", float(terms)), ("reduce_max", 0.0)):
            check(op, [x], {"axes": (axis,)}, backend=gpu, atol=factor * terms * EPS)


@pytest.mark.parametrize(("results", "terms", "width"), [(511, 64, 8), (512, 64, 64), (1, 4097, 64)])
def test_few_results_on_software_have_narrow_workgroups(results: int, terms: int, width: int) -> None:
    group = cooperative_group(results, terms, SOFTWARE)
    assert group.workgroup == (width, 1, 1)
    assert group.threads[0] * width >= results
    assert cooperative_group(results, terms, BASELINE).workgroup == (WORKGROUP, 1, 1)


@pytest.mark.parametrize(
    ("results", "terms", "size"),
    [
        (1, 15, ALONE),
        (1, 16, 2),
        (1, 64, 8),
        (8191, 49, 4),
        (1 << 15, 64, ALONE),
        (1, 65, SHARED),
        (1, 511, SHARED),
        (1, 512, WIDE),
        (511, 512, WIDE),
        (512, 512, SHARED),
    ],
)
def test_hardware_shares_until_it_is_occupied(results: int, terms: int, size: int) -> None:
    """Each invocation has eight terms or more, where fewer than 64 share a result."""
    assert cooperative_group(results, terms, HARDWARE).size == size


# A sum of n terms has n - 1 roundings; exponentials of numbers down to -2, squares and quotients have fewer
# than 11. Results are up to 1. Factors: 1 where there are sums.
ROWS: tuple[tuple[str, Mapping[str, Any], float], ...] = (
    ("softmax", {"axis": -1}, 1.0),
    ("l2_normalization", {"axis": -1}, 1.0),
    ("layer_normalization", {"axes": (-1,), "epsilon": 1e-3}, 4.0),
    ("mean", {"axes": (-1,)}, 1.0),
    ("arg_max", {"axis": -1}, 0.0),
)
ROW_ATTRIBUTES = {op: attrs for op, attrs, _ in ROWS}


@pytest.mark.parametrize(("rows", "terms"), [(3, 70), (4, 70), (131, 70), (1, 4096), (3, 4097)])
@pytest.mark.parametrize(("op", "attrs", "factor"), ROWS, ids=[op for op, _, _ in ROWS])
def test_rows_of_both_kinds(
    op: str, attrs: Mapping[str, Any], factor: float, rows: int, terms: int, gpu: str
) -> None:
    """Rows where lavapipe's way changes, also in a last workgroup that is not full."""
    x = random(rows, rows, terms, low=-1, high=1)
    check(op, [x], attrs, backend=gpu, atol=factor * (terms + 10) * EPS)
    with model_of(op, [x], attrs).compile(gpu) as compiled:
        row = compiled.plan_rows()[0]
    few = op not in ("mean", "arg_max") or rows >= 4
    software = open_device(None, False).properties.software
    shared = SHARED if software or terms < 512 else WIDE
    alone = software and ((few and terms <= 4096) or (op == "mean" and terms > 1024))
    assert row.kernel.constants["GROUP_SIZE"] == (ALONE if alone else shared)


@pytest.mark.parametrize(("op", "attrs", "factor"), ROWS, ids=[op for op, _, _ in ROWS])
@pytest.mark.parametrize("rows", [65, 129])
def test_rows_of_the_other_kind(
    op: str, attrs: Mapping[str, Any], factor: float, rows: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tuner may take the way that is not the rule's."""
    take_candidate(monkeypatch, 1)
    x = random(rows, rows, 70, low=-1, high=1)
    check(op, [x], attrs, backend=gpu, atol=factor * 80 * EPS)
    with model_of(op, [x], attrs).compile(gpu) as compiled:
        row = compiled.plan_rows()[0]
    alone = open_device(None, False).properties.software
    assert row.kernel.constants["GROUP_SIZE"] == (SHARED if alone else ALONE)


@pytest.mark.parametrize("terms", [33, 64, 600, 17000])
@pytest.mark.parametrize(("op", "attrs", "factor"), ROWS, ids=[op for op, _, _ in ROWS])
def test_rows_on_hardware(
    op: str, attrs: Mapping[str, Any], factor: float, terms: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of 4, 8 and 256; and 17,000 terms of three reductions in parts."""
    limit_device(monkeypatch, software=False, parallel_invocations=1 << 15)
    x = random(terms, 3, terms, low=-1, high=1)
    check(op, [x], attrs, backend=gpu, atol=factor * (terms + 10) * EPS)
    with model_of(op, [x], attrs).compile(gpu) as compiled:
        first, *others = compiled.plan_rows()
    assert first.kernel.constants["GROUP_SIZE"] == {33: 4, 64: 8}.get(terms, WIDE)
    assert bool(others) == (op in ("mean", "layer_normalization") and terms == 17000)


def test_columns_on_hardware_in_parts(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of the terms occupy the device, each with 8 or more for each of 256 invocations.

    Sums of small integers are exact in float32, and no maximum rounds.
    """
    limit_device(monkeypatch, software=False, parallel_invocations=1 << 15)
    x = np.round(random(1, 20000, 12, low=-9, high=9))
    for op in ("reduce_sum", "reduce_max"):
        check(op, [x], {"axes": (0,)}, backend=gpu, atol=0)
        with model_of(op, [x], {"axes": (0,)}).compile(gpu) as compiled:
            parts, joined = compiled.plan_rows()
        assert parts.kernel.constants["GROUP_SIZE"] == WIDE
        assert parts.kernel.loop_iterations == 8
        assert joined.kernel.params["terms"] == 10 == -(-20000 // 2048)


@pytest.mark.parametrize("parts", [1, 2])
def test_reductions_of_the_other_kind(parts: int, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns lie apart, four of them in a vector. 200 terms of up to 1 have 199 roundings."""
    limits = {"max_loop_iterations": 2} if parts > 1 else {}  # 128 terms of 64 invocations
    as_software(monkeypatch, **limits)
    take_candidate(monkeypatch, 1)
    x = random(1, 200, 516, low=-1, high=1)
    with model_of("reduce_sum", [x], {"axes": (0,)}).compile(gpu) as compiled:
        shared, *joined = (row.kernel.constants["GROUP_SIZE"] for row in compiled.plan_rows())
    assert (shared, joined) == (SHARED, [ALONE] * (parts - 1))
    check("reduce_sum", [x], {"axes": (0,)}, backend=gpu, atol=200**2 * EPS)
    check("reduce_max", [x], {"axes": (0,)}, backend=gpu, atol=0)


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((64, 65), {SHARED, ALONE}),
        ((63, 65), set()),  # few results
        ((64, 64), set()),  # few terms
        ((64, 4097), set()),  # many
    ],
)
@pytest.mark.parametrize("op", [op for op, _, _ in ROWS])
def test_a_tuner_has_both_ways_where_the_rule_may_be_wrong(
    op: str, shape: tuple[int, int], sizes: set[int]
) -> None:
    (operation,) = model_of(op, [random(1, *shape)], dict(ROW_ATTRIBUTES[op])).operations
    for device in (SOFTWARE, BASELINE):
        found = candidates(operation, device)
        assert {kernel.constants["GROUP_SIZE"] for way in found for kernel in way.kernels} == sizes
        assert len({way.reason for way in found}) == len(found)
