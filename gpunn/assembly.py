"""A model made ready for a device, or for the CPU backend, bodies included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from gpunn.backends.base import Program
from gpunn.backends.cpu import CpuProgram
from gpunn.backends.interrupt import check
from gpunn.backends.webgpu.device import (
    Device,
)
from gpunn.backends.webgpu.lower import lower
from gpunn.backends.webgpu.program import WebGpuProgram
from gpunn.model import Model, with_bodies
from gpunn.operation import Operation
from gpunn.ops.op import as_tuple
from gpunn.passes import optimise
from gpunn.passes.partition import Placement, partition
from gpunn.passes.relax import relax
from gpunn.passes.rewrite import everywhere
from gpunn.plan import make_plan
from gpunn.rest import Rest, front
from gpunn.runtime import Compilation
from gpunn.specialise import Specialisation
from gpunn.types import Array, TensorType


def compilation(
    model: Model, build: Callable[[Model], Specialisation], gpu: Device | None, frames: int
) -> Compilation:
    """A model with how it is built for given shapes, for a device, or else for the CPU backend."""
    if gpu is None:
        return Compilation(model, build, "cpu", "cpu (numpy)", frames)
    return Compilation(model, build, "webgpu", f"{gpu.info.name} ({gpu.info.driver})", frames)


def built(model: Model, gpu: Device | None, frames: int, relaxed: bool) -> Specialisation:
    """A model made ready for a device, or else for the CPU backend."""
    optimised = optimise(front(model))
    return _assembled(everywhere(relax)(optimised) if relaxed else optimised, gpu, frames, model.rest)


def _assembled(model: Model, gpu: Device | None, frames: int, rest: Rest | None = None) -> Specialisation:
    """An optimised model, and the bodies in it, for a device, or else for the CPU backend."""
    with ExitStack() as undo:

        def compile_body(body: Model) -> _CompiledBody:
            compiled = compilation(body, partial(_assembled, gpu=gpu, frames=frames), gpu, frames)
            undo.callback(compiled.close)
            return _CompiledBody(compiled)

        ready = model.with_operations(with_bodies(o, compile_body) for o in model.operations)
        program: Program
        if gpu is None:
            placements = partition(ready, None)
            program = CpuProgram(make_plan(ready, placements))
        else:
            limits, parallel = gpu.limits, gpu.parallel
            placements = partition(ready, lambda operation: lower(operation, limits, parallel))
            program = WebGpuProgram(make_plan(ready, placements), gpu, frames)
        undo.pop_all()
        bodies = [body for o in ready.operations for body in _compiled_bodies(o)]
        return Specialisation.of(ready, tuple(_with_those_of_bodies(placements)), program, bodies, rest)


@dataclass(frozen=True, slots=True)
class _CompiledBody:
    """A body made ready (gpunn.ops.control.Body)."""

    compilation: Compilation

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        return self.compilation.model.input_types

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return self.compilation.model.output_types

    def evaluate(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        check()
        return as_tuple(self.compilation(*inputs))


def _compiled_bodies(operation: Operation) -> tuple[Compilation, ...]:
    return tuple(a.compilation for a in operation.attrs.values() if isinstance(a, _CompiledBody))


def _with_those_of_bodies(placements: Iterable[Placement]) -> Iterator[Placement]:
    """Each placement and, under it, those of the operation's bodies."""
    for placement in placements:
        yield placement
        for body in _compiled_bodies(placement.operation):
            yield from (replace(p, depth=p.depth + 1) for p in body.placement)
