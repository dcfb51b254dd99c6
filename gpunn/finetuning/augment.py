"""Augmentation: photos that are mirrored and shifted at random, so that a training sees others each time."""

from __future__ import annotations

import numpy as np

from gpunn.types import Array

MIRRORED = 0.5  # the probability that left and right change places
SHIFT = 0.125  # the most that a photo moves up, down, left or right, as a share of its height or width


def augmented(pixels: Array, random: np.random.Generator) -> Array:
    """Return photos [N, height, width, channels], each mirrored or not, and shifted by whole pixels.

    Pixels of the border fill what a shift leaves free: it is a crop of a photo with a wider border.
    """
    count, height, width, _ = pixels.shape
    down, across = (
        random.integers(-most, most + 1, (count, 1)) for most in (int(height * SHIFT), int(width * SHIFT))
    )
    rows = np.clip(np.arange(height) + down, 0, height - 1)
    columns = np.clip(np.arange(width) + across, 0, width - 1)
    mirrored = random.random((count, 1)) < MIRRORED
    columns = np.where(mirrored, width - 1 - columns, columns)
    return np.asarray(pixels[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]])
