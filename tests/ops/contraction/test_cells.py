"""Convolutions to few channels by products of cells, against float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpunn.backends.webgpu.lower import lower
from gpunn.device import BASELINE, SUBGROUPS, DeviceProperties
from gpunn.model import Model
from gpunn.types import float32
from tests.ops.contraction.test_conv import tolerance
from tests.ops.harness import as_software, check, model_of, random, require_shared_rows, take_body

SHARING = replace(BASELINE, software=True, subgroup_sizes=(8, 8), features=frozenset({SUBGROUPS}))

# Of the image, of the filter, attributes, and the rows of a window that one product goes along.
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], int]] = [
    ((1, 9, 11, 16), (3, 3, 3, 16), {"padding": "same", "activation": "relu"}, 1),
    ((2, 8, 7, 13), (1, 2, 5, 13), {"activation": "tanh"}, 1),
    ((1, 9, 9, 12), (4, 3, 2, 12), {"stride": (2, 3), "dilation": (1, 2)}, 1),
    ((1, 17, 9, 32), (1, 7, 7, 32), {"padding": "same"}, 1),
    ((1, 12, 10, 8), (3, 9, 9, 8), {"padding": "same"}, 9),
    ((2, 11, 9, 4), (2, 7, 5, 4), {"padding": ((5, 1), (0, 3)), "activation": "relu6"}, 7),
    ((1, 13, 8, 5), (3, 6, 4, 5), {"stride": (2, 1), "dilation": (2, 1), "padding": "same"}, 6),
]


@pytest.fixture(autouse=True)
def _however_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    for gain in ("_GAIN", "_LEAST_GAIN"):
        monkeypatch.setattr(f"gpunn.ops.contraction.cells.{gain}", 0)


@pytest.mark.parametrize(("shape", "filter", "attrs", "rows"), CASES)
@pytest.mark.parametrize("biased", [True, False])
def test_convolutions(
    shape: tuple[int, ...],
    filter: tuple[int, ...],
    attrs: dict[str, Any],
    rows: int,
    biased: bool,
    gpu: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    as_software(monkeypatch)
    require_shared_rows(4, 8)
    take_body(monkeypatch, "add_cells")
    inputs = [random(1, *shape), random(2, *filter), *([random(3, filter[0])] if biased else [])]
    check("conv2d", inputs, attrs, backend=gpu, constants=(1, 2), atol=tolerance(*inputs[:2]))
    with model_of("conv2d", inputs, attrs, (1, 2)).compile(gpu) as compiled:
        bodies = [row.kernel for row in compiled.plan_rows()]
    assert bodies[-1].params["KH"] == filter[1] // rows


def test_what_is_infinite_stays_within_its_windows(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_software(monkeypatch)
    require_shared_rows(4, 8)
    take_body(monkeypatch, "add_cells")
    x, filter = random(1, 1, 9, 9, 8), random(2, 2, 3, 3, 8, low=1)
    x[0, 4, 4] = np.inf
    with model_of("conv2d", [x, filter], {"padding": "same"}, (1,)).compile(gpu) as compiled:
        y = compiled(x)
    reached = np.zeros((9, 9), bool)
    reached[3:6, 3:6] = True
    np.testing.assert_array_equal(np.isinf(y[0, :, :, 0]), reached)


def last_body(channels: int, device: DeviceProperties, shape: tuple[int, ...] = (1, 64, 64, 32)) -> str:
    """Return the body of the last kernel by the rule, for windows of 3 x 3."""
    model = Model()
    filter = model.constant("w", random(1, channels, 3, 3, shape[3]))
    model.output(*model.add("conv2d", [model.input("x", float32(*shape)), filter]))
    kernels = lower(model.operations[0], device)
    assert not isinstance(kernels, str)
    return kernels[-1].body


def test_when_they_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert last_body(1, SHARING) == last_body(3, SHARING) == "add_cells"
    assert last_body(3, SHARING, (1, 200, 300, 32)) == "add_cells"
    assert last_body(3, SHARING, (1, 900, 900, 32)) != "add_cells", "the products are too large"
    assert last_body(16, SHARING) != "add_cells"
    assert last_body(3, replace(SHARING, software=False)) != "add_cells"
    assert last_body(3, replace(SHARING, subgroup_sizes=None)) != "add_cells"
