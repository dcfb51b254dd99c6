"""Tuners that take kernels of several operations, and what tests of these share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

import gpunn
from gpunn.backends.webgpu.lower import Decide
from gpunn.custom import Kernel, like, op
from gpunn.graph.operation import Operation
from gpunn.kernel import Candidate
from gpunn.ops.fusions import FUSIONS
from gpunn.tuning import calls, measurement, records, tuner
from gpunn.types import Array
from tests.ops.harness import limit_device

SUSTAINED = gpunn.Preference.SUSTAINED_SPEED
WHOLE = {fusion.whole.name for fusion in FUSIONS.values()}


class Last:
    """A tuner that takes the last candidate of a fusion, and the rule's of all others."""

    offered: Sequence[Candidate] = ()
    compares = False

    def decisions(self, operations: Iterable[Operation]) -> Mapping[Operation, Decide]:
        def last(candidates: Sequence[Candidate]) -> Sequence[Kernel]:
            self.offered = candidates
            return candidates[-1].kernels

        return {o: last for o in operations if o.op in WHOLE}


@op(like)
def on_the_host(x: Array) -> Array:
    """Return x."""
    return x


def measured_alone(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let a tuner measure small calls, as on a device that is no software, and take the second way.

    It asks whether results are right only of a way that wins. Nothing is compared as a whole.
    """
    monkeypatch.setattr(tuner.Tuner, "compares", False)
    monkeypatch.setattr("gpunn.cache.cache_folder", lambda: folder)
    monkeypatch.setattr(records, "_known", {})
    monkeypatch.setattr(measurement, "MARGIN", 1e9)
    monkeypatch.setattr(measurement, "TOO_LONG", 1e9)
    monkeypatch.setattr(calls, "LEAST_WORK", 0)
    limit_device(monkeypatch, software=False)
