"""Every op has a gradient or a reason why not; the page says which."""

from __future__ import annotations

import pytest

import gpunn
from gpunn.errors import UnsupportedError
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.types import float32
from tests.training.cases import CASES
from tests.training.coverage import PAGE, PIECES, WITHOUT, page


def test_every_op_has_a_gradient_or_a_reason() -> None:
    without = [name for names in WITHOUT.values() for name in names]
    assert len({*without}) == len(without)
    assert {*without} - {*WITHOUT[PIECES]} == {
        name for name, op in OPS.items() if op.gradient is None and op.expand is None and op.formula is None
    }


def test_ops_written_in_ops_without_a_gradient_are_refused() -> None:
    model = Model("speech")
    x = model.input("x", float32(400, 1))
    (y,) = model.add("spectrogram", [x], {"window_size": 256, "stride": 128, "magnitude_squared": True})
    (loss,) = model.add("reduce_sum", [y], {"axes": (0, 1, 2)})
    with pytest.raises(UnsupportedError, match="rfft2d"):
        gpunn.gradients(model, loss, [x])


def test_every_gradient_has_a_case() -> None:
    """fake_quant's is that of the clamped operand: differences do not show it. See test_fake_quant."""
    tested = {case[0] for case in CASES}
    own = {n for n, op in OPS.items() if op.gradient is not None or op.formula is not None}
    assert own - tested == {"cast", "fake_quant"}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.training.coverage"
