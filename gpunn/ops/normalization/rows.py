"""IntegerRows: the integer arithmetic of an op on rows (softmax, log_softmax, l2_normalization)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpunn.kernel import Param
from gpunn.ops.call import Call
from gpunn.types import Array


def _nothing(call: Call) -> Mapping[str, Param]:
    return {}


@dataclass(frozen=True, slots=True)
class IntegerRows:
    """The integer arithmetic of an op on rows along attribute `axis`.

    `why_not`: why the arithmetic does not fit a call; empty if it fits. `reference`: the stored result.
    `functions` of shaders/normalize.wgsl, `libraries`, `table` and `params`: the same on the GPU.
    """

    why_not: Callable[[Call], str]
    reference: Callable[[Call, Array], Array]
    functions: Callable[[Call], Mapping[str, str]]
    libraries: tuple[str, ...]
    table: Callable[[Call], Array] | None = None
    params: Callable[[Call], Mapping[str, Param]] = _nothing
