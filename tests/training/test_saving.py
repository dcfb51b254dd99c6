"""Trained models as files: where the new weights are, that all else stays, and what is refused."""

from __future__ import annotations

import copy
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import tflite
from PIL import Image

import gpunn
from gpunn import vision
from gpunn.finetuning.layers import for_classes, weights_of_all
from gpunn.graph.operation import Operand
from gpunn.importers import contents_of
from gpunn.model import Model
from gpunn.training.step import with_values_of
from gpunn.training.trainer import UNSCORED
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.finetuning.models import two_layers
from tests.importers.coreml import builder, twins
from tests.importers.damage import damaged_bytes
from tests.tflite_builder import Graph, litert_run
from tests.training.test_coreml_update import TARGET, line
from tests.training.test_coreml_update import X as LINE_X

BIAS = np.array([0.5, -1, 2], np.float32)
HALF = np.array([[0.5, -1], [2, 0.25], [0, 1]], np.float32)
X = np.array([[1, 2]], np.float32)


def chain(filter: Array = HALF, *, signed: bool = False, outside: bool = False) -> bytes:
    """Two FULLY_CONNECTED of 2 and 3 inputs, whose biases of 3 are equal."""
    g = Graph()
    x, stored = g.input(float32(1, 2)), g.constant(filter, "filter")
    if filter.dtype == np.float16:
        (stored,) = g.add("DEQUANTIZE", [stored], [float32(3, 2)], names=["wide"])
    (y,) = g.add("FULLY_CONNECTED", [x, stored, g.constant(BIAS, "bias")], [float32(1, 3)])
    second = np.diag([1, 2, 3]).astype(np.float32)
    inputs = [y, g.constant(second, "second"), g.constant(BIAS, "other bias")]
    return g.build(g.add("FULLY_CONNECTED", inputs, [float32(1, 3)]), outside=outside)


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(gpunn.FormatError, match=r"a\.mlmodel: this model is written as .* in files \.tflite"):
        gpunn.load(chain()).save(tmp_path / "a.mlmodel")
    gpunn.load(chain()).save(tmp_path / "a.bin")
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def with_one_bias(data: bytes) -> bytes:
    """The file after a converter that stores equal constants once."""
    graph, made = tflite.Model.GetRootAs(data, 0).Subgraphs(0), bytearray(data)
    tensors = {graph.Tensors(i).Name(): graph.Tensors(i) for i in range(graph.TensorsLength())}
    table = tensors[b"other bias"]._tab
    struct.pack_into("<I", made, table.Pos + table.Offset(8), tensors[b"bias"].Buffer())
    return bytes(made)


def trained(model: Model, *names: str | Operand, rate: float = 0.125) -> Model:
    """The model after a step towards 1, which changes the weights of these names."""
    target = np.ones(model.outputs[0].type.shape, np.float32)
    x = np.resize(X, model.inputs[0].type.shape)
    with gpunn.Trainer(
        model, loss="mean_squared_error", optimizer=gpunn.SGD(rate), trainable=names, backend="cpu"
    ) as trainer:
        trainer.step(x, target)
        return trainer.model()


def scored(model: Model, rate: float) -> Model:
    """The model of two layers after a step in which one convolution learns."""
    x, target = np.ones((1, 6, 6, 3), np.float32), np.eye(1, 4, dtype=np.float32)
    with gpunn.Trainer(
        model, loss="cross_entropy", optimizer=gpunn.SGD(rate), trainable=["last"], backend="cpu"
    ) as trainer:
        trainer.step(x, target)
        return trainer.model()


def saved(model: Model, folder: Path) -> bytes:
    model.save(folder / "saved")
    return (folder / "saved").read_bytes()


def constants(model: Model) -> dict[str, Array]:
    return {o.name: o.value for o in model.operands() if o.value is not None}


def answer(model: Model) -> Array:
    with model.compile("cpu") as compiled:
        return np.asarray(compiled(np.resize(X, model.inputs[0].type.shape)))


def filter_of(model: Model) -> Operand:
    (filter,) = (o.inputs[1] for o in model.operations if o.op == "conv2d")
    assert filter is not None
    return filter


def value(operand: Operand) -> Array:
    assert operand.value is not None
    return operand.value


@pytest.mark.parametrize("outside", [False, True], ids=["inside", "behind"])
def test_only_the_trained_weights_of_a_tflite_file_change(tmp_path: Path, outside: bool) -> None:
    data = chain(outside=outside)
    model = trained(gpunn.load(data), "filter", "other bias")
    found = saved(model, tmp_path)
    assert len(found) == len(data)
    changed = [k for k, (a, b) in enumerate(zip(data, found, strict=True)) if a != b]
    # The builder writes the parts of a file in reverse order, and what is behind it in order.
    bias = data.rindex(BIAS.tobytes()) if outside else data.index(BIAS.tobytes())
    places = {data.index(HALF.tobytes()): 24, bias: 12}
    assert all(any(0 <= k - p < size for p, size in places.items()) for k in changed)
    for name, value in constants(gpunn.load(found)).items():
        assert np.array_equal(value, constants(model)[name])


def test_other_readers_compute_the_same(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed (extra: compare)")
    for data, names in ((chain(), ["filter", "bias"]), (with_one_bias(chain()), ["filter", "bias"])):
        model = trained(gpunn.load(data), *names)
        np.testing.assert_allclose(litert_run(saved(model, tmp_path), [X])[0], answer(model), rtol=1e-6)


def test_tensors_that_shared_a_buffer_get_their_own(tmp_path: Path) -> None:
    data = with_one_bias(chain())
    before = constants(gpunn.load(data))
    found = constants(gpunn.load(saved(trained(gpunn.load(data), "bias"), tmp_path)))
    assert not np.array_equal(found["bias"], BIAS)
    assert np.array_equal(found["other bias"], before["other bias"])
    model = trained(gpunn.load(data), "bias", "other bias")
    both = constants(gpunn.load(saved(model, tmp_path)))
    assert not np.array_equal(both["bias"], both["other bias"])
    assert all(np.array_equal(value, constants(model)[name]) for name, value in both.items())
    start = tflite.Model.GetRootAs(saved(model, tmp_path), 0)
    for number in range(start.BuffersLength()):
        tab = start.Buffers(number)._tab
        assert not tab.Offset(4) or tab.Vector(tab.Offset(4)) % 16 == 0


def test_shared_buffers_behind_the_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(gpunn.UnsupportedError, match="in a form that gpunn does not change"):
        saved(trained(gpunn.load(with_one_bias(chain(outside=True))), "bias"), tmp_path)


def test_float16_weights_are_trained_as_float32_and_rounded(tmp_path: Path) -> None:
    model = trained(gpunn.load(chain(HALF.astype(np.float16))), "wide")
    exact = constants(model)["wide"]
    assert exact.dtype == np.float32
    assert not np.array_equal(exact, exact.astype(np.float16))
    found = constants(gpunn.load(saved(model, tmp_path)))["filter"]
    assert found.dtype == np.float16
    assert np.array_equal(found, exact.astype(np.float16))


def test_float16_that_overflows_is_refused(tmp_path: Path) -> None:
    model = trained(gpunn.load(chain(HALF.astype(np.float16))), "wide", rate=1e6)
    assert np.abs(constants(model)["wide"]).max() > 65504
    with pytest.raises(
        gpunn.UnsupportedError, match=r"'wide', which fully_connected .* too large for FLOAT16"
    ):
        saved(model, tmp_path)


def test_quantised_weights_are_not_trained() -> None:
    """Of hybrid weights the reals are operands of the graph, which the file does not have."""
    g = Graph()
    scaled = TensorType(DType.INT8, (3, 2), Quantization((0.5,), (0,)))
    filter = g.tensor(scaled, "filter", np.arange(6, dtype=np.int8).tobytes())
    (wide,) = g.add("DEQUANTIZE", [filter], [float32(3, 2)], names=["wide"])
    data = g.build(g.add("FULLY_CONNECTED", [g.input(float32(1, 2)), wide, -1], [float32(1, 3)]))
    model = trained(gpunn.load(data), "wide")
    with pytest.raises(gpunn.UnsupportedError, match=r"'wide', which .* cannot be written back"):
        model.save("nowhere")


def test_a_trained_model_is_trained_reshaped_and_copied(tmp_path: Path) -> None:
    once = trained(gpunn.load(chain()), "filter")
    model = trained(once, "bias")
    found = constants(gpunn.load(saved(model, tmp_path)))
    assert np.array_equal(found["filter"], constants(once)["filter"])
    assert np.array_equal(found["bias"], constants(model)["bias"])
    again = [model.reshaped({model.inputs[0].name: (4, 2)}), pickle.loads(pickle.dumps(model))]
    again += [copy.deepcopy(model), model.reshaped({})]
    for other in again:
        assert saved(other, tmp_path) == saved(model, tmp_path)


def test_a_model_changed_after_its_training_is_refused(tmp_path: Path) -> None:
    edits: list[Callable[[Model], object]] = [
        lambda m: m.add("relu", [m.outputs[0]]),
        lambda m: m.output(m.inputs[0]),
        lambda m: m.operations.pop(),
        lambda m: m.input("more", float32(1)),
    ]
    for edit in edits:
        model = trained(gpunn.load(chain()), "bias")
        edit(model)
        with pytest.raises(gpunn.UnsupportedError, match="was changed since it was trained"):
            saved(model, tmp_path)
    with pytest.raises(gpunn.UnsupportedError, match="no file format for models that calls or NNAPI"):
        gpunn.Model().save(tmp_path / "nothing")
    assert not [*tmp_path.iterdir()]


def network(value: float | None = None, *, half: bool = False) -> Any:
    """A convolution of 3 channels to 3 by 3x3 pixels, and a scale; all weights are `value` if it is given."""
    made = builder.model((3, 3, 3))
    params = builder.layer(made, "convolution", ["x"], ["c"])
    params.outputChannels, params.kernelChannels, params.nGroups, params.hasBias = 3, 3, 1, True
    params.kernelSize.extend((3, 3))
    params.valid.SetInParent()
    filter = (
        np.random.default_rng(0).normal(size=81).astype(np.float32) if value is None else np.full(81, value)
    )
    if half:
        params.weights.float16Value = filter.astype("<f2").tobytes()
    else:
        params.weights.floatValue.append(builder.floats(filter))
    params.bias.floatValue.append(builder.floats(BIAS))
    scale = builder.layer(made, "scale", ["c"], ["y"])
    scale.shapeScale.append(1)
    scale.scale.floatValue.append(builder.floats([2]))
    return made


@pytest.mark.parametrize("stored", [None, 0.0], ids=["random", "zeros"])
def test_weights_of_an_mlmodel_file_go_where_they_came_from(tmp_path: Path, stored: float | None) -> None:
    """The order of their axes is found even where all weights are equal."""
    model = gpunn.load(network(stored).SerializeToString())
    (layer,) = (o for o in model.operations if o.op == "conv2d")
    changed = trained(model, *(i for i in layer.inputs[1:] if i is not None))
    again = gpunn.load(saved(changed, tmp_path))
    assert np.array_equal(answer(again), answer(changed))
    assert not np.array_equal(answer(again), answer(model))
    made = network(stored)
    made.ParseFromString(saved(changed, tmp_path))
    found = np.frombuffer(made.neuralNetwork.layers[0].convolution.weights.floatValue[0], "<f4")
    assert np.array_equal(found.reshape(3, 3, 3, 3), value(filter_of(changed)).transpose(0, 3, 1, 2))


def test_forms_of_mlmodel_weights(tmp_path: Path) -> None:
    def after(made: Any) -> Model:
        model = gpunn.load(made.SerializeToString())
        return trained(model, filter_of(model))

    model = after(network(half=True))
    again = filter_of(gpunn.load(saved(model, tmp_path)))
    assert np.array_equal(value(again), value(filter_of(model)).astype(np.float16))
    quantised = network(half=True)
    params = quantised.neuralNetwork.layers[0].convolution.weights
    params.float16Value, params.rawValue = b"", bytes(range(81))
    params.quantization.numberOfBits = 8
    params.quantization.linearQuantization.scale.append(0.01)
    with pytest.raises(gpunn.UnsupportedError, match="cannot be written back: the file has it quantised"):
        saved(after(quantised), tmp_path)


def test_coremltools_reads_what_is_saved(tmp_path: Path) -> None:
    coremltools = pytest.importorskip("coremltools", reason="coremltools is not installed (extra: training)")
    updated = gpunn.load(line().SerializeToString()).update({"x": LINE_X, "wanted": TARGET}, backend="cpu")
    updated.save(tmp_path / "updated.mlmodel")
    spec = coremltools.utils.load_spec(str(tmp_path / "updated.mlmodel"))
    assert spec.isUpdatable
    assert [*spec.neuralNetwork.layers[0].innerProduct.weights.floatValue] == [1 - 7 / 16]
    photos = {colour: [Image.new("RGB", (9, 9), colour)] * 2 for colour in ("red", "green", "blue")}
    tuned = gpunn.finetune(gpunn.load(twins.mlmodel()), photos, epochs=1, backend="cpu").model
    tuned.save(tmp_path / "tuned.mlmodel")
    network = coremltools.utils.load_spec(str(tmp_path / "tuned.mlmodel")).neuralNetworkClassifier
    layer = network.layers[0].convolution
    assert (layer.outputChannels, [*network.stringClassLabels.vector]) == (3, [*photos])
    stored = np.array(layer.weights.floatValue, np.float32).reshape(3, 3, 3, 3)
    assert np.array_equal(stored, value(filter_of(tuned)).transpose(0, 3, 1, 2))


@pytest.mark.parametrize("rate", [0.0, 0.125], ids=["same weights", "other weights"])
def test_scores_stay_only_with_the_weights_that_they_were_measured_for(tmp_path: Path, rate: float) -> None:
    data = two_layers(threshold=0.75)
    source = gpunn.load(data)
    model = scored(source, rate)
    found = saved(model, tmp_path)
    for made in (model, model.reshaped({model.inputs[0].name: (2, 6, 6, 3)}), copy.copy(model)):
        assert made.scoring == (None if rate else source.scoring)
    again = gpunn.load(found)
    assert (again.scoring, again.warnings) == (model.scoring, ())
    assert model.warnings == ((UNSCORED,) if rate else ())
    assert source.scoring is not None and not source.warnings
    assert (found == data) == (not rate)
    assert np.array_equal(constants(again)["last"], constants(model)["last"])


def test_scores_that_are_left_out_are_named_once(tmp_path: Path) -> None:
    model = scored(scored(gpunn.load(two_layers(threshold=0.75)), 0.125), 0.125)
    assert model.warnings == (UNSCORED,)
    assert gpunn.load(saved(model, tmp_path)).scoring is None


def test_scores_go_from_a_file_with_labels_behind_it(tmp_path: Path) -> None:
    """The packaged classifier has a calibration, too, and a zip archive at its end."""
    source = gpunn.load(vision.default_model())
    weights = weights_of_all(source)
    made = Model.of(with_values_of(source, weights, [value(w) + 1 for w in weights]))
    made.trained_from = source
    found = gpunn.load(saved(made, tmp_path))
    assert source.scoring is not None and source.labels
    assert (found.labels, found.scoring, found.warnings) == (source.labels, None, ())


def test_damaged_files_raise_errors_of_gpunn() -> None:
    """What is written of a damaged file that could be read is read again with the same constants."""
    random, written, refused = Random(0), 0, 0
    for number in range(600):
        source = with_one_bias(chain()) if number % 2 else two_layers()
        try:
            model = gpunn.load(damaged_bytes(source, random))
        except gpunn.GpunnError:
            continue
        weights = weights_of_all(model)
        made = Model.of(with_values_of(model, weights, [value(w) + 1 for w in weights])) if weights else model
        made.trained_from = model
        try:
            found = [value(w) for w in weights_of_all(gpunn.load(contents_of(made)[0]))]
            written += 1
            for_classes(model, ["a", "b"], np.random.default_rng(0))
        except gpunn.GpunnError:
            refused += 1
        else:
            pairs = zip(found, weights, strict=True)
            assert all(np.array_equal(a, value(w) + 1, equal_nan=True) for a, w in pairs)
    assert written > 20
    assert refused > 20
