"""Pair: two ops, and the op that computes both where only the second reads what the first gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpunn.ops.call import Call
from gpunn.ops.op import Op


@dataclass(frozen=True, slots=True)
class Pair:
    """Two ops, of which the second reads the result of the first as its first operand, and the op `whole`.

    No graph contains `whole`: planning makes operations of it, to ask for its kernels (gpunn.planning.pair).
    Each of its candidates is one kernel that computes what the two ops do. operands: of `whole`, each by the
    op that has it, 0 or 1, and by its number there. attrs: the attributes of `whole` for calls of the two ops
    on real numbers; None if it does not compute these.
    """

    first: Op
    second: Op
    whole: Op
    operands: tuple[tuple[int, int], ...]
    attrs: Callable[[Call, Call], Mapping[str, Any] | None]
