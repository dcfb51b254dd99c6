"""Fusion: ops that follow one another, and the op that computes all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpunn.ops.call import Call
from gpunn.ops.op import Op


@dataclass(frozen=True, slots=True)
class Fusion:
    """Ops of which each reads the result of the one before as its first operand, and the op `whole`.

    No graph contains `whole`: planning makes operations of it, to ask for its kernels
    (gpunn.planning.fusion). Each of its candidates is one kernel that computes what the ops do. operands: of
    `whole`, each by the place of the op that has it, and by its number there; None where these ops have none.
    attrs: the attributes of `whole` for calls of the ops on real numbers; None if it does not compute these.
    leads: whether the rule takes the first candidate of a call of `whole`, not the kernels of the ops.
    """

    ops: tuple[Op, ...]
    whole: Op
    operands: tuple[tuple[int, int] | None, ...]
    attrs: Callable[..., Mapping[str, Any] | None]
    leads: Callable[[Call], bool] = lambda _: False
