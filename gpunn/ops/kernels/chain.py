"""Long sums in several dispatches: each adds a part of the terms to the sums of the one before.

The terms lie in loops inside one another, and a part is a box of them. The order of the terms stays, so
results have the bits of one dispatch. The other half is shaders/lib/chain.wgsl.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpunn.kernel import Function, Kernel, Param, Read, Scratch, Unsupported, Write, ceil_div, nested
from gpunn.ops.call import Call
from gpunn.ops.kernels.cooperative import CooperativeGroup
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
    def terms(self) -> int:
        """Count the terms of a sum that lie in the box."""
        return math.prod(map(len, self.ranges))

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


def keeping(
    kernel: Kernel,
    types: Mapping[str, TensorType],
    functions: Mapping[str, Function],
    libraries: Sequence[str] | None = None,
) -> Kernel:
    """Make the kernel of all parts but the last, of one that adds up all terms; it stores sums as they are.

    types: of the tensors of sums, by the names that its body stores them by. functions, libraries: in place
    of those of the kernel.
    """
    (write,) = kernel.writes
    return replace(
        kernel,
        writes=tuple(Write(name, Scratch(type), write.width) for name, type in types.items()),
        functions=functions,
        libraries=kernel.libraries if libraries is None else tuple(libraries),
    )


def chained(kernel: Kernel, part: Kernel, boxes: Sequence[Box]) -> list[Kernel]:
    """Make the kernels that add up the terms of each box, of one that adds up all.

    part: the kernel as keeping() makes it. A tensor of sums that it stores as y is operand `before` of the
    next kernel, one that it stores as y_NAME is before_NAME; in the first kernel they are absent. What else
    the kernels store are results, of which each has another part. Bodies begin with resume(sum, before), the
    sum or what is before. Instead of a sum it may be anything that is combined term by term.
    """
    kernels: list[Kernel] = []
    before: dict[str, Scratch] = {}
    for box in boxes:
        last = box is boxes[-1]
        made = kernel if last else part
        after = {w.name: Scratch(w.output.type) for w in part.writes if isinstance(w.output, Scratch)}
        names = [(f"before{name.removeprefix('y')}", name) for name in after]
        sums = (Read(read, before.get(name), width=kernel.lanes) for read, name in names)
        targets = {} if last else after
        resume = Function(("sum", "before"), "before" if before else "sum")
        kernels.append(
            replace(
                made,
                reads=(*made.reads, *sums),
                writes=tuple(replace(w, output=targets.get(w.name, w.output)) for w in made.writes),
                params={**made.params, **box.params},
                functions={**made.functions, "resume": resume},
                loop_iterations=box.iterations,
                reason=kernel.reason + (f", terms in {len(boxes)} parts" if len(boxes) > 1 else ""),
            )
        )
        before = after
    return kernels


def real_sums(call: Call, kernel: Kernel, boxes: Sequence[Box]) -> list[Kernel]:
    """Chain a kernel whose sums are those of reals.

    Software fuses products and sums, which the newest lavapipe computes as one: see docs/kernels.md. Drivers
    of hardware fuse them where that is quicker.
    """
    sums = "fused_sum" if call.device.software else "product_sum"
    kernel = replace(kernel, libraries=(*kernel.libraries, sums))
    return chained(kernel, keeping(kernel, {"y": TensorType(DType.FLOAT32, call.y.shape)}, {}), boxes)


def member_sums(call: Call, kernel: Kernel, group: CooperativeGroup, rounds: Sequence[int]) -> list[Kernel]:
    """Chain a kernel with shaders/lib/member_sums.wgsl, where each member of a group keeps its own sum.

    rounds: of its loops inside one another, the sizes of boxes(). What the kernel stores as y is a sum; other
    results are stored by each of its parts, or by the last one.
    """
    boxed = boxes(rounds, call.device.max_loop_iterations)
    dtype = DType.FLOAT32 if call.x.quantization is None else DType.INT32
    sums = Scratch(TensorType(dtype, (group.results, group.size)))
    writes = (replace(w, output=sums) if w.name == "y" else w for w in kernel.writes)
    part = replace(kernel, writes=tuple(writes), constants={**kernel.constants, "LAST": 0})
    return chained(replace(kernel, constants={**kernel.constants, "LAST": 1}), part, boxed)
