"""What the tuner finds wrong in results: in all of them, or in the ends of large ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpunn.model import Model
from gpunn.tuning import checks
from gpunn.tuning.checks import objection
from gpunn.types import Array
from tests.ops.harness import model_of, random

CASES: dict[str, tuple[str, list[Array], dict[str, Any], tuple[int, ...]]] = {
    "images": (
        "conv2d",
        [random(1, 9, 6, 5, 4), random(2, 8, 3, 3, 4), random(3, 8)],
        {"padding": "same"},
        (1, 2),
    ),
    "rows of an image": (
        "conv2d",
        [random(1, 1, 12, 5, 4), random(2, 8, 3, 3, 4)],
        {"padding": "same"},
        (1,),
    ),
    "rows of a matrix": ("fully_connected", [random(1, 12, 16), random(2, 5, 16)], {}, (1,)),
    "computed matrices": ("batch_matmul", [random(1, 9, 4, 5), random(2, 9, 5, 6)], {}, ()),
    "a constant of rows": ("add", [random(1, 9, 4, 5), random(2, 9, 4, 5)], {}, (1,)),
    "what cannot be cut": ("cumsum", [random(1, 9, 4)], {"axis": 0}, ()),
}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let every result be large; return the elements of each one that the host computes."""
    computed: list[int] = []
    monkeypatch.setattr(checks, "MOST_WORK", 1)
    usual = checks.evaluate

    def evaluate(operation: Any, values: Any) -> tuple[Array, ...]:
        results = usual(operation, values)
        computed.append(results[0].size)
        return results

    monkeypatch.setattr(checks, "evaluate", evaluate)
    return computed


def found_for(model: Model, inputs: list[Array]) -> tuple[Any, dict[Any, Array], Array]:
    (operation,) = model.operations
    values = dict(zip(model.inputs, inputs, strict=True))
    (y,) = operation.evaluate([values[o] if o.value is None else o.value for o in operation.inputs if o])
    return operation, values, y


@pytest.mark.parametrize("name", CASES)
def test_ends_are_checked(name: str, work: list[int]) -> None:
    op, inputs, attrs, constants = CASES[name]
    model = model_of(op, inputs, attrs, constants)
    operation, values, y = found_for(model, [x for k, x in enumerate(inputs) if k not in constants])
    assert objection(operation, values, [y], False) == ""
    assert (sum(work) < y.size) is (name not in ("computed matrices", "what cannot be cut"))
    axis = next(a for a, extent in enumerate(y.shape) if extent > 1)
    for row in (0, y.shape[axis] - 1):
        wrong = y.copy()
        wrong[(slice(None),) * axis + (row,)] += 1
        assert objection(operation, values, [wrong], False).startswith("a result is off by "), row
    wrong[(slice(None),) * axis + (-1,)] = np.nan
    assert "off by nan" in objection(operation, values, [wrong], False)


def test_small_results_are_checked_as_a_whole() -> None:
    op, inputs, attrs, constants = CASES["images"]
    operation, values, y = found_for(model_of(op, inputs, attrs, constants), inputs[:1])
    y[4] += 1
    assert objection(operation, values, [y], False)
