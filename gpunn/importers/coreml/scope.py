"""Scope: adds statements of a network to a graph, on the tensors that they see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from gpunn.errors import FormatError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.common.names import Names, shown
from gpunn.importers.common.node import RefusedError
from gpunn.importers.coreml.control import BranchAddition, LoopAddition, Tensors
from gpunn.importers.coreml.layer import INSIDE, Context, Drawing, Layer, NotedError
from gpunn.importers.coreml.rules.table import RULES
from gpunn.importers.coreml.statements import (
    Block,
    Branch,
    Key,
    Keys,
    Loop,
    Plain,
    Raise,
    in_order,
)

OVERWRITES = "copy"  # the one layer type that may give a tensor a new value


class Scope:
    """The tensors of a network by name, while it is read into a graph; None: a refused layer computes it.

    `made` are the names that only a copy may give another tensor. `partial` are names that only one block of
    a branch computes, each with that branch. Tensors of the names `hidden` become outputs of the model, those
    among `titles` under these names if they have the shape that callers get.
    """

    def __init__(
        self,
        context: Context,
        graph: Graph,
        names: Names,
        tensors: dict[Key, Operand | None],
        titles: Mapping[str, str] | None = None,
        hidden: Collection[Key] = (),
    ) -> None:
        self.context = context
        self.graph = graph
        self.names = names
        self.tensors = tensors
        self.titles = titles or {}
        self.hidden = hidden
        self.made: set[Key] = set()
        self.partial: dict[Key, str] = {}

    def read(self, block: Block, after: Keys) -> None:
        """Add the statements of a block, behind which the tensors `after` are read.

        Raises FormatError and ModelError for what contradicts itself, unless something was refused before.
        """
        for statement, live in block.followed(after):
            if isinstance(statement, Plain):
                self._layer(statement)
            elif isinstance(statement, Branch):
                self._branch(statement, live)
            elif isinstance(statement, Loop):
                self._loop(statement, live)
            else:
                self._raise(statement)

    def _raise(self, statement: Raise) -> None:
        for flag in statement.flags:
            self.tensors[flag] = self.graph.constant(str(flag), np.array(True))

    def _layer(self, statement: Plain) -> None:
        """Add what stands for one layer, or note why nothing does."""
        layer = statement.layer
        kind, outputs = layer.WhichOneof("layer"), tuple(layer.output)
        if kind not in RULES:  # which was noted before
            self.tensors.update(dict.fromkeys(outputs))
            return
        origin = self._origin(statement.place, kind)

        def add() -> Sequence[Operand]:
            inputs = self._values(statement.inputs, origin)
            for name in outputs:
                if (name in self.made and kind != OVERWRITES) or outputs.count(name) > 1:
                    raise FormatError(f"{origin}: output {shown(name)} is there already")
            named = (self.titles.get(name) or self._title(name) for name in outputs)
            titles = (*named, *map(self._title, statement.outputs[len(outputs) :]))
            direct = frozenset(self.titles.values())
            make = Layer if statement.drawn is None else Drawing
            added = make(kind, origin, self.context, titles, getattr(layer, kind), direct)
            return added.add(self.graph, inputs)

        self._attempt(kind, statement.place, statement.outputs, add)
        self.made.update(outputs)

    def _branch(self, statement: Branch, after: Keys) -> None:
        """Add a branch with the results that are read `after` it.

        Behind a branch of the file there is only what had a value before, and what both blocks compute.
        """
        origin = self._origin(statement.place, "branch")
        effect = statement.effect
        kept = effect.writes if statement.guard else effect.surely | (effect.writes & self.tensors.keys())
        results = in_order(kept & after)
        inside = statement.then.effect.reads | statement.otherwise.effect.reads
        taken = in_order((inside | (kept & after - effect.surely)) & self.tensors.keys())

        def add() -> Sequence[Operand]:
            titles = tuple(map(self._title, results))
            added = BranchAddition(
                "branch", origin, self.context, titles, results, read_block, statement, taken
            )
            return added.add(self.graph, self._values((statement.condition, *taken), origin))

        self._attempt("branch", statement.place, results, add)
        self.made |= effect.surely
        self.partial.update(dict.fromkeys(effect.writes - kept, statement.place))

    def _loop(self, statement: Loop, after: Keys) -> None:
        """Add a loop with what its rounds hand on and what is read `after` it."""
        origin = self._origin(statement.place, "loop")
        body, made = statement.body.effect, set(self.made)
        head = body.reads | after | {statement.tested}
        self.read(statement.lead, frozenset(key for key in head if key is not None))
        self.made = made  # a loop's tensors are no obstacle to layers behind it
        if statement.broken is not None:
            self.tensors[statement.broken] = self.graph.constant(str(statement.broken), np.array(False))
        handed_on = (body.writes - {statement.left}) & (head | {statement.broken})
        results = in_order(handed_on)
        new = handed_on - self.tensors.keys()
        taken = in_order((body.reads - handed_on) & self.tensors.keys())
        count = (statement.limit,) if isinstance(statement.limit, str) else ()

        def add() -> Sequence[Operand]:
            titles = tuple(map(self._title, results))
            added = LoopAddition(
                "loop", origin, self.context, titles, results, read_block, statement, new, taken
            )
            before = (key for key in results if key not in new)
            return added.add(self.graph, self._values((*count, *before, *taken), origin))

        self._attempt("loop", statement.place, results, add)

    def _attempt(
        self, kind: str, place: str, outputs: Sequence[Key], add: Callable[[], Sequence[Operand]]
    ) -> None:
        """Store what `add` returns as outputs, or note why it was refused."""
        refusals = self.context.refusals
        try:
            self.tensors.update(zip(outputs, add(), strict=True))
            return
        except NotedError:
            pass
        except RefusedError as refusal:
            refusals.add(str(refusal), kind, place)
        except (FormatError, ModelError):
            if not refusals:
                raise
        self.tensors.update(dict.fromkeys(outputs))

    def _values(self, keys: Sequence[Key], origin: str) -> list[Operand]:
        """Return tensors. Raises FormatError for one that has no value, NotedError after a refusal."""
        found: list[Operand] = []
        refused = False
        for key in keys:
            operand = self.tensors.get(key)
            refused |= operand is None
            if operand is not None:
                found.append(operand)
            elif key not in self.tensors:
                place = self.partial.get(key)
                why = "is computed by no layer before"
                if place is not None:
                    why = f"is computed in one branch of {place} only"
                raise FormatError(f"{origin}: input {shown(str(key))} {why}")
        if refused:
            raise NotedError
        return found

    def _title(self, key: Key) -> str:
        """Return what a result is called in the graph, if it is no output of the model as it is."""
        return self.names.unique(INSIDE.format(key) if key in self.hidden else str(key))

    def _origin(self, place: str, kind: str) -> str:
        return f"{self.context.file}: {place}, {kind}"


def read_block(
    context: Context, graph: Graph, tensors: Tensors, block: Block, wanted: Sequence[Key]
) -> dict[Key, Operand]:
    """Read a block into a graph on these tensors; return those of the wanted ones that have a value then.

    Raises NotedError if layers are refused.
    """
    names = Names()
    for operand in (*graph.inputs, *(o for operation in graph.operations for o in operation.outputs)):
        names.unique(operand.name)
    scope = Scope(context, graph, names, dict(tensors))
    scope.read(block, frozenset(wanted))
    found = {key: scope.tensors[key] for key in wanted if key in scope.tensors}
    known = {key: operand for key, operand in found.items() if operand is not None}
    if len(known) < len(found):
        raise NotedError
    return known
