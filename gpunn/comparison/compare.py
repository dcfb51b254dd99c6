"""gpunn.compare: one model on several backends, output by output and layer by layer."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from gpunn.arguments import expect_flag, expect_function, expect_integer, expect_list, expect_path, integer
from gpunn.comparison.case import SUFFIX, expect_layer, load_case, save_layer
from gpunn.comparison.convert import Scale, photo_inputs, scales
from gpunn.comparison.files import OtherFileSide
from gpunn.comparison.findings import find
from gpunn.comparison.inputs import (
    Sample,
    Source,
    array_sample,
    expect_photos,
    file_source,
    first_samples,
    random_photos,
    random_source,
)
from gpunn.comparison.litert import RESOLVERS, LitertSide
from gpunn.comparison.parts import exact_parts, joined, path
from gpunn.comparison.result import Comparison, Inputs
from gpunn.comparison.sides import EXACT, Arithmetic, CompiledSide, Side, open_side, pick_names
from gpunn.comparison.source import CompiledLayers, LayerSource
from gpunn.comparison.walk import Walk, Walked
from gpunn.comparison.whole import WholeRun
from gpunn.errors import ModelError
from gpunn.files import expect_writable
from gpunn.graph.operation import Operation
from gpunn.graph.pixels import GivenNumbers, given_scale
from gpunn.graph.reshape import by_name
from gpunn.importers import Source as File
from gpunn.machine import describe_machine, versions
from gpunn.model import Model, load
from gpunn.progress import Progress, untold
from gpunn.vision import known_classes

RANDOM_SAMPLES = 4  # if no inputs are given
PACKAGES = ("gpunn", "numpy", "wgpu", "ai-edge-litert")


def compare(
    model: Model | File,
    inputs: Any = None,
    backends: Sequence[str] = ("webgpu", "cpu"),
    *,
    reference: str = EXACT,
    per_layer: bool = False,
    layer_samples: int = 1,
    labels: Sequence[str] = (),
    truth: str | os.PathLike[str] | None = None,
    other: Model | File | None = None,
    case: tuple[int, str | os.PathLike[str]] | None = None,
    tolerance: float | None = None,
    mean: GivenNumbers | None = None,
    std: GivenNumbers | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Run a model on several backends and say where and how far their answers differ.

    model: a Model, a file as gpunn.load takes it, or a case (gpunn.comparison.case), which contains its
    inputs.

    inputs: None for RANDOM_SAMPLES seeded random samples in the inputs' ranges (`seed`); a number for that
    many random samples; a sample, or a sequence of samples, each an array, a tuple of arrays in the order of
    the model's inputs, or a mapping of arrays by name; or a path, or a sequence of paths: photos, folders of
    photos, .npy and .npz files.
    truth: a folder of photos whose names state their classes; these run too, and their accuracy is counted.
    labels: the class names of a classifier, by default the model's, or else those of `other`; with labels, a
    model with inputs other than photos also counts as a classifier. mean, std: see `gpunn classify`; refused
    where nothing is a photo.

    backends and reference: "cpu64" (the ops' meaning in float64; quantised tensors in integers), "cpu",
    "webgpu", "litert" and "litert-ref" (LiteRT's default and reference kernels, for a file; extra `compare`),
    or part of an adapter's name. "webgpu-relaxed", "cpu-relaxed" and NAME-relaxed store float32 as float16.
    Every backend is compared with the reference and with the other backends. The tolerance of an output is
    the possible effect of rounding (gpunn.comparison.noise), estimated on the first sample. `tolerance`, from
    0, replaces it by a largest absolute error, in steps for quantised outputs.

    per_layer: also compare every tensor between the layers, on the first `layer_samples` samples, in two
    modes: isolated, with exact inputs, and accumulated, with the backend's own inputs
    (gpunn.comparison.walk). If shapes depend on values, the layers are those of the first sample; samples
    that lead to other layers are left out.

    other: another file of the same model, of any format. It joins the backends, in float64, and gets the same
    photos or arrays in its own form (gpunn.comparison.convert); `mean` and `std` are for each model that does
    not scale photos itself. With per_layer its tensors are compared with the matching tensors of the model
    (gpunn.comparison.files).

    case: the index of a layer, and a file. The layer is written to the file, with the inputs that the first
    sample gives it (gpunn.comparison.case). Its name ends in .npz.

    progress: called with the current task, how much of it is done, and how much there is, if known.

    Raises ModelError for unknown backends, for inputs that do not fit and for a lack of inputs; FormatError
    for files that cannot be read or written; UnsupportedError if LiteRT is not installed or does not run the
    file; and the errors of gpunn.load and Model.compile. A difference is not an error: see Comparison.ok and
    .findings.
    """
    if tolerance is not None and not (isinstance(tolerance, Real) and tolerance >= 0):
        raise ModelError(f"tolerance must be a number from 0, got {tolerance!r}")
    layer_samples = expect_integer("layer_samples", layer_samples, 1)
    per_layer = expect_flag("per_layer", per_layer)
    expect_function("progress", progress)
    for what, given in (("backends", backends), ("labels", labels)):
        expect_list(what, given, "names")
    backends = tuple(backends)
    for name in (reference, *backends):
        if not isinstance(name, str):
            raise ModelError(f"a backend must be a name, got {name!r}")
    if truth is not None:
        expect_path("truth", truth)
    if case is not None:
        _check_case(case)
    stated = Scale(*given_scale(mean, std))
    file = None if isinstance(model, Model) else model
    model, inputs = _model(model, inputs)
    second_model = other if other is None or isinstance(other, Model) else load(other)
    labels = tuple(labels) or model.labels or (() if second_model is None else second_model.labels)
    scale = scales(model, second_model, stated)
    source = _source(model, second_model, inputs, truth, labels, scale, seed)
    if second_model is None or not photo_inputs(model, second_model, scale):
        expect_photos(source, mean, std)
    report = progress or untold
    names = reference, *pick_names(backends, reference, others=second_model is not None)
    first = first_samples(source, layer_samples if per_layer else 1)
    if case is not None:
        expect_layer(model, case[0], first[0])
    with ExitStack() as stack:
        sides: list[Side] = []
        for name in names:
            sides.append(_open(name, model, file))
            stack.callback(sides[-1].close)
        second = None if second_model is None else _other(model, second_model, names, scale)
        if second is not None:
            sides.append(second)
            stack.callback(second.close)
        whole = WholeRun(model, sides, labels, tolerance)
        for sample in itertools.chain(first, source.samples):
            report("inputs", whole.samples, source.count)
            whole.add(sample)
        report("inputs", whole.samples, whole.samples)
        walked, unlike = _walk(model, sides, per_layer, first, report)
        if case is not None:
            save_layer(model, case[0], first[0], case[1])
        layer_pairs = second.layer_pairs(first[0]) if second is not None and per_layer else ()
    pairs = whole.pairs(walked.drift)
    return Comparison(
        model=model.name,
        inputs=_described(source, whole.samples),
        sides=tuple(side.info for side in sides),
        pairs=pairs,
        accuracy=whole.accuracy(),
        answers=whole.answers(),
        layers=walked.layers,
        layer_pairs=layer_pairs,
        findings=find(walked.layers, pairs, unlike),
        machine=describe_machine(),
        versions=versions(PACKAGES),
        knows=known_classes(model, labels) if labels and whole.answers() else None,
    )


def _model(model: Model | File, inputs: Any) -> tuple[Model, Any]:
    """Return the model and the inputs; a case contains both."""
    if isinstance(model, Model):
        return model, inputs
    if isinstance(model, (str, os.PathLike)) and Path(model).suffix.lower() == SUFFIX:
        loaded, sample = load_case(model)
        return loaded, [sample.arrays] if inputs is None else inputs
    return load(model), inputs


def _check_case(case: Any) -> None:
    """Raise an error unless this may be the index of a layer, and a file that can be written."""
    if not isinstance(case, (tuple, list)) or len(case) != 2:
        raise ModelError(f"case must be the index of a layer and a file, got {case!r}")
    expect_integer("the index of a layer", case[0])
    expect_path("the file of a layer", case[1])
    if Path(case[1]).suffix.lower() != SUFFIX:
        raise ModelError(f"the file of a layer must end in {SUFFIX}, got {os.fspath(case[1])}")
    expect_writable(case[1])


def _other(model: Model, other: Model, names: Sequence[str], scale: tuple[Scale, Scale]) -> OtherFileSide:
    """Make a side of the other file, under a name that no other side has."""
    name = other.name
    while name in names:
        name += "'"
    return OtherFileSide(name, model, other, scale)


def _open(name: str, model: Model, file: File | None) -> Side:
    """Open the side with this name."""
    return LitertSide(name, model, file) if name in RESOLVERS else open_side(name, model, tuple(RESOLVERS))


def _described(source: Source, samples: int) -> Inputs:
    skipped = source.skipped
    left, unreadable = tuple(map(str, skipped.no_photos)), tuple(skipped.unreadable.values())
    return Inputs(source.description, samples, left, unreadable, source.pixels)


def _source(
    model: Model,
    other: Model | None,
    inputs: Any,
    truth: str | os.PathLike[str] | None,
    labels: Sequence[str],
    scale: tuple[Scale, Scale],
    seed: int,
) -> Source:
    """Make the samples for the argument `inputs` of compare()."""
    alone = isinstance(inputs, (str, os.PathLike, np.ndarray, Mapping))
    wanted: Any = [inputs] if alone else inputs
    if wanted is None and truth is None:
        wanted = RANDOM_SAMPLES
    count = integer(wanted)
    if count is not None:
        photos = () if other is None else photo_inputs(model, other, scale)
        return random_photos(model, photos[0], count, seed) if photos else random_source(model, count, seed)
    if wanted is not None:
        expect_list("inputs", wanted, "samples or files, or their number")
    given: list[Any] = list(wanted or ())
    if truth is not None or (given and all(isinstance(item, (str, os.PathLike)) for item in given)):
        folder = None if truth is None else Path(truth)
        paths, (mean, std) = [Path(p) for p in given], (scale[0].mean, scale[0].std)
        return file_source(model, paths, truth=folder, labels=labels, mean=mean, std=std)
    return Source("arrays", _array_samples(model, given), len(given))


def _array_samples(model: Model, given: Sequence[Any]) -> Iterator[Sample]:
    for number, item in enumerate(given):
        arrays = by_name(model, item) if isinstance(item, Mapping) else item
        arrays = arrays if isinstance(arrays, (tuple, list)) else (arrays,)
        yield array_sample(model, arrays, f"sample {number}")


def _walk(
    model: Model, sides: Sequence[Side], per_layer: bool, samples: Sequence[Sample], progress: Progress
) -> tuple[Walked, list[str]]:
    """Compare layer by layer; also name the sides whose whole model differs from its single layers.

    This is a matter of bits, which a GPU repeats. numpy's products depend on where arrays lie in memory.
    """
    found = [exact_parts(model, sample.arrays) for sample in samples]
    samples = [s for s, others in zip(samples, found, strict=True) if path(others) == path(found[0])]
    optimised = joined(found[0])
    arithmetics = [side.info.arithmetic for side in sides]
    variants: dict[Operation, Operation] = {}
    if any(isinstance(side, CompiledSide) and side.relaxed for side in sides):
        relaxed = joined(found[0], relaxed=True)
        variants.update(zip(optimised.operations, relaxed.operations, strict=True))
    layered: list[LayerSource] = []
    for side in sides if per_layer else ():
        if isinstance(side, CompiledSide):
            layered.append(CompiledLayers(side, optimised, samples, variants if side.relaxed else {}))
        elif isinstance(side, LitertSide):
            layered.append(side.layers(samples))
    halves = dict.fromkeys((Arithmetic.FLOAT16, Arithmetic.HALF_PRODUCTS), variants)
    walk = Walk(optimised, samples, arithmetics, layered, halves)
    walked = walk.run(progress)
    drift = {
        a: {ours: found[o] for ours, o in zip(model.outputs, optimised.outputs, strict=True) if o in found}
        for a, found in walked.drift.items()
    }
    walked = replace(walked, drift=drift)
    ours = [layers for layers in layered if isinstance(layers, CompiledLayers) and layers.on_gpu]
    return walked, [layers.info.name for layers in ours if not layers.as_whole()]
