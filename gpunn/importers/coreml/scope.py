"""Scope: adds statements of a network to a graph, on the tensors that they see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from gpunn.errors import FormatError, ModelError
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.common.names import Names, shown
from gpunn.importers.common.node import RefusedError
from gpunn.importers.coreml.layer import INSIDE, Context, Drawing, Layer, NotedError
from gpunn.importers.coreml.rules.table import RULES
from gpunn.importers.coreml.statements import Block, Key, Keys, Plain, Statement

OVERWRITES = "copy"  # the one layer type that may give a tensor a new value


class Scope:
    """The tensors of a network by name, while it is read into a graph; None: a refused layer computes it.

    See ControlScope for networks with branches and loops.

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
        self._direct = frozenset[str]()
        self.hidden = hidden
        self.made: set[Key] = set()
        self.partial: dict[Key, str] = {}

    def read(self, block: Block, after: Keys) -> None:
        """Add the statements of a block, behind which the tensors `after` are read.

        Raises FormatError and ModelError for what contradicts itself, unless something was refused before.
        """
        self._direct = frozenset(self.titles.values())
        for statement, live in block.followed(after):
            if isinstance(statement, Plain):
                self._layer(statement)
            else:
                self.control(statement, live)

    def control(self, statement: Statement, live: Keys) -> None:
        """Add a statement that is no layer alone, behind which the tensors `live` are read."""
        raise NotImplementedError

    def _layer(self, statement: Plain) -> None:
        """Add what stands for one layer, or note why nothing does."""
        layer = statement.layer
        kind, outputs = layer.WhichOneof("layer"), tuple(layer.output)
        if kind not in RULES:  # which was noted before
            self.tensors.update(dict.fromkeys(outputs))
            return
        origin = self.origin(statement.place, kind)

        def add() -> Sequence[Operand]:
            inputs = self.values(statement.inputs, origin)
            for name, times in Counter(outputs).items():
                if (name in self.made and kind != OVERWRITES) or times > 1:
                    raise FormatError(f"{origin}: output {shown(name)} is there already")
            named = (self.titles.get(name) or self.title(name) for name in outputs)
            titles = (*named, *map(self.title, statement.outputs[len(outputs) :]))
            make = Layer if statement.drawn is None else Drawing
            added = make(kind, origin, self.context, titles, getattr(layer, kind), self._direct)
            return added.add(self.graph, inputs)

        self.attempt(kind, statement.place, statement.outputs, add)
        self.made.update(outputs)

    def attempt(
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

    def values(self, keys: Sequence[Key], origin: str) -> list[Operand]:
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

    def title(self, key: Key) -> str:
        """Return what a result is called in the graph, if it is no output of the model as it is."""
        return self.names.unique(INSIDE.format(key) if key in self.hidden else str(key))

    def origin(self, place: str, kind: str) -> str:
        return f"{self.context.file}: {place}, {kind}"
