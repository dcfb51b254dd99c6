"""Conditions for every op."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import fields
from importlib import import_module

import pytest

from gpunn.ops import _FAMILIES, OPS
from gpunn.ops.call import like
from gpunn.ops.op import Facets, Op, op
from tests.resources import ROOT

every_op = pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)


def test_names_are_unique() -> None:
    families = [import_module(f"gpunn.ops.{name}").OPS for name in _FAMILIES]
    assert len(OPS) == sum(map(len, families))
    assert all(name == op.name for name, op in OPS.items())


@every_op
def test_every_op_has_one_way_to_run(op: Op) -> None:
    """An op that is written in other ops may have a kernel for what these refuse, or a reason why the host
    does that.
    """
    own = [op.kernel is not None, op.alias, bool(op.host_reason)].count(True)
    assert own == 1 or (own == 0 and op.expand is not None)


# A custom operator is defined by the runtime that the docstring names.
SOURCES = ("NeuralNetworks.h", "TFLite schema", "NeuralNetwork.proto", "custom operator")


@every_op
def test_every_op_states_its_meaning(op: Op) -> None:
    modules = [module for name, module in sys.modules.items() if name.startswith("gpunn.ops.")]
    family = next(m for m in modules if any(found is op for found in getattr(m, "OPS", ())))
    stated = " ".join((op.reference.__doc__ or family.__doc__ or "").split())
    assert any(source in stated for source in SOURCES)
    assert inspect.signature(op.reference).parameters


@every_op
def test_fusing_is_the_same_for_every_op(op: Op) -> None:
    assert not (op.fusible and "activation" in op.attributes)


def test_every_facet_is_documented() -> None:
    names = {field.name for field in fields(Facets)}
    assert {*re.findall(r"^ *\* (\w+):", Facets.__doc__ or "", re.MULTILINE)} == names
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, contract = page.partition("## Contract of an op\n")
    rows = re.findall(r"^\| (`.*?) \|", contract.partition("\n## ")[0], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == names


def test_an_unknown_facet_is_named() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'fuseable'"):
        op(like, fuseable=True)  # type: ignore[call-arg]
