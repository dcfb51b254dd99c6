"""Recording and submitting through wgpu-native's C functions, because it is done for every run and dispatch.

Through wgpu-py a dispatch costs about 5 us of host time and a submission about 200, here about 2 and
80. All objects come from the public API. The names used here are not public in wgpu-py, which is why the
project pins wgpu to the minor versions it was tried with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from wgpu.backends.wgpu_native import ffi, lib
from wgpu.backends.wgpu_native._api import libf  # as lib, but errors are raised

# With this mode map_async() submits no empty command buffer first, which would block until earlier work has
# ended on drivers that run one submission at a time.
MAP_READ = "READ_NOSYNC"


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One recorded dispatch; keeps its pipeline and bind group alive."""

    pipeline: Any
    bind_group: Any
    groups: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of `size` bytes from one buffer to another."""

    source: Any
    source_offset: int
    target: Any
    target_offset: int
    size: int


def submit(device: Any, dispatches: Iterable[Dispatch], copies: Iterable[Copy]) -> None:
    """Record dispatches into one compute pass, copies after it, and submit both at once.

    Raises wgpu's errors: what is wrong in a pass is found when its encoder is finished.
    """
    null = ffi.NULL
    encoder = libf.wgpuDeviceCreateCommandEncoder(device._internal, null)
    try:
        _record(encoder, dispatches)
        for copy in copies:
            source, target = copy.source._internal, copy.target._internal
            libf.wgpuCommandEncoderCopyBufferToBuffer(
                encoder, source, copy.source_offset, target, copy.target_offset, copy.size
            )
        commands = libf.wgpuCommandEncoderFinish(encoder, null)
        try:
            libf.wgpuQueueSubmit(device.queue._internal, 1, ffi.new("WGPUCommandBuffer[]", [commands]))
        finally:
            lib.wgpuCommandBufferRelease(commands)
    finally:
        lib.wgpuCommandEncoderRelease(encoder)


def _record(encoder: Any, dispatches: Iterable[Dispatch]) -> None:
    null = ffi.NULL
    compute = libf.wgpuCommandEncoderBeginComputePass(encoder, null)
    set_pipeline = lib.wgpuComputePassEncoderSetPipeline
    set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
    dispatch_workgroups = lib.wgpuComputePassEncoderDispatchWorkgroups
    for dispatch in dispatches:
        set_pipeline(compute, dispatch.pipeline._internal)
        set_bind_group(compute, 0, dispatch.bind_group._internal, 0, null)
        dispatch_workgroups(compute, *dispatch.groups)
    lib.wgpuComputePassEncoderEnd(compute)
    lib.wgpuComputePassEncoderRelease(compute)


def drive(device: Any) -> None:
    """Wait on the calling thread until all submitted work has ended, and deliver its callbacks."""
    lib.wgpuDevicePoll(device._internal, True, ffi.NULL)
