"""Quantised products of words in small register tiles, to the bit; who is offered them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import candidates
from gpunn.device import BASELINE, DeviceProperties
from gpunn.kernel import Candidate, Kernel
from gpunn.ops.kernels.register_tile import SMALL_TILE
from tests.ops.contraction.quantized_product import ATTRS, DTYPES, Case
from tests.ops.contraction.test_workgroup_product import described_tile
from tests.ops.harness import limit_device, take_body
from tests.ops.integer_checks import integer_model

GPU = replace(BASELINE, parallel_invocations=1 << 15)
COLUMN, SINGLE, FOUR = "word_column", "single_words", "four_words"
# Op, shapes of the input and the filter, invocations that share a sum, steps: whole tiles and parts of tiles,
# depths that 4 and 16 divide and others, products of matrices and windows.
SHAPES: tuple[tuple[str, Any, Any, int, str], ...] = (
    ("fully_connected", (9, 12), (8, 12), 1, SINGLE),
    ("fully_connected", (11, 7), (5, 7), 1, SINGLE),
    ("fully_connected", (17, 16), (30, 16), 1, FOUR),
    ("fully_connected", (9, 67), (13, 67), 8, SINGLE),
    ("fully_connected", (10, 256), (12, 256), 8, FOUR),
    ("fully_connected", (6, 40), (9, 40), 4, SINGLE),
    ("conv2d", (2, 5, 7, 12), (11, 1, 1, 12), 1, SINGLE),
    ("conv2d", (1, 6, 7, 128), (16, 1, 1, 128), 4, FOUR),
    ("conv2d", (1, 10, 9, 3), (7, 3, 3, 3), 1, SINGLE),
    ("conv2d", (2, 9, 11, 8), (12, 3, 2, 8), 1, SINGLE),
    ("conv2d", (1, 7, 8, 30), (10, 2, 3, 30), 4, SINGLE),
    ("conv2d", (1, 6, 7, 64), (20, 3, 2, 64), 2, FOUR),
)


@pytest.fixture
def many(gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the adapter pass for a GPU that such results do not occupy."""
    limit_device(monkeypatch, software=False, parallel_invocations=GPU.parallel_invocations)
    return gpu


@pytest.fixture
def small_tiles(many: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let lowering take small register tiles of words."""
    take_body(monkeypatch, COLUMN)
    return many


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_small_tiles(shape: tuple[str, Any, Any, int, str], kind: str, small_tiles: str) -> None:
    op, x, filter, splits, steps = shape
    number = SHAPES.index(shape) + len(kind)
    attrs = {"activation": "relu"} if op == "fully_connected" else ATTRS[number % len(ATTRS)]
    case = Case(op, kind, x, filter, seed=number, bias=number % 3 > 0)
    values = np.unique(case.check(small_tiles, attrs))
    assert values.size > 20 or "activation" in attrs
    (kernel,) = case.kernels(attrs)
    assert {steps, COLUMN} < {*kernel.libraries}
    assert (kernel.constants["ROWS"], kernel.constants["SPLITS"]) == (SMALL_TILE.rows, splits)


@pytest.mark.parametrize("kind", ["uint8", "int8", "uint8 x int8"])
@pytest.mark.parametrize("shape", SHAPES[3:10:2], ids=str)
def test_zero_points_at_the_ends_of_the_range(
    shape: tuple[str, Any, Any, int, str], kind: str, small_tiles: str
) -> None:
    op, x, filter, *_ = shape
    for seed in range(2):
        case = Case(op, kind, x, filter, seed=seed, spread=20, extreme=True)
        case.check(small_tiles, {"padding": "same"} if op == "conv2d" else {})


@pytest.mark.parametrize("spread", [1e-9, 100.0, 1e9])
def test_multipliers_of_any_size(spread: float, small_tiles: str) -> None:
    op, x, filter, *_ = SHAPES[3]
    Case(op, "int8 per channel", x, filter, spread=spread).check(small_tiles, {})


def candidates_of(case: Case, device: DeviceProperties) -> Sequence[Candidate]:
    model = integer_model(case.op, case.inputs, case.types, {}, case.output, (1, 2))
    return candidates(model.operations[-1], device)


def take_kernels(monkeypatch: pytest.MonkeyPatch, kernels: Sequence[Kernel]) -> None:
    monkeypatch.setattr("gpunn.backends.webgpu.lower.choose", lambda *_: kernels)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["uint8", "int8 per channel"])
@pytest.mark.parametrize(
    ("op", "x", "filter"),
    [
        ("fully_connected", (70, 20), (33, 20)),
        ("fully_connected", (6, 20), (33, 20)),
        ("conv2d", (1, 9, 10, 7), (12, 1, 1, 7)),
        ("conv2d", (1, 9, 10, 8), (12, 3, 2, 8)),
    ],
)
def test_all_candidates_give_the_same_bits(
    op: str, x: Any, filter: Any, kind: str, many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = Case(op, kind, x, filter)
    found = candidates_of(case, open_device(None, False).properties)
    assert any(COLUMN in candidate.kernels[0].libraries for candidate in found)
    for candidate in found:
        take_kernels(monkeypatch, candidate.kernels)
        case.check(many, {})


WORDS, SMALL, ROW, SHARED = "integer_product", "integer_product 4 rows", "integer_row", "integer_workgroup"


@pytest.mark.parametrize(
    ("x", "filter", "device", "expected"),
    [
        ((1, 7, 7, 96), (32, 1, 1, 96), GPU, [SMALL, WORDS]),
        ((1, 7, 7, 97), (32, 1, 1, 97), GPU, [SMALL, WORDS]),
        ((1, 2, 4, 97), (32, 1, 1, 97), GPU, [SMALL, WORDS]),
        ((1, 2, 2, 96), (32, 1, 1, 96), GPU, [ROW, SMALL]),
        ((1, 1, 3, 96), (32, 1, 1, 96), GPU, []),
        ((1, 9, 9, 96), (32, 3, 3, 96), GPU, [SMALL, WORDS]),
        ((1, 66, 66, 128), (64, 3, 3, 128), GPU, [WORDS, SMALL]),
        ((1, 7, 7, 96), (32, 1, 1, 96), BASELINE, [WORDS]),
        ((1, 7, 7, 96), (32, 1, 1, 48), GPU, []),
        ((1, 7, 7, 96), (32, 1, 1, 96), replace(GPU, software=True), []),
        ((1, 9, 9, 96), (32, 3, 3, 96), replace(GPU, software=True), []),
    ],
)
def test_they_come_first_for_products_that_do_not_occupy_a_gpu(
    x: Any, filter: Any, device: DeviceProperties, expected: list[str]
) -> None:
    found = candidates_of(Case("conv2d", "int8", x, filter), device)
    bodies = [described_tile(candidate.kernels[0]) for candidate in found]
    assert [body for body in bodies if not body.startswith(SHARED)] == expected


@pytest.mark.parametrize(("depth", "first"), [(60, SMALL), (64, SHARED)])
def test_tiles_that_a_workgroup_shares_come_first_for_whole_steps(depth: int, first: str) -> None:
    """A step has 16 words, 64 channels."""
    found = candidates_of(Case("conv2d", "int8", (1, 64, 64, depth), (128, 1, 1, depth)), GPU)
    assert described_tile(found[0].kernels[0]) == first


def test_reasons_tell_which_tiles() -> None:
    found = candidates_of(Case("conv2d", "int8", (1, 7, 7, 97), (32, 1, 1, 97)), GPU)
    assert [candidate.reason for candidate in found] == [
        "words of 4 input channels, tiles of 4 rows x 4 channels",
        "words of 4 input channels",
    ]
    assert "4 pixels x 4 channels in registers" in found[0].kernels[0].reason
