"""Ways to tell that a picture shows nothing a classifier knows: python -m benchmarks.detectors ARCHIVE

[--digits FILE] [PHOTO...]. ARCHIVE and --digits are as for benchmarks.calibration. Each way gives a picture a
number, larger for what it knows. Its threshold keeps three quarters of every other test picture of CIFAR-10;
all else is measured on the other test pictures, and on unknown pictures, which set nothing. Prints a Markdown
table, and which of the PHOTOs each way takes for known. The float32 classifier answers, on the CPU backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

import gpunn
from benchmarks.command import command
from benchmarks.pictures import cifar_pictures, small, unknown_pictures
from gpunn import vision
from gpunn.finetuning.layers import front_and_head, last_layer
from gpunn.types import Array

BATCH = 100
KEPT = 0.75  # of the known pictures that set thresholds; about the share that the file's own threshold keeps
NEIGHBOURS = 10
PROTOTYPES = 32  # of each class
ROUNDS = 30  # of k-means
RIDGE = 1e-3  # of the mean variance, added to covariances
EVERY_TRAINED = 5  # of the training pictures


@dataclass(frozen=True, slots=True)
class Seen:
    """Pictures as the network sees them: the input of its last layer, and the scores before softmax.

    features: [N, channels], logits: [N, classes]; mirrored: the logits of the pictures' mirror images.
    """

    features: Array
    logits: Array
    mirrored: Array

    def part(self, rows: slice) -> Seen:
        """Return some of the pictures."""
        return Seen(self.features[rows], self.logits[rows], self.mirrored[rows])


Way = Callable[[Seen], Array]


class Network:
    """The packaged classifier, divided before its last layer."""

    def __init__(self) -> None:
        model = gpunn.load(vision.default_model())
        self.labels = model.labels
        model = gpunn.Model.of(
            model.reshaped({model.inputs[0].name: (BATCH, *model.inputs[0].type.shape[1:])})
        )
        last = last_layer(model)
        parts = front_and_head(model, last.number)
        assert parts is not None
        self._wanted = vision.photo_input(model)
        self._weights, self._bias = (o.value for o in last.operation.inputs[1:] if o is not None)
        self._front = parts[0].compile("cpu")

    def see(self, pictures: Array) -> Seen:
        """Return what the network makes of pictures [N, 32, 32, 3] uint8."""
        features = self._features(pictures)
        return Seen(features, self._logits(features), self._logits(self._features(pictures[:, :, ::-1])))

    def _features(self, pictures: Array) -> Array:
        batches = self._wanted.batches(map(self._wanted.stored, pictures))
        found = np.concatenate([np.asarray(self._front(batch)) for batch in batches])
        return found[: len(pictures)].reshape(len(pictures), -1).astype(np.float64)

    def _logits(self, features: Array) -> Array:
        return np.asarray(features @ np.asarray(self._weights).T + self._bias)


def softmax(logits: Array) -> Array:
    """Return the probabilities."""
    parts = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(parts / parts.sum(1, keepdims=True))


def energy(seen: Seen) -> Array:
    """Return the logarithm of the sum of exponentials of logits (Liu et al., Energy-based OOD, 2020)."""
    return np.asarray(np.log(np.exp(seen.logits).sum(1)))


def mirror(seen: Seen) -> Array:
    """Return the best mean probability of a picture and its mirror image; this takes two runs."""
    return np.asarray(((softmax(seen.logits) + softmax(seen.mirrored)) / 2).max(1))


class Distances:
    """Distances of features from those of training pictures, by class."""

    def __init__(self, trained: Seen, classes: Array) -> None:
        x = trained.features
        self._means = np.stack([x[classes == c].mean(0) for c in range(classes.max() + 1)])
        self._mean = x.mean(0)
        self._within = _inverse(x - self._means[classes])
        self._around = _inverse(x - self._mean)
        self._units = _unit(x)
        groups = (self._units[classes == c] for c in range(len(self._means)))
        self._prototypes = np.concatenate([_prototypes(group) for group in groups])

    def mahalanobis(self, seen: Seen) -> Array:
        """Return minus the distance from the nearest class (Lee et al., A simple unified framework, 2018)."""
        gaps = seen.features[:, np.newaxis] - self._means
        return np.asarray(-np.einsum("ncd,de,nce->nc", gaps, self._within, gaps, optimize=True).min(1))

    def relative(self, seen: Seen) -> Array:
        """Return it less the distance from all pictures (Ren et al., A simple fix to Mahalanobis, 2021)."""
        gap = seen.features - self._mean
        return np.asarray(
            self.mahalanobis(seen) + np.einsum("nd,de,ne->n", gap, self._around, gap, optimize=True)
        )

    def neighbours(self, seen: Seen) -> Array:
        """Return the cosine with the tenth nearest training picture (Sun et al., 2022)."""
        units = _unit(seen.features)
        parts = (units[k : k + BATCH] @ self._units.T for k in range(0, len(units), BATCH))
        return np.concatenate([np.partition(part, -NEIGHBOURS, 1)[:, -NEIGHBOURS] for part in parts])

    def prototypes(self, seen: Seen) -> Array:
        """Return the cosine with the nearest of PROTOTYPES means of each class: a table of some 300 rows."""
        return np.asarray((_unit(seen.features) @ self._prototypes.T).max(1))


def _inverse(gaps: Array) -> Array:
    covariance = gaps.T @ gaps / len(gaps)
    return np.linalg.inv(
        covariance + RIDGE * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    )


def _unit(x: Array) -> Array:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def _prototypes(units: Array) -> Array:
    """Return means of groups of alike vectors (spherical k-means)."""
    found = units[np.random.default_rng(0).permutation(len(units))[:PROTOTYPES]]
    for _ in range(ROUNDS):
        nearest = (units @ found.T).argmax(1)
        sums = [units[nearest == k].sum(0) if (nearest == k).any() else found[k] for k in range(len(found))]
        found = _unit(np.stack(sums))
    return found


def both(first: Way, second: Way, known: Seen) -> Way:
    """Return the way that wants both: the smaller share of `known` pictures that score lower."""
    orders = [np.sort(way(known)) for way in (first, second)]

    def lower(seen: Seen) -> Array:
        shares = [np.searchsorted(o, w(seen)) / len(o) for o, w in zip(orders, (first, second), strict=True)]
        return np.minimum(*shares)

    return lower


def ways(trained: Seen, classes: Array, known: Seen) -> dict[str, Way]:
    """Return all ways by name."""
    distances = Distances(trained, classes)

    def probability(seen: Seen) -> Array:
        return np.asarray(softmax(seen.logits).max(1))

    return {
        "best score (in use)": probability,
        "largest logit": lambda seen: np.asarray(seen.logits.max(1)),
        "energy": energy,
        "best score of two mirrored runs": mirror,
        "Mahalanobis distance": distances.mahalanobis,
        "relative Mahalanobis distance": distances.relative,
        "nearest neighbours": distances.neighbours,
        "prototypes": distances.prototypes,
        "best score and neighbours": both(probability, distances.neighbours, known),
        "best score and prototypes": both(probability, distances.prototypes, known),
    }


def auroc(known: Array, unknown: Array) -> float:
    """Return how often a known picture has a larger number than an unknown one; ties count half."""
    order = np.sort(known)
    below, to = (np.searchsorted(order, unknown, side) for side in ("left", "right"))
    return float((1 - (below + to) / 2 / len(known)).mean())


def row(name: str, way: Way, known: tuple[Seen, Seen], right: Array, unknown: Mapping[str, Seen]) -> str:
    """Return a way's row of the table; `known` sets the threshold, and measures."""
    threshold = np.quantile(way(known[0]), 1 - KEPT)
    numbers, others = way(known[1]), [way(seen) for seen in unknown.values()]
    caught = [float((found < threshold).mean()) for found in others]
    kept = numbers >= threshold
    area = np.mean([auroc(numbers, found) for found in others])
    cells = [f"{kept.mean():.1%}", f"{right[kept].mean():.1%}", f"{area:.3f}", f"{np.mean(caught):.0%}"]
    return f"| {' | '.join([name, *cells, *(f'{share:.0%}' for share in caught)])} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = command("detectors", __doc__)
    parser.add_argument("archive", type=Path, metavar="ARCHIVE")
    parser.add_argument("photos", type=Path, nargs="*", metavar="PHOTO")
    parser.add_argument("--digits", type=Path, metavar="FILE")
    options = parser.parse_intermixed_args(arguments)
    network = Network()
    pictures, classes = cifar_pictures(options.archive, network.labels, "train", EVERY_TRAINED)
    trained = network.see(pictures)
    pictures, truth = cifar_pictures(options.archive, network.labels)
    seen = network.see(pictures)
    known = seen.part(slice(0, None, 2)), seen.part(slice(1, None, 2))
    unknown = {name: network.see(group) for name, group in unknown_pictures(options.digits).items()}
    right = known[1].logits.argmax(1) == truth[1::2]
    found = ways(trained, classes, known[0])
    print(f"| way | kept | right of the kept | AUROC | caught | {' | '.join(unknown)} |")
    print("|---" * (5 + len(unknown)) + "|")
    print("\n".join(row(name, way, known, right, unknown) for name, way in found.items()))
    if options.photos:
        photos = network.see(np.stack([small(Image.open(path)) for path in options.photos]))
        for name, way in found.items():
            taken = way(photos) >= np.quantile(way(known[0]), 1 - KEPT)
            print(
                f"\n{name}:", ", ".join(p.name for p, yes in zip(options.photos, taken, strict=True) if yes)
            )


if __name__ == "__main__":
    main()
