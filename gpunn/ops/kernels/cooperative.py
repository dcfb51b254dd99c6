"""Cooperative groups: invocations that share a result (the other half is shaders/lib/cooperative.wgsl)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpunn.kernel import Grid, flat_threads

WORKGROUP = 64  # invocations
_FEW = 64  # terms: up to here a result is one invocation's work


@dataclass(frozen=True, slots=True)
class CooperativeGroup:
    """`size` invocations for each of `results`: a power of two, up to WORKGROUP."""

    results: int
    size: int

    @property
    def threads(self) -> Grid:
        """Return the kernel's threads."""
        return flat_threads(self.results * self.size, WORKGROUP)

    @property
    def workgroup(self) -> Grid:
        """Return the kernel's workgroup."""
        return WORKGROUP, 1, 1

    @property
    def constants(self) -> Mapping[str, int]:
        """Return the constants that the kernel needs."""
        return {"GROUP_SIZE": self.size}

    @property
    def reason(self) -> str:
        """Describe the sharing, for the kernel's reason."""
        return "one workgroup per result" if self.size > 1 else "one invocation per result"


def cooperative_group(results: int, terms: int) -> CooperativeGroup:
    """Choose the invocations that share each of `results`, which are made of `terms` values."""
    return CooperativeGroup(results, WORKGROUP if terms > _FEW else 1)
