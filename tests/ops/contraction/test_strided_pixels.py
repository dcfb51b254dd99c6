"""Convolutions with windows of one pixel and a stride, as GPUs compute them, against float64."""

from __future__ import annotations

from typing import Any

import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import candidates
from gpunn.comparison import compare
from gpunn.model import Model
from gpunn.types import float32
from tests.ops.contraction.test_conv import tolerance
from tests.ops.harness import check, limit_device, model_of, random, take_candidate
from tests.planning.preferring import prefer

STRIDED = "strided_row_steps"

# Batch, height, width and channels of x; channels of the result; stride. Whole tiles, and parts of tiles.
CASES = (
    ((1, 16, 16, 16), 64, (2, 2)),
    ((2, 9, 7, 64), 20, (3, 2)),
    ((1, 5, 12, 8), 13, (1, 4)),
    ((3, 13, 13, 132), 72, (2, 2)),
    ((1, 3, 5, 20), 9, (2, 3)),
)


def operands(shape: tuple[int, ...], channels: int) -> list[Any]:
    return [random(1, *shape), random(2, channels, 1, 1, shape[3]), random(3, channels)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_ways_agree(case: Any, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, channels, stride = case
    limit_device(monkeypatch, software=False, parallel_invocations=1 << 10)
    inputs, attrs = operands(shape, channels), {"padding": "same", "stride": stride, "activation": "relu"}
    (operation,) = model_of("conv2d", inputs, attrs, (1, 2)).operations
    ways = candidates(operation, open_device(None, False).properties)
    strided = [place for place, way in enumerate(ways) if STRIDED in way.kernels[0].libraries]
    assert strided[:1] == [0] and len(strided) >= 2
    for place in strided:
        with pytest.MonkeyPatch.context() as patch:
            take_candidate(patch, place)
            check("conv2d", inputs, attrs, backend=gpu, constants=(1, 2), atol=tolerance(*inputs[:2]))


@pytest.mark.parametrize(("padding", "strided"), [("valid", True), (((1, 0), (0, 1)), False)])
def test_padding_makes_them_windows(
    padding: Any, strided: bool, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_device(monkeypatch, software=False, parallel_invocations=1 << 10)
    inputs, attrs = operands((1, 9, 8, 16), 24), {"padding": padding, "stride": (2, 2)}
    check("conv2d", inputs, attrs, backend=gpu, constants=(1, 2), atol=tolerance(*inputs[:2]))
    with model_of("conv2d", inputs, attrs, (1, 2)).compile(gpu) as compiled:
        (kernel,) = (row.kernel for row in compiled.plan_rows())
        assert (STRIDED in kernel.libraries) == strided


@pytest.mark.parametrize("body", ["matmul_tile", "matmul_workgroup"])
def test_pixels_of_a_part_of_a_tensor(body: str, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie as far apart as those of the tensor that x is a part of."""
    limit_device(monkeypatch, software=False, parallel_invocations=1 << 10)
    prefer(monkeypatch, body)
    model = Model()
    whole = model.input("x", float32(1, 15, 16, 24))
    parts = model.add("split", [whole], {"axis": 3, "sizes": (8, 16)})
    constants = [model.constant(f"c{k}", v) for k, v in enumerate(operands((1, 15, 16, 16), 24)[1:])]
    model.output(*model.add("conv2d", [parts[1], *constants], {"padding": "same", "stride": (2, 2)}))
    assert compare(model, [random(4, 1, 15, 16, 24)], backends=("cpu", gpu)).ok
    with model.compile(gpu) as compiled:
        (row,) = compiled.plan_rows()
        assert (row.kernel.body, row.kernel.params["x_pitch"], row.kernel.params["x_first"]) == (body, 6, 2)
