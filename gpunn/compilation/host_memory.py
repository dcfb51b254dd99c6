"""needed_on_host(): the memory that a run takes on the host, held against the limits of its model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gpunn.graph.graph import Graph
from gpunn.graph.parts import constant_bytes
from gpunn.limits import Limits
from gpunn.planning.liveness import host_bytes
from gpunn.planning.plan import Plan


class _Body(Protocol):
    @property
    def host_bytes(self) -> int:
        """Return what a run of the body takes on the host, without constants."""


def needed_on_host(graph: Graph, plan: Plan, bodies: Iterable[_Body], limits: Limits) -> int:
    """Return the most bytes that a run has on the host at a time, without constants; 0 if nobody limits it.

    `plan` is that of `graph`, whose `bodies` have been compiled: one of them runs at a time. Raises
    LimitError if these bytes and the constants are more than the limit.
    """
    if limits.host_bytes is None:
        return 0
    computed = host_bytes(plan) + max((body.host_bytes for body in bodies), default=0)
    stored = constant_bytes(graph)
    wanted = computed + stored
    what = f"{graph.name}: a run needs {wanted} bytes on the host, {stored} of them for constants"
    limits.check("host_bytes", wanted, what)
    return computed
