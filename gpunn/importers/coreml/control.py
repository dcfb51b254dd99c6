"""Branches and loops: the parts of a file that become if_else and while_loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpunn.errors import FormatError
from gpunn.graph.complete import complete
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand
from gpunn.graph.parts import OpenBody
from gpunn.importers.common.names import Names, shown
from gpunn.importers.common.template import checked, template
from gpunn.importers.coreml.flow import Branch, Loop
from gpunn.importers.coreml.layer import Addition, Context, NotedError
from gpunn.importers.coreml.statements import Block, Drawn, Flag, Key
from gpunn.types import Array, DType, TensorType

TRUE = 1e-6  # a condition holds if its magnitude is above
MAX_ROUNDS = 2**31 - 1
DTYPES = {str: DType.FLOAT32, Flag: DType.BOOL, Drawn: DType.INT64}  # of results, by the kind of their name

Tensors = Mapping[Key, Operand]
# Reads a block into a graph on these tensors; returns those of the wanted ones that have a value then.
ReadBlock = Callable[[Context, Graph, Tensors, Block, Sequence[Key]], dict[Key, Operand]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Control(Addition):
    """A part with bodies. It reads what comes from outside as inputs, and gives tensors by these names."""

    results: tuple[Key, ...]
    read: ReadBlock

    def expected(self, index: int) -> TensorType:
        """Return the type of a result, with any shape."""
        return TensorType(DTYPES[type(self.results[index])], ())

    def body(
        self,
        name: str,
        inputs: Sequence[tuple[Key, TensorType]],
        constants: Tensors,
        fill: Callable[[Context, Graph, Tensors], Sequence[Operand]],
    ) -> Graph:
        """Return a graph with these inputs and the outputs that `fill` computes in it.

        `fill` gets the graph's inputs and `constants` by name. Raises NotedError for layers that are refused.
        """
        like, names = Graph(), Names()
        for key, type in inputs:
            like.input(names.unique(str(key)), type, open=None)

        def read(context: Context, graph: Graph, operands: Sequence[Operand | None]) -> tuple[()]:
            given = {k: o for (k, _), o in zip(inputs, operands, strict=True) if o is not None}
            graph.output(*fill(context, graph, {**constants, **given}))
            return ()

        def first(graph: Graph, operands: Sequence[Operand | None]) -> tuple[()]:
            return read(self.context, graph, operands)

        def again(graph: Graph, operands: Sequence[Operand | None]) -> tuple[()]:
            context = self.context.again()
            try:
                return read(context, graph, operands)
            except NotedError:
                context.refusals.fail()

        unread = template(name, like.inputs, first)
        made = complete(unread, unread.input_types)
        made.template = template(name, like.inputs, checked(again))
        return made

    def decision(self, graph: Graph, x: Operand) -> Operand:
        """Return a condition as one bool. Raises FormatError if it has several elements."""
        if x.type.size != 1:
            raise FormatError(
                f"{self.origin}: the condition has shape {list(x.type.shape)}, expected one number"
            )
        if x.type.dtype is not DType.BOOL:
            x = self.op(graph, "greater", self.op(graph, "abs", x), _constant(graph, np.float32(TRUE)))
        return self.op(graph, "reshape", x, shape=()) if x.type.rank else x

    def op(self, graph: Graph, op: str, *inputs: Operand, **attrs: object) -> Operand:
        """Add an op with one result."""
        (found,) = graph.add(op, inputs, attrs, origin=self.origin)
        return found

    def zeros(self, graph: Graph, type: TensorType) -> Operand:
        """Return zeros of a type."""
        value = _constant(graph, np.zeros((), type.dtype.numpy))
        return self.op(graph, "fill", value, shape=type.shape) if type.rank else value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BranchAddition(Control):
    """A branch. Its inputs are the condition and the tensors `taken`."""

    branch: Branch
    taken: tuple[Key, ...]

    def added(self, graph: Graph, inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add if_else, or what the block computes that a known condition chooses."""
        condition, *arguments = (o for o in inputs if o is not None)
        given = dict(zip(self.taken, arguments, strict=True))
        decision = graph.value_of(condition)
        if decision is not None and decision.size == 1:
            block = self.branch.then if abs(decision.item()) > TRUE else self.branch.otherwise
            return tuple(self._fill(self.context, graph, given, block=block, types={}))
        computed = {k: o for k, o in given.items() if o.value is None}
        constants = {k: o for k, o in given.items() if o.value is not None}
        decided = self.decision(graph, condition)
        bodies = self._bodies(computed, constants)
        then, otherwise = bodies["then"], bodies["otherwise"]
        if not self.results:
            return ()
        attrs: Mapping[str, object] = bodies
        if then.pending or otherwise.pending or then.output_types != otherwise.output_types:
            attrs = {name: OpenBody(body) for name, body in bodies.items()}
        taken = (decided, *computed.values())
        return graph.add("if_else", taken, attrs, origin=self.origin, names=self.titles)

    def _bodies(self, computed: Tensors, constants: Tensors) -> dict[str, Graph]:
        """Return the graphs of both blocks. What only the second one computes is zeros in the first one."""
        inputs = [(k, o.type) for k, o in computed.items()]
        types: dict[Key, TensorType] = {}
        found: dict[str, Graph] = {}
        noted: NotedError | None = None
        for name, block in (("otherwise", self.branch.otherwise), ("then", self.branch.then)):
            fill = partial(self._fill, block=block, types=types)
            try:
                found[name] = self.body(f"{self.origin}: {name}", inputs, constants, fill)
                types = dict(zip(self.results, found[name].output_types, strict=True))
            except NotedError as error:
                noted = error  # those of the other block are to be noted as well
        if noted is not None:
            raise noted
        return {"then": found["then"], "otherwise": found["otherwise"]}

    def _fill(
        self,
        context: Context,
        graph: Graph,
        given: Tensors,
        *,
        block: Block,
        types: Mapping[Key, TensorType],
    ) -> list[Operand]:
        """Read a block; return its results, and zeros for those that it does not compute."""
        found = self.read(context, graph, given, block, self.results)
        for index, key in enumerate(self.results):
            if key not in found:
                found[key] = self.zeros(graph, types.get(key, self.expected(index)))
        return [found[key] for key in self.results]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LoopAddition(Control):
    """A loop, whose results are what rounds hand on.

    Its inputs are the number of rounds if a tensor says it, the results before the loop except those that are
    `new`, and the tensors `taken`, which no round changes.
    """

    loop: Loop
    new: frozenset[Key]
    taken: tuple[Key, ...]

    def added(self, graph: Graph, inputs: Sequence[Operand | None]) -> tuple[Operand, ...]:
        """Add while_loop."""
        given = [o for o in inputs if o is not None]
        state = self._counters(graph, given.pop(0) if isinstance(self.loop.limit, str) else None)
        counters = len(state)
        old = [key for key in self.results if key not in self.new]
        before = dict(zip(old, given, strict=False))
        around = dict(zip(self.taken, given[len(old) :], strict=True))
        constants = {k: o for k, o in around.items() if o.value is not None}
        fixed = {k: o for k, o in around.items() if o.value is None}
        if self.new:
            first = self._body({**state, **before, **fixed}, constants, self.results)
            types = dict(zip(self.results, first.output_types, strict=True))
            before.update({k: self.zeros(graph, types[k]) for k in self.results if k in self.new})
        state |= {**{key: before[key] for key in self.results}, **fixed}
        condition = self.body(f"{self.origin}: condition", _typed(state), {}, self._decide)
        bodies = {"condition": condition, "body": self._body(state, constants, tuple(state))}
        attrs: Mapping[str, object] = bodies
        after = bodies["body"]
        if condition.pending or after.pending or after.output_types != tuple(o.type for o in state.values()):
            attrs = {name: OpenBody(body) for name, body in bodies.items()}
        names = [str(key) for key in state]
        names[counters : counters + len(self.titles)] = self.titles
        found = graph.add("while_loop", tuple(state.values()), attrs, origin=self.origin, names=names)
        return found[counters : counters + len(self.titles)]

    def _counters(self, graph: Graph, limit: Operand | None) -> dict[Key, Operand]:
        """Return the number of rounds so far, and how many there are at most if that is computed."""
        if self.loop.limit is None:
            return {}
        counters: dict[Key, Operand] = {self.loop.rounds: _constant(graph, np.int32(0), "rounds")}
        if limit is not None:
            if limit.type.size != 1:
                what = f"the number of rounds has shape {list(limit.type.shape)}"
                raise FormatError(f"{self.origin}: {what}, expected one number")
            whole = self.op(graph, "cast", limit, dtype="int32")
            counters[_limit(self.loop)] = (
                self.op(graph, "reshape", whole, shape=()) if limit.type.rank else whole
            )
        return counters

    def _decide(self, context: Context, graph: Graph, given: Tensors) -> list[Operand]:
        """Compute from the state whether there is a next round."""
        loop, terms = self.loop, []
        if loop.tested is not None:
            terms.append(self.decision(graph, given[loop.tested]))
        if loop.broken is not None:
            terms.append(self.op(graph, "logical_not", given[loop.broken]))
        if loop.limit is not None:
            most = given.get(_limit(loop))
            if most is None:
                most = _constant(graph, np.int32(min(int(loop.limit), MAX_ROUNDS)))
            terms.append(self.op(graph, "less", given[loop.rounds], most))
        found = terms[0]
        for term in terms[1:]:
            found = self.op(graph, "logical_and", found, term)
        return [found]

    def _body(self, state: Tensors, constants: Tensors, results: Sequence[Key]) -> Graph:
        """Return the graph of one round on this state, which gives these results."""
        loop = self.loop

        def fill(context: Context, graph: Graph, given: Tensors) -> list[Operand]:
            given = {**given, loop.left: _constant(graph, np.bool_(False))}
            found = self.read(context, graph, given, loop.body, results)
            if loop.limit is not None:
                one = _constant(graph, np.int32(1))
                found[loop.rounds] = self.op(graph, "add", given[loop.rounds], one)
            for key in results:
                if key not in found:
                    raise FormatError(f"{self.origin}: {shown(str(key))} is computed in one branch only")
            return [found[key] for key in results]

        return self.body(f"{self.origin}: body", _typed(state), constants, fill)


def _typed(state: Tensors) -> list[tuple[Key, TensorType]]:
    return [(key, operand.type) for key, operand in state.items()]


def _limit(loop: Loop) -> Flag:
    """Return the name of the number of rounds, as an integer."""
    return Flag("most rounds", loop.rounds.loop)


def _constant(graph: Graph, value: np.generic | Array, name: str = "constant") -> Operand:
    return graph.constant(name, np.asarray(value))
