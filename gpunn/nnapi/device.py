"""The abilities of a device: Capabilities, DeviceStatus, and the operations of a model that it runs
(types.hal).
"""

from __future__ import annotations

from dataclasses import dataclass

from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import lower
from gpunn.compilation.measured import capabilities
from gpunn.errors import DeviceError
from gpunn.importers.nnapi.codes import DeviceStatus, OperationCode
from gpunn.nnapi.model import Model
from gpunn.nnapi.values import bad, expect_kind, translated
from gpunn.performance import Capabilities, PerformanceInfo
from gpunn.planning.partition import HOST, partition

DEVICE_BACKENDS = ("webgpu", "cpu")


@dataclass(frozen=True, slots=True)
class Support:
    """The support of a device for an operation of a model, and the reason if there is none."""

    operation: OperationCode
    supported: bool
    reason: str = ""


def get_capabilities(backend: str = "webgpu", device: str | None = None) -> Capabilities:
    """Measure time and energy of a device, once for an adapter, in a second or two; later calls reuse the
    result.

    The reference workload is a small convolutional network. The cpu backend is 1 by definition. Raises
    BAD_DATA for an unknown backend, OP_FAILED if there is no such device or it fails.
    """
    if _checked(backend) == "cpu":
        return Capabilities(PerformanceInfo(1.0, 1.0), PerformanceInfo(1.0, 1.0))
    with translated():
        return capabilities(open_device(device, False))


def get_status(backend: str = "webgpu", device: str | None = None) -> DeviceStatus:
    """Return AVAILABLE if a device can be opened, else OFFLINE. Raises BAD_DATA for an unknown backend.

    WebGPU does not tell whether other processes keep a device busy, so the status is never BUSY.
    """
    if _checked(backend) == "webgpu":
        try:
            open_device(device, False)
        except DeviceError:
            return DeviceStatus.OFFLINE
    return DeviceStatus.AVAILABLE


def get_supported_operations(
    model: Model, backend: str = "webgpu", device: str | None = None
) -> tuple[Support, ...]:
    """Tell for each of model.operations whether the device runs it.

    The cpu backend runs the other operations inside the same execution, unless the reason is that the
    operation cannot be expressed. Raises UNEXPECTED_NULL without a model, BAD_DATA for an unknown backend or
    a model that is not finished or invalid, OP_FAILED if there is no such device.
    """
    expect_kind("the model", model, Model)
    if not model.finished:
        bad(f"model {model.name!r} has not been finished")
    translation = model.translation
    reasons = dict(translation.refused)
    for number in translation.deferred:
        reasons[number] = "it waits for dimensions or values that come with an execution"
    if _checked(backend) == "webgpu":
        with translated():
            properties = open_device(device, False).properties
        placements = partition(translation.graph, lambda operation: lower(operation, properties))
        hosted = {p.operation: p.reason for p in placements if p.backend == HOST}
        for number, made in translation.made.items():
            reason = next((hosted[operation] for operation in made if operation in hosted), "")
            if reason:
                reasons[number] = reason
    return tuple(
        Support(operation.type, number not in reasons, reasons.get(number, ""))
        for number, operation in enumerate(model.operations)
    )


def _checked(backend: str) -> str:
    if not isinstance(backend, str) or backend not in DEVICE_BACKENDS:
        bad(f"backend must be one of {', '.join(DEVICE_BACKENDS)}, got {backend!r}")
    return backend
