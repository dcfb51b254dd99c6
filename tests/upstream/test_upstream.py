"""What wgpu-native does to a process, shown by small programs of plain wgpu-py.

docs/reliability.md says what must change there. A program that does not abort any more fails its test here:
then the page, and what gpunn does instead, can be mended.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.layer import DEVICE_LOST, OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY, Environment
from tests.resources import ENVIRONMENT

SUBMIT, POLL = "Error in wgpuQueueSubmit", "Error in wgpuDevicePoll"
PENDING = "src/device/queue.rs"
LOST, NO_MEMORY = "Parent device is lost", "Not enough memory left"


class Abort(NamedTuple):
    """A program that wgpu-native ends, by a call of the driver that fails or without, and what it says."""

    program: str
    call: str | None
    nth: int
    result: int
    said: tuple[str, ...]


ABORTS = (
    Abort("run", "vkQueueSubmit", 3, DEVICE_LOST, (SUBMIT, LOST)),
    Abort("run", "vkQueueSubmit", 3, OUT_OF_DEVICE_MEMORY, (SUBMIT, NO_MEMORY)),
    Abort("run", "vkWaitSemaphores", 1, DEVICE_LOST, (POLL, LOST)),
    Abort("run", "vkWaitSemaphores", 2, OUT_OF_HOST_MEMORY, (POLL, NO_MEMORY)),
    Abort("run", "vkGetSemaphoreCounterValue", 2, DEVICE_LOST, (SUBMIT, LOST)),
    Abort("run", "vkGetSemaphoreCounterValue", 3, OUT_OF_HOST_MEMORY, (POLL, NO_MEMORY)),
    Abort("run", "vkBeginCommandBuffer", 1, OUT_OF_HOST_MEMORY, (PENDING, "OutOfMemory")),
    Abort("run", "vkAllocateCommandBuffers", 1, OUT_OF_DEVICE_MEMORY, (PENDING, "OutOfMemory")),
    Abort("run", "vkEndCommandBuffer", 2, OUT_OF_DEVICE_MEMORY, (SUBMIT, NO_MEMORY)),
    Abort("submit_mapped", None, 0, 0, (SUBMIT, "is still mapped")),
    Abort("read_destroyed", None, 0, 0, ("Error in wgpuBufferGetConstMappedRange", "has been destroyed")),
    Abort("map_state", None, 0, 0, ("not implemented",)),
)


def run(program: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program of this folder."""
    path = Path(__file__).with_name(f"{program}.py")
    return subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.sample(3)
@pytest.mark.parametrize("abort", ABORTS, ids=lambda abort: f"{abort.program}-{abort.call}-{abort.result}")
def test_wgpu_native_still_ends_the_process(gpu: str, faulty: Environment, abort: Abort) -> None:
    fault = abort.call and f"{abort.call}:{abort.nth}:1:{-abort.result}"
    found = run(abort.program, faulty(fault) if fault else ENVIRONMENT)
    assert found.returncode == -signal.SIGABRT, f"mended upstream? {found.stdout} {found.stderr[-2000:]}"
    assert all(said in found.stderr for said in abort.said), found.stderr[-2000:]


def test_the_program_runs_where_no_call_fails(gpu: str, faulty: Environment) -> None:
    found = run("run", faulty())
    assert (found.returncode, found.stdout) == (0, "right\n"), found.stderr[-2000:]


def test_wgpu_native_still_keeps_command_buffers_that_were_not_submitted(gpu: str) -> None:
    found = run("not_submitted", ENVIRONMENT)
    assert (found.returncode, found.stdout) == (0, "kept 3\n"), f"mended upstream? {found}"


def test_errors_that_wgpu_native_reports_do_not_end_the_process(gpu: str, faulty: Environment) -> None:
    found = run("run", faulty(f"vkEndCommandBuffer:1:1:{-OUT_OF_HOST_MEMORY}"))
    assert found.returncode == 0 and "error: " in found.stdout and NO_MEMORY in found.stdout, found
