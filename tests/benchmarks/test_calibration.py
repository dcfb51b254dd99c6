"""benchmarks.calibration: its statistics on numbers worked by hand, and the files that it writes."""

from __future__ import annotations

import numpy as np
import pytest

import gpunn
from gpunn import vision
from gpunn.types import Array

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, whose schema writes files, is not installed")
pytest.importorskip("skimage", reason="scikit-image is not installed (extra: demo)")

from benchmarks import calibration
from benchmarks.pictures import unknown_pictures


def two(*best: float) -> Array:
    """Scores of two classes, the first of which has these."""
    return np.float32([[p, 1 - p] for p in best])


SAMPLE = calibration.Sample(
    known=two(0.95, 0.9, 0.8, 0.75),
    truth=np.array([0, 0, 1, 0]),
    unknown={"far": two(0.6, 0.695), "near": two(0.9, 0.99)},
)


def test_shares_kept_and_caught() -> None:
    assert calibration.kept(SAMPLE, 0.8) == 0.75
    assert calibration.caught(SAMPLE, 0.8) == {"far": 1.0, "near": 0.0}
    assert calibration.fitted_threshold(SAMPLE) == pytest.approx(0.7)  # keeps all, catches all far ones


def test_area_under_the_curve() -> None:
    assert calibration.auroc(SAMPLE, "far") == 1.0
    # Against 0.9 one known picture is above and one equal, against 0.99 none: 1.5 of 8 pairs.
    assert calibration.auroc(SAMPLE, "near") == pytest.approx(1.5 / 8)


def test_calibration_error() -> None:
    # Bins of a 15th: 0.95 alone, 0.9 alone, and 0.8 and 0.75 in two more; one of them is wrong.
    expected = (0.05 + 0.1 + 0.8 + 0.25) / 4
    assert calibration.calibration_error(SAMPLE) == pytest.approx(expected, abs=1e-6)


def test_the_slope_of_overconfident_scores_is_found() -> None:
    """Scores whose odds are the square of the truth need half the slope."""
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.5, 1, 20000)
    odds = (truth / (1 - truth)) ** 2
    scores = two(*(odds / (1 + odds)))
    classes = np.where(rng.uniform(size=len(truth)) < truth, 0, 1)
    sample = calibration.Sample(scores, classes, {})
    slope = calibration.fitted_slope(sample)
    assert slope == pytest.approx(0.5, abs=0.03)
    after = calibration.calibration_error(calibration.calibrated(sample, slope))
    assert after < 0.02 < 0.08 < calibration.calibration_error(sample)


def test_halves_share_no_picture() -> None:
    halves = [SAMPLE.half(which) for which in (0, 1)]
    assert [half.known[:, 0].tolist() for half in halves] == [
        [np.float32(0.95), np.float32(0.8)],
        [np.float32(0.9), np.float32(0.75)],
    ]


@pytest.mark.parametrize("quantised", [False, True])
def test_scoring_is_written_without_a_change_of_the_model(quantised: bool) -> None:
    path = vision.default_model(quantised=quantised)
    data = path.read_bytes()
    model = gpunn.load(data)
    made = calibration.with_scoring(data, model.labels, 0.75, 0.5)
    assert len(made) == pytest.approx(len(data), abs=100)
    found = gpunn.load(made)
    assert found.labels == model.labels
    assert found.scoring == gpunn.load(calibration.with_scoring(made, model.labels, 0.75, 0.5)).scoring
    assert found.scoring is not None
    assert found.scoring.calibration == calibration.calibration(0.75, 10)
    assert found.scoring.threshold == 0.5
    for one, other in zip(model.operations, found.operations, strict=True):
        assert (one.op, one.attrs, one.origin) == (other.op, other.attrs, other.origin)
        for old, new in zip(one.inputs, other.inputs, strict=True):
            assert (old is None) == (new is None)
            if old is not None and new is not None and old.value is not None:
                assert new.value is not None and np.array_equal(old.value, new.value)
                assert new.value.ctypes.data % 4 == 0


def test_unknown_pictures() -> None:
    groups = unknown_pictures(None)
    assert {name: len(pictures) for name, pictures in groups.items() if name != "photos and drawings"} == {
        "textures": 300,
        "faces": 100,
        "noise": 300,
        "coarse noise": 300,
        "plain colours": 100,
    }
    assert len(groups["photos and drawings"]) >= 20
    assert all(p.shape[1:] == (32, 32, 3) and p.dtype == np.uint8 for p in groups.values())
