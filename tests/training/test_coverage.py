"""Every op has a gradient or a reason why not; the page says which."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from gpunn.errors import UnsupportedError
from gpunn.model import Model
from gpunn.ops import OPS
from gpunn.training.gradients import gradients
from gpunn.types import float32
from tests.training.cases import CASES
from tests.training.coverage import PAGE, PIECES, WITHOUT, page
from tests.training.differences import loss_of
from tests.training.pytorch import FUNCTIONS, NOT_COMPARED
from tests.training.ties import TIES
from tests.training.variants import VARIANTS


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


def differentiable() -> set[str]:
    """Return the ops with a gradient, also those that are written in ops that have one."""
    written = {n for n, op in OPS.items() if op.gradient or op.expand or op.formula}
    return written - {*WITHOUT[PIECES]}


def test_every_gradient_has_a_case() -> None:
    """fake_quant's is that of the clamped operand: differences do not show it. See test_fake_quant."""
    tested = {case[0] for case in (*CASES, *VARIANTS)}
    assert differentiable() - tested == {"cast", "fake_quant"}


def test_every_gradient_is_compared_with_pytorch_or_has_a_reason() -> None:
    """The functions and the calls are read here; test_torch.py compares them where PyTorch is installed."""
    assert not {*FUNCTIONS} & {*NOT_COMPARED}
    assert {*FUNCTIONS} | {*NOT_COMPARED} == differentiable()
    called = {case[0] for case in (*CASES, *VARIANTS, *TIES)}
    assert {*FUNCTIONS} <= called


@pytest.mark.parametrize("op", NOT_COMPARED)
def test_what_is_not_compared_has_a_gradient_of_0(op: str) -> None:
    """The only reason that counts."""
    found = [case for case in CASES if case[0] == op]
    assert found
    for case in found:
        model, fed = loss_of(*case)
        loss, gradient = gradients(model, model.outputs[0], ["x0"]).evaluate(fed)
        assert np.isfinite(loss)
        assert not gradient.any()


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.training.coverage"
