"""Results of single sums that a formula misses: they are written over what it gives."""

from __future__ import annotations

from dataclasses import dataclass

from gpunn.types import Array


@dataclass(frozen=True, slots=True)
class Corrections:
    """Sums of channels, and their stored results. A channel may have several, and few have any."""

    channels: Array
    sums: Array
    results: Array

    def find(self, sums: Array) -> tuple[Array, Array] | None:
        """Return the places of such sums among sums [pixels, C], and their results; None without any."""
        same = sums.T[self.channels] == self.sums[:, None]
        if not same.any():
            return None
        which, pixels = same.nonzero()
        return pixels * sums.shape[1] + self.channels[which], self.results[which]
