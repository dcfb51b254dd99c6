"""Garbage collections are rare while models are read and compiled, and as before afterwards."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import numpy as np
import pytest

import gpunn
from gpunn.garbage import RARE, rare_collections
from tests.importers.coreml.builder import layer, model


@pytest.fixture(autouse=True)
def threshold() -> Iterator[int]:
    before = gc.get_threshold()
    gc.set_threshold(321, *before[1:])
    yield 321
    gc.set_threshold(*before)


def test_the_threshold_comes_back(threshold: int) -> None:
    others = gc.get_threshold()[1:]
    with rare_collections():
        assert gc.get_threshold() == (RARE, *others)
        with rare_collections():
            assert gc.get_threshold()[0] == RARE
        assert gc.get_threshold()[0] == RARE
    assert gc.get_threshold() == (threshold, *others)


def test_the_threshold_comes_back_after_an_error(threshold: int) -> None:
    with pytest.raises(ValueError, match="wrong"), rare_collections():
        raise ValueError("wrong")
    assert gc.get_threshold()[0] == threshold


def test_a_threshold_that_is_set_meanwhile_stays() -> None:
    with rare_collections():
        gc.set_threshold(5)
    assert gc.get_threshold()[0] == 5


@pytest.mark.parametrize("own", [0, RARE, 2 * RARE])
def test_a_threshold_that_is_off_or_higher_stays(own: int) -> None:
    gc.set_threshold(own)
    with rare_collections():
        assert gc.get_threshold()[0] == own
    assert gc.get_threshold()[0] == own


def test_garbage_collection_stays_on_or_off() -> None:
    with rare_collections():
        assert gc.isenabled()
        gc.disable()
    try:
        assert not gc.isenabled()
        with rare_collections():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="child processes are not forked here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_process_has_the_usual_threshold(threshold: int) -> None:
    with rare_collections():
        child = os.fork()
        if child == 0:
            os._exit(int(gc.get_threshold()[0] != threshold))
        _, status = os.waitpid(child, 0)
        assert gc.get_threshold()[0] == RARE
    assert status == 0


def test_no_collection_of_all_objects_falls_into_reading_and_compiling() -> None:
    made = model((3,))
    for k in range(100):
        layer(made, "sin", ["x" if k == 0 else f"{k}"], ["y" if k == 99 else f"{k + 1}"])
    data, seen = made.SerializeToString(), list[int]()

    def note(phase: str, facts: dict[str, int]) -> None:
        seen.append(facts["generation"])

    gc.collect()  # so that the next one of all objects is far
    gc.callbacks.append(note)
    try:
        with gpunn.load(data).compile("cpu") as compiled:
            during = list(seen)
            compiled(np.zeros(3, np.float32))
    finally:
        gc.callbacks.remove(note)
    assert len(during) <= 4  # begin and end of two: before the first object, between reading and compiling
    assert 2 not in during
