"""Cooperative groups: invocations that share a result (the other half is shaders/lib/cooperative.wgsl)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpunn.device import DeviceProperties
from gpunn.kernel import Candidate, Grid, Kernel, Kernels, flat_threads

WORKGROUP = 64  # invocations
_FEW = 64  # terms: up to here a result is one invocation's work
_MANY = 2 * WORKGROUP  # results: a CPU's cores have work without sharing them
_LONG = 64 * WORKGROUP  # terms: above it a CPU gains by sharing, too


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


def cooperative_group(
    results: int, terms: int, device: DeviceProperties, few: bool = False
) -> CooperativeGroup:
    """Choose the invocations that share each of `results`, which are made of `terms` values.

    few: as of best_alone().
    """
    shared = terms > _FEW and not best_alone(results, terms, device, few)
    return CooperativeGroup(results, WORKGROUP if shared else 1)


def in_groups(
    group: CooperativeGroup, terms: int, kernels: Callable[[CooperativeGroup], Sequence[Kernel]]
) -> Kernels:
    """Return the kernels of a group that a rule chose for results of `terms` values.

    They are candidates, and behind them are those of the other group, where the rule may be wrong: it was
    measured on few devices. One invocation for each of few results, or of long ones, takes long everywhere.
    """
    if not _FEW < terms <= _LONG or group.results < WORKGROUP:
        return kernels(group)
    other = replace(group, size=1 if group.size > 1 else WORKGROUP)
    return (Candidate(kernels(one), one.reason) for one in (group, other))


def best_alone(results: int, terms: int, device: DeviceProperties, few: bool = False) -> bool:
    """Tell whether a device needs no sharing, however many terms there are.

    few: however few results there are, too, as in kernels that most networks have: they compile sooner.

    At a barrier lavapipe saves all invocations of a workgroup, which takes longer than their terms: rows of
    100 to 200 are softmaxed 2.5 to 6 times as fast by one invocation each, eight rows of 1,000 twice as fast.
    A single row of 1,000 takes 50 us instead of 30, and 25 ms less to compile, with Mesa 25.0 150.
    """
    most = device.max_loop_iterations
    few = few and (most is None or terms <= most)
    return device.software and (few or results >= _MANY) and terms <= _LONG
