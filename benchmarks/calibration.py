"""Calibration of our classifiers' scores: python -m benchmarks.calibration ARCHIVE [--digits FILE]

ARCHIVE holds CIFAR-10 as 32x32 JPEG files, test/<class>/*.jpg among them; --digits a file of MNIST's
pictures (idx, gzip). Fits the slope of the score calibration and the score threshold on every other picture,
and measures them on the rest: expected calibration error, share of known pictures kept and of unknown
pictures caught. Prints Markdown tables. --write stores slope and threshold in the models' files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

import gpunn
from benchmarks import detectors
from benchmarks.command import command
from benchmarks.pictures import cifar_pictures, unknown_pictures
from gpunn import vision
from gpunn.graph.scores import Calibration, Sigmoid
from gpunn.types import Array
from tests.metadata import AXIS_CALIBRATION, AXIS_LABELS, Scores, metadata, with_files

BATCH = 100
BINS = 15
SLOPES = np.arange(500, 2001) / 1000
THRESHOLDS = np.arange(30, 100) / 100
INVERSE_LOGISTIC = 2  # of the enumeration ScoreTransformationType
ENTRY = b"TFLITE_METADATA"
LABELS_FILE, CALIBRATION_FILE = "labels.txt", "score_calibration.csv"


@dataclass(frozen=True)
class Sample:
    """Scores of known pictures [N, classes] with their true classes, and of groups of unknown pictures."""

    known: Array
    truth: Array
    unknown: Mapping[str, Array]

    def half(self, which: int) -> Sample:
        """Return every other picture of each class and group: 0 to fit, 1 to measure."""
        groups = {name: scores[which::2] for name, scores in self.unknown.items()}
        return Sample(self.known[which::2], self.truth[which::2], groups)


def scores(path: Path, pictures: Array) -> Array:
    """Return a packaged model's scores before calibration: [N, classes] float32."""
    model = gpunn.load(path)
    model = model.reshaped({model.inputs[0].name: (BATCH, *model.inputs[0].type.shape[1:])})
    wanted, output = vision.photo_input(model), vision.ScoreOutput(model.outputs[0].type, len(model.labels))
    with model.compile("cpu") as compiled:
        found = [output.scores(np.asarray(compiled(x))) for x in wanted.batches(map(wanted.stored, pictures))]
    return np.concatenate(found)[: len(pictures)]


def calibration(slope: float, classes: int) -> Calibration:
    """Return the calibration by temperature 1 / slope of the odds of each class against all others."""
    return Calibration("log odds", (Sigmoid(1.0, slope, 0.0),) * classes)


def fitted_slope(sample: Sample) -> float:
    """Return the slope with the largest likelihood that the best class is right or wrong, as it is."""
    best, right = sample.known.max(1), sample.known.argmax(1) == sample.truth
    losses = []
    for slope in SLOPES:
        sure = np.clip(calibration(slope, 1)(best[:, np.newaxis])[:, 0].astype(np.float64), 1e-7, 1 - 1e-7)
        losses.append(-np.log(np.where(right, sure, 1 - sure)).mean())
    return float(SLOPES[int(np.argmin(losses))])


def fitted_threshold(sample: Sample) -> float:
    """Return the threshold with the largest sum of known pictures kept and unknown ones caught, in shares.

    All groups of unknown pictures count alike (Youden's index of the mean).
    """
    gains = [kept(sample, t) + np.mean(list(caught(sample, t).values())) for t in THRESHOLDS]
    return float(THRESHOLDS[int(np.argmax(gains))])


def kept(sample: Sample, threshold: float) -> float:
    """Return the share of known pictures whose best score reaches the threshold."""
    return float((sample.known.max(1) >= threshold).mean())


def caught(sample: Sample, threshold: float) -> dict[str, float]:
    """Return the share of each group's pictures whose best score does not reach the threshold."""
    return {name: float((found.max(1) < threshold).mean()) for name, found in sample.unknown.items()}


def auroc(sample: Sample, group: str) -> float:
    """Return how often a known picture has a higher best score than an unknown one; ties count half."""
    return detectors.auroc(sample.known.max(1), sample.unknown[group].max(1))


def calibration_error(sample: Sample) -> float:
    """Return the expected calibration error: |share right - mean best score| over BINS bins, weighted."""
    best, right = sample.known.max(1).astype(np.float64), sample.known.argmax(1) == sample.truth
    places = np.minimum((best * BINS).astype(int), BINS - 1)
    gaps = np.bincount(places, right - best, BINS)
    return float(np.abs(gaps).sum() / len(best))


def calibrated(sample: Sample, slope: float) -> Sample:
    """Return the sample with calibrated scores."""
    convert = calibration(slope, sample.known.shape[1])
    groups = {name: convert(found) for name, found in sample.unknown.items()}
    return Sample(convert(sample.known), sample.truth, groups)


def with_scoring(data: bytes, labels: Sequence[str], slope: float, threshold: float) -> bytes:
    """Return a model's file with metadata for its scores; operators and weights stay as they are."""
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    kinds = {LABELS_FILE: AXIS_LABELS, CALIBRATION_FILE: AXIS_CALIBRATION}
    stated = metadata(None, scores=Scores((INVERSE_LOGISTIC, 0.0), threshold, kinds))
    old = [entry.buffer for entry in model.metadata or () if entry.name == ENTRY]
    place = old[0] if old else len(model.buffers)
    model.buffers[place : place + 1] = [schema.BufferT(data=np.frombuffer(stated, np.uint8))]
    model.metadata = [schema.MetadataT(name=ENTRY.decode(), buffer=place)]
    model.buffers = [_Aligned(data=b.data) for b in model.buffers]
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    lines = [f"1,{slope:g},0"] * len(labels)
    files = {LABELS_FILE: "".join(f"{label}\n" for label in labels), CALIBRATION_FILE: "\n".join(lines)}
    return with_files(bytes(builder.Output()), files)


class _Aligned(schema.BufferT):  # type: ignore[misc, name-defined]
    """A buffer whose bytes begin at a multiple of 16, as TFLite's schema wants them."""

    def Pack(self, builder: flatbuffers.Builder) -> int:  # noqa: N802, the name of the overridden method
        """Write the buffer."""
        place = None
        if self.data is not None and len(self.data):
            values = np.asarray(self.data, np.uint8)
            builder.StartVector(1, len(values), 16)
            builder.head = builder.Head() - len(values)
            builder.Bytes[builder.Head() : builder.Head() + len(values)] = values.tobytes()
            place = builder.EndVector()
        schema.BufferStart(builder)
        if place is not None:
            schema.BufferAddData(builder, place)
        return int(schema.BufferEnd(builder))


FIGURES = (
    "| model | slope | calibration error before | after | threshold | known pictures kept | right of all | "
    "right of the kept |\n|---|---|---|---|---|---|---|---|"
)
GROUPS = "| model | unknown pictures | number | caught | AUROC |\n|---|---|---|---|---|"


def figures(name: str, sample: Sample, slope: float, threshold: float) -> str:
    """Return a model's row of FIGURES."""
    made = calibrated(sample, slope)
    sure, right = made.known.max(1) >= threshold, made.known.argmax(1) == made.truth
    return (
        f"| {name} | {slope:g} | {calibration_error(sample):.2%} | {calibration_error(made):.2%} | "
        f"{threshold:g} | {kept(made, threshold):.1%} | {right.mean():.1%} | {right[sure].mean():.1%} |"
    )


def groups(name: str, sample: Sample, slope: float, threshold: float) -> str:
    """Return a model's rows of GROUPS: one for each group of unknown pictures, and their mean."""
    made = calibrated(sample, slope)
    shares, areas = caught(made, threshold), {group: auroc(made, group) for group in made.unknown}
    rows = [
        f"| {name} | {group} | {len(found)} | {shares[group]:.0%} | {areas[group]:.3f} |"
        for group, found in made.unknown.items()
    ]
    mean = f"{np.mean(list(shares.values())):.0%} | {np.mean(list(areas.values())):.3f}"
    return "\n".join([*rows, f"| {name} | all groups alike | | {mean} |"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, measure, print, and write if asked to."""
    parser = command("calibration", __doc__)
    parser.add_argument("archive", type=Path, metavar="ARCHIVE")
    parser.add_argument("--digits", type=Path, metavar="FILE")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args(arguments)
    labels = gpunn.load(vision.default_model()).labels
    pictures, truth = cifar_pictures(options.archive, labels)
    unknown = unknown_pictures(options.digits)
    rows, more = [FIGURES], [GROUPS]
    for path in (vision.default_model(quantised=q) for q in (False, True)):
        others = {name: scores(path, group) for name, group in unknown.items()}
        sample = Sample(scores(path, pictures), truth, others)
        slope = fitted_slope(sample.half(0))
        threshold = fitted_threshold(calibrated(sample.half(0), slope))
        rows.append(figures(path.name, sample.half(1), slope, threshold))
        more.append(groups(path.name, sample.half(1), slope, threshold))
        if options.write:
            path.write_bytes(with_scoring(path.read_bytes(), labels, slope, threshold))
    print("\n".join(rows), "\n".join(more), sep="\n\n")


if __name__ == "__main__":
    main()
