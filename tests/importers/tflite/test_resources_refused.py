"""Wrong uses of named variables: each is refused with a reason."""

from __future__ import annotations

import numpy as np
import pytest

from gpunn.errors import FormatError, UnsupportedError
from gpunn.model import load
from gpunn.types import DType, TensorType, float32
from tests.importers.tflite.test_control import BOOL
from tests.importers.tflite.test_resources import (
    ONE,
    adding,
    assign,
    branching,
    computing,
    first,
    negating,
    once,
    read,
    using,
    variable,
)
from tests.importers.tflite.test_subgraphs import Sub
from tests.tflite_builder import Graph, Node


def handle_as(what: str) -> bytes:
    """Return a file with a handle as an operator's input, or as the model's output."""
    graph = Graph()
    made = variable(graph)
    return graph.build(
        [made] if what == "output" else graph.add("NEG", [made], [TensorType(DType.INT32, ())])
    )


def passing(handle_comes_in: bool) -> bytes:
    """Return a file with a call that passes a handle instead of a number, or a number instead of a handle."""
    number = TensorType(DType.INT32, ())
    main, inner = Graph(), Graph()
    x = main.input(number)
    given = variable(main) if handle_comes_in else x
    if handle_comes_in:
        inner.input(number)
    else:
        inner.inputs.append(inner.resource())
    y = main.add("CALL", [given], [number], {"subgraph": 1})
    return main.build(list(y), called=[(inner, [inner.constant(np.int32(1))])])


def choosing_a_handle() -> bytes:
    """Return a file with an IF whose result is one of two variables."""
    main, subs = Graph(), []
    for name in (b"a", b"b"):
        graph = Graph()
        subs.append((graph, [variable(graph, name)]))
    made = main.resource()
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    main.nodes.append(Node("IF", (main.input(BOOL),), (made,), options))
    return main.build([read(main, made)], called=subs)


def retyping() -> bytes:
    """Return a file that assigns two elements to a variable of one."""
    main = Graph()
    x = main.input(float32(2))
    once(main)
    handle = variable(main)
    seen = read(main, handle)
    assign(main, handle, x)
    return main.build([seen], called=[first()])


def odd_init() -> Sub:
    graph, _ = first()
    return graph, [1]


def once_in_a_branch() -> Sub:
    graph, outputs = negating()
    once(graph)
    return graph, outputs


def long_name() -> bytes:
    graph = Graph()
    return graph.build([read(graph, variable(graph, b"n" * 1025))])


REFUSED = {
    "read before": (using("rw"), UnsupportedError, "variable 'v' may be read before anything is assigned"),
    "assigned in one branch": (
        branching(adding(), negating(), steps=""),
        UnsupportedError,
        "READ_VARIABLE v1: variable 'v' may be read",
    ),
    "first value later": (using("wor"), UnsupportedError, "CALL_ONCE v1: variable 'v' is used before"),
    "first value in a branch": (
        branching(once_in_a_branch(), negating(), steps=""),
        UnsupportedError,
        "subgraph 2, operation 1, CALL_ONCE v1: it stands where not every run comes by",
    ),
    "first value of an unsupported operator": (
        using("or", [computing("STABLEHLO_SORT")]),
        UnsupportedError,
        "^model: subgraph 1, operation 0, STABLEHLO_SORT v1: this operator is not supported$",
    ),
    "init with outputs": (using("or", [odd_init()]), FormatError, "subgraph 1 should have no outputs"),
    "init with inputs": (
        using("or", [negating()]),
        FormatError,
        "subgraph 1 has 1 inputs, the model gives it 0",
    ),
    "another type": (
        retyping(),
        UnsupportedError,
        r"ASSIGN_VARIABLE v1: it assigns float32\[2\] to variable 'v', which is float32\[1\]",
    ),
    "a handle as a number": (
        handle_as("input"),
        UnsupportedError,
        r"NEG v1: input 0 \(t0\) is RESOURCE, which is not",
    ),
    "a handle as a result": (handle_as("output"), UnsupportedError, "output t0 is RESOURCE"),
    "a handle given for a number": (
        passing(True),
        FormatError,
        r"input 0 \(t0\) is INT32, expected RESOURCE",
    ),
    "a number given for a handle": (
        passing(False),
        UnsupportedError,
        "which resource it stands for is computed",
    ),
    "a handle that is chosen": (choosing_a_handle(), UnsupportedError, "IF v1: .*is computed"),
    "a long name": (long_name(), FormatError, "option 1 has 1025 bytes, at most 1024 make a name"),
}


@pytest.mark.parametrize(("file", "kind", "reason"), REFUSED.values(), ids=REFUSED)
def test_wrong_uses_are_refused(file: bytes, kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind, match=reason):
        load(file)


def test_a_variable_of_very_many_strings_is_refused_at_once() -> None:
    """Its first value would be 2^30 empty strings, one object each."""
    main, begin = Graph(), Graph()
    text = begin.tensor(TensorType(DType.STRING, (1 << 15, 1 << 15)), is_variable=True)
    begin.add(
        "RESHAPE", [text, begin.constant(np.array([1 << 30], np.int32))], [TensorType(DType.STRING, (1,))]
    )
    once(main)
    data = main.build(main.add("ABS", [main.input(ONE)], [ONE]), called=[(begin, [])])
    with pytest.raises(FormatError, match="variables of strings have no first value"):
        load(data)
