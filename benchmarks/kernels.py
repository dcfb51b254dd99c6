"""Each candidate of a kernel function by shape, beside the adapter's roofline: python -m benchmarks.kernels

A call is OP:SHAPE:... or OP:SHAPE:...:NAME=VALUE,..., with a shape for each operand but biases, for example
conv2d:1x28x28x128:128x3x3x128:padding=same, batch_matmul:12x197x64:12x197x64:adj_b=true, or
reduce_sum:512x768:axes=1. Filters and biases are random constants. --network names a .tflite file, or a
network of benchmarks/networks.py, of which each distinct call with several candidates is measured. The
candidates take turns, and the least time counts, as in the tuner (gpunn/tuning/measurement.py); nothing is
remembered.

GFLOP/s: additions and multiplications by the textbook formula, whatever a candidate really computes. GB/s:
inputs, constants and results, each counted once. % of peak: of what this adapter did in the same minute in a
kernel of nothing but multiplications and additions; % of copy: of the bytes of a kernel that only copies.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import command, program
from benchmarks.networks import loaded
from gpunn.backends.webgpu.device import Device, open_device
from gpunn.backends.webgpu.lower import candidates, lower
from gpunn.bench.conditions import Conditions, load, load_text
from gpunn.cli.grid import ABSENT, Grid, number, report
from gpunn.errors import ModelError
from gpunn.graph.operation import Operand, Operation
from gpunn.kernel import Candidate, Kernel, Read, flat_threads
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.ops.call import Call
from gpunn.ops.op import op
from gpunn.tuning.calls import tunable_calls
from gpunn.tuning.measurement import Bench
from gpunn.types import Array, Shape, float32

CALLS = (
    "conv2d:1x224x224x3:32x3x3x3:stride=2,padding=same",
    "conv2d:1x56x56x128:128x1x1x128",
    "conv2d:1x14x14x512:512x1x1x512",
    "conv2d:1x7x7x1024:1024x1x1x1024",
    "conv2d:1x13x13x512:1000x1x1x512",
    "conv2d:1x55x55x16:64x3x3x16:padding=same",
    "conv2d:1x28x28x128:128x3x3x128:padding=same",
    "conv2d:1x7x7x512:512x3x3x512:padding=same",
    "fully_connected:1x1024:1000x1024",
    "fully_connected:197x192:768x192",
)
FACTOR, STEP, ROUNDS = 0.5, 1.0, 512  # of arithmetic.wgsl, which does four rounds in one of its loop
TERMS = 64  # of a result of it
INVOCATIONS = 1 << 13  # at least, and eight times as many as occupy the adapter
COPIED = 1 << 24  # elements, which no cache holds


def _kernel(call: Call) -> Kernel:
    return Kernel(
        body=str(Path(__file__).with_name("arithmetic.wgsl")),
        threads=flat_threads(call.x.size),
        workgroup=(64, 1, 1),
        reads=(Read("x", 0),),
        params={"count": call.x.size, "factor": FACTOR, "step": STEP, "rounds": ROUNDS // 4},
        loop_iterations=ROUNDS // 4 + 1,
    )


@op(lambda call: call.x, _kernel, flops=lambda call: 2 * TERMS * ROUNDS * call.x.size)
def arithmetic(x: Array) -> Array:
    """Compute what arithmetic.wgsl does: v * FACTOR + STEP, ROUNDS times, has a closed form."""
    end = STEP / (1 - FACTOR)
    return np.asarray(sum(4 * (end + (x + k - end) * FACTOR**ROUNDS) for k in range(16)))


def parsed(text: str) -> Operation:
    """Make the operation that a call of the command line describes. Raises ModelError."""
    name, *parts = text.split(":")
    attributes = parts.pop() if parts and not parts[-1][:1].isdigit() else ""
    if not name or not parts:
        raise ModelError(f"{text!r} is no call: OP:SHAPE:... or OP:SHAPE:...:NAME=VALUE,...")
    if name not in OPS:
        raise ModelError(f"there is no op {name!r}")
    shapes, form, model = [_shape(part, text) for part in parts], OPS[name].filter, Model(text)
    constants: list[Operand] = []
    if form is not None and form.output_axis is not None and len(shapes) == 2:
        filter = shapes.pop()
        values = {"filter": filter, "bias": filter[form.output_axis : form.output_axis + 1]}
        rng = np.random.default_rng(0)
        constants = [model.constant(n, rng.standard_normal(s, np.float32)) for n, s in values.items()]
    inputs = [model.input(f"x{k}", float32(*shape)) for k, shape in enumerate(shapes)]
    attrs = dict(_attribute(part, name, text) for part in attributes.split(",") if part)
    model.output(*model.add(name, [*inputs, *constants], attrs))
    return model.operations[0]


def _shape(text: str, call: str) -> Shape:
    try:
        return tuple(map(int, text.split("x")))
    except ValueError:
        raise ModelError(f"{text!r} in {call!r} is no shape such as 1x28x28x128") from None


def _attribute(text: str, op: str, call: str) -> tuple[str, Any]:
    """Read an attribute: a word, true or false, a number, or numbers such as 1x2; one counts for a pair."""
    name, sign, value = text.partition("=")
    if not sign:
        raise ModelError(f"{text!r} in {call!r} is no attribute such as stride=2")
    parameter = inspect.signature(OPS[op].reference).parameters.get(name)
    kind, default = (parameter.annotation, parameter.default) if parameter is not None else (None, None)
    if kind == "bool":
        return name, {"true": True, "false": False}.get(value, value)
    try:
        if kind == "float":
            return name, float(value)
        numbers = tuple(map(int, value.split("x")))
    except ValueError:
        return name, value
    times = len(default) if isinstance(default, tuple) and len(numbers) == 1 else 1
    return name, numbers[0] if kind == "int" else numbers * times


def of_network(name: str, device: Device) -> list[Operation]:
    """Return each distinct call of a network, or of a file, that has several candidates."""
    with loaded(name).compile("webgpu", device=device.info.name) as compiled:
        calls, _ = tunable_calls([p.operation for p in compiled.placement], device.properties)
    return [call.operations[0] for call in calls]


def least(bench: Bench, operation: Operation, ways: Sequence[Candidate]) -> list[float | None]:
    """Return the least seconds of each way to compute an operation; None for one that cannot be measured."""
    both = [*ways, *ways] if len(ways) == 1 else ways  # one has itself to compete with
    found = bench.record(operation, both)
    return [None] * len(ways) if found is None else list(found[0].seconds[: len(ways)])


def roofline(bench: Bench, device: Device) -> tuple[float, float]:
    """Measure additions and multiplications, and bytes, of a second."""
    busy, copy = Model("arithmetic"), Model("copy")
    count = max(INVOCATIONS, 8 * device.properties.parallel_invocations)
    busy.output(*busy.add(arithmetic, [busy.input("x", float32(count))]))
    copy.output(*copy.add("relu", [copy.input("x", float32(COPIED))]))
    flops = 2 * TERMS * ROUNDS * count
    return flops / _seconds(bench, device, busy), 2 * 4 * COPIED / _seconds(bench, device, copy)


def _seconds(bench: Bench, device: Device, model: Model) -> float:
    (operation,) = model.operations
    kernels = lower(operation, device.properties)
    assert not isinstance(kernels, str), kernels
    (seconds,) = least(bench, operation, [Candidate(kernels, operation.op)])
    assert seconds is not None
    return seconds


def rows(
    operation: Operation, bench: Bench, device: Device, peak: tuple[float, float]
) -> Iterator[tuple[str, ...]]:
    """Return a line of the table for each candidate of an operation."""
    ways = candidates(operation, device.properties)
    if not ways:
        kernels = lower(operation, device.properties)
        if isinstance(kernels, str):
            yield title(operation), kernels, *(ABSENT,) * 5
            return
        ways = (Candidate(kernels, "the only way"),)
    flops = operation.definition.count_flops(operation.call())
    moved = sum(o.type.nbytes for o in {*operation.inputs, *operation.outputs} if o is not None)
    for way, seconds in zip(ways, least(bench, operation, ways), strict=True):
        rates = (
            [
                (1e-9 * n / seconds, 100 * n / seconds / most)
                for n, most in zip((flops, moved), peak, strict=True)
            ]
            if seconds
            else []
        )
        cells = (
            (number(1e3 * seconds, 3), *(number(x, 1) for pair in rates for x in pair))
            if seconds
            else (ABSENT,) * 5
        )
        yield title(operation), way.reason, *cells


def title(operation: Operation) -> str:
    """Return a call in words: its op, and the shapes of its operands and its result."""
    operands = (o for o in operation.inputs[:2] if o is not None)
    of, to = (["x".join(map(str, o.type.shape)) for o in some] for some in (operands, operation.outputs))
    return f"{operation.op} {' * '.join(of)} -> {to[0]}"


HEADS = ("call", "candidate", "ms", "GFLOP/s", "% of peak", "GB/s", "% of copy")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each call and print."""
    parser = command("kernels", __doc__)
    parser.add_argument("calls", nargs="*", metavar="CALL", help="some of well-known networks by default")
    parser.add_argument("--network", nargs="+", default=[], metavar="NAME", help="of which to take the calls")
    parser.add_argument("--device", metavar="NAME", help="part of the adapter's name")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    options = parser.parse_args(arguments)
    try:
        operations = [parsed(text) for text in options.calls or (() if options.network else CALLS)]
    except ModelError as error:
        parser.error(str(error))
    described = Conditions.now().described()
    device = open_device(options.device, False)
    bench = Bench(device)
    operations += [operation for name in options.network for operation in of_network(name, device)]
    peak = roofline(bench, device)
    lines = tuple(line for operation in operations for line in rows(operation, bench, device, peak))
    facts = {
        **described,
        "adapter": f"{device.info.name} ({device.info.driver})",
        "peak": f"{1e-9 * peak[0]:,.1f} GFLOP/s, {1e-9 * peak[1]:,.1f} GB/s",
        "method": bench.method,
        "load after": load_text(load()),
    }
    report(facts, [Grid(HEADS, lines)], markdown=options.markdown)


if __name__ == "__main__":
    program(main)
