"""Stage: a segment of a plan made ready to run."""

from __future__ import annotations

from dataclasses import dataclass

from gpunn.backends.webgpu.native import Copy, Dispatch
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Note
from gpunn.planning.partition import DEVICE
from gpunn.planning.plan import Segment


@dataclass(frozen=True, slots=True)
class Stage:
    """A segment made ready: host operations, or uploads, dispatches and read-backs.

    `dispatched` has the operations and kernels that the dispatches run, in order; that of a bundle runs
    several, and `bundles` has the first of them and the place behind the last. `readbacks` pairs operands and
    notes with their byte offset in the staging buffer. `updates` follow the dispatches: they give variables
    on the device their next values.
    """

    segment: Segment
    dispatches: tuple[Dispatch, ...] = ()
    updates: tuple[Copy, ...] = ()
    readbacks: tuple[tuple[Operand | Note, int], ...] = ()
    dispatched: tuple[tuple[Operation, Kernel], ...] = ()
    bundles: tuple[tuple[int, int], ...] = ()

    @property
    def on_device(self) -> bool:
        """Tell whether the segment runs on the device."""
        return self.segment.backend == DEVICE
