"""The machine code that all loops have in common: for vectors of 32-bit numbers, written for LLVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

BYTES = 4  # in a lane
BITS = 8  # of a byte

_Known = TypeVar("_Known")

Bounds = tuple[float, float, int]  # of results, and their offset
Place = Callable[[Any, Any], None]  # stores a vector, or what a row has of it, at its place in a row


class Sizes(NamedTuple):
    """Lanes of a vector, and pixels of a tile where there are so many."""

    lanes: int
    pixels: int


# Sums, weights and what a pixel has take 27 of the 32 registers of AVX-512, and 15 of the 16 of AVX.
OF_REALS = {"+avx512f": Sizes(16, 12), "+fma": Sizes(8, 6)}


def by_feature(features: str, known: Mapping[str, _Known]) -> _Known | None:
    """Return what is known for the first feature of these that a CPU has; None if it has none of them.

    features: those of the CPU, as LLVM lists them.
    """
    own = features.split(",")
    return next((found for feature, found in known.items() if feature in own), None)


def written(write: Write, lanes: int, word: bool = False) -> Any:
    """Return a function for numba whose code is what `write` writes for its operands.

    These are values of LLVM, what numba knows of arrays, and lists of values for tuples. word: it returns an
    integer of 64 bits, else nothing.
    """
    from numba import extending
    from numba import types as known_types

    library: Any = extending  # parts of both have no annotations
    types: Any = known_types

    def operand(context: Any, builder: Any, type: Any, value: Any) -> Any:
        if isinstance(type, types.Array):
            return context.make_array(type)(context, builder, value)
        if not isinstance(type, types.BaseTuple):
            return value
        return [builder.extract_value(value, k) for k in range(len(type))]

    def typed(typing: Any, *operands: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            packed = enumerate(signature.args[0])
            parts = [operand(context, builder, t, builder.extract_value(values[0], k)) for k, t in packed]
            found = write(Code(builder, lanes), parts)
            return found if word else context.get_dummy_value()

        return (types.int64 if word else types.void)(types.StarArgTuple.from_types(operands)), code

    return library.intrinsic(typed)


Write = Callable[["Code", Sequence[Any]], Any]


class Code:
    """Instructions at the place of a builder of LLVM's, for vectors of so many lanes."""

    def __init__(self, builder: Any, lanes: int) -> None:
        from llvmlite import ir
        from numba.core import cgutils

        self.utils: Any = cgutils  # it has no annotations
        self.builder, self.lanes, self._ir = builder, lanes, ir
        self.vector = ir.VectorType(ir.IntType(BITS * BYTES), lanes)

    def index(self, number: int) -> Any:
        """Return a number that counts elements."""
        return self._ir.IntType(64)(number)

    def times(self, number: Any, factor: int) -> Any:
        """Return a multiple of a number."""
        return self.builder.mul(number, self.index(factor))

    def wide(self, number: Any) -> Any:
        """Return an integer of 32 bits as one of 64."""
        return self.builder.sext(number, self._ir.IntType(64))

    def parts(self, number: Any, size: Any) -> Any:
        """Return how many parts of a size a number has, the last of which may be smaller."""
        return self.builder.udiv(self.builder.add(number, self.builder.sub(size, self.index(1))), size)

    def least(self, a: Any, b: Any) -> Any:
        """Return the lower of two numbers."""
        return self.builder.select(self.builder.icmp_signed("<", a, b), a, b)

    def opaque(self, value: Any) -> Any:
        """Return a number or a place of which the compiler does not know how it was made.

        Else it hands on what follows from it from round to round of a loop, in more registers than there are.
        """
        function_type = self._ir.FunctionType(value.type, [value.type])
        return self.builder.asm(function_type, "", "=r,0", (value,), side_effect=False)

    @contextmanager
    def walk(self, count: Any, places: Sequence[tuple[Any, Any]]) -> Iterator[list[Any]]:
        """Write a loop of `count` rounds, as it stands; places or numbers go on by steps."""
        of, before = self.builder, self.builder.block
        head, body, end = (of.append_basic_block(name) for name in ("walk.head", "walk.body", "walk.end"))
        of.branch(head)
        of.position_at_end(head)
        left, *here = (of.phi(value.type) for value in (count, *(place for place, _ in places)))
        of.cbranch(of.icmp_signed(">", left, self.index(0)), body, end)
        of.position_at_end(body)
        yield here
        moved = [
            of.add(value, step) if value.type == step.type else of.gep(value, [step])
            for value, (_, step) in zip(here, places, strict=True)
        ]
        first, next = (count, *(place for place, _ in places)), (of.sub(left, self.index(1)), *moved)
        for value, at_first, later in zip((left, *here), first, next, strict=True):
            value.add_incoming(at_first, before)
            value.add_incoming(self.opaque(later), of.block)
        of.branch(head)
        of.position_at_end(end)

    def each(self, place: Any, length: Any, fill: Any, write: Callable[[Any, Place, Any], None]) -> None:
        """Let `write` write the code for the vectors of a row of 32-bit numbers.

        The last one begins among the numbers of the one before. A row that is shorter than a vector is one,
        in which what it lacks is as in `fill`. For both `write` gets which numbers are new ones of the row.
        """
        of, lanes = self.builder, self.index(self.lanes)

        def one(first: Any, new: Any = None) -> None:
            numbers = self.load(of.gep(place, [first]), fill.type)
            write(numbers, lambda found, target: self.store(found, of.gep(target, [first])), new)

        with of.if_else(of.icmp_signed("<", length, lanes)) as (short, long):
            with short:
                write(
                    self.load_first(place, fill, length),
                    lambda found, target: self.store_first(found, target, length),
                    self.first_lanes(length),
                )
            with long:
                whole = of.udiv(length, lanes)
                with self.utils.for_range(of, whole) as step:
                    one(of.mul(step.index, lanes))
                left = of.sub(length, of.mul(whole, lanes))
                with of.if_then(of.icmp_signed(">", left, self.index(0))):
                    one(of.sub(length, lanes), self.last_lanes(left))

    def behind(self, place: Any, count: int) -> Any:
        """Return the place so many elements behind another one."""
        return self.builder.gep(place, [self.index(count)])

    def of(self, kind: Any) -> Any:
        """Return the type of a vector that has a number of a kind in each lane."""
        return self._ir.VectorType(kind, self.lanes)

    def bytes(self, count: int) -> Any:
        """Return the type of a vector of so many bytes."""
        return self._ir.VectorType(self._ir.IntType(8), count)

    def load(self, place: Any, kind: Any) -> Any:
        """Return the number or the vector at a place that need not be aligned."""
        return self.builder.load(self.builder.bitcast(place, kind.as_pointer()), align=1)

    def splat(self, number: Any) -> Any:
        """Return a vector with a number in each lane."""
        none = self._ir.Constant(self.of(number.type), self._ir.Undefined)
        lanes = self._ir.Constant(self.of(self._ir.IntType(32)), [0] * self.lanes)
        one = self.builder.insert_element(none, number, self._ir.IntType(32)(0))
        return self.builder.shuffle_vector(one, none, lanes)

    def call(self, name: str, *operands: Any) -> Any:
        """Return what an instruction such as vpdpbusd makes of vectors, in the type of the first one."""
        kind = operands[0].type
        return self._call(f"x86.avx512.{name}.{kind.count * kind.element.width}", kind, operands)

    def halves(self, number: int) -> Any:
        """Return a vector with a number of 16 bits in both halves of each lane."""
        return self._ir.VectorType(self._ir.IntType(16), 2 * self.lanes)([number] * (2 * self.lanes))

    def pair_products(self, a: Any, b: Any) -> Any:
        """Return the sums of the products of both halves of each lane, by VPMADDWD for vectors of AVX2."""
        kind = self.halves(0).type
        operands = [self.builder.bitcast(numbers, kind) for numbers in (a, b)]
        return self._call("x86.avx2.pmadd.wd", self.vector, operands)

    def shuffled_bytes(self, table: Any, places: Any) -> Any:
        """Return the bytes of 16 at places below 16, in vectors of AVX2, by VPSHUFB."""
        word = self._ir.VectorType(self._ir.IntType(32), places.type.count)
        twice = self.builder.shuffle_vector(table, table, word([*range(table.type.count)] * 2))
        return self._call("x86.avx2.pshuf.b", places.type, (twice, places))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Return a b + c of float32, rounded once."""
        return self._call(f"fma.v{self.lanes}f32", c.type, (a, b, c))

    def times_plus(self, a: Any, b: Any, c: Any) -> Any:
        """Return a b + c of float32, rounded once where the CPU does so in the time of a product."""
        return self._call(f"fmuladd.v{self.lanes}f32", c.type, (a, b, c))

    def square_root(self, number: Any) -> Any:
        """Return the square root of a float32."""
        return self._call("sqrt.f32", number.type, (number,))

    def prefetch(self, place: Any, for_writing: bool = False) -> None:
        """Have a cache line fetched meanwhile: into the first cache for writing, else into the second."""
        number = self._ir.IntType(32)
        pointer = self.builder.bitcast(place, self._ir.IntType(8).as_pointer())
        how = (number(1), number(3)) if for_writing else (number(0), number(2))
        self.effect("prefetch.p0i8", pointer, *how, number(1))

    def effect(self, name: str, *operands: Any) -> None:
        """Write an instruction that has no result."""
        self._call(name, self._ir.VoidType(), operands)

    def _call(self, name: str, kind: Any, operands: Sequence[Any]) -> Any:
        function_type = self._ir.FunctionType(kind, [operand.type for operand in operands])
        module = self.builder.module
        function = self.utils.get_or_insert_function(module, function_type, f"llvm.{name}")
        return self.builder.call(function, operands)

    def results(self, factor: Any, summand: Any, ends: Any, kind: Any) -> Callable[[Any], Any]:
        """Return what makes results of sums, as loops.floors(): of factors and summands at these places."""
        builder, real = self.builder, self.of(factor.type.pointee)
        by, more = self.load(factor, real), self.load(summand, real)

        def made(sums: Any) -> Any:
            return self.stored(builder.fadd(builder.fmul(builder.sitofp(sums, real), by), more), ends, kind)

        return made

    def stored(self, numbers: Any, ends: Any, kind: Any) -> Any:
        """Return the floors of real numbers between bounds, less the offset, as integers of a kind."""
        builder, (low, high, offset) = self.builder, ends
        numbers = self.clamped(numbers, low, high)
        lowered = self.splat(builder.trunc(offset, self.vector.element))
        return builder.trunc(builder.sub(builder.fptosi(numbers, self.vector), lowered), self.of(kind))

    def clamped(self, numbers: Any, low: Any, high: Any) -> Any:
        """Return real numbers between bounds; what is undefined stays so."""
        for bound, beyond in ((low, "<"), (high, ">")):
            numbers = self.bounded(beyond, numbers, self.splat(bound))
        return numbers

    def bounded(self, beyond: str, numbers: Any, bound: Any) -> Any:
        """Return a vector with a bound in the place of what lies beyond it: below ("<") or above (">")."""
        return self.builder.select(self.builder.fcmp_ordered(beyond, numbers, bound), bound, numbers)

    def reduced(self, combine: Callable[[Any, Any], Any], numbers: Any) -> Any:
        """Return what combining all numbers of a vector by halves gives; their count is a power of 2."""
        of, count, word = self.builder, self.lanes, self._ir.IntType(32)
        while count > 1:
            count //= 2
            places = [count + k if k < count else k for k in range(self.lanes)]
            numbers = combine(numbers, self.shuffled(numbers, numbers, places))
        return of.extract_element(numbers, word(0))

    def shuffled(self, a: Any, b: Any, chosen: Sequence[int]) -> Any:
        """Return the chosen lanes of two vectors; those of the second one come after those of the first."""
        places = self._ir.Constant(self.of(self._ir.IntType(32)), chosen)
        return self.builder.shuffle_vector(a, b, places)

    def last_lanes(self, count: Any) -> Any:
        """Return which lanes are the last ones, so many."""
        return self.builder.not_(self.first_lanes(self.builder.sub(self.index(self.lanes), count)))

    def first_lanes(self, count: Any) -> Any:
        """Return which lanes are the first ones, so many."""
        places = self._ir.Constant(self.vector, list(range(self.lanes)))
        return self.builder.icmp_signed(
            "<", places, self.splat(self.builder.trunc(count, self.vector.element))
        )

    def load_first(self, place: Any, fill: Any, count: Any) -> Any:
        """Return a vector whose first numbers are at a place; the others are as in `fill`."""
        kind = fill.type
        pointer, align = self.builder.bitcast(place, kind.as_pointer()), self._ir.IntType(32)(1)
        operands = pointer, align, self.first_lanes(count), fill
        return self._call(f"masked.load.{_name(kind)}.p0{_name(kind)}", kind, operands)

    def store_first(self, numbers: Any, place: Any, count: Any) -> None:
        """Store the first numbers of a vector."""
        kind = numbers.type
        pointer, align = self.builder.bitcast(place, kind.as_pointer()), self._ir.IntType(32)(1)
        operands = numbers, pointer, align, self.first_lanes(count)
        self.effect(f"masked.store.{_name(kind)}.p0{_name(kind)}", *operands)

    def store(self, numbers: Any, place: Any) -> None:
        """Store a vector."""
        self.builder.store(numbers, self.builder.bitcast(place, numbers.type.as_pointer()), align=1)

    def store_box(self, box: Mapping[tuple[int, int], Any], lines: Sequence[Any], count: Any) -> None:
        """Store vectors by their row and their number in it, of which all numbers are there, or fewer.

        lines: where each row begins. count: the numbers of a row that there are.
        """
        of, kind = self.builder, box[0, 0].type
        width = 1 + max(k for _, k in box)
        places = {(row, k): self.behind(lines[row], k * self.lanes) for row, k in box}
        with of.if_else(of.icmp_signed(">=", count, self.index(width * self.lanes))) as (whole, part):
            with whole:
                for place, numbers in box.items():
                    self.store(numbers, places[place])
            with part:
                if kind.element == self._ir.FloatType():
                    for (row, k), numbers in box.items():
                        left = of.sub(count, self.index(k * self.lanes))
                        self.store_first(numbers, places[row, k], left)
                else:  # CPUs with AVX2 have no masks for bytes
                    self._store_by_ones(box, lines, width, count)

    def _store_by_ones(
        self, box: Mapping[tuple[int, int], Any], lines: Sequence[Any], width: int, count: Any
    ) -> None:
        of = self.builder
        memory = self.utils.alloca_once(of, box[0, 0].type, size=len(box))
        for (row, k), numbers in box.items():
            of.store(numbers, self.behind(memory, row * width + k))
        stored = of.bitcast(memory, lines[0].type)
        with self.utils.for_range(of, count) as lane:
            for row, line in enumerate(lines):
                place = of.add(lane.index, self.index(row * width * self.lanes))
                of.store(of.load(of.gep(stored, [place])), of.gep(line, [lane.index]))


def _name(kind: Any) -> str:
    """Return what LLVM calls a vector of integers or of float32 in names of functions."""
    width = getattr(kind.element, "width", None)
    return f"v{kind.count}{'f32' if width is None else f'i{width}'}"
