"""Which candidates lowering takes, in tests of what is planned around the kernels of each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from gpunn.backends.webgpu import lower
from gpunn.kernel import Candidate, Kernel, Kernels
from gpunn.ops.kernels.register_tile import LARGE_TILES, RegisterTile
from tests.ops.harness import as_software, limit_device, require_shared_rows

BODIES = ("matmul_broadcast", "matmul_tile", "matmul_workgroup")


def prefer(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Let lowering take the candidate with a body where an operation has one, on a device that is offered it.

    Skip the test where the adapter cannot pass for such a device.
    """
    if body.endswith("broadcast"):
        require_shared_rows()
    if body == "unfold":
        as_software(monkeypatch)
        require_shared_rows(8)
    if body.endswith("workgroup"):
        limit_device(monkeypatch, software=False)
    prefer_kernel(monkeypatch, lambda kernel: kernel.body == body)


def prefer_tile(monkeypatch: pytest.MonkeyPatch, tile: RegisterTile) -> None:
    """Let lowering take the candidate with such register tiles where an operation has one, as on a GPU."""
    limit_device(monkeypatch, software=False, parallel_invocations=1 if tile in LARGE_TILES else 1 << 15)
    prefer_kernel(monkeypatch, partial(has_tile, tile))


def has_tile(tile: RegisterTile, kernel: Kernel) -> bool:
    """Tell whether a kernel has such register tiles."""
    return kernel.constants.get("ROWS") == tile.rows and {*tile.libraries} <= {*kernel.libraries}


def prefer_kernel(monkeypatch: pytest.MonkeyPatch, wanted: Callable[[Kernel], bool]) -> None:
    """Let lowering take the candidate with such a kernel where an operation has one."""
    choose = lower.choose

    def chosen(kernels: Kernels, *given: object) -> object:
        if not isinstance(kernels, Iterator):
            return choose(kernels, *given)  # type: ignore[arg-type]
        found: list[Candidate] = [*kernels]
        found.sort(key=lambda candidate: not any(map(wanted, candidate.kernels)))
        return choose(iter(found), *given)  # type: ignore[arg-type]

    monkeypatch.setattr(lower, "choose", chosen)
