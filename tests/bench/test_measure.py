"""Entrants, batches and errors of results."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import gpunn
from gpunn import vision
from gpunn.bench import measure
from gpunn.bench.group import Turns
from gpunn.bench.measure import (
    PREFERENCES,
    batched,
    can_batch,
    entrants,
    error_of,
    pick_bases,
    reference,
    stacked,
)
from gpunn.bench.result import Result
from gpunn.comparison.inputs import random_source
from gpunn.types import float32


@pytest.mark.parametrize(
    ("seconds", "timeout"), [(1, math.nan), (1, 0), (math.nan, 1), (math.inf, 1), (-1, 1)]
)
def test_impossible_turns_are_refused(seconds: float, timeout: float) -> None:
    turns = Turns(seconds=seconds, timeout=timeout)
    with pytest.raises(gpunn.ModelError, match="a timeout above 0"):
        measure.benchmark(vision.default_model(), backends=("cpu",), turns=turns)


def test_entrants_are_every_combination() -> None:
    found = entrants(("cpu",), PREFERENCES, ("ncnn",), (1, 8), (1, 2))
    series = ["gpunn-cpu/fast-single-answer", "gpunn-cpu/sustained-speed", "ncnn"]
    assert [e.label for e in found] == [
        f"{name}:{threads}{batch}" for batch in ("", " x8") for threads in (1, 2) for name in series
    ]
    assert [e.label for e in entrants((), (), ("litert",), (1,), (3,))] == ["litert"]
    assert found[1].preference == "SUSTAINED_SPEED" and found[2].preference is None


@pytest.mark.parametrize(
    ("backends", "peers", "batches", "words"),
    [
        (("vulkan",), (), (1,), "no backend 'vulkan', only webgpu, cpu"),
        (("cpu",), ("nobody",), (1,), "no peer 'nobody', only litert"),
        (("cpu",), (), (0,), "at least 1"),
        ((), (), (1,), "nothing to measure"),
        (("cpu", "cpu"), (), (1,), "named twice"),
    ],
)
def test_wrong_entrants_are_refused(
    backends: tuple[str, ...], peers: tuple[str, ...], batches: tuple[int, ...], words: str
) -> None:
    with pytest.raises(gpunn.ModelError, match=words):
        entrants(backends, PREFERENCES, peers, batches, (1,))


def test_bases_must_be_measured() -> None:
    found = entrants(("cpu",), PREFERENCES, ("ncnn", "litert"), (1,), (1, 2))
    assert pick_bases((), found) == ["litert"]
    assert pick_bases((), found[:1]) == ["gpunn-cpu/fast-single-answer:1"]
    assert pick_bases(("ncnn:2", "gpunn-cpu"), found) == ["ncnn:2", "gpunn-cpu"]
    with pytest.raises(gpunn.ModelError, match="base 'ncnn:3' is not measured, only gpunn-cpu/fast"):
        pick_bases(("ncnn:3",), found)


def test_what_failed_is_no_base_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_turns(jobs: Sequence[tuple[Result, object]], *_: object) -> None:
        for result, _job in jobs:
            result.failed = "" if result.entrant.peer == "gpunn-cpu" else "no adapter"

    monkeypatch.setattr(measure, "take_turns", take_turns)
    monkeypatch.setattr(measure._Bench, "judge", lambda *_: "the first one")
    one = [gpunn.Preference.LOW_POWER]
    for given, peers, bases in (
        ((), (), ("gpunn-cpu/low-power",)),
        ((), ("litert",), ("gpunn-cpu/low-power",)),
        (("gpunn-webgpu",), (), ("gpunn-webgpu",)),
    ):
        found = measure.benchmark(vision.default_model(), preferences=one, peers=peers, bases=given)
        assert found.bases == bases


def small(extents: tuple[int, ...], op: str, **attrs: object) -> gpunn.Model:
    """Return a model of one operation."""
    model = gpunn.Model("small")
    model.output(*model.add(op, [model.input("x", float32(*extents))], attrs))
    return model


def test_a_batch_multiplies_the_first_axis() -> None:
    model = gpunn.load(vision.default_model())
    made = batched(model, 3)
    assert made.inputs[0].type.shape == (3, 32, 32, 3)
    assert made.outputs[0].type.shape == (3, 10)
    assert batched(model, 1) is model
    assert can_batch(model, 3)
    assert not can_batch(model, 10**10)
    assert batched(small((2, 5), "relu"), 4).inputs[0].type.shape == (8, 5)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (small((), "relu"), "is a scalar"),
        (small((1, 4), "mean", axes=(0,), keep_dims=True), r"output .* \[1, 4\] becomes \[1, 4\]"),
        (small((1, 4), "reshape", shape=(2, 2)), "reshape"),
    ],
    ids=["scalar", "mean", "reshape"],
)
def test_models_without_a_batch_are_refused(model: gpunn.Model, words: str) -> None:
    with pytest.raises(gpunn.UnsupportedError, match=f"^cannot run in batches of 2: .*{words}"):
        batched(model, 2)
    assert not can_batch(model, 2)


def test_samples_are_stacked_input_by_input() -> None:
    one, two = (np.full((1, 2), n) for n in (1, 2))
    (rows, doubled) = stacked([(one, two), (two, one)])
    assert rows.tolist() == [[1, 1], [2, 2]]
    assert doubled.tolist() == [[2, 2], [1, 1]]


def test_error_is_relative_to_the_range_of_the_worst_output() -> None:
    expected = [np.array([-1.0, 3.0]), np.array([5.0])]
    assert error_of([np.array([-1.0, 3.2]), np.array([5.01])], expected) == pytest.approx(0.05)
    assert error_of([np.array([[-1.0, 3.0]]), np.array([5.0])], expected) is None


def test_error_of_bytes_does_not_wrap() -> None:
    expected = [np.array([0, 255], np.uint8)]
    assert error_of([np.array([51, 255], np.uint8)], expected) == pytest.approx(0.2)


def test_reference_without_litert_is_the_cpu_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    path = Path(vision.default_model())
    model = gpunn.load(path)
    side = reference(model, path)
    (sample,) = random_source(model).samples
    assert side.info.name == "cpu"
    assert side.run(sample)[0].shape == (1, 10)
    side.close()
