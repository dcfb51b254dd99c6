"""Statements: the layers of a network as nested blocks, with what each one reads and writes.

Layers that end a round of a loop become flags. What follows such a layer in its body becomes a branch that
runs if no flag is set, so a block always runs to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpunn.importers.coreml.messages import Message


@dataclass(frozen=True, slots=True)
class Flag:
    """The name of a value that no layer of the file computes. Flags of different loops have other numbers."""

    what: str
    loop: int

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True, slots=True)
class Drawn:
    """The name of how much the layer at `place` has drawn: the state of its random numbers.

    `seed` is what the file says of them.
    """

    place: str
    seed: int

    def __str__(self) -> str:
        return f"{self.place}: drawn"


Key = str | Flag | Drawn  # the name of a tensor of the network, or of what no layer of the file computes
Keys = frozenset[Key]
NOTHING: Keys = frozenset()


def in_order(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Return names sorted, as sets have no order that stays from run to run."""
    return tuple(sorted(keys, key=lambda k: (k.loop, k.what) if isinstance(k, Flag) else (0, str(k))))


@dataclass(frozen=True, slots=True)
class Effect:
    """The names that a statement reads, may write, and `surely` writes.

    `cost` is how many layers are read for it at most.
    """

    reads: Keys = NOTHING
    writes: Keys = NOTHING
    surely: Keys = NOTHING
    cost: int = 1


@dataclass(frozen=True, slots=True)
class Plain:
    """A layer that computes its outputs from its inputs, and from how much it has `drawn` before."""

    layer: Message
    place: str
    drawn: Drawn | None = None

    @property
    def _state(self) -> tuple[Key, ...]:
        return () if self.drawn is None else (self.drawn,)

    @property
    def inputs(self) -> tuple[Key, ...]:
        """Return what it reads."""
        return (*self.layer.input, *self._state)

    @property
    def outputs(self) -> tuple[Key, ...]:
        """Return what it writes."""
        return (*self.layer.output, *self._state)

    @property
    def effect(self) -> Effect:
        """Return what it reads and writes."""
        outputs = frozenset(self.outputs)
        return Effect(frozenset(self.inputs), outputs, outputs)


@dataclass(frozen=True, slots=True)
class Raise:
    """A layer that sets flags."""

    flags: tuple[Flag, ...]

    @property
    def effect(self) -> Effect:
        """Return what it reads and writes."""
        return Effect(NOTHING, frozenset(self.flags), frozenset(self.flags))


@dataclass(frozen=True, slots=True)
class Block:
    """Statements one after the other; make one with of()."""

    statements: tuple[Statement, ...] = ()
    effect: Effect = Effect(cost=0)

    @classmethod
    def of(cls, statements: Sequence[Statement]) -> Block:
        """Return a block of these statements."""
        reads: set[Key] = set()
        writes: set[Key] = set()
        surely: set[Key] = set()
        cost = 0
        for effect in (statement.effect for statement in statements):
            reads |= effect.reads - surely
            writes |= effect.writes
            surely |= effect.surely
            cost += effect.cost
        return cls(tuple(statements), Effect(frozenset(reads), frozenset(writes), frozenset(surely), cost))

    def followed(self, after: Keys) -> Iterator[tuple[Statement, Keys]]:
        """Yield each statement, and for branches and loops what is read behind it before it is written again.

        `after` is what is read behind the block.
        """
        read, found = set(after), []
        for statement in reversed(self.statements):
            found.append((statement, frozenset(read) if isinstance(statement, (Branch, Loop)) else NOTHING))
            read -= statement.effect.surely
            read |= statement.effect.reads
        return reversed(found)


@dataclass(frozen=True, slots=True)
class Branch:
    """One of two blocks; make one with of().

    A `guard` is no layer of the file: its second block is what a round leaves out if a flag is set. What only
    one block computes is unknown behind a branch of the file, and zeros behind a guard.
    """

    condition: Key
    then: Block
    otherwise: Block
    place: str
    guard: bool
    effect: Effect

    @classmethod
    def of(cls, condition: Key, then: Block, otherwise: Block, place: str, guard: bool = False) -> Branch:
        """Return a branch."""
        one, other = then.effect, otherwise.effect
        effect = Effect(
            one.reads | other.reads | {condition},
            one.writes | other.writes,
            one.surely & other.surely,
            1 + one.cost + other.cost,
        )
        return cls(condition, then, otherwise, place, guard, effect)


@dataclass(frozen=True, slots=True)
class Loop:
    """Rounds of a block; make one with of().

    `lead` computes the condition before the first round, `body` ends with that of the next one. `tested` is
    the condition, `broken` the flag that ends the loop. There are at most `limit` rounds: that is a number or
    a tensor. Each of the three may be absent. `left`, the flag that a round has ended, is not set when a
    round begins. `rounds` is the name of their number.
    """

    lead: Block
    body: Block
    place: str
    tested: str | None
    limit: int | str | None
    broken: Flag | None
    left: Flag
    rounds: Flag
    effect: Effect

    @classmethod
    def of(
        cls,
        lead: Block,
        body: Block,
        place: str,
        tested: str | None,
        limit: int | str | None,
        broken: Flag | None,
        left: Flag,
        rounds: Flag,
    ) -> Loop:
        """Return a loop."""
        flags = {left, broken}
        count = {limit} if isinstance(limit, str) else set()
        effect = Effect(
            lead.effect.reads | (body.effect.reads - lead.effect.surely - flags) | count,
            lead.effect.writes | (body.effect.writes - flags),
            lead.effect.surely,
            1 + lead.effect.cost + 2 * body.effect.cost,  # a body may have to be read for its types first
        )
        return cls(lead, body, place, tested, limit, broken, left, rounds, effect)


Statement = Plain | Raise | Branch | Loop
