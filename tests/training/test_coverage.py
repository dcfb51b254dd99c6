"""Every op has a gradient or a reason why not; the page says which."""

from __future__ import annotations

from gpunn.ops import OPS
from tests.training.cases import CASES
from tests.training.coverage import PAGE, WITHOUT, page


def test_every_op_has_a_gradient_or_a_reason() -> None:
    without = [name for names in WITHOUT.values() for name in names]
    assert len({*without}) == len(without)
    assert {*without} == {n for n, op in OPS.items() if op.gradient is None and op.expand is None}


def test_every_gradient_has_a_case() -> None:
    """fake_quant's is that of the clamped operand: differences do not show it. See test_fake_quant."""
    tested = {case[0] for case in CASES}
    assert {n for n, op in OPS.items() if op.gradient is not None} - tested == {"cast", "fake_quant"}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.training.coverage"
