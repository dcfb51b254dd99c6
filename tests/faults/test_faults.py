"""Faults of the driver that wgpu-native reports: they are DeviceError, and gpunn goes on afterwards."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.faults.layer import (
    DEVICE_LOST,
    MEMORY_MAP_FAILED,
    OUT_OF_DEVICE_MEMORY,
    OUT_OF_HOST_MEMORY,
    Environment,
)
from tests.gpu import require_gpu
from tests.resources import ROOT

FOREVER = 1000
RIGHT = "right"
NO_MEMORY = r"DeviceError: .*Not enough memory left"
LOST = r"DeviceError: .*Parent device is lost"


class Fault(NamedTuple):
    """A call of the driver that fails: `times` calls, the first of which is the n-th while `when` is done."""

    when: str
    call: str
    nth: int
    times: int
    result: int
    found: str  # a pattern

    @property
    def case(self) -> str:
        """Return it as program.py takes it."""
        return ":".join(map(str, self[:-1]))


FAULTS = (
    Fault("run", "vkEndCommandBuffer", 1, 1, OUT_OF_DEVICE_MEMORY, NO_MEMORY),
    Fault("run", "vkEndCommandBuffer", 1, 1, DEVICE_LOST, LOST),
    # From the sixth call on, the next run is recorded while the device computes this one.
    Fault("run", "vkEndCommandBuffer", 6, 1, OUT_OF_DEVICE_MEMORY, NO_MEMORY),
    Fault("run", "vkEndCommandBuffer", 6, 1, DEVICE_LOST, LOST),
    Fault("run", "vkCreateBuffer", 1, 1, OUT_OF_DEVICE_MEMORY, NO_MEMORY),
    Fault("run", "vkCreateBuffer", 1, FOREVER, DEVICE_LOST, LOST),
    Fault("run", "vkResetCommandPool", 1, FOREVER, OUT_OF_HOST_MEMORY, RIGHT),
    Fault("submit", "vkEndCommandBuffer", 2, 1, OUT_OF_DEVICE_MEMORY, NO_MEMORY),
    Fault("submit", "vkCreateBuffer", 2, 1, OUT_OF_DEVICE_MEMORY, NO_MEMORY),
    Fault("trace", "vkCreateQueryPool", 1, 1, OUT_OF_HOST_MEMORY, NO_MEMORY),
    Fault("trace", "vkEndCommandBuffer", 1, FOREVER, DEVICE_LOST, LOST),
    Fault("close", "vkQueueSubmit", 1, FOREVER, DEVICE_LOST, RIGHT),
    # The first buffer of a compile asks whether the device still works; if not, another one is opened.
    Fault("compile", "vkCreateBuffer", 1, 1, DEVICE_LOST, RIGHT),
    Fault("compile", "vkCreateBuffer", 2, FOREVER, DEVICE_LOST, LOST),
    Fault("compile", "vkCreateBuffer", 2, 1, OUT_OF_DEVICE_MEMORY, NO_MEMORY),
    Fault("compile", "vkCreateBuffer", 3, 1, OUT_OF_HOST_MEMORY, NO_MEMORY),
    Fault("compile", "vkBindBufferMemory", 2, 1, OUT_OF_DEVICE_MEMORY, NO_MEMORY),
    Fault("compile large", "vkAllocateMemory", 1, 1, OUT_OF_DEVICE_MEMORY, NO_MEMORY),
    Fault("compile large", "vkAllocateMemory", 1, FOREVER, DEVICE_LOST, LOST),
    Fault("compile large", "vkMapMemory", 1, 1, MEMORY_MAP_FAILED, LOST),
    Fault("compile", "vkCreateShaderModule", 1, 1, OUT_OF_HOST_MEMORY, NO_MEMORY),
    Fault("compile", "vkCreateComputePipelines", 1, 1, OUT_OF_DEVICE_MEMORY, NO_MEMORY),
    Fault("compile", "vkCreateComputePipelines", 1, FOREVER, DEVICE_LOST, LOST),
    Fault("compile", "vkCreatePipelineLayout", 1, 1, OUT_OF_HOST_MEMORY, NO_MEMORY),
    Fault("compile", "vkCreateDescriptorSetLayout", 1, 1, OUT_OF_HOST_MEMORY, NO_MEMORY),
    Fault("compile", "vkCreateDescriptorPool", 1, 1, OUT_OF_DEVICE_MEMORY, NO_MEMORY),
    Fault("compile", "vkAllocateDescriptorSets", 1, 1, OUT_OF_DEVICE_MEMORY, NO_MEMORY),
    Fault("recover", "vkCreateDevice", 1, 1, DEVICE_LOST, LOST),
    Fault("recover", "vkCreateDevice", 1, 1, OUT_OF_HOST_MEMORY, NO_MEMORY),
    Fault("recover", "vkCreateSemaphore", 1, 1, OUT_OF_HOST_MEMORY, NO_MEMORY),
    Fault("recover", "vkAllocateMemory", 1, 1, OUT_OF_DEVICE_MEMORY, NO_MEMORY),
)


@pytest.fixture(scope="module")
def met(faulty: Environment) -> dict[str, dict[str, str]]:
    """Return what came of each fault: all in one process, which outlives them."""
    require_gpu()
    command = [sys.executable, "-W", "ignore", "-m", "tests.faults.program", *(f.case for f in FAULTS)]
    found = subprocess.run(command, cwd=ROOT, env=faulty(), capture_output=True, text=True, timeout=300)
    lines = found.stdout.splitlines()
    assert (found.returncode, len(lines)) == (0, len(FAULTS)), (
        found.returncode,
        lines[-1:],
        found.stderr[-3000:],
    )
    return {fault.case: json.loads(line) for fault, line in zip(FAULTS, lines, strict=True)}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.case)
def test_a_fault_of_the_driver_is_a_device_error_and_gpunn_goes_on(
    gpu: str, met: dict[str, dict[str, str]], fault: Fault
) -> None:
    found = met[fault.case]
    assert re.fullmatch(rf"{fault.found}.*", found["found"]), found
    assert {name: said for name, said in found.items() if name != "found"} == {
        "before": RIGHT,
        "compile again": RIGHT,
        "run again": RIGHT,
    }
