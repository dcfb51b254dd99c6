"""Cooperative groups: invocations that share a result (the other half is shaders/lib/cooperative.wgsl)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpunn.device import DeviceProperties
from gpunn.kernel import Candidate, Grid, Kernel, Kernels, ceil_div, flat_threads
from gpunn.ops.kernels.tiling import shares

WORKGROUP = 64  # invocations
_WIDE = 256  # invocations of a workgroup for one long result of few
_FEW = 64  # terms: up to here a result is one invocation's work
_MANY, _SEVERAL = 16, 4  # results that CPUs compute sooner alone, the latter if they are short
_SHORT = 1 << 10  # terms of these
_NARROW = 8  # invocations of a workgroup on a CPU where results are few: more cores have one
_CROWD = 8 * WORKGROUP  # results that are more
_EACH = 8  # terms of each invocation, or more, where several share few terms
_LONG = 64 * WORKGROUP  # terms: above it a CPU gains by sharing, too
_ROUNDS = 32  # terms of an invocation: above it, a second dispatch costs less than it saves
_PART = 8  # terms of an invocation, or more, in each part of a result


@dataclass(frozen=True, slots=True)
class CooperativeGroup:
    """`size` invocations for each of `results`: a power of two, up to 256.

    least: those of a workgroup. parts: of the terms, which another kernel joins, one or more.
    """

    results: int
    size: int
    least: int = WORKGROUP
    parts: int = 1

    @property
    def threads(self) -> Grid:
        """Return the kernel's threads."""
        return flat_threads(self.results * self.size, self.workgroup[0])

    @property
    def workgroup(self) -> Grid:
        """Return the kernel's workgroup."""
        return max(self.least if self.size == 1 else WORKGROUP, self.size), 1, 1

    @property
    def constants(self) -> Mapping[str, int]:
        """Return the constants that the kernel needs."""
        return {"GROUP_SIZE": self.size}

    @property
    def reason(self) -> str:
        """Describe the sharing, for the kernel's reason."""
        if self.size == 1:
            return "one invocation per result"
        if self.size < WORKGROUP:
            return f"{self.size} invocations per result"
        return f"one workgroup{f' of {self.size}' if self.size > WORKGROUP else ''} per result"


def cooperative_group(
    results: int, terms: int, device: DeviceProperties, few: bool = False, parted: bool = False
) -> CooperativeGroup:
    """Choose the invocations that share each of `results`, which are made of `terms` values.

    few: as of best_alone(). parted: whether a second kernel can join parts of the terms.
    """
    if not device.software:
        return CooperativeGroup(results, _on_hardware(results, terms, device))
    parts, alone = 1, terms <= _FEW or best_alone(results, terms, device, few)
    if parted and not alone and terms > _SHORT:
        # A second kernel takes less time than barriers, and compilers much less.
        count, most = min(ceil_div(terms, _SHORT), WORKGROUP), device.max_loop_iterations
        if most is None or ceil_div(terms, count) <= most:
            parts, alone = count, True
    least = _NARROW if results * parts < _CROWD else WORKGROUP
    return CooperativeGroup(results, 1 if alone else WORKGROUP, least, parts)


def _on_hardware(results: int, terms: int, device: DeviceProperties) -> int:
    """Return how many invocations share a result: more, where results alone do not occupy the device.

    Each of them waits for memory once for each of its terms, or for a few at a time.
    """
    if terms <= _FEW:
        return shares(results, terms // _EACH, device)
    wide = terms >= _EACH * WORKGROUP and results * WORKGROUP < device.parallel_invocations
    return _WIDE if wide else WORKGROUP


def in_groups(
    group: CooperativeGroup, terms: int, kernels: Callable[[CooperativeGroup], Sequence[Kernel]]
) -> Kernels:
    """Return the kernels of a group that a rule chose for results of `terms` values.

    They are candidates, and behind them are those of another group, where the rule may be wrong: it was
    measured on few devices. One invocation for each of few results, or of long ones, takes long everywhere.
    """
    certain = group.results < WORKGROUP or not _FEW < terms <= _LONG
    if certain and group.size in (1, WORKGROUP):
        return kernels(group)
    other = replace(group, size=WORKGROUP if group.size in (1, _WIDE) else 1, parts=1)
    return (Candidate(kernels(one), one.reason) for one in (group, other))


def share_of(group: CooperativeGroup, terms: int, device: DeviceProperties, bound: int = 0) -> int:
    """Return how many of its terms a result has in each part, up to a bound if any; all, if that is one part.

    The device's loops bound it, too. On hardware, where the groups of few long results do not occupy the
    device, each has several parts.
    """
    most = [bound or max(terms, 1), max(ceil_div(terms, group.parts), 1)]
    if device.max_loop_iterations is not None:
        most.append(device.max_loop_iterations * group.size)
    if not device.software and terms > _ROUNDS * group.size:
        groups = ceil_div(device.parallel_invocations, max(group.results, 1) * group.size)
        most.append(max(ceil_div(terms, groups), _PART * group.size))
    return min(most)


def best_alone(results: int, terms: int, device: DeviceProperties, few: bool) -> bool:
    """Tell whether a device needs no sharing, however many terms there are.

    few: however few results there are, too, as in kernels that most networks have: they compile sooner.

    At a barrier lavapipe saves all invocations of a workgroup, which takes longer than their terms: rows of
    100 to 200 are softmaxed 2.5 to 6 times as fast by one invocation each, eight rows of 1,000 twice as fast.
    A single row of 1,000 takes 50 us instead of 30, and 25 ms less to compile, with Mesa 25.0 150.
    """
    most = device.max_loop_iterations
    few = few and (most is None or terms <= most)
    enough = results >= (_SEVERAL if terms <= _SHORT else _MANY)
    return device.software and (few or enough) and terms <= _LONG
