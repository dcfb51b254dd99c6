"""Recording, submitting and waiting through wgpu-native's C functions, because every run does it.

Through wgpu-py a dispatch costs about 5 us of host time and a submission about 200, here about 2 and 80.
wgpu-py also has a thread wait for every mapping, which blocks other submissions and waits; on NVIDIA's driver
this turns a run of 2.5 ms into one of 10. Here the caller waits, and only for its own submission. All objects
come from the public API. The names used here are not public in wgpu-py, so the project pins wgpu to the minor
version that it was tested with.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import wgpu
from wgpu.backends.wgpu_native import ffi, lib
from wgpu.backends.wgpu_native._api import GPUShaderModule, libf  # libf is lib, but errors are raised

from gpunn.backends.interrupt import Stop, current, holding
from gpunn.backends.latch import Latch
from gpunn.backends.webgpu.declarations import parse_together
from gpunn.types import Array

parse_together(ffi)  # before the first name that is not in it; an FFI of header.py knows all names

_COMMANDS = ffi.typeof("WGPUCommandBuffer[]")
_SUBMISSION = ffi.typeof("WGPUSubmissionIndex *")
_MAPPING = ffi.typeof("WGPUBufferMapCallbackInfo *")
_WGSL = ffi.typeof("WGPUShaderSourceWGSL *")
_MODULE = ffi.typeof("WGPUShaderModuleDescriptor *")


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One recorded dispatch; it keeps its pipeline and bind group alive.

    `arguments` has the C objects of both, and the groups: while a device computes in software, the host's
    caches are cold, and each object that it looks at takes longer than a call.
    """

    pipeline: Any
    bind_group: Any
    groups: tuple[int, int, int]
    arguments: tuple[Any, Any, int, int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = (self.pipeline._internal, self.bind_group._internal, *self.groups)
        object.__setattr__(self, "arguments", found)


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of `size` bytes from one buffer to another. `arguments`: as of Dispatch."""

    source: Any
    source_offset: int
    target: Any
    target_offset: int
    size: int
    arguments: tuple[Any, int, Any, int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places = (self.source._internal, self.source_offset, self.target._internal, self.target_offset)
        object.__setattr__(self, "arguments", (*places, self.size))


def submit(
    device: Any, dispatches: Iterable[Dispatch], copies: Iterable[Copy], before: Iterable[Copy] = ()
) -> int:
    """Record and submit, see record(); return the submission's number."""
    commands = record(device, dispatches, copies, before)
    try:
        return submit_recorded(device, commands)
    finally:
        discard(commands)


def record(
    device: Any, dispatches: Iterable[Dispatch], copies: Iterable[Copy], before: Iterable[Copy] = ()
) -> Any:
    """Record dispatches into one compute pass, and copies around it.

    Returns commands for submit_recorded(), once at most, and then for discard(). Raises wgpu's errors: what
    is wrong in a pass or in a copy is found when the encoder is finished, so `lib` does for these.
    """
    null = ffi.NULL
    encoder = libf.wgpuDeviceCreateCommandEncoder(device._internal, null)
    try:
        _copy(encoder, before)
        _record(encoder, dispatches)
        _copy(encoder, copies)
        return ffi.new(_COMMANDS, [libf.wgpuCommandEncoderFinish(encoder, null)])
    finally:
        lib.wgpuCommandEncoderRelease(encoder)


def submit_recorded(device: Any, commands: Any) -> int:
    """Submit what record() has returned; return the submission's number. Raises wgpu's errors."""
    return int(libf.wgpuQueueSubmitForIndex(device.queue._internal, 1, commands))


def discard(commands: Any) -> None:
    """Free what record() has returned, whether it has been submitted or not."""
    lib.wgpuCommandBufferRelease(commands[0])


def write(device: Any, buffer: Any, offset: int, data: Array) -> None:
    """Write bytes, whole words, to a buffer before what is submitted next. Raises wgpu's errors."""
    queue, source = device.queue._internal, ffi.from_buffer(data)
    libf.wgpuQueueWriteBuffer(queue, buffer._internal, offset, source, data.nbytes)


def _copy(encoder: Any, copies: Iterable[Copy]) -> None:
    for copy in copies:
        lib.wgpuCommandEncoderCopyBufferToBuffer(encoder, *copy.arguments)


def _record(encoder: Any, dispatches: Iterable[Dispatch]) -> None:
    null = ffi.NULL
    compute = lib.wgpuCommandEncoderBeginComputePass(encoder, null)
    set_pipeline = lib.wgpuComputePassEncoderSetPipeline
    set_bind_group = lib.wgpuComputePassEncoderSetBindGroup
    dispatch_workgroups = lib.wgpuComputePassEncoderDispatchWorkgroups
    current = None
    try:
        for dispatch in dispatches:
            pipeline, bind_group, x, y, z = dispatch.arguments
            if pipeline is not current:
                set_pipeline(compute, pipeline)
                current = pipeline
            set_bind_group(compute, 0, bind_group, 0, null)
            dispatch_workgroups(compute, x, y, z)
        lib.wgpuComputePassEncoderEnd(compute)
    finally:
        lib.wgpuComputePassEncoderRelease(compute)


# The first poll delivers the callback of a mapping whose submission has ended, unless another thread that
# submits has taken that on: then it waits for the interpreter.
_POLLS = 10
_STEP = 0.0005  # seconds between polls that do not wait
_PAUSE = 1.0  # seconds between polls, or less: until the callback is there


class _Outcome:
    """The outcome of a mapping: once it has ended, an error or None."""

    __slots__ = ("end", "ended", "error")

    def __init__(self) -> None:
        self.ended = False
        self.error: str | None = None
        self.end = Latch()

    def wait(self, seconds: float) -> bool:
        """Wait for the end, but not for longer; tell whether it has come."""
        return self.ended or self.end.wait(seconds)


# The outcomes that pending callbacks write to, by handle: they may outlive their MappedRead.
_expected: dict[Any, _Outcome] = {}


class _Interrupts(threading.local):
    """The exceptions of signal handlers in this thread's callbacks; _poll() passes them on, because C does
    not.
    """

    def __init__(self) -> None:
        self.raised: list[BaseException] = []


_interrupts = _Interrupts()


def _interrupted(kind: Any, error: BaseException, trace: Any) -> None:
    """Deliver the purpose of a callback even if an exception (Ctrl-C) stopped it."""
    _interrupts.raised.append(error)
    given = trace.tb_frame.f_locals
    _deliver(given["status"], given["message"], given["handle"])


@ffi.callback(  # type: ignore[untyped-decorator]
    "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)", onerror=_interrupted
)
def _mapped(status: int, message: Any, handle: Any, _: Any) -> None:
    _deliver(status, message, handle)


def _deliver(status: int, message: Any, handle: Any) -> None:
    """Note the end of a mapping; once more if it was interrupted."""
    outcome = _expected.get(handle)
    if outcome is None:
        return
    if status != lib.WGPUMapAsyncStatus_Success:
        text = ffi.unpack(message.data, message.length).decode(errors="replace") if message.length else ""
        outcome.error = f"a buffer could not be mapped ({status}): {text}"
    outcome.ended = True
    outcome.end.open()
    _expected.pop(handle, None)


def _poll(device: Any, submission: Any) -> None:
    """Wait until a submission has ended, and deliver what callbacks are due. Raises what stopped one."""
    lib.wgpuDevicePoll(device._internal, True, submission)
    if _interrupts.raised:
        raise _interrupts.raised.pop()


def await_submission(device: Any, submission: int, turn: threading.RLock) -> None:
    """Wait until a submission has ended, and deliver what callbacks are due; see MappedRead for `turn`."""
    with holding(turn):
        _poll(device, ffi.new(_SUBMISSION, submission))


def timestamp_period(device: Any) -> float:
    """Return the seconds of one step of the device's timestamps."""
    return float(lib.wgpuQueueGetTimestampPeriod(device.queue._internal)) * 1e-9


def subgroup_sizes(adapter: Any) -> tuple[int, int] | None:
    """Return the least and the greatest number of invocations in a subgroup; None if wgpu-native does not
    tell.

    wgpu-py's adapter.info has 4 and 128 for every adapter, because it asks for fields of another name.
    """
    info = ffi.new("WGPUAdapterInfo *")
    libf.wgpuAdapterGetInfo(adapter._internal, info)
    sizes = int(info.subgroupMinSize), int(info.subgroupMaxSize)
    lib.wgpuAdapterInfoFreeMembers(info[0])
    return sizes if all(sizes) else None


def finite_shader(device: Any, label: str, source: str) -> Any:
    """Make a shader module of WGSL whose loops all end. Raises wgpu's errors.

    wgpu adds a counter of 64 bits to each loop of a module that wgpu-py makes, for drivers may take a loop
    without an end for none at all. That keeps compilers from writing loops out and takes instructions in each
    round. What else wgpu checks, as indices, it also checks here.
    """
    texts = [text.encode() for text in (label, source)]
    held = [ffi.new("char []", text) for text in texts]
    names = [{"data": data, "length": len(text)} for data, text in zip(held, texts, strict=True)]
    wgsl = ffi.new(_WGSL, {"chain": {"sType": lib.WGPUSType_ShaderSourceWGSL}, "code": names[1]})
    chain = ffi.cast("WGPUChainedStruct *", wgsl)
    descriptor = ffi.new(_MODULE, {"nextInChain": chain, "label": names[0]})
    checks = lib.WGPUShaderRuntimeChecks_BoundsChecks  # without ForceLoopBounding
    found = libf.wgpuDeviceCreateShaderModuleTrusted(device._internal, descriptor, checks)
    return GPUShaderModule(label, found, device)


def abandon_objects() -> None:
    """Make all objects of wgpu forget what they own, so that nothing frees it.

    For a child process of os.fork(): the driver's threads are not there, and freeing would wait for them.
    """
    for found in gc.get_objects():
        if isinstance(found, (wgpu.GPUAdapter, wgpu.GPUObjectBase)):
            found._internal = None


class MappedRead:
    """A buffer that the host can read once a submission has ended.

    Threads take turns in waiting for a device: `turn` is the device's.
    """

    def __init__(self, device: Any, buffer: Any, submission: int, turn: threading.RLock) -> None:
        self._device = device
        self._buffer = buffer
        self._submission = ffi.new(_SUBMISSION, submission)
        self._turn = turn
        self._outcome = _Outcome()
        handle = ffi.new_handle(self._outcome)
        _expected[handle] = self._outcome
        info = ffi.new(_MAPPING)
        info.mode, info.callback, info.userdata1 = lib.WGPUCallbackMode_AllowProcessEvents, _mapped, handle
        libf.wgpuBufferMapAsync(buffer._internal, lib.WGPUMapMode_Read, 0, buffer.size, info[0])

    @property
    def readable(self) -> bool:
        """Tell whether the mapping has ended, and well."""
        return self._outcome.ended and self._outcome.error is None

    def wait(self) -> None:
        """Wait until the buffer can be read. Raises RuntimeError if the device has failed.

        If a signal's handler raises during the wait, wait() raises its exception, and may be called again;
        the same holds for RunTimeoutError and RunCancelledError where there is a deadline.
        """
        stop = current()
        if stop is not None and stop.timed:
            self._wait_for_deadline(stop)
        for _ in range(_POLLS):
            with holding(self._turn):
                if not self._outcome.ended:
                    _poll(self._device, self._submission)
            if self._outcome.wait(_PAUSE):
                break
        else:
            raise RuntimeError("the device does not answer")
        if self._outcome.error is not None:
            raise RuntimeError(self._outcome.error)

    def memory(self) -> Any:
        """Return the buffer's bytes, after wait(); unmap() removes them. The device must not be lost."""
        size = self._buffer.size
        return ffi.buffer(libf.wgpuBufferGetConstMappedRange(self._buffer._internal, 0, size), size)

    def _wait_for_deadline(self, stop: Stop) -> None:
        """Wait for the mapping as long as `stop` allows."""
        while True:
            with holding(self._turn):
                lib.wgpuDevicePoll(self._device._internal, False, ffi.NULL)
                if _interrupts.raised:
                    raise _interrupts.raised.pop()
            if self._outcome.wait(_STEP):
                return
            stop.check()

    def unmap(self) -> None:
        """Give the buffer back to the device."""
        libf.wgpuBufferUnmap(self._buffer._internal)
