"""Operators of resources: variables that have names, and what runs once to give them their first values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpunn.importers.tflite_node import Node, RefusedError
from gpunn.importers.tflite_scope import Control, Scope
from gpunn.importers.tflite_work import Resource
from gpunn.model import zeros
from gpunn.operation import Operand

CONTAINER, SHARED_NAME = 0, 1  # fields of VarHandleOptions


def var_handle(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """VAR_HANDLE: the variable of a name; equal names in the whole file mean the same one."""
    options = node.options("VarHandleOptions")
    return (scope.work.handle(Resource(options.name(CONTAINER), options.name(SHARED_NAME))),)


def read_variable(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """READ_VARIABLE: what was assigned last."""
    return (scope.target.resources.get(_resource(node, scope)),)


def assign_variable(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """ASSIGN_VARIABLE: what the operators that follow read, and those of the next run; the type must stay."""
    variable, value = _resource(node, scope), node.operand(1)
    type = scope.work.types.setdefault(variable, value.type)
    if value.type != type:
        raise RefusedError(f"it assigns {value.type} to variable {str(variable)!r}, which is {type}")
    scope.target.resources.written[variable] = value
    return ()


def call_once(node: Node, names: Sequence[str], scope: Scope) -> tuple[Operand, ...]:
    """CALL_ONCE: what a subgraph assigns before the first run, here constants only."""
    index = node.options("CallOnceOptions").get("InitSubgraphIndex")
    if not scope.target.outermost:
        raise RefusedError("it stands where not every run comes by")
    if index in scope.work.done_once:
        return ()
    scope.work.done_once.add(index)
    target = scope.target.once(scope.work)
    if scope.nested(index, (), target=target):
        node.corrupt(f"subgraph {index} should have no outputs")
    used = {*scope.target.resources.begun, *scope.target.resources.written}
    for variable, operand in target.resources.written.items():
        if variable in used:
            raise RefusedError(f"variable {str(variable)!r} is used before")
        if operand.value is None and not scope.work.unsupported:
            raise RefusedError(f"the first value of variable {str(variable)!r} is computed, not a constant")
        value = zeros(operand.type) if operand.value is None else operand.value
        scope.work.initial_values[variable] = value
    return ()


def _resource(node: Node, scope: Scope) -> Resource:
    """What input 0 stands for."""
    operand = node.operand(0)
    if operand not in scope.work.resources:
        node.corrupt(f"input 0 should say which resource is meant, got {operand.type}")
    return scope.work.resources[operand]


RESOURCES: Mapping[str, Control] = {
    "ASSIGN_VARIABLE": assign_variable,
    "CALL_ONCE": call_once,
    "READ_VARIABLE": read_variable,
    "VAR_HANDLE": var_handle,
}
