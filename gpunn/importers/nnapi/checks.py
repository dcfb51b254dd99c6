"""NNAPI's constraints for scales and zero points, and for values that come with an execution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpunn.errors import ResultCode
from gpunn.importers.nnapi.node import Node
from gpunn.importers.nnapi.signature import QUANT8
from gpunn.types import Array

Scales = Callable[[Node], None]


@dataclass(frozen=True, slots=True)
class DataCheck:
    """A rule for the values of a tensor at execution: `test` says what is wrong, or nothing."""

    param: str
    code: ResultCode
    test: Callable[[Array, Node], str]


def free(node: Node) -> None:
    """Allow any scales."""


def same(*names: str) -> Scales:
    """Require the output to have scale and zero point of the inputs `names`; without names of all inputs."""

    def check(node: Node) -> None:
        out = node.results[0]
        types = [node.type(name) for name in names] or node.types[: node.variadic]
        for found in types:
            if out.type is QUANT8 and (found.scale, found.zero_point) != (out.scale, out.zero_point):
                node.corrupt(
                    f"the output must have the scale and zero point of the input, {found}, got {out}"
                )

    return check


def unit(node: Node) -> None:
    """Require a quantised output to have scale 1/256 and zero point 0."""
    out = node.results[0]
    if out.type is QUANT8 and (out.scale, out.zero_point) != (1 / 256, 0):
        node.corrupt(f"the output must have scale 1/256 and zero point 0, got {out}")


def product(first: str, second: str) -> Scales:
    """Require the output's scale to exceed the product of two scales, which is the scale of a bias."""

    def check(node: Node) -> None:
        out = node.results[0]
        if out.type is not QUANT8:
            return
        scale = node.type(first).scale * node.type(second).scale
        if not out.scale > scale:
            node.corrupt(
                f"the output's scale must be over {first} scale * {second} scale = {scale:g}, got {out}"
            )
        if "bias" in node.parameters and not math.isclose(node.type("bias").scale, scale, rel_tol=1e-6):
            bias = node.type("bias")
            node.corrupt(f"the bias must have scale {first} scale * {second} scale = {scale:g}, got {bias}")

    return check


def hits(node: Node) -> None:
    """Check HASHTABLE_LOOKUP: the values keep their scale, the hits are truth values."""
    same("values")(node)
    found = node.results[1]
    if (found.scale, found.zero_point) != (1.0, 0):
        node.corrupt(f"the hits must have scale 1 and zero point 0, got {found}")


def _rows_exist(lookups: Array, node: Node) -> str:
    rows = node.type("values").dimensions[0]
    outside = lookups[(lookups < 0) | (lookups >= rows)]
    return f"lookup {int(outside[0])} is not an index into {rows} rows" if outside.size else ""


def _ascending(keys: Array, node: Node) -> str:
    return "the keys must be sorted in ascending order" if np.any(keys[1:] < keys[:-1]) else ""


IN_RANGE = DataCheck("lookups", ResultCode.OP_FAILED, _rows_exist)
SORTED = DataCheck("keys", ResultCode.BAD_DATA, _ascending)
