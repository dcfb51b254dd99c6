"""A made-up op with several candidates: much or little needless work, a wrong one, a rejected one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import gpunn
from gpunn.custom import Call, Candidate, Kernel, Read, like, op
from gpunn.kernel import flat_threads
from gpunn.model import Model
from gpunn.types import Array, float32

Offer = Callable[..., None]
FAST, SUSTAINED = gpunn.Preference.FAST_SINGLE_ANSWER, gpunn.Preference.SUSTAINED_SPEED
HERE = Path(__file__).parent
SIZE = 1 << 16  # elements, so that a call is not too small
X = np.linspace(-1, 1, SIZE, dtype=np.float32)
WAYS = ["slow"]  # the candidates that are offered, in this order
_ROUNDS = {"slow": 100, "slower": 1000, "quick": 1, "wrong": 1, "broken": 1}  # far apart, for busy machines


def _kernel(call: Call, way: str) -> Kernel:
    return Kernel(
        body=str(HERE / f"{'broken' if way == 'broken' else 'rounds'}.wgsl"),
        threads=flat_threads(call.x.size),
        workgroup=(64, 1, 1),
        reads=(Read("x", 0),),
        params={"count": call.x.size, "rounds": _ROUNDS[way], "quarters": int(way == "wrong")},
        loop_iterations=_ROUNDS[way],
        reason=f"the {way} one",
    )


def _kernels(call: Call) -> Iterator[Candidate]:
    for way in WAYS:
        yield Candidate([_kernel(call, way)], way)


@op(like, _kernels)
def plus_one(x: Array) -> Array:
    """Compute x + 1."""
    return np.asarray(x + 1)


def model(calls: int = 1, size: int = SIZE) -> Model:
    """Return a model that adds 1 several times."""
    made = Model("sum")
    y = made.input("x", float32(size), open=[0])
    for number in range(calls):
        (y,) = made.add(plus_one, [y], origin=f"call {number}")
    made.output(y)
    return made


def bodies(made: gpunn.Model, gpu: str, preference: gpunn.Preference) -> list[str]:
    """Compile and run; return the first words of the reasons of the kernels that ran."""
    with made.compile(gpu, preference) as compiled:
        y = compiled(X)
        np.testing.assert_allclose(y, X + len(made.operations), atol=1e-5)
        return [row.kernel.reason.split(" one")[0] for row in compiled.plan_rows()]
