"""Loops whose number of rounds is known before they start, and what their bodies need not do in each round.

Nearly all loops of networks count: converters write a recurrent layer as a loop over the steps of its input.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from gpunn.errors import ModelError
from gpunn.graph.bodies import with_graphs
from gpunn.graph.exchange import replace_inputs
from gpunn.graph.graph import Graph
from gpunn.graph.operation import Operand, Operation
from gpunn.graph.parts import OpenBody
from gpunn.graph.prepared import PreparedGraph
from gpunn.graph.reshape import rebuilt
from gpunn.ops.control import while_loop
from gpunn.passes.prune import prune_unread
from gpunn.passes.rewrite import with_changes
from gpunn.types import Array, DType

MAX_COUNTED = 1 << 14  # rounds that are counted when a model is compiled, at about 10 us each
MAX_COUNTER = 64  # elements of a tensor that takes part in counting
MAX_COUNTING = 32  # operations in each round of counting
MAX_HOISTED_BYTES = 64 << 20  # of a tensor that is kept for all rounds instead of computed in each


def close_bodies(model: Graph) -> Graph:
    """Complete the bodies of operations whose shapes follow from those of the operation's inputs.

    What is around such an operation has been completed, so these shapes are known.
    """
    return with_changes(model, _closed)


def _closed(operation: Operation) -> Operation:
    opened = [a for a in operation.attrs.values() if isinstance(a, OpenBody)]
    graphs = {id(body): _completed(body, operation.inputs) for body in opened}
    if not opened or None in graphs.values() or any(body.relaxed for body in opened):
        return operation
    closed = with_graphs(operation, OpenBody, lambda body: close_bodies(graphs[id(body)] or body.model))
    bodies = [graphs[id(body)] for body in opened]
    results = [o.type for o in operation.outputs]
    alike = [g is not None and list(g.output_types) == results for g in bodies]
    # The condition of a loop gives something else.
    return closed if all(alike[-1:]) and (operation.definition is while_loop or all(alike)) else operation


def _completed(body: OpenBody, inputs: Sequence[Operand | None]) -> Graph | None:
    """Return a body for these inputs of its operation, of which it takes the last ones, if nothing waits."""
    taken = [i for i in inputs if i is not None]
    taken = taken[len(taken) - len(body.model.inputs) :]
    try:
        made = rebuilt(body.model, [i.type.shape for i in taken])
    except ModelError:  # which matters if it runs, and is raised then
        return None
    return None if made.pending or made.variables else made


def settle_loops(model: Graph) -> Graph:
    """Count the rounds of loops; leave out of bodies what need not be done in each round.

    That is guards that hold in all of them, what comes to the same, and state that nobody reads.
    """
    if all(o.definition is not while_loop for o in model.operations):
        return model
    read = {i for o in model.operations for i in o.inputs if i is not None} | model.results
    found: list[Operation] = []
    for operation in model.operations:
        if operation.definition is not while_loop or not is_plain(operation):
            found.append(operation)
            continue
        hoisted, loop = _hoisted(_trusting(counted(operation)))
        found += (*hoisted, _without_unread_state(loop, read))
    return prune_unread(model.with_operations(found))


def is_plain(loop: Operation) -> bool:
    """Tell whether what a loop runs is known, and without state of its own."""
    bodies = [b for b in (loop.attrs["condition"], loop.attrs["body"]) if b is not None]
    return all(isinstance(b, Graph) and not b.pending and not b.variables for b in bodies)


def counted(loop: Operation) -> Operation:
    """Return a loop with the number of its rounds instead of the condition, if it follows from constants."""
    condition: Graph | None = loop.attrs["condition"]
    rounds = None if condition is None else _rounds(loop, condition.outputs[0])
    if rounds is None:
        return loop
    return replace(loop, attrs={**loop.attrs, "condition": None, "rounds": rounds})


def _rounds(loop: Operation, decision: Operand) -> int | None:
    """Return after how many rounds an operand of a loop's condition is false for the first time.

    None if that does not follow from constants, or takes too long to count.
    """
    condition: Graph = loop.attrs["condition"]
    numbers = _closure(loop.attrs["body"], _reached(condition, [decision]))
    decide = _part(condition, [decision], numbers)
    states = _states(loop, (), numbers) if _is_counting(decide) else None
    if states is None:
        return None
    asked = PreparedGraph(decide)
    with np.errstate(all="ignore"):
        try:
            for rounds, (state, _) in enumerate(itertools.islice(states, MAX_COUNTED)):
                if not asked.evaluate(state)[0].item():
                    return rounds
        except ModelError:  # of a guard, which the run raises
            pass
    return None


def _most_rounds(loop: Operation) -> int | None:
    """Return a number of rounds that a loop does not exceed; None if none is known.

    A condition is mostly of several terms, all of which must hold, and one of them counts.
    """
    condition: Graph | None = loop.attrs["condition"]
    if condition is None:
        rounds: int | None = loop.attrs["rounds"]
        return rounds
    counts = (_rounds(loop, term) for term in _terms(condition, condition.outputs[0]))
    return min((count for count in counts if count is not None), default=None)


def _terms(condition: Graph, decision: Operand) -> Iterator[Operand]:
    """Yield the operands of a condition of which all must be true: those of nested logical_and."""
    made = next((o for o in condition.operations if decision in o.outputs), None)
    if made is None or not (made.op == "logical_and" or made.definition.alias):
        yield decision
        return
    for operand in made.inputs:
        if operand is not None and operand.type.size == 1:
            yield from _terms(condition, operand)


def _trusting(loop: Operation) -> Operation:
    """Return a loop in whose body no guard is asked that will hold in all rounds."""
    body: Graph = loop.attrs["body"]
    guarded = [o for o in body.operations if o.guarded]
    rounds = _most_rounds(loop) if guarded else None
    trusted = {o for o in guarded if rounds is not None and _holds(loop, o, rounds)}
    if not trusted:
        return loop
    operations = (replace(o, trusted=True) if o in trusted else o for o in body.operations)
    return replace(loop, attrs={**loop.attrs, "body": body.with_operations(operations)})


def _holds(loop: Operation, operation: Operation, rounds: int) -> bool:
    """Tell whether the guards of an operation in a loop's body hold for what constants make of its inputs."""
    guards = [(guard, operand) for guard, operand in operation.guarded if operand.value is None]
    found = values_in_rounds(loop, [operand for _, operand in guards], rounds)
    try:
        for values in found or ():
            for (guard, _), value in zip(guards, values, strict=True):
                guard.check(operation.call(), value)
    except ModelError:  # which is raised where it runs
        return False
    return found is not None


def values_in_rounds(
    loop: Operation, operands: Sequence[Operand], rounds: int
) -> list[Sequence[Array]] | None:
    """Return what operands of a loop's body come to in each of so many rounds.

    None if that does not follow from constants by little arithmetic.
    """
    body: Graph = loop.attrs["body"]
    states = _states(loop, operands, _closure(body, _reached(body, operands)))
    if states is None:
        return None
    with np.errstate(all="ignore"):
        try:
            return [values for _, values in itertools.islice(states, rounds)]
        except ModelError:  # of a guard, which the run raises
            return None


def _states(
    loop: Operation, operands: Sequence[Operand], numbers: Sequence[int]
) -> Iterator[tuple[Sequence[Array], Sequence[Array]]] | None:
    """Yield for each round what the state of these numbers is, and what operands of the body come to.

    None if that does not follow from constants by little arithmetic. The state must not depend on other
    state. Values are computed when they are asked for; there is no end.
    """
    body: Graph = loop.attrs["body"]
    begin = [None if (start := loop.inputs[k]) is None else start.value for k in numbers]
    known = [value for value in begin if value is not None]
    part = _part(body, [*operands, *(body.outputs[k] for k in numbers)], numbers)
    if len(known) < len(begin) or not _is_counting(part):
        return None
    prepared = PreparedGraph(part)

    def rounds(state: Sequence[Array]) -> Iterator[tuple[Sequence[Array], Sequence[Array]]]:
        while True:
            found = prepared.evaluate(state)
            yield state, found[: len(operands)]
            state = found[len(operands) :]

    return rounds(known)


def _reached(graph: Graph, operands: Iterable[Operand]) -> set[int]:
    """Return the numbers of the inputs that decide on operands of a graph."""
    wanted = {*operands}
    for operation in reversed(graph.operations):
        if not wanted.isdisjoint(operation.outputs):
            wanted.update(i for i in operation.inputs if i is not None)
    return {k for k, operand in enumerate(graph.inputs) if operand in wanted}


def _closure(body: Graph, numbers: set[int]) -> list[int]:
    """Return the numbers of all state that decides in some round on the state of these numbers."""
    while not numbers >= (more := numbers | _reached(body, [body.outputs[k] for k in numbers])):
        numbers = more
    return sorted(numbers)


def _part(graph: Graph, outputs: Sequence[Operand], inputs: Sequence[int]) -> Graph:
    """Return what computes these operands of a graph, from these inputs alone."""
    found = prune_unread(replace(graph, outputs=list(outputs), template=None))
    return replace(found, inputs=[graph.inputs[k] for k in inputs])


def _is_counting(graph: Graph) -> bool:
    """Tell whether a graph computes with few numbers, so that the host does it at once."""
    operands = [*graph.inputs, *graph.outputs, *(o for op in graph.operations for o in op.outputs)]
    small = all(o.type.size <= MAX_COUNTER and o.type.dtype is not DType.STRING for o in operands)
    plain = all(o.custom is None and not o.definition.unbounded for o in graph.operations)
    return small and plain and len(graph.operations) <= MAX_COUNTING


def _hoisted(loop: Operation) -> tuple[list[Operation], Operation]:
    """Return operations of a body that come to the same in each round, and the loop that reads them."""
    body: Graph = loop.attrs["body"]
    outside: dict[Operand, Operand] = {
        i: start
        for i, o, start in zip(body.inputs, body.outputs, loop.inputs, strict=True)
        if i is o and start is not None
    }
    hoisted: list[Operation] = []
    kept: list[Operation] = []
    for operation in body.operations:
        inputs = [i for i in operation.inputs if i is not None]
        fixed = all(i.value is not None or i in outside for i in inputs)
        if fixed and _may_move(operation):
            outputs = tuple(replace(o) for o in operation.outputs)
            hoisted.append(replace(replace_inputs(operation, outside), outputs=outputs))
            outside.update(zip(operation.outputs, outputs, strict=True))
        else:
            kept.append(operation)
    if not hoisted:
        return [], loop
    moved = [o for operation in body.operations for o in operation.outputs if o in outside]
    read = {i for o in kept for i in o.inputs} | body.results
    return hoisted, _with_more_state(loop, kept, {o: outside[o] for o in moved if o in read})


def _may_move(operation: Operation) -> bool:
    """Tell whether an operation may run in front of a loop that perhaps makes no round."""
    plain = operation.custom is None and not operation.definition.unbounded and not operation.guarded
    return plain and all(o.type.nbytes <= MAX_HOISTED_BYTES for o in operation.outputs)


def _with_more_state(loop: Operation, kept: Sequence[Operation], more: dict[Operand, Operand]) -> Operation:
    """Return a loop with these operations in its body, which hands on `more`, by the operands outside."""
    body, condition = loop.attrs["body"], loop.attrs["condition"]
    inner = body.with_operations(kept)
    inner.inputs.extend(more)
    inner.outputs.extend(more)
    attrs = {**loop.attrs, "body": inner.with_operations(kept)}
    if condition is not None:
        asked = condition.with_operations(condition.operations)
        asked.inputs.extend(replace(o) for o in more)
        attrs["condition"] = asked.with_operations(asked.operations)
    outputs = (*loop.outputs, *(replace(o) for o in more.values()))
    return replace(loop, inputs=(*loop.inputs, *more.values()), outputs=outputs, attrs=attrs)


def _without_unread_state(loop: Operation, read: Collection[Operand]) -> Operation:
    """Return a loop without the state that leads to nothing that is read after it or that decides in it."""
    body, condition = loop.attrs["body"], loop.attrs["condition"]
    numbers = {k for k, o in enumerate(loop.outputs) if o in read}
    if condition is not None:
        numbers |= _reached(condition, condition.outputs)
    kept = _closure(body, numbers) or [0]
    if len(kept) == len(loop.inputs):
        return loop
    attrs = {**loop.attrs, "body": _part(body, [body.outputs[k] for k in kept], kept)}
    if condition is not None:
        attrs["condition"] = replace(condition, inputs=[condition.inputs[k] for k in kept], template=None)
    inputs, outputs = tuple(loop.inputs[k] for k in kept), tuple(loop.outputs[k] for k in kept)
    return replace(loop, inputs=inputs, outputs=outputs, attrs=attrs)
