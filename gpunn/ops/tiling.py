"""The tile of the register-tiled products, of reals and of integers, and how its rows are stored."""

from __future__ import annotations

COLUMNS = 8  # output channels of one invocation: two vec4
ROWS = 8  # output rows or pixels of one invocation


def row_library(rows: int, channels: int) -> tuple[str]:
    """The lib/ file whose put_channels() stores rows of that many channels."""
    return ("rows_of_fours",) if channels % 4 == 0 or rows == 1 else ("rows",)
