"""Names in shaders that become functions of another one, as in the kernel of a loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpunn.custom import Call, Kernel, Read, like, op
from gpunn.kernel import Function, Write, flat_threads
from gpunn.types import Array, float32
from tests.backends.test_loop_kernels import agree, looped

BODY = """//!use flat
// y = twice(x) + 1. Expects twice(x); p.count.

struct Steps { twice: f32, one: f32 }

fn one() -> f32 { return 1.0; }

fn compute(i: u32) {
  let steps = Steps(twice(load_x(i)), one());
  store_y(i, steps.twice + steps.one);
}
"""


def test_members_of_a_struct_may_have_names_of_functions(
    gpu: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "twice_and_one.wgsl"
    path.write_text(BODY)

    def kernel(call: Call) -> Kernel:
        return Kernel(
            body=str(path),
            threads=flat_threads(call.y.size),
            reads=(Read("x", 0),),
            writes=(Write(),),
            params={"count": call.y.size},
            functions={"twice": Function(("x",), "2.0 * x")},
            reason="a test",
        )

    @op(like, kernel)
    def twice_and_one(x: Array) -> Array:
        """Compute 2 x + 1."""
        return 2 * x + 1

    model = looped(3, [float32(5)], lambda body, s: body.add(twice_and_one, [s[1]]))
    (y,) = agree(model, [np.float32([0, 1, 2, 3, 4])], monkeypatch)
    assert y.tolist() == [7, 15, 23, 31, 39]
