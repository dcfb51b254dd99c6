"""Augmentation: photos are mirrored and shifted, as the seed says, and only those that are trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.finetuning.augment import augmented
from tests.finetuning.models import two_layers
from tests.finetuning.test_finetune import constants, photos, tuned

Random = np.random.Generator


def test_a_photo_is_mirrored_and_moves_by_an_eighth_at_most() -> None:
    """Pixels name their places, so each result says what was done; all that is possible comes about."""
    rows, columns = np.indices((16, 9), np.uint8)
    photo = np.stack([rows, columns], axis=-1)
    found = augmented(np.repeat(photo[None], 500, axis=0), np.random.default_rng(0))
    assert (found.shape, found.dtype) == ((500, 16, 9, 2), np.uint8)
    seen = set()
    for one in found:
        mirrored = bool(one[0, 0, 1] > one[0, -1, 1])
        straight = one[:, ::-1] if mirrored else one
        down, across = int(straight[8, 4, 0]) - 8, int(straight[8, 4, 1]) - 4
        wide = np.pad(photo, ((2, 2), (1, 1), (0, 0)), "edge")
        assert np.array_equal(straight, wide[2 + down : 18 + down, 1 + across : 10 + across])
        seen.add((mirrored, down, across))
    assert seen == {(m, d, a) for m in (False, True) for d in range(-2, 3) for a in range(-1, 2)}


def test_small_photos_are_only_mirrored() -> None:
    pixels = np.arange(14, dtype=np.uint8).reshape(1, 2, 7, 1)
    found = {augmented(pixels, np.random.default_rng(k)).tobytes() for k in range(20)}
    assert found == {pixels.tobytes(), pixels[:, :, ::-1].tobytes()}


@pytest.mark.parametrize("layers", ["last", "all"])
def test_a_training_with_augmentation(layers: str, backend: str) -> None:
    """It tells colours apart as well, and is the same each time; what measures stays as it is."""
    told: list[gpunn.FinetuneProgress] = []
    options: dict[str, Any] = {"layers": layers, "backend": backend, "epochs": 3, "learning_rate": 0.01}
    found = tuned(two_layers(), augment=True, on_progress=told.append, **options)
    again, plain = tuned(two_layers(), augment=True, **options), tuned(two_layers(), **options)
    assert found.losses == again.losses != plain.losses
    assert all(map(np.array_equal, constants(found.model), constants(again.model)))
    assert found.losses != tuned(two_layers(), augment=True, seed=1, **options).losses
    assert (found.trained, found.measured) == (plain.trained, plain.measured)
    measured = [p.done for p in told if p.stage == "features"]
    assert measured == ([3] if layers == "last" else [])


def test_the_first_epoch_sees_the_same_photos_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any change, what the front computes in each epoch is what it computed once."""

    def same(pixels: np.ndarray, random: Random) -> np.ndarray:
        return pixels

    monkeypatch.setattr("gpunn.finetuning.run.augmented", same)
    found, plain = (tuned(two_layers(), augment=a, epochs=2) for a in (True, False))
    assert found.losses == plain.losses
    assert found.epochs == plain.epochs


def test_without_photos_that_measure() -> None:
    found = tuned(two_layers(), augment=True, validation=0, examples=photos(2), epochs=1)
    assert (found.trained, found.measured, found.epochs[0].accuracy) == (6, 0, None)
