"""Kernels of recurrences: all steps of a sequence after their products with x (shaders/lib/sequence.wgsl)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpunn.kernel import (
    Function,
    Grid,
    Kernel,
    Loop,
    Pack,
    Param,
    Read,
    Scratch,
    Unsupported,
    Write,
    ceil_div,
    flat_threads,
    halving,
    keep_nan,
    power_of_two,
    spans,
)
from gpunn.ops.call import Call
from gpunn.ops.recurrent.gate_activation import GateActivation, gate_function
from gpunn.types import Array, DType, TensorType

MAX_UNITS = 1024  # of a state that a workgroup keeps
_THREADS = 256  # of a workgroup, at most: every device has them
# Of a device that is software: it computes so many invocations at once, and others one after the other. With
# more units it takes longer than the host, whichever cell.
_SOFTWARE_THREADS, _SOFTWARE_UNITS = 8, 64
_PRODUCTS = 1 << 30  # of a workgroup in a dispatch: a fraction of a second; drivers end those of seconds


@dataclass(frozen=True, slots=True)
class Cell:
    """A body's step of a unit: it has `gates`, in one or two `phases`, and a unit keeps so many numbers.

    `states` are operands and results with these names: a state before the sequence, and after it. Further
    operands are `more`.
    """

    body: str
    gates: int
    phases: int
    kept: int
    states: tuple[str, ...]
    more: tuple[str, ...] = ()


def sequence_kernels(
    call: Call, cell: Cell, activations: Mapping[str, GateActivation], bounds: Mapping[str, float]
) -> list[Kernel]:
    """Make one kernel for all steps, or several that pass the states on if the sequence is too long for one.

    Operands are x, the recurrent weights, the states, and more; results the states, and y. `activations` and
    `bounds` are functions that the body calls: an activation, and a clip that is off if it is 0.
    """
    batch, units = call.outputs[0].shape
    if units > MAX_UNITS:
        raise Unsupported(f"a state of {units} units is over the {MAX_UNITS} that a workgroup keeps")
    if not call.constant[1]:
        raise Unsupported("the weights are no constant")
    software = call.device.software
    if software and units > _SOFTWARE_UNITS:
        raise Unsupported(f"a state of {units} units, for which a device that is software takes longer")
    grid = _Grid(cell, units, _SOFTWARE_THREADS if software else _THREADS)
    total = call.x.shape[0 if call["time_major"] else 1]
    functions, numbers = _functions(activations, bounds)
    kernel = Kernel(
        body=cell.body,
        threads=_of_workgroups(batch, grid.across, grid.down),
        workgroup=(grid.across, grid.down, 1),
        reads=_reads(call, cell, grid.rows),
        writes=(
            *(Write(f"{name}_out", k) for k, name in enumerate(cell.states)),
            Write("y", len(cell.states)),
        ),
        params={
            "batch": batch,
            "units": units,
            "rows": grid.rows,
            "columns": grid.columns,
            "along": batch if call["time_major"] else 1,
            "across": 1 if call["time_major"] else total,
            "reverse": int(call["reverse"]),
            **numbers,
        },
        constants={"UNITS": grid.room, "GATES": cell.gates, "PHASES": cell.phases, "STATES": cell.kept},
        functions=functions,
        workgroup_bytes=(cell.kept + cell.gates) * grid.room * 4 + grid.across * grid.down * 16,
        reason="one workgroup for a row of the batch",
    )
    step, beside = grid.loops()
    limit, each = call.device.max_loop_iterations, 1 + step.iterations
    most = _PRODUCTS // max(1, cell.gates * units * units)
    parts = spans(total, most if limit is None else min(most, (limit - beside) // each))
    return _in_parts(kernel, TensorType(DType.FLOAT32, (batch, units)), parts, each, beside)


class _Grid:
    """A workgroup of `across` x `down` invocations, `most` at most, for a state of some units.

    `columns`: vec4s of a gate's units; `rows`: inputs, filled up; `room`: units that workgroup memory is for.
    """

    def __init__(self, cell: Cell, units: int, most: int) -> None:
        self.cell, self.units = cell, units
        self.columns, self.room = ceil_div(units, 4), max(4, power_of_two(units))
        self.across = min(power_of_two(cell.gates * self.columns), most)
        self.down = min(most // self.across, self.room // 4)
        self.rows = ceil_div(units, 4 * self.down) * 4 * self.down

    def loops(self) -> tuple[Loop, int]:
        """Return the loop inside a time step, and the rounds of all loops beside the steps."""
        threads = self.across * self.down
        own = Loop(ceil_div(self.units, threads))
        zero = Loop(ceil_div(self.rows, threads), (Loop(self.cell.kept),))
        store = Loop(ceil_div(4, self.down))
        product = Loop(ceil_div(self.rows, 4 * self.down)), halving(self.down), store
        columns = Loop(ceil_div(self.cell.gates * self.columns, self.across), product)
        step = Loop(self.cell.phases, (columns, own))
        return step, zero.iterations + own.iterations + 1 + step.ending


def _reads(call: Call, cell: Cell, rows: int) -> tuple[Read, ...]:
    """Return what a kernel reads: x, the recurrent weights, the states, and more."""
    weights = call.input(1)
    nbytes = rows * cell.gates * ceil_div(weights.shape[1], 4) * 4 * weights.dtype.numpy.itemsize
    return (
        Read("x", 0),
        Read("r", 1, 4, Pack(_pack_rows, (rows, cell.gates)), nbytes=nbytes),
        *(Read(name, k) for k, name in enumerate(cell.states, 2)),
        *(Read(n, k if call.has(k) else None) for k, n in enumerate(cell.more, 2 + len(cell.states))),
    )


def _functions(
    activations: Mapping[str, GateActivation], bounds: Mapping[str, float]
) -> tuple[dict[str, Function], dict[str, Param]]:
    """Return the functions that a body calls, and the numbers that these read."""
    functions: dict[str, Function] = {}
    numbers: dict[str, Param] = {}
    for role, activation in activations.items():
        functions[role], read = gate_function(role, activation)
        numbers |= read
    for role, bound in bounds.items():
        limited = keep_nan(f"clamp(x, -p.{role}, p.{role})", "x")
        functions[role] = Function(("x",), limited if bound > 0 else "x")
        numbers |= {role: float(bound)} if bound > 0 else {}
    return functions, numbers


def _in_parts(
    kernel: Kernel, state: TensorType, parts: Sequence[range], each: int, beside: int
) -> list[Kernel]:
    """Make kernels for parts of a sequence, which pass the states on.

    Its loops take `each` rounds for each step, and `beside` further rounds.
    """
    kernels: list[Kernel] = []
    total, count = parts[-1].stop, len(kernel.writes) - 1
    states, more = kernel.reads[2 : 2 + count], kernel.reads[2 + count :]
    for part in parts:
        last = part is parts[-1]
        after = [w if last else replace(w, output=Scratch(state)) for w in kernel.writes[:count]]
        begin = max(total - 1 - part.start, 0) if kernel.params["reverse"] else part.start
        kernels.append(
            replace(
                kernel,
                reads=(*kernel.reads[:2], *states, *more),
                writes=(*after, kernel.writes[-1]),
                params={**kernel.params, "steps": len(part), "first": begin},
                loop_iterations=beside + len(part) * each,
            )
        )
        if not last:
            states = tuple(replace(s, operand=w.output) for s, w in zip(states, after, strict=True))
    return kernels


def _of_workgroups(count: int, across: int, down: int) -> Grid:
    """Return the threads of that many workgroups."""
    x, y, _ = flat_threads(count * across, across)
    return x, y * down, 1


def _pack_rows(r: Array, rows: int, gates: int) -> Array:
    """Pack weights [G U, U] with the units of a gate side by side: `rows` inputs, whole vec4s of units."""
    units = r.shape[1]
    by_input = r.reshape(gates, units, units).transpose(2, 0, 1)
    return np.pad(by_input, ((0, rows - units), (0, 0), (0, -units % 4)))
