"""NNAPI's constraints for scales and zero points, and for values that come with an execution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpunn.errors import ResultCode
from gpunn.importers.nnapi.node import Node
from gpunn.importers.nnapi.signature import PER_CHANNEL, SIGNED
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
            if out.type.form.quantised and (found.scale, found.zero_point) != (out.scale, out.zero_point):
                node.corrupt(
                    f"the output must have the scale and zero point of the input, {found}, got {out}"
                )

    return check


def fixed(scale: str, zero_point: int) -> Scales:
    """Require a quantised output to have a scale, written as 1/n, and a zero point; 128 less if signed."""

    def check(node: Node) -> None:
        out = node.results[0]
        if not out.type.form.quantised:
            return
        zero = zero_point - 128 if out.type is SIGNED else zero_point
        if (out.scale, out.zero_point) != (1 / int(scale.removeprefix("1/")), zero):
            node.corrupt(f"the output must have scale {scale} and zero point {zero}, got {out}")

    return check


unit = fixed("1/256", 0)
centred = fixed("1/128", 128)


def before(level: int, scales: Scales) -> Scales:
    """Make a rule that feature levels from `level` on do not have any more."""
    return lambda node: scales(node) if node.level < level else None


def every(*rules: Scales) -> Scales:
    """Make a rule of several."""

    def check(node: Node) -> None:
        for rule in rules:
            rule(node)

    return check


def over_product(first: str, second: str) -> Scales:
    """Require the scale of a quantised output to exceed the product of two scales."""

    def check(node: Node) -> None:
        out = node.results[0]
        scale = node.type(first).scale * node.type(second).scale
        if out.type.form.quantised and not out.scale > scale:
            node.corrupt(
                f"the output's scale must be over {first} scale * {second} scale = {scale:g}, got {out}"
            )

    return check


def biased(first: str, second: str) -> Scales:
    """Require a bias among quantised tensors to have the product of two scales; 0 for scales per channel."""

    def check(node: Node) -> None:
        bias = node.type("bias")
        if not node.results[0].type.form.quantised:
            return
        if node.type(second).type is PER_CHANNEL:
            if bias.scale != 0:
                node.corrupt(f"beside scales per channel the bias must have scale 0, got {bias}")
            return
        scale = node.type(first).scale * node.type(second).scale
        if not math.isclose(bias.scale, scale, rel_tol=1e-6):
            node.corrupt(f"the bias must have scale {first} scale * {second} scale = {scale:g}, got {bias}")

    return check


def layer(first: str, second: str) -> Scales:
    """Check the scales of a layer with a filter: the output's before feature level 29, and the bias."""
    return every(before(29, over_product(first, second)), biased(first, second))


def channels_along(dimension: int) -> Scales:
    """Require the scales per channel of a filter to lie along a dimension."""

    def check(node: Node) -> None:
        channels = node.type("filter").channels
        if channels is not None and channels.channel_dim != dimension:
            node.corrupt(
                f"the filter's scales must be along dimension {dimension}, got {node.type('filter')}"
            )

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
