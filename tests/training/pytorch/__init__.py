"""Every op with a gradient as a function in PyTorch, with the op's operands and attributes.

Where PyTorch has no such function, the same mathematics is written in its functions from the op's
documentation; PyTorch then differentiates it. Real operands are float64, indices int64, absent ones None.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.training.pytorch.elementwise import ELEMENTWISE, REDUCTIONS
from tests.training.pytorch.indexing import INDEXING
from tests.training.pytorch.movement import MOVEMENT
from tests.training.pytorch.recurrent import RECURRENT
from tests.training.pytorch.tools import Function
from tests.training.pytorch.vision import VISION
from tests.training.pytorch.windows import WINDOWS

FUNCTIONS: Mapping[str, Function] = {
    **ELEMENTWISE,
    **REDUCTIONS,
    **WINDOWS,
    **MOVEMENT,
    **INDEXING,
    **RECURRENT,
    **VISION,
}

# Ops that PyTorch is not asked about. Only a gradient that is 0 everywhere can be a reason.
NOT_COMPARED: Mapping[str, str] = {
    "sign_bit": "its results are 0 and 1, in steps: the gradient is 0 everywhere",
    "zeros_like": "its results do not depend on the operand: the gradient is 0 everywhere",
}
