"""Flags that are no bools, and callbacks that are no functions, are refused before anything is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.errors import ModelError
from gpunn.types import float32


def model() -> gpunn.Model:
    made = gpunn.Model("one")
    made.output(*made.add("relu", [made.input("x", float32(2))]))
    return made


CALLS: dict[str, Callable[[gpunn.Model, Any], Any]] = {
    "relaxed": lambda m, flag: m.compile("cpu", relaxed=flag).close(),
    "isolate": lambda m, flag: m.compile("cpu", isolate=flag),
    "relaxed of profile": lambda m, flag: gpunn.profile(m, backend="cpu", relaxed=flag, runs=1),
    "relaxed of tune": lambda m, flag: gpunn.tune(m, relaxed=flag),
    "again": lambda m, flag: gpunn.tune(m, again=flag),
    "per_layer": lambda m, flag: gpunn.compare(m, 1, ["cpu"], per_layer=flag),
    "outputs": lambda m, flag: gpunn.gradients(m, m.outputs[0], [], outputs=flag),
}


@pytest.mark.parametrize("flag", ["no", 2, 0.5, None, np.array([True, False])], ids=str)
@pytest.mark.parametrize("call", CALLS)
def test_others_are_refused(call: str, flag: Any) -> None:
    with pytest.raises(ModelError, match=f"^{call.split(' ')[0]} must be True or False, got "):
        CALLS[call](model(), flag)


CALLBACKS: dict[str, Callable[[gpunn.Model, Any], Any]] = {
    "progress": lambda m, other: gpunn.profile(m, backend="cpu", runs=1, progress=other),
    "progress of tune": lambda m, other: gpunn.tune(m, progress=other),
    "progress of compare": lambda m, other: gpunn.compare(m, 1, ["cpu"], progress=other),
    "on_progress": lambda m, other: gpunn.update(m, {}, on_progress=other),
}


@pytest.mark.parametrize("call", CALLBACKS)
def test_callbacks_that_cannot_be_called_are_refused(call: str) -> None:
    with pytest.raises(ModelError, match=f"^{call.split(' ')[0]} must be a function, got 5"):
        CALLBACKS[call](model(), 5)


@pytest.mark.parametrize("flag", [True, False, 1, 0, np.True_])
def test_bools_and_their_numbers_are_taken(flag: Any) -> None:
    CALLS["relaxed"](model(), flag)
