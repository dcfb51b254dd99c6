"""Statements that choose or repeat: branches and loops.

Layers that end a round of a loop become flags. What follows such a layer in its body becomes a branch that
runs if no flag is set, so a block always runs to its end.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpunn.importers.coreml.statements import NOTHING, Block, Effect, Flag, Key


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Raise:
    """A layer that sets flags."""

    flags: tuple[Flag, ...]

    @property
    def effect(self) -> Effect:
        """Return what it reads and writes."""
        return Effect(NOTHING, frozenset(self.flags), frozenset(self.flags))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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
