"""Fixtures for kernels of devices that are no software."""

from __future__ import annotations

import pytest

from gpunn.backends.webgpu.device import open_device
from gpunn.ops.contraction import workgroup_product
from gpunn.ops.kernels.workgroup_tile import LARGE_TILE, SLICED_TILE, TILE, WorkgroupTile
from tests.ops.harness import limit_device

TILES = {"64": TILE, "32 in slices": SLICED_TILE, "128": LARGE_TILE}


@pytest.fixture
def hardware_gpu(gpu: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let kernels be made for a device that is no software."""
    limit_device(monkeypatch, software=False)
    return gpu


@pytest.fixture(params=TILES.values(), ids=TILES)
def tile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> WorkgroupTile:
    """Let the first tiles that a workgroup shares be of each size, on an adapter as it is."""
    chosen: WorkgroupTile = request.param
    if open_device(None, False).properties.limit("max-compute-workgroup-storage-size") < chosen.nbytes:
        pytest.skip("the adapter has not enough memory for a workgroup")
    monkeypatch.setattr(workgroup_product, "TILE", chosen)
    return chosen
