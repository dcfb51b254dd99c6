"""The rule of any operator of a .tflite file: a builtin one, a custom one that gpunn knows, or the user's."""

from __future__ import annotations

from collections.abc import Mapping

from gpunn.custom import CustomOperator
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.custom import PREFIX, custom_rule
from gpunn.importers.tflite.list_writes import LIST_WRITE
from gpunn.importers.tflite.rules import coral, mediapipe, signal, slices
from gpunn.importers.tflite.rules.table import OPERATORS, REFUSED, Rule

KNOWN: Mapping[str, Rule] = {**mediapipe.OPERATORS, **signal.CUSTOM, **coral.OPERATORS}


def rule_of(code: str, custom: Mapping[str, CustomOperator]) -> Rule:
    """Return the rule of an operator; refuse it if there is none.

    `custom` has custom operators by name; they come before those that gpunn knows.
    """
    if code == LIST_WRITE:
        return slices.list_write
    if code in OPERATORS:
        return OPERATORS[code]
    if not code.startswith(PREFIX):
        raise RefusedError(REFUSED.get(code, "this operator is not supported"))
    name = code.removeprefix(PREFIX)
    if name in custom:
        return custom_rule(custom[name])
    if name in KNOWN:
        return KNOWN[name]
    raise RefusedError("this operator has no meaning, gpunn.load(custom=...) can give it one")
