"""ControlScope: adds branches and loops to a graph, on the tensors that they see."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.importers.common.names import Names
from gpunn.importers.coreml.control import BranchAddition, LoopAddition, Tensors
from gpunn.importers.coreml.flow import Branch, Loop, Raise
from gpunn.importers.coreml.layer import Context, NotedError
from gpunn.importers.coreml.scope import Scope
from gpunn.importers.coreml.statements import Block, Key, Keys, Statement, in_order


class ControlScope(Scope):
    """The same for networks with branches and loops."""

    def control(self, statement: Statement, live: Keys) -> None:
        """Add a branch or a loop, or set flags."""
        if isinstance(statement, Branch):
            self._branch(statement, live)
        elif isinstance(statement, Loop):
            self._loop(statement, live)
        elif isinstance(statement, Raise):
            for flag in statement.flags:
                self.tensors[flag] = self.graph.constant(str(flag), np.array(True))

    def _branch(self, statement: Branch, after: Keys) -> None:
        """Add a branch with the results that are read `after` it.

        Behind a branch of the file there is only what had a value before, and what both blocks compute.
        """
        origin = self.origin(statement.place, "branch")
        effect = statement.effect
        kept = effect.writes if statement.guard else effect.surely | (effect.writes & self.tensors.keys())
        results = in_order(kept & after)
        inside = statement.then.effect.reads | statement.otherwise.effect.reads
        taken = in_order((inside | (kept & after - effect.surely)) & self.tensors.keys())

        def add() -> Sequence[Operand]:
            titles, read = tuple(map(self.title, results)), partial(read_block, self)
            added = BranchAddition("branch", origin, self.context, titles, results, read, statement, taken)
            return added.add(self.graph, self.values((statement.condition, *taken), origin))

        self.attempt("branch", statement.place, results, add)
        self.made |= effect.surely
        self.partial.update(dict.fromkeys(effect.writes - kept, statement.place))

    def _loop(self, statement: Loop, after: Keys) -> None:
        """Add a loop with what its rounds hand on and what is read `after` it."""
        origin = self.origin(statement.place, "loop")
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
            titles, read = tuple(map(self.title, results)), partial(read_block, self)
            added = LoopAddition("loop", origin, self.context, titles, results, read, statement, new, taken)
            before = (key for key in results if key not in new)
            return added.add(self.graph, self.values((*count, *before, *taken), origin))

        self.attempt("loop", statement.place, results, add)


def read_block(
    outer: Scope, context: Context, graph: Graph, tensors: Tensors, block: Block, wanted: Sequence[Key]
) -> dict[Key, Operand]:
    """Read a block into a graph on these tensors; return those of the wanted ones that have a value then.

    The block stands in a statement of the scope `outer`, whose names hold where the graph is its own.
    Raises NotedError if layers are refused.
    """
    names = outer.names
    if graph is not outer.graph:
        names = Names()
        for operand in (*graph.inputs, *(o for operation in graph.operations for o in operation.outputs)):
            names.unique(operand.name)
    scope = ControlScope(context, graph, names, dict(tensors))
    scope.read(block, frozenset(wanted))
    found = {key: scope.tensors[key] for key in wanted if key in scope.tensors}
    known = {key: operand for key, operand in found.items() if operand is not None}
    if len(known) < len(found):
        raise NotedError
    return known
