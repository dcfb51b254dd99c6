"""Long sums in several dispatches: each adds a part of the terms to the sums of the one before.

The terms lie in loops inside one another, and a part is a box of them. The order of the terms stays, so
results have the bits of one dispatch. The other half is shaders/lib/chain.wgsl.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpunn.kernel import Function, Kernel, Param, Read, Scratch, Unsupported, Write, ceil_div, nested
from gpunn.ops.call import Call
from gpunn.types import DType, TensorType


@dataclass(frozen=True, slots=True)
class Box:
    """A range of each of up to three loops inside one another, from the outermost on.

    `share` invocations divide the outermost one among them.
    """

    ranges: tuple[range, ...]
    share: int = 1

    @property
    def iterations(self) -> int:
        """Count the iterations of the loops of an invocation."""
        if not self.ranges:
            return 0
        outermost, *others = map(len, self.ranges)
        return nested(ceil_div(outermost, self.share), *others).iterations

    @property
    def params(self) -> dict[str, Param]:
        """Return the parameters that bodies loop over: p.first and p.end, of the outermost loop in x."""
        if not self.ranges:
            return {}
        x, y, z = (*self.ranges, range(0), range(0))[:3]
        return {"first": (x.start, y.start, z.start, 0), "end": (x.stop, y.stop, z.stop, 0)}


NO_LOOPS = Box(())


def boxes(size: Sequence[int], most: int | None, share: int = 1) -> list[Box]:
    """Divide loops inside one another into boxes of up to `most` iterations each, in the order of the terms.

    `share`: as of Box. Raises Unsupported if a single term takes more.
    """
    whole = Box(tuple(map(range, size)), share)
    if most is None or whole.iterations <= most:
        return [whole]
    return [*_boxes(Box((), share), tuple(size), most)]


def _boxes(outer: Box, size: tuple[int, ...], most: int) -> Iterator[Box]:
    inner = tuple(map(range, size[1:]))

    def box(of: range) -> Box:
        return replace(outer, ranges=(*outer.ranges, of, *inner))

    at_once = 1 if outer.ranges else outer.share
    one, two = box(range(at_once)).iterations, box(range(2 * at_once)).iterations
    if one <= most:
        count = ((most - one) // (two - one) + 1) * at_once
        for first in range(0, size[0], count):
            yield box(range(first, min(first + count, size[0])))
    elif inner:
        for k in range(size[0]):
            yield from _boxes(replace(outer, ranges=(*outer.ranges, range(k, k + 1))), size[1:], most)
    else:
        raise Unsupported(f"{one} loop iterations for a single term are over the device's limit of {most}")


def chained(
    kernel: Kernel, sums: TensorType, parts: Sequence[Box], as_summed: Mapping[str, Function]
) -> list[Kernel]:
    """Make the kernels that add up the terms of each part, of one that adds up all.

    Its body begins with resume(sum, before), where operand `before` has the sums so far, of type `sums`.
    Instead of a sum it may be anything that is combined term by term.
    `as_summed`: the functions with which it stores sums as they are.
    """
    (write,) = kernel.writes
    kernels: list[Kernel] = []
    before: Scratch | None = None
    for part in parts:
        last = part is parts[-1]
        after = Scratch(sums)
        resume = Function(("sum", "before"), "sum" if before is None else "before")
        kernels.append(
            replace(
                kernel,
                reads=(*kernel.reads, Read("before", before, width=kernel.lanes)),
                writes=(write if last else Write(output=after, width=write.width),),
                params={**kernel.params, **part.params},
                functions={**(kernel.functions if last else as_summed), "resume": resume},
                loop_iterations=part.iterations,
                reason=kernel.reason + (f", terms in {len(parts)} parts" if len(parts) > 1 else ""),
            )
        )
        before = after
    return kernels


def real_sums(call: Call, kernel: Kernel, parts: Sequence[Box]) -> list[Kernel]:
    """Chain a kernel whose sums are those of reals."""
    return chained(kernel, TensorType(DType.FLOAT32, call.y.shape), parts, {})
