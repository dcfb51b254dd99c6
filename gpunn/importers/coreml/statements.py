"""Statements: the layers of a network as blocks, with what each one reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

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

    `seed` is what the file says of them; ANY_SEED stands for a start that the reader draws.
    """

    place: str
    seed: int

    def __str__(self) -> str:
        return f"{self.place}: drawn"


Key = str | Flag | Drawn  # the name of a tensor of the network, or of what no layer of the file computes
Keys = frozenset[Key]
NOTHING: Keys = frozenset()
CONTROL = ("branch", "loop", "loopBreak", "loopContinue")  # layers that are no Plain statements
BODIES = {"loop": ("conditionNetwork", "bodyNetwork"), "branch": ("ifBranch", "elseBranch")}
ANY_SEED = -1
DRAWING = (  # layers that draw random numbers
    *("randomNormalStatic", "randomNormalLike", "randomNormalDynamic"),
    *("randomUniformStatic", "randomUniformLike", "randomUniformDynamic"),
    *("randomBernoulliStatic", "randomBernoulliLike", "randomBernoulliDynamic"),
    "categoricalDistribution",
)


def in_order(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Return names sorted, as sets have no order that stays from run to run."""
    return tuple(sorted(keys, key=lambda k: (k.loop, k.what) if isinstance(k, Flag) else (0, str(k))))


def count_layers(network: Message) -> int:
    """Return the number of layers in a network, with those in its branches and loops."""
    waiting, found = [network], 0
    while waiting:
        layers = waiting.pop().layers
        found += len(layers)
        for layer in layers:
            kind = layer.WhichOneof("layer")
            waiting += (getattr(getattr(layer, kind), body) for body in BODIES.get(kind, ()))
    return found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Effect:
    """The names that a statement reads, may write, and `surely` writes.

    `cost` is how many layers are read for it at most.
    """

    reads: Keys = NOTHING
    writes: Keys = NOTHING
    surely: Keys = NOTHING
    cost: int = 1


class Statement(Protocol):
    """A layer, or several of them in blocks."""

    @property
    def effect(self) -> Effect:
        """Return what it reads and writes."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Plain:
    """A layer that computes its outputs from its inputs, and from how much it has `drawn` before."""

    layer: Message
    place: str
    drawn: Drawn | None

    @classmethod
    def of(cls, layer: Message, place: str) -> Plain:
        """Return a layer as a statement."""
        kind = layer.WhichOneof("layer")
        return cls(layer, place, Drawn(place, int(getattr(layer, kind).seed)) if kind in DRAWING else None)

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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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
        """Yield each statement, and what it writes that is read behind it: nothing for Plain.

        `after` is what is read behind the block.
        """
        if all(isinstance(statement, Plain) for statement in self.statements):
            return ((statement, NOTHING) for statement in self.statements)
        read, found = set(after), []
        for statement in reversed(self.statements):
            effect = statement.effect
            found.append((statement, NOTHING if isinstance(statement, Plain) else effect.writes & read))
            read -= effect.surely
            read |= effect.reads
        return reversed(found)
