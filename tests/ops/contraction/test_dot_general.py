"""Products over any dimensions, against numpy's einsum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from tests.ops.harness import EPS, check, model_of, random

# Letters of a, of b and of the result, and their extents.
CASES = [
    "ij,jk->ik",
    "ij,kj->ik",
    "abn,nbca->nc",
    "bij,jb->bi",
    "ij,ij->",
    "i,j->ij",
    "bi,bj->bij",
    "aij,jbk->aibk",
]
EXTENTS = {"a": 5, "b": 4, "c": 3, "i": 3, "j": 6, "k": 2, "n": 4}


def attributes(letters: str) -> dict[str, Any]:
    sides, result = letters.split("->")
    a, b = sides.split(",")
    shared = [c for c in a if c in b]
    batch = [c for c in shared if c in result]
    summed = [c for c in shared if c not in result]
    return {
        "a_batch": [a.index(c) for c in batch],
        "b_batch": [b.index(c) for c in batch],
        "a_contracting": [a.index(c) for c in summed],
        "b_contracting": [b.index(c) for c in summed],
    }


@pytest.mark.parametrize("letters", CASES)
def test_products(letters: str, backend: str) -> None:
    """Sums of at most 20 products of up to 16."""
    a, b = (
        random(k, *(EXTENTS[c] for c in side)) for k, side in enumerate(letters.split("->")[0].split(","))
    )
    atol = 20 * 20 * 16 * EPS / 2
    for constants in ((), (1,)):
        (y,) = check(
            "dot_general", [a, b], attributes(letters), backend=backend, constants=constants, atol=atol
        )
    exact = np.einsum(letters, a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(y, exact, rtol=0, atol=atol)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"a_contracting": (2,), "b_contracting": (0,)}, "has no dimensions .. and .2."),
        ({"a_contracting": (1,), "b_contracting": (1,)}, "extents"),
        ({"a_contracting": (), "b_contracting": (), "a_batch": (0,), "b_batch": (0,)}, "extents"),
    ],
)
def test_wrong_dimensions_are_refused(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"dot_general: .*{message}"):
        model_of("dot_general", [random(0, 2, 3), random(1, 3, 4)], attrs)
