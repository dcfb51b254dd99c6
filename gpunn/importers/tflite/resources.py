"""Operators of resources: named variables, and tables, which belong to the whole file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from gpunn.graph.operation import Operand
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.context import Contents, Table, Variable
from gpunn.importers.tflite.file import TYPE_NAMES
from gpunn.importers.tflite.node import Node
from gpunn.importers.tflite.scope import Control, Scope

CONTAINER, SHARED_NAME = 0, 1  # fields of VarHandleOptions
TABLES = ("INT64", "STRING"), ("STRING", "INT64")  # types of keys and values
UNCERTAIN = "it stands where not every run comes by"

_Resource = TypeVar("_Resource", Variable, Table)


def var_handle(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """Translate VAR_HANDLE: the variable of a name; equal names in the whole file mean the same one."""
    options = node.options("VarHandleOptions")
    return (scope.context.handle(Variable(options.name(CONTAINER), options.name(SHARED_NAME))),)


def read_variable(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """Translate READ_VARIABLE: the value of the last assignment."""
    return (scope.target.resources.get(_resource(node, scope, Variable)),)


def assign_variable(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """Translate ASSIGN_VARIABLE: the value for later operators and for the next run; the type must stay."""
    variable, value = _resource(node, scope, Variable), node.operand(1)
    waits = scope.target.model.waits(value)
    type = (
        scope.context.types.get(variable, value.type)
        if waits
        else scope.context.types.setdefault(variable, value.type)
    )
    if value.type != type and not waits:
        raise RefusedError(f"it assigns {value.type} to variable {str(variable)!r}, which is {type}")
    scope.target.resources.written[variable] = value
    return ()


def table_handle(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """Translate HASHTABLE: the table of a number; equal numbers in the whole file mean the same one."""
    options = node.options("HashtableOptions")
    key, value = (TYPE_NAMES.get(options.get(n), "") for n in ("KeyDtype", "ValueDtype"))
    if (key, value) not in TABLES:
        raise RefusedError(f"a table of {value} by {key}, only STRING by INT64 and INT64 by STRING are known")
    return (scope.context.handle(Table(options.get("TableId"), key, value)),)


def table_import(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """Translate HASHTABLE_IMPORT: the content of a table from now on; it is filled only once."""
    table, keys, values = _resource(node, scope, Table), node.operand(1), node.operand(2)
    if table in scope.context.tables:
        return ()
    if not scope.target.certain:
        raise RefusedError(UNCERTAIN)
    pair = node.constant(1, "keys", table.key.lower()), node.constant(2, "values", table.value.lower())
    if pair[0].shape != pair[1].shape:
        node.corrupt(f"expected a value for each key, got {values.type} for {keys.type}")
    flat = [scope.target.model.constant(f"{table}:{k}", v.reshape(-1)) for k, v in enumerate(pair)]
    scope.context.tables[table] = Contents(flat[0], flat[1], len(set(pair[0].reshape(-1).tolist())))
    return ()


def table_find(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """Translate HASHTABLE_FIND: the values of keys; the first element of input 2 for missing keys."""
    contents = _contents(node, scope)
    inputs = node.operand(1), contents.keys, contents.values, node.operand(2)
    named = [scope.target.names.unique(n) for n in names]
    return scope.target.model.add("table_lookup", inputs, origin=node.origin, names=named)


def table_size(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """Translate HASHTABLE_SIZE: the number of different keys."""
    count = np.array([_contents(node, scope).size], np.int64)
    return (scope.target.model.constant(scope.target.names.unique(names[0] if names else ""), count),)


def _contents(node: Node, scope: Scope) -> Contents:
    """Return what is in the table that input 0 stands for."""
    table = _resource(node, scope, Table)
    if table not in scope.context.tables:
        raise RefusedError(f"{table} is asked before anything is imported into it")
    return scope.context.tables[table]


def _resource(node: Node, scope: Scope, kind: type[_Resource]) -> _Resource:
    """Return what input 0 stands for."""
    operand = node.operand(0)
    resource = scope.context.resources.get(operand)
    if not isinstance(resource, kind):
        node.corrupt(f"input 0 should say which {kind.__name__.lower()} is meant, got {operand!r}")
    return resource


RESOURCES: Mapping[str, Control] = {
    "ASSIGN_VARIABLE": assign_variable,
    "HASHTABLE": table_handle,
    "HASHTABLE_FIND": table_find,
    "HASHTABLE_IMPORT": table_import,
    "HASHTABLE_SIZE": table_size,
    "READ_VARIABLE": read_variable,
    "VAR_HANDLE": var_handle,
}
