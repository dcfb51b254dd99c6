"""Blocks: makes networks with branches and loops into blocks of statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from gpunn.errors import FormatError
from gpunn.importers.common.names import shown
from gpunn.importers.coreml.file import Network, place_of
from gpunn.importers.coreml.flow import Branch, Loop, Raise
from gpunn.importers.coreml.messages import Message
from gpunn.importers.coreml.statements import Block, Flag, Plain, Statement

MAX_DEPTH = 16  # of loops and branches in one another
MAX_COST = 1 << 15  # layers that are read in bodies, each as often as it is read


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _Round:
    """The flags of the loop around a block: that a round has ended, and that the loop has."""

    left: Flag
    broken: Flag


@dataclass(slots=True, eq=False, repr=False)
class Blocks:
    """Makes blocks of a network; `loops` counts its loops so far.

    Raises FormatError for loops and branches that are too deep in one another or would be read too often, and
    for layers outside of a loop that end a round.
    """

    network: Network
    loops: int = 0

    def whole(self) -> Block:
        """Return the block of the whole network."""
        found = self._block(self.network.message, self.network.within(""), None, 0)
        inside = found.effect.cost - len(found.statements)
        if inside > MAX_COST:
            self.network.fail(
                f"its loops and branches stand for {inside} layers, at most {MAX_COST} are read"
            )
        return found

    def _block(self, network: Message, around: str, flags: _Round | None, depth: int) -> Block:
        """Return a block; what a round may leave out stands in guards."""
        if depth > MAX_DEPTH:
            self.network.fail(f"loops and branches are in one another more than {MAX_DEPTH} deep")
        pieces: list[list[Statement]] = [[]]
        for number, layer in enumerate(network.layers):
            place = place_of(number, layer, around)
            statement = self._statement(layer, place, flags, depth + (len(pieces) > 1))
            if statement is None:
                continue
            pieces[-1].append(statement)
            if flags is not None and flags.left in statement.effect.surely:
                break  # nothing behind it runs
            if flags is not None and flags.left in statement.effect.writes:
                pieces.append([])
        first, *rest = pieces
        if flags is not None:
            first += (
                self._guard(flags.left, Block.of(piece), around.removesuffix(", ")) for piece in rest if piece
            )
        return Block.of(first)

    def _statement(self, layer: Message, place: str, flags: _Round | None, depth: int) -> Statement | None:
        """Return what a layer is; None for a loop without a round."""
        kind = layer.WhichOneof("layer")
        if kind == "branch":
            if len(layer.input) != 1 or layer.output:
                self._fail(f"{place}, branch: expected 1 input and no outputs")
            then = self._block(layer.branch.ifBranch, f"{place}, ", flags, depth + 1)
            otherwise = self._block(layer.branch.elseBranch, f"{place}, ", flags, depth + 1)
            return Branch.of(layer.input[0], then, otherwise, place)
        if kind == "loop":
            return self._loop(layer, place, depth)
        if kind in ("loopBreak", "loopContinue"):
            if flags is None:
                self._fail(f"{place}, {kind}: stands in no body of a loop")
            return Raise((flags.left, flags.broken) if kind == "loopBreak" else (flags.left,))
        return Plain.of(layer, place)

    def _loop(self, layer: Message, place: str, depth: int) -> Loop | None:
        """Return a loop; None if neither a condition nor a number of rounds lets it run."""
        if len(layer.input) > 1 or layer.output:
            self._fail(f"{place}, loop: expected at most 1 input and no outputs")
        params, number = layer.loop, self.loops + 1
        self.loops = number
        flags = _Round(Flag("a round has ended", number), Flag("the loop has ended", number))
        lead = self._block(params.conditionNetwork, f"{place}, condition, ", None, depth + 1)
        body = self._block(params.bodyNetwork, f"{place}, ", flags, depth + 1)
        broken = flags.broken if flags.broken in body.effect.writes else None
        tested: str | None = None
        if lead.statements:
            tested = params.conditionVar
            if tested not in lead.effect.surely:
                self._fail(f"{place}, loop: its condition does not compute {shown(tested)}")
            again = (self._guard(broken, lead, place),) if broken else lead.statements
            body = Block.of([*body.statements, *again])
        limit = layer.input[0] if layer.input else int(params.maxLoopIterations) or None
        if tested is None and limit is None:
            return None
        rounds = Flag("rounds", number)
        return Loop.of(lead, body, place, tested, limit, broken, flags.left, rounds)

    def _guard(self, flag: Flag, block: Block, place: str) -> Branch:
        """Return a branch that runs a block unless a flag is set."""
        return Branch.of(flag, Block(), block, place, guard=True)

    def _fail(self, what: str) -> NoReturn:
        raise FormatError(f"{self.network.file}: {what}")
