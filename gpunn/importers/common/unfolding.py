"""Unfolding: a limit for the bytes of constants that a small file may unfold to."""

from __future__ import annotations

from dataclasses import dataclass

from gpunn.importers.common.refusals import Refusals
from gpunn.limits import UNLIMITED, Limits

MAX_KNOWN_BYTES = 64 << 20  # of constants that unfold, by a rule or as they are stored, from a small file
MAX_UNFOLDED = 32  # times the size of a file that they may be


@dataclass(slots=True)
class Unfolding:
    """The bytes of constants that unfolded so far, and of their sources; a file has `file_bytes`."""

    file_bytes: int
    refusals: Refusals
    limits: Limits = UNLIMITED
    nbytes: int = 0

    def count(self, nbytes: int, what: str) -> None:
        """Count bytes that `what` unfolds to.

        Raises LimitError for more than the limits allow, and UnsupportedError with everything that was
        refused when they are too many: the next constant would cost as much.
        """
        self.nbytes += nbytes
        self.limits.check("constant_bytes", self.nbytes, f"{what}: constants unfold to {self.nbytes} bytes")
        most = max(MAX_KNOWN_BYTES, MAX_UNFOLDED * self.file_bytes)
        if self.nbytes > most:
            self.refusals.add(f"{what}: constants unfold to {self.nbytes} bytes, at most {most} are kept")
            self.refusals.fail()
