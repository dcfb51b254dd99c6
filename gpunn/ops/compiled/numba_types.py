"""The types of operands of loops, as numba has them."""

from __future__ import annotations

from typing import Any


class NumbaTypes:
    """Makes types of numba's: of arrays that are given, or receive results, and of numbers beside them."""

    def __init__(self, types: Any) -> None:
        self._types = types
        self._stored = types.int8, types.uint8
        self._single, self._double, self._index = types.float32, types.float64, types.int64
        self._words = types.Array(self._index, 1, "C")

    def _given(self, dtype: Any, rank: int = 1) -> Any:
        return self._types.Array(dtype, rank, "C", readonly=True)

    def _result(self, dtype: Any, rank: int = 2) -> Any:
        return self._types.Array(dtype, rank, "C")

    def _pair(self, dtype: Any) -> Any:
        return self._types.UniTuple(dtype, 2)

    def _line(self, real: Any) -> tuple[Any, ...]:
        return self._given(real), self._given(real), self._pair(real), self._index
