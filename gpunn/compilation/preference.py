"""Preference: what a compilation is for."""

from __future__ import annotations

import enum


class Preference(enum.Enum):
    """The purpose of a compilation (NeuralNetworks.h, PreferenceCode; the values are its values).

    LOW_POWER takes the low-power adapter (what uses least energy, where backend is "auto" and counters tell),
    FAST_SINGLE_ANSWER the fastest, for one run() at a time. SUSTAINED_SPEED takes the fastest adapter,
    measures which kernels are the quickest when the model is compiled, or compiles loops of the CPU backend
    if numba is installed (docs/cpu.md), and keeps several frames in flight in stream() and submit(). All
    wait in the operating system.
    """

    LOW_POWER = 0
    FAST_SINGLE_ANSWER = 1
    SUSTAINED_SPEED = 2

    @classmethod
    def _missing_(cls, value: object) -> Preference | None:
        """Find a member by its name: "sustained-speed", "SUSTAINED_SPEED"."""
        return cls.__members__.get(value.upper().replace("-", "_")) if isinstance(value, str) else None


FRAMES_IN_FLIGHT = {Preference.LOW_POWER: 1, Preference.FAST_SINGLE_ANSWER: 1, Preference.SUSTAINED_SPEED: 3}
