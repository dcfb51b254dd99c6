"""What all benchmarks do as programs."""

from __future__ import annotations

import pytest

from benchmarks.command import program
from gpunn.errors import ModelError


@pytest.mark.parametrize(
    "error", [ModelError("there is no op 'x'"), PermissionError(13, "Permission denied")]
)
def test_what_is_refused_is_a_line_and_not_a_traceback(error: Exception) -> None:
    def main() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        program(main)
    assert ended.value.code == str(error)


def test_other_errors_keep_their_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        program(lambda: print(1 / 0))
