"""The machine code by which the threads of a team take parts of a loop.

They tell one another what to do by words of memory, int64. The thread that shares a loop opens a round: it
writes the address of a part's code and that of the operands, and for each thread which parts are its own. A
thread takes its own ones, and then those that others have not taken. A round of few parts is for as many
threads. It is closed before its operands go: nobody takes parts any more, and nobody is inside.

Threads that help stay in serve(), where they need no lock of Python's, and look for rounds for some time. So
a round begins and ends within one or two microseconds.

A loop is a call: the address of a part's code, and operands in memory. Where words have room for a record,
they also receive each call, with a copy of its operands: replay() computes it again, and those behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpunn.ops.compiled.vectors import Code, Write
from gpunn.ops.memory import aligned
from gpunn.types import Array

LINE = 8  # words of a cache line: what several threads write often lies in lines of its own
# The round that is open, with its threads in the last USED_BITS, or 0; those that help in it; 1 or 0
OPEN, INSIDE, BUSY = 0, LINE, 2 * LINE
USED_BITS = 16
CODE, OPERANDS, ROUND, THREADS, USED, FLAGS, FAILED, ALONE = range(3 * LINE, 4 * LINE)
# How many threads do not look for rounds; how many looks a round may last after its last part was taken
SLEEPING, MOST_LOOKS = range(4 * LINE, 4 * LINE + 2)
# Where the next call is recorded, or 0; how many programs replay calls of several parts, so threads look on
RECORD, REPLAYING = range(4 * LINE + 2, 4 * LINE + 4)
PLACES = 5 * LINE  # a line for each thread
_ORDER, WORD = "seq_cst", 8  # of what is read and written in one step: the order for all, and its bytes
ROUNDS_ALONE = 512  # after one that lasted longer: the system stopped a thread, and may do so again
NEXT, END, ASLEEP = range(3)  # words of such a line: the next part and the one behind the last; 1 or 0


def memory_of(threads: int) -> Array:
    """Return the memory of a team."""
    words = aligned(np.zeros(PLACES + threads * LINE, np.int64))
    words[THREADS], words[SLEEPING] = threads, threads - 1
    words[PLACES + LINE + ASLEEP :: LINE] = 1
    return words


def share(words: Array, ends: Array, operands: tuple[Any, ...]) -> None:
    """Compute the parts of a loop. Raises MemoryError if there is none for one of them."""
    call = part_of(ends, operands)
    if words[RECORD] != 0:
        record(words, len(ends) - 1, call)
    if compute(words, len(ends) - 1, call[0], call[1]) != 0:
        raise MemoryError("a loop got no memory")


def record(words: Array, parts: int, call: tuple[Any, ...]) -> None:
    """Write a call behind those before: its words, its parts, and its own words of part_of(), then operands.

    Where there is no room, only the place of the next call goes on.
    """
    size, count = call[2], len(call)
    place = words[RECORD]
    words[RECORD] += 2 + count + size
    if words[RECORD] > len(words):
        return
    words[place], words[place + 1] = 2 + count + size, parts
    for k in range(count):
        words[place + 2 + k] = call[k]
    for k in range(size):
        words[place + 2 + count + k] = word_at(call[1] + k * WORD)


def replay(words: Array, calls: Array, several: bool) -> Any:
    """Compute calls, rows of parts, code and place, one after the other; return 0, or else as call().

    several: there are calls of several parts, for which threads look on until the last call.
    """
    failed, look_on = 0, several and words[ALONE] == 0
    if look_on:
        added(words, REPLAYING, 1)
    for k in range(len(calls)):
        failed |= compute(words, calls[k, 0], calls[k, 1], calls[k, 2])
    if look_on:
        added(words, REPLAYING, -1)
    return failed


def compute(words: Array, parts: int, code: int, place: int) -> Any:
    """Compute so many parts: alone if there is one, or if the team shares another loop; return as call().

    After a round that lasted too long this thread works alone for some time.
    """
    failed, shared = 0, parts > 1 and exchanged(words, BUSY, 1) == 0
    if shared and words[ALONE] > 0:
        words[ALONE] -= 1
        stored(words, BUSY, 0)
        shared = False
    if not shared:
        for k in range(parts):
            failed |= call(code, place, k)
        return failed
    used = min(words[THREADS], parts)
    for thread in range(used):
        line = PLACES + thread * LINE
        words[line + NEXT] = parts * thread // used
        words[line + END] = parts * (thread + 1) // used
    words[CODE], words[OPERANDS], words[USED], words[FLAGS] = code, place, used, flags()
    words[ROUND] += 1
    stored(words, OPEN, (words[ROUND] << USED_BITS) + used)
    take(words, 0)
    stored(words, OPEN, 0)
    looks = 0
    while loaded(words, INSIDE) != 0:
        rest()
        looks += 1
    if looks > words[MOST_LOOKS]:
        words[ALONE] = ROUNDS_ALONE
    failed, words[FAILED] = words[FAILED], 0
    stored(words, BUSY, 0)
    return failed


def take(words: Array, place: int) -> None:
    """Compute parts until all are taken: those of a thread first, so that its processor's cache serves it."""
    used = words[USED]
    for step in range(used):
        line = PLACES + (place + step) % used * LINE
        end = words[line + END]
        while loaded(words, line + NEXT) < end:  # which disturbs nobody
            k = added(words, line + NEXT, 1)
            if k < end and call(words[CODE], words[OPERANDS], k) != 0:
                words[FAILED] = 1


def serve(words: Array, place: int, looks: int) -> None:
    """Help in rounds as the thread of a place, until so many looks have found none."""
    known, left = 0, looks
    stored(words, PLACES + place * LINE + ASLEEP, 0)
    added(words, SLEEPING, -1)
    while left > 0:
        found = loaded(words, OPEN)
        if found == 0 or found == known:
            if loaded(words, REPLAYING) == 0:
                left -= 1
            rest()
            continue
        if place < found & ((1 << USED_BITS) - 1):
            added(words, INSIDE, 1)
            if loaded(words, OPEN) == found:  # it stays as it is while this thread is inside
                use_flags(words[FLAGS])
                take(words, place)
            added(words, INSIDE, -1)
        known, left = found, looks
    stored(words, PLACES + place * LINE + ASLEEP, 1)
    added(words, SLEEPING, 1)


def loaded(words: Array, place: int) -> Any:
    """Return a word that other threads write."""
    return words[place]


def stored(words: Array, place: int, number: int) -> None:
    """Write a word that other threads read, after all that was written before."""
    words[place] = number


def added(words: Array, place: int, number: int) -> Any:
    """Add to a word in one step; return what it was."""
    before = words[place]
    words[place] += number
    return before


def exchanged(words: Array, place: int, number: int) -> Any:
    """Write a word in one step; return what it was."""
    before, words[place] = words[place], number
    return before


def rest() -> None:
    """Let a processor wait for a moment."""


def flags() -> Any:
    """Return how this thread computes with subnormal numbers."""
    return 0


def use_flags(flags: int) -> None:
    """Compute with subnormal numbers as another thread."""


def word_at(address: int) -> Any:
    """Return a word of memory."""
    raise TypeError("only machine code has addresses")


def part_of(ends: Array, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a call of the loop that is shared: the address of the code of a part, and that of its operands.

    Behind them: how many words these are, and in which of them the address of each array lies. No array
    counts who refers to it.
    """
    raise TypeError("only machine code has addresses")


def call(code: int, place: int, part: int) -> Any:
    """Compute a part by the addresses of part_of(); return 0, or another number if memory ran out."""
    raise TypeError("only machine code has addresses")


def code_for(machine: str) -> dict[Callable[..., Any], tuple[Write, bool]]:
    """Return what writes the code of functions of this module, and whether they return a word.

    machine: as platform.machine() names it.
    """
    from llvmlite import ir

    number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
    x86 = machine.lower() in ("x86_64", "amd64")
    resting = "x86.sse2.pause" if x86 else "aarch64.hint" if machine.lower() in ("arm64", "aarch64") else ""

    def word(code: Code, operands: Sequence[Any]) -> Any:
        return code.builder.gep(operands[0].data, [operands[1]])

    def load(code: Code, operands: Sequence[Any]) -> Any:
        return code.builder.load_atomic(word(code, operands), _ORDER, WORD)

    def store(code: Code, operands: Sequence[Any]) -> None:
        code.builder.store_atomic(operands[2], word(code, operands), _ORDER, WORD)

    def in_one_step(name: str) -> Callable[[Code, Sequence[Any]], Any]:
        return lambda code, operands: code.builder.atomic_rmw(name, word(code, operands), operands[2], _ORDER)

    def pause(code: Code, _: Sequence[Any]) -> None:
        if resting:
            code.effect(resting, *([] if x86 else [number(1)]))

    def read_flags(code: Code, _: Sequence[Any]) -> Any:
        room = code.utils.alloca_once_value(code.builder, number(0))
        if x86:
            code.effect("x86.sse.stmxcsr", code.builder.bitcast(room, pointer))
        return code.wide(code.builder.load(room))

    def write_flags(code: Code, operands: Sequence[Any]) -> None:
        if x86:
            room = code.utils.alloca_once_value(code.builder, code.builder.trunc(operands[0], number))
            code.effect("x86.sse.ldmxcsr", code.builder.bitcast(room, pointer))

    def read_word(code: Code, operands: Sequence[Any]) -> Any:
        return code.builder.load(code.builder.inttoptr(operands[0], ir.IntType(64).as_pointer()))

    def call_part(code: Code, operands: Sequence[Any]) -> Any:
        address, place, part = operands
        of, kind = code.builder, ir.FunctionType(number, [pointer, part.type])
        compute = of.inttoptr(address, kind.as_pointer())
        return code.wide(of.call(compute, [of.inttoptr(place, pointer), part]))

    return {
        loaded: (load, True),
        stored: (store, False),
        added: (in_one_step("add"), True),
        exchanged: (in_one_step("xchg"), True),
        rest: (pause, False),
        flags: (read_flags, True),
        use_flags: (write_flags, False),
        call: (call_part, True),
        word_at: (read_word, True),
    }
