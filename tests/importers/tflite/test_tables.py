"""Hash tables of strings and numbers: against LiteRT, and refusals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from gpunn.errors import FormatError, UnsupportedError
from gpunn.model import load
from gpunn.types import Array, DType, TensorType
from tests.importers.tflite.test_control import BOOL
from tests.importers.tflite.test_resources import T, check, once
from tests.importers.tflite.test_subgraphs import Sub
from tests.tflite_builder import Graph, Node

INT64, STRING = DType.INT64, DType.STRING
NUMBERS = np.array([10, 20, -(2**40), 10], np.int64)
WORDS = np.array([b"ten", b"zwanzig", b"", b"again\x00"], object)
COUNT = TensorType(INT64, (1,))


def values(dtype: DType) -> Array:
    return WORDS if dtype is STRING else NUMBERS


def handle(graph: Graph, key: DType, value: DType, number: int = 3) -> int:
    return graph.handle("HASHTABLE", table_id=number, key_dtype=key.name, value_dtype=value.name)


def importing(graph: Graph, table: int, keys: int, given: int) -> None:
    graph.nodes.append(Node("HASHTABLE_IMPORT", (table, keys, given), ()))


def filling(key: DType, value: DType, keys: Array | None = None, given: Array | None = None) -> Sub:
    """Return a subgraph that fills table 3."""
    graph = Graph()
    keys = values(key) if keys is None else keys
    given = values(value) if given is None else given
    importing(graph, handle(graph, key, value), graph.constant(keys), graph.constant(given))
    return graph, []


def finding(key: DType, value: DType, called: Sequence[Sub], shape: tuple[int, ...] = (5,)) -> bytes:
    """keys -> (their values in table 3, the number of its keys), after `called` have run once."""
    graph = Graph()
    x = graph.input(TensorType(key, shape))
    for index in range(len(called)):
        once(graph, index + 1)
    table = handle(graph, key, value)
    missing = graph.constant(np.array([b"?", b"!"], object) if value is STRING else np.int64(-1))
    (found,) = graph.add("HASHTABLE_FIND", [table, x, missing], [TensorType(value, shape)], names=["found"])
    return graph.build([found, *graph.add("HASHTABLE_SIZE", [table], [COUNT])], called=called)


PAIRS = pytest.mark.parametrize(("key", "value"), [(INT64, STRING), (STRING, INT64)])
ASKED = {
    INT64: np.array([10, 11, -(2**40), 20, 10], np.int64),
    STRING: np.array([b"zwanzig", b"zw", b"again\x00", b"again", b""], object),
}


@PAIRS
def test_keys_have_values_or_the_default(key: DType, value: DType, backend: str) -> None:
    file = finding(key, value, [filling(key, value)])
    found, count = check(file, [[ASKED[key]]], backend)[0]
    expected = {INT64: [b"ten", b"?", b"", b"zwanzig", b"ten"], STRING: [20, -1, 10, -1, -(2**40)]}[key]
    assert found.tolist() == expected
    assert count.tolist() == [3 if key is INT64 else 4]
    assert load(file).outputs[0].name == "found"


@PAIRS
def test_only_the_first_import_counts_and_shapes_are_kept(key: DType, value: DType, backend: str) -> None:
    square = [v.reshape(2, 2) for v in (values(key), values(value))]
    more = filling(key, value, values(key)[::-1].copy(), values(value))
    file = finding(key, value, [filling(key, value, *square), more], (1, 5))
    check(file, [[ASKED[key].reshape(1, 5)]], backend)


def test_an_empty_table_has_defaults(backend: str) -> None:
    file = finding(STRING, INT64, [filling(STRING, INT64, WORDS[:0], NUMBERS[:0])])
    assert check(file, [[ASKED[STRING]]], backend)[0][0].tolist() == [-1] * 5


def test_tables_have_numbers_and_may_be_used_in_branches(backend: str) -> None:
    numbers, words = TensorType(INT64, (2,)), TensorType(STRING, (2,))
    main, inner = Graph(), Graph()
    x, choice = main.input(numbers), main.input(BOOL)
    tables = [handle(main, INT64, STRING, n) for n in (1, 2)]
    for table, given in zip(tables, (WORDS, WORDS[::-1].copy()), strict=True):
        importing(main, table, main.constant(NUMBERS), main.constant(given))
    asked, table = inner.input(numbers), inner.resource()
    inner.inputs.append(table)
    found = inner.add("HASHTABLE_FIND", [table, asked, inner.constant(WORDS[:1])], [words])
    options = {"then_subgraph_index": 1, "else_subgraph_index": 1}
    outputs = [main.add("IF", [choice, x, t], [words], options)[0] for t in tables]
    check(main.build(outputs, called=[(inner, list(found))]), [[NUMBERS[1:3], T]], backend)


def counting(key: DType, value: DType) -> bytes:
    """Return a file with a table that nothing fills."""
    graph = Graph()
    return graph.build(graph.add("HASHTABLE_SIZE", [handle(graph, key, value)], [COUNT]))


def computed_keys() -> bytes:
    graph = Graph()
    table, x = handle(graph, INT64, STRING), graph.input(TensorType(INT64, (4,)))
    importing(graph, table, x, graph.constant(WORDS))
    return graph.build(graph.add("HASHTABLE_SIZE", [table], [COUNT]))


def filled_in_a_branch() -> bytes:
    main, then, otherwise = Graph(), *(filling(INT64, STRING)[0] for _ in range(2))
    for graph in then, otherwise:
        graph.input(COUNT)
    options = {"then_subgraph_index": 1, "else_subgraph_index": 2}
    y = main.add("IF", [main.input(BOOL), main.input(COUNT)], [COUNT], options)
    return main.build(list(y), called=[(g, g.inputs) for g in (then, otherwise)])


def reading_a_table() -> bytes:
    graph = Graph()
    return graph.build(graph.add("READ_VARIABLE", [handle(graph, INT64, STRING)], [COUNT]))


REFUSED = {
    "other types": (
        counting(INT64, DType.FLOAT32),
        UnsupportedError,
        "HASHTABLE v1: a table of FLOAT32 by INT64, only STRING by INT64 and INT64 by STRING are known",
    ),
    "never filled": (
        counting(INT64, STRING),
        UnsupportedError,
        "HASHTABLE_SIZE v1: table_3 is asked before anything is imported",
    ),
    "computed keys": (
        computed_keys(),
        UnsupportedError,
        "HASHTABLE_IMPORT v1: the keys are computed at run time",
    ),
    "filled in a branch": (
        filled_in_a_branch(),
        UnsupportedError,
        "HASHTABLE_IMPORT v1: it stands where not every run comes by",
    ),
    "keys without values": (
        finding(INT64, STRING, [filling(INT64, STRING, NUMBERS[:3])]),
        FormatError,
        r"expected a value for each key, got string\[4\] for int64\[3\]",
    ),
    "keys of another type": (
        finding(INT64, STRING, [filling(INT64, STRING, NUMBERS.astype(np.int32))]),
        FormatError,
        "the keys should be int64, got int32",
    ),
    "a table read as a variable": (
        reading_a_table(),
        FormatError,
        "input 0 should say which variable is meant, got .*table_3",
    ),
}


@pytest.mark.parametrize(("file", "kind", "reason"), REFUSED.values(), ids=REFUSED)
def test_wrong_uses_are_refused(file: bytes, kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind, match=reason):
        load(file)
