"""Stage: a segment of a plan made ready to run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gpunn.backends.webgpu.native import Copy, Dispatch
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Kernel, Note
from gpunn.planning.partition import DEVICE
from gpunn.planning.plan import Segment
from gpunn.types import Shape


class ReadBack(NamedTuple):
    """A tensor in a staging buffer, `offset` bytes from its begin, and what an array of it needs."""

    tensor: Operand | Note
    offset: int
    shape: Shape
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, tensor: Operand | Note, offset: int) -> ReadBack:
        """Make one from a tensor and its offset."""
        return cls(tensor, offset, tensor.type.shape, tensor.type.dtype.numpy)


class Upload(NamedTuple):
    """An operand that the host writes, and its place: a buffer, and an offset in bytes."""

    operand: Operand
    buffer: Any
    offset: int


@dataclass(frozen=True, slots=True)
class Stage:
    """A segment made ready: host operations, or uploads, dispatches and read-backs.

    `dispatched` has the operations and kernels that the dispatches run, in order; that of a bundle runs
    several, and `bundles` has the first of them and the place behind the last. `updates` follow the
    dispatches: they give variables on the device their next values. `read_bytes` are those of the read-backs.
    """

    segment: Segment
    dispatches: tuple[Dispatch, ...] = ()
    updates: tuple[Copy, ...] = ()
    uploads: tuple[Upload, ...] = ()
    readbacks: tuple[ReadBack, ...] = ()
    dispatched: tuple[tuple[Operation, Kernel], ...] = ()
    bundles: tuple[tuple[int, int], ...] = ()
    read_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "read_bytes", sum(r.tensor.type.nbytes for r in self.readbacks))

    @property
    def on_device(self) -> bool:
        """Tell whether the segment runs on the device."""
        return self.segment.backend == DEVICE
