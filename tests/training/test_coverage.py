"""Every op has a gradient or a reason why not; the page says which."""

from __future__ import annotations

import numpy as np
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
        name for name, op in OPS.items() if op.gradient is None and op.expand is None
    }


def test_ops_written_in_ops_without_a_gradient_are_refused() -> None:
    model = Model("volume")
    x = model.input("x", float32(1, 2, 2, 2, 1))
    filter = model.constant("filter", np.ones((2, 2, 2, 1, 1), np.float32))
    (y,) = model.add("transpose_conv3d", [x, filter], {"size": (4, 4, 4), "stride": (2, 2, 2)})
    (loss,) = model.add("reduce_sum", [y], {"axes": (0, 1, 2, 3, 4)})
    with pytest.raises(UnsupportedError, match="conv3d"):
        gpunn.gradients(model, loss, [x])


def test_every_gradient_has_a_case() -> None:
    """fake_quant's is that of the clamped operand: differences do not show it. See test_fake_quant."""
    tested = {case[0] for case in CASES}
    assert {n for n, op in OPS.items() if op.gradient is not None} - tested == {"cast", "fake_quant"}


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.training.coverage"
