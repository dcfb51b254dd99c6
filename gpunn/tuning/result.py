"""Findings about candidates: Record for one call of a kernel function, Tuning for a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gpunn.document import as_document
from gpunn.types import Shape

Change = Literal["chosen", "inlined"]  # see Whole


@dataclass(frozen=True, slots=True)
class Record:
    """The chosen one of several candidates, by its place, and for each its seconds or why it was dropped."""

    chosen: int
    seconds: tuple[float | None, ...]
    dropped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """A candidate: its reason, the least seconds of its dispatches, None if they were not measured.

    dropped: why it cannot be chosen, "" if it can: the driver rejects its shaders, its results are wrong, or
    memory runs out.
    """

    reason: str
    seconds: float | None
    dropped: str = ""


@dataclass(frozen=True, slots=True)
class TunedCall:
    """Equal calls of an op in a model, and the ways to compute them; `chosen` is the place of one in `ways`.

    origins: of each call. shape: of the first result. The first way is the one that the rule takes. measured:
    whether the times are of now, and not from the cache. reason: why nothing was measured, else "".
    """

    op: str
    activation: str | None
    shape: Shape
    origins: tuple[str, ...]
    ways: tuple[Way, ...]
    chosen: int
    measured: bool
    reason: str = ""

    @property
    def gain(self) -> float | None:
        """Return the time of the way that the rule takes over that of the chosen one; None if unknown."""
        first, best = self.ways[0].seconds, self.ways[self.chosen].seconds
        return None if first is None or not best else first / best


@dataclass(frozen=True, slots=True)
class Whole:
    """The least seconds of a program's dispatches on hardware, all together, with and without a change.

    What a kernel takes also depends on those around it, so a change is taken only if it is quicker as a
    whole. change: "chosen", the kernels that were chosen call by call in place of the rule's; "inlined",
    parameters that are constants of the shaders, after that. measured: as of TunedCall.
    """

    change: Change
    seconds: float
    seconds_without: float
    measured: bool

    @property
    def taken(self) -> bool:
        """Tell whether the change is taken."""
        return self.seconds < self.seconds_without


@dataclass(frozen=True, slots=True)
class Tuning:
    """The choice of a tuner for a model: calls with several candidates, equal ones once.

    small: how many further calls were so small that the first candidate was taken. method: how times were
    measured; see Stopwatch. seconds: how long the tuner took. stored: whether other processes find in the
    user's cache folder what was measured; False if the folder cannot be written. wholes: of the programs of
    hardware.
    """

    model: str
    device: str
    method: str
    seconds: float
    small: int
    calls: tuple[TunedCall, ...]
    stored: bool = True
    wholes: tuple[Whole, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data as docs/schemas/tune.schema.json describes it."""
        document = {name: getattr(self, name) for name in self.__slots__}
        found = as_document(document)
        assert isinstance(found, dict)
        return found


def tuned_call(
    op: str,
    activation: str | None,
    shape: Shape,
    origins: Sequence[str],
    reasons: Sequence[str],
    record: Record,
    measured: bool,
) -> TunedCall:
    """Return what a record says about a call."""
    found = zip(reasons, record.seconds, record.dropped, strict=True)
    ways = tuple(Way(reason, seconds, dropped) for reason, seconds, dropped in found)
    return TunedCall(op, activation, shape, tuple(origins), ways, record.chosen, measured)
