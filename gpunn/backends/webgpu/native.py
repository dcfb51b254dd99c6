"""The few calls that go past wgpu-py to wgpu-native's C functions, because they are made for every dispatch.

Through the public API a dispatch costs about 5 us of host time, here about 2. All objects come from
the public API, which also raises the errors of a pass when its encoder is finished. The names used
here are not public in wgpu-py, which is why the project pins wgpu to the minor versions it was tried with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from wgpu.backends.wgpu_native import ffi, lib

# With this mode map_async() submits no empty command buffer first, which would block until earlier work has
# ended on drivers that run one submission at a time.
MAP_READ = "READ_NOSYNC"


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One recorded dispatch; keeps its pipeline and bind group alive."""

    pipeline: Any
    bind_group: Any
    groups: tuple[int, int, int]


def record(compute_pass: Any, dispatches: Iterable[Dispatch]) -> None:
    """Record dispatches into a compute pass."""
    handle, null = compute_pass._internal, ffi.NULL
    set_pipeline = lib.wgpuComputePassEncoderSetPipeline
    set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
    dispatch_workgroups = lib.wgpuComputePassEncoderDispatchWorkgroups
    for dispatch in dispatches:
        set_pipeline(handle, dispatch.pipeline._internal)
        set_bind_group(handle, 0, dispatch.bind_group._internal, 0, null)
        dispatch_workgroups(handle, *dispatch.groups)


def drive(device: Any) -> None:
    """Wait on the calling thread until all submitted work has ended, and deliver its callbacks."""
    lib.wgpuDevicePoll(device._internal, True, ffi.NULL)
