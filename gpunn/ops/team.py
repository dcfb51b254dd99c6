"""Teams: how many invocations share a result (the other half is shaders/lib/team.wgsl)."""

from __future__ import annotations

from gpunn.kernel import Grid, ceil_div, flat_threads

SIZE = 64  # invocations of a workgroup
_FEW = 64  # terms: up to here a result is one invocation's work


def teams(results: int, terms: int) -> tuple[Grid, Grid, str]:
    """Threads, workgroup and the reason for them, for `results` each made of `terms` values."""
    shared = terms > _FEW
    across, down = (SIZE, 1) if shared else (1, SIZE)
    x, y, _ = flat_threads(ceil_div(results, down) * across, across)
    reason = "one workgroup per result" if shared else "one invocation per result"
    return (x, y * down, 1), (across, down, 1), reason
