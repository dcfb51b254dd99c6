"""Kernel: one GPU dispatch as pure data, and the arithmetic of grids.

A Kernel names a WGSL body in shaders/ and states all that the body leaves open: operands, numbers,
tile constants and generated functions. Nothing here needs a device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

from gpunn.pointwise import Appended, Pointwise
from gpunn.rows import Pitch, RowLoads, Rows, Start, Walk
from gpunn.types import Array, DType, Tensor, TensorType

ROWS_OF_FOURS = "rows_of_fours"  # in shaders/lib: stores fours, also at the end of a single row of any length
MAX_GROUPS = 65_535  # workgroups along one dimension: WebGPU, section 3.6.2, maxComputeWorkgroupsPerDimension

Param = int | float | complex | tuple[int, int] | tuple[int, int, int, int]
Grid = tuple[int, int, int]


class Unsupported(Exception):  # noqa: N818 (a signal between an op and the partitioner, never shown as an error)
    """Raised by an op's kernel function: this call cannot run on the GPU, and why."""


class Pack(NamedTuple):
    """A numpy function that repacks a constant once at compile time; equal Packs give equal results."""

    function: Callable[..., Array]
    args: tuple[int, ...] = ()

    def __call__(self, *values: Array | None) -> Array:
        return self.function(*values, *self.args)


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """A tensor between the kernels of one operation: one of them writes it, later ones read it."""

    type: TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Note(Scratch):
    """A kernel's statement about the values that it has seen; read back with the results of a run.

    `judge` gets it before anything gets the results, and may raise ModelError.
    """

    judge: Callable[[Array], None]


@dataclass(frozen=True, slots=True)
class Segments:
    """The bindings of a tensor over the limit of one: how many, and the bytes of each but the last."""

    count: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Read:
    """An operand that the body reads through load_<name>(i), load4_<name>(i) or loadv_<name>(i).

    `operand` is the position among the operation's inputs, or a tensor: what kernels before this one have
    written, or an operand of another operation. None: it is absent, and every load gives 0. `width` 4 binds
    the buffer as vec4: load4_ is one load then, and its index counts vec4s; it needs the buffer's rows to be
    divisible by 4. `pack` asks for a constant operand; it gets the constants at positions `also` as further
    arguments, None for absent ones, and its result has `dtype` where that is not the operand's. Without
    `pack`, the body sees the operand's bytes as elements of `dtype`. `nbytes`: the size of a packed result;
    if it is not stated, a constant over the limit of a binding is not packed. `value` is a table that the
    kernel brings itself. `window`: the first byte and the number of bytes, where it reads a part of the
    operand. `segments` is for lowering: an operand over the limit of a binding takes several.
    `by_rows`: the body loads it through row4_<name>(place, column) only. `by_elements`: through load_, load4_
    or loadv_ only, each element once. `pitch`: parameters say where its rows begin, or where it does.
    `once`: the body loads no element again, and little else takes time. `looked_up`: lanes load words of
    `value` that lie apart, which are in a texture where that pays off. For planning: `prepended`, operations
    that loads by rows or by elements compute, which give the last one's result; `rows`, the operand's place
    in the tensor that has its bytes.
    """

    name: str
    operand: int | Tensor | None
    width: int = 1
    pack: Pack | None = None
    also: tuple[int, ...] = ()
    dtype: DType | None = None
    value: Array | None = None
    window: tuple[int, int] | None = None
    segments: Segments | None = None
    nbytes: int = 0
    by_rows: RowLoads | None = None
    by_elements: bool = False
    pitch: Pitch | Start | None = None
    once: bool = False
    looked_up: bool = False
    prepended: tuple[Appended, ...] = ()
    rows: Rows | None = None

    @property
    def present(self) -> bool:
        """Tell whether there is a buffer to bind."""
        return self.operand is not None or self.value is not None


@dataclass(frozen=True, slots=True)
class Write:
    """An operand that the body stores through store_<name>(i, v), store4_<name>(i, v), storev_<name>(i, v).

    `output` is the position among the operation's results, or a tensor for the kernels after this one.
    `window`, `segments`: as of Read. `direct`: the kernel writes the buffer itself, not through these
    accessors, so nothing can change what it stores or where. The next three are for planning. `rows`: the
    place in the tensor that has the result's bytes. `appended`: operations whose last result is stored;
    `optional`: if then_on says so. `in_loop`: the body has a loop for optional ones (lib/broadcast_reals).
    """

    name: str = "y"
    output: int | Scratch = 0
    width: int = 1
    window: tuple[int, int] | None = None
    segments: Segments | None = None
    direct: bool = False
    rows: Rows | Walk | None = None
    appended: tuple[Appended, ...] = ()
    optional: bool = False
    in_loop: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """A generated WGSL function: one expression in its parameters.

    Parameters and result are T's, but where `of` and `gives` name the operand whose elements they are, or
    "acc" for accumulators.
    """

    params: tuple[str, ...]
    expression: str
    of: tuple[str, ...] = ()
    gives: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One dispatch.

    body: file in shaders/, without suffix, or the path of a .wgsl file elsewhere, with it. `threads`:
    invocations wanted along x, y, z; whole workgroups are started, so bodies check their bounds. `workgroup`:
    the invocations of one. `params` become fields of `p`: int -> u32, float -> f32, complex -> vec2<f32>,
    tuple -> vec4<i32>, or of two words vec2<u32>. `constants` become module constants and, like `functions`,
    `lanes` and the operands' dtypes and widths, ask for a pipeline of their own. Functions may call what
    files of shaders/lib/ define, when `libraries` names these. `lanes` is the width of the vector type V: 1
    or 4. `accumulator` is the dtype of a body's accumulators, where it is not the result's.
    `loop_iterations`: rounds of all loops of an invocation together (see Loop). `workgroup_bytes`: of the
    variables in workgroup memory; 0 where these fit into 16 KiB. `any_width`: the body does the same in
    workgroups of any width along x, with these threads. `generated` is WGSL that the kernel brings, for names
    that the body leaves open; `unrolled`: most of its time passes in loops that are written out there.
    `pointwise`: its result element by element, where it has that form. `halves`: it has products in f16,
    which the shader's source enables. `index_bound`: software spends most of its time in finding places, and
    its code is short. `rounded_up`: its last store of four may lie in its result's padding. `narrow`: the
    operand that wide_words leaves alone. For lowering: `wide_words`, it loads and stores four elements as two
    words of 64 bits; `without_shifts`, it takes bytes out of words by products of reals; `texels`, it loads
    fours of constants from textures. For planning: `inlined`, its shader has the parameters as constants, so
    that kernels with other numbers have other pipelines.
    `reason` says why this body was chosen (gpunn inspect --plan).
    """

    body: str
    threads: Grid
    reads: tuple[Read, ...]
    workgroup: Grid = (64, 1, 1)
    writes: tuple[Write, ...] = (Write(),)
    params: Mapping[str, Param] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()
    lanes: int = 1
    accumulator: DType | None = None
    loop_iterations: int = 0
    workgroup_bytes: int = 0
    any_width: bool = False
    generated: str = ""
    unrolled: bool = False
    pointwise: Pointwise | None = None
    halves: bool = False
    index_bound: bool = False
    rounded_up: bool = False
    narrow: str = ""
    wide_words: bool = False
    without_shifts: bool = False
    texels: bool = False
    inlined: bool = False
    reason: str = ""

    @property
    def name(self) -> str:
        """Return the body's name, without folder and suffix."""
        return PurePath(self.body).stem

    @property
    def scratch(self) -> tuple[Scratch, ...]:
        """Return the tensors that it writes for later kernels."""
        return tuple(w.output for w in self.writes if isinstance(w.output, Scratch))

    @property
    def bindings(self) -> int:
        """Count the storage buffers that it binds."""
        reads = [r.segments for r in self.reads if r.present]
        return sum(1 if s is None else s.count for s in (*reads, *(w.segments for w in self.writes)))

    @property
    def pads(self) -> bool:
        """Tell whether its last store of four elements may end behind its result, in the tensor's padding."""
        return self.rounded_up or ROWS_OF_FOURS in self.libraries

    @property
    def groups(self) -> Grid:
        """Return the workgroups along x, y, z."""
        x, y, z = (ceil_div(t, w) for t, w in zip(self.threads, self.workgroup, strict=True))
        return x, y, z


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of several ways to compute an operation: kernels for consecutive dispatches.

    `reason` says what speaks for it. `needs`: features of the device (gpunn.device). Two kinds are never
    measured: a `fallback` takes many times as long, and what is `quick_to_compile` takes longer than another.
    """

    kernels: Sequence[Kernel]
    reason: str
    needs: frozenset[str] = frozenset()
    fallback: bool = False
    quick_to_compile: bool = False


# A kernel function's result: a dispatch, consecutive ones, or ways to choose from, the preferred one first.
Kernels = Kernel | Sequence[Kernel] | Iterator[Candidate]


class Loop(NamedTuple):
    """A loop of a body, with the loops inside it: how many rounds lavapipe counts for it.

    At the end of a loop, everything in it is executed once more with every invocation switched off, including
    loops (found by experiment).
    """

    times: int
    inner: tuple[Loop, ...] = ()

    @property
    def ending(self) -> int:
        """Count the iterations of the end."""
        return 1 + sum(loop.ending for loop in self.inner)

    @property
    def iterations(self) -> int:
        """Count all its iterations, those of the loops inside included: Kernel.loop_iterations."""
        return self.times * (1 + sum(loop.iterations for loop in self.inner)) + self.ending


def nested(*times: int) -> Loop:
    """Make loops inside one another, from the outermost on."""
    return Loop(times[0], (nested(*times[1:]),) if times[1:] else ())


def halving(count: int) -> Loop:
    """Make the loop that combines the values of `count` invocations, a power of two."""
    return Loop(count.bit_length() - 1)


def spans(total: int, most: int | None) -> list[range]:
    """Divide 0 ... total - 1 into ranges of up to `most`, if that is given; at least one, maybe empty."""
    length = max(total if most is None else most, 1)
    return [range(first, min(first + length, total)) for first in range(0, max(total, 1), length)]


def is_nan(name: str) -> str:
    """Write WGSL that tells whether an f32 is NaN (in shaders: lib/nan.wgsl).

    It looks at the bits: compilers may assume that there is no NaN (WGSL, section 15.7.2), and drop it.
    """
    return f"((bitcast<u32>({name}) & 0x7fffffffu) > 0x7f800000u)"


def keep_nan(expression: str, *names: str) -> str:
    """Write WGSL for the expression, or for the first of these f32s that is NaN."""
    for name in reversed(names):
        expression = f"select({expression}, {name}, {is_nan(name)})"
    return expression


def ceil_div(a: int, b: int) -> int:
    """Compute a / b, rounded up."""
    return -(-a // b)


def power_of_two(n: int) -> int:
    """Return the least power of two from n on, at least 1."""
    return 1 << max(n - 1, 0).bit_length()


def flat_threads(count: int, workgroup: int = 64) -> Grid:
    """Return threads for `count` independent invocations, folded over x and y if x alone exceeds the limit.

    shaders/lib/flat.wgsl makes one number of the two again.
    """
    groups = ceil_div(count, workgroup)
    if groups <= MAX_GROUPS:
        return groups * workgroup, 1, 1
    rows = ceil_div(groups, MAX_GROUPS)
    return ceil_div(groups, rows) * workgroup, rows, 1


def tile_grid(columns: int, rows: int, workgroup: int = 64, block: int = 0) -> tuple[Grid, dict[str, int]]:
    """Return threads and parameters for a grid of tiles, one for each invocation (lib/tiles.wgsl).

    A workgroup takes `block` columns, or up to 8 if that is 0, and as many rows as then fit: narrow grids
    waste no invocation.
    """
    block = block or min(8, workgroup, power_of_two(columns))
    blocks = ceil_div(columns, block)
    groups = blocks * ceil_div(rows, workgroup // block)
    return flat_threads(groups * workgroup, workgroup), {"BLOCK": block, "BLOCKS": blocks}


def vec_width(*row_lengths: int) -> int:
    """Return 4 if every row length is divisible by 4, else 1."""
    return 4 if all(n % 4 == 0 for n in row_lengths) else 1


def dims4(values: tuple[int, ...], fill: int) -> tuple[int, int, int, int]:
    """Align up to four numbers to the right of four, and fill up in front."""
    a, b, c, d = (fill,) * (4 - len(values)) + values
    return a, b, c, d


def fits_i32(*counts: int) -> bool:
    """Tell whether flat element indices up to these counts fit the shaders' 32-bit arithmetic."""
    return max(counts, default=0) < 2**31


def size_of(shape: tuple[int, ...]) -> int:
    """Number of elements of a shape."""
    return math.prod(shape)
