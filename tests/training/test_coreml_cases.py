"""Trainings of updatable Core ML networks whose results are known, where they are there."""

from __future__ import annotations

from typing import Any

import gpunn
from gpunn.importers.coreml.updates import update_of
from tests.importers.coreml.conformance import cases, compared


def test_trainings_of_core_ml(backend: str) -> None:
    wrong, number = {}, 0
    for case in cases("training"):
        number += 1
        told: list[gpunn.Progress] = []
        total, size = len(case.inputs["output_true"]), case.meta["minibatch"]
        updated = gpunn.update(
            gpunn.load(case.model_bytes),
            case.inputs,
            epochs=case.meta["epochs"],
            mini_batch_size=size,
            on_progress=told.append,  # type: ignore[arg-type]
            backend=backend,
        )
        fits, where = compared(case, {**stored(updated), "__epoch_losses": losses(told, total, size)})
        if not fits:
            wrong[case.id] = where
    assert not wrong, wrong
    assert number == 18


def stored(model: gpunn.Model) -> dict[str, Any]:
    """Return the weights in the file of a model."""
    assert model.template is not None
    assert model.template.contents is not None
    data, _ = model.template.contents()
    names = [w.place.split("'")[1] for w in update_of(data, "updated").weights]
    weights = update_of(data, "updated").weights
    return {f"{n}.{w.field}": w.value for n, w in zip(names, weights, strict=True)}


def losses(told: list[gpunn.Progress], total: int, size: int) -> list[float]:
    """Return the mean loss of the examples in each epoch."""
    found = [0.0] * (1 + told[-1].epoch)
    for progress in told:
        found[progress.epoch] += progress.loss * min(size, total - size * progress.batch) / total
    return found
