"""Results of single sums that a formula misses: they are written over what it gives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpunn.types import Array


class Corrections(NamedTuple):
    """Sums of channels, and their stored results. A channel may have several, and few have any."""

    channels: Array
    sums: Array
    results: Array

    def find(self, sums: Array) -> tuple[Array, Array] | None:
        """Return the places of such sums among sums [pixels, C], and their results; None without any."""
        same = sums.T[self.channels] == self.sums[:, None]
        (found,) = same.reshape(-1).nonzero()  # of two axes it would take twenty times as long
        if not len(found):
            return None
        which, pixels = np.divmod(found, len(sums))
        return pixels * sums.shape[1] + self.channels[which], self.results[which]
