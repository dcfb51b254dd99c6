"""Photos of every format become the right numbers; models that are no classifiers are refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from gpunn import FormatError, Model, ModelError, UnsupportedError, vision
from gpunn.types import Array, DType, Quantization, TensorType, float32

RED, GREEN = (250, 10, 20), (5, 240, 30)


def model(inputs: list[TensorType], outputs: list[TensorType], labels: tuple[str, ...] = ()) -> Model:
    """Return a model of which only the signature matters: its outputs are further inputs."""
    made = Model("net.tflite", labels=labels)
    for number, type in enumerate(inputs):
        made.input(f"in{number}", type)
    made.outputs += [Model().input(f"out{number}", type) for number, type in enumerate(outputs)]
    return made


def quantised(dtype: DType, *shape: int, scale: float = 1 / 128, zero: int = 0) -> TensorType:
    """Return a tensor type with one scale."""
    return TensorType(dtype, shape, Quantization((scale,), (zero,)))


def two_colours(width: int = 8, height: int = 4) -> Image.Image:
    """Return an image that is red on the left and green on the right."""
    pixels = np.empty((height, width, 3), np.uint8)
    pixels[:, : width // 2] = RED
    pixels[:, width // 2 :] = GREEN
    return Image.fromarray(pixels)


def saved(image: Image.Image, path: Path, **options: object) -> Path:
    image.save(path, **options)  # type: ignore[arg-type]
    return path


def close(a: tuple[int, ...], b: tuple[int, ...], tolerance: int = 12) -> bool:
    return all(abs(x - y) <= tolerance for x, y in zip(a, b, strict=True))


def pixel(image: Image.Image, x: int, y: int) -> tuple[int, ...]:
    found = image.getpixel((x, y))
    assert isinstance(found, tuple)
    return tuple(int(v) for v in found)


@pytest.mark.parametrize("suffix", ["png", "bmp", "jpg", "webp", "tiff", "gif", "ppm"])
def test_formats(tmp_path: Path, suffix: str) -> None:
    photo = vision.load_photo(saved(two_colours(32, 16), tmp_path / f"x.{suffix}"))
    assert (photo.mode, photo.size) == ("RGB", (32, 16))
    assert close(pixel(photo, 2, 2), RED)
    assert close(pixel(photo, 29, 13), GREEN)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(tmp_path: Path, orientation: int) -> None:
    """Photos stored in all eight orientations are read upright."""
    upright = Image.fromarray(np.random.default_rng(3).integers(0, 256, (5, 9, 3), np.uint8))
    turn = Image.Transpose
    stored = {
        1: None, 2: turn.FLIP_LEFT_RIGHT, 3: turn.ROTATE_180, 4: turn.FLIP_TOP_BOTTOM,
        5: turn.TRANSPOSE, 6: turn.ROTATE_90, 7: turn.TRANSVERSE, 8: turn.ROTATE_270,
    }[orientation]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(upright if stored is None else upright.transpose(stored), tmp_path / "x.png", exif=exif)
    assert np.array_equal(np.asarray(vision.load_photo(path)), np.asarray(upright))


def test_transparency_is_blended_with_white(tmp_path: Path) -> None:
    image = two_colours().convert("RGBA")
    image.putpixel((0, 0), (0, 0, 0, 0))
    image.putpixel((1, 0), (0, 0, 0, 128))
    photo = vision.load_photo(saved(image, tmp_path / "x.png"))
    assert pixel(photo, 0, 0) == (255, 255, 255)
    assert close(pixel(photo, 1, 0), (127, 127, 127), 1)
    assert pixel(photo, 2, 0) == RED


def test_palette_with_a_transparent_entry(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *GREEN])
    image.putpixel((1, 0), 1)
    photo = vision.load_photo(saved(image, tmp_path / "x.png", transparency=1))
    assert (pixel(photo, 0, 0), pixel(photo, 1, 0)) == (RED, (255, 255, 255))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "CMYK"])
def test_modes(tmp_path: Path, mode: str) -> None:
    image = two_colours(32, 16).convert(mode)
    path = saved(image, tmp_path / ("x.tiff" if mode == "CMYK" else "x.png"))
    photo = vision.load_photo(path)
    assert (photo.mode, photo.size) == ("RGB", (32, 16))
    assert close(pixel(photo, 2, 2), pixel(image.convert("RGB"), 2, 2))


def test_sixteen_bit_grey_keeps_its_tones(tmp_path: Path) -> None:
    values = np.array([[0, 257, 32896, 65535]], np.uint16)
    photo = vision.load_photo(saved(Image.fromarray(values), tmp_path / "x.png"))
    assert np.asarray(photo)[0, :, 0].tolist() == [0, 1, 128, 255]


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_grey_without_a_range_is_stretched(tmp_path: Path, dtype: type) -> None:
    values = np.array([[-1000, 0, 1000]], dtype)
    photo = vision.load_photo(saved(Image.fromarray(values), tmp_path / "x.tiff"))
    assert np.asarray(photo)[0, :, 0].tolist() == [0, 128, 255]
    flat = vision.load_photo(saved(Image.fromarray(np.full((2, 2), 7, dtype)), tmp_path / "flat.tiff"))
    assert not np.asarray(flat).any()


def test_the_first_frame_of_an_animation_is_read(tmp_path: Path) -> None:
    first, second = Image.new("RGB", (4, 4), RED), Image.new("RGB", (4, 4), GREEN)
    path = saved(first, tmp_path / "x.gif", save_all=True, append_images=[second])
    assert close(pixel(vision.load_photo(path), 1, 1), RED)


def test_no_photo(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    path.write_text("not a photo")
    with pytest.raises(FormatError, match=r"x\.png: not a picture"):
        vision.load_photo(path)
    with pytest.raises(IsADirectoryError):
        vision.load_photo(tmp_path)
    with pytest.raises(FileNotFoundError):
        vision.load_photo(tmp_path / "none.png")


@given(st.data())
def test_damaged_photos_give_a_photo_or_a_format_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    suffix = data.draw(st.sampled_from(["png", "jpg", "gif", "tiff", "webp", "bmp"]))
    path = saved(two_colours(32, 16), tmp_path_factory.mktemp("damaged") / f"x.{suffix}")
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            assert vision.load_photo(path).mode == "RGB"
        except FormatError as error:
            assert str(path) in str(error)


def test_values_are_resized_like_pillow_and_normalised() -> None:
    image = Image.fromarray(np.random.default_rng(4).integers(0, 256, (50, 70, 3), np.uint8))
    wanted = vision.photo_input(model([float32(1, 24, 32, 3)], [float32(1, 10)]), 100, 50)
    values = wanted.values(image)
    assert (values.shape, values.dtype) == ((24, 32, 3), np.float32)
    expected = np.asarray(image.resize((32, 24), Image.Resampling.BILINEAR), np.float32)
    assert np.array_equal(values, (expected - 100) / 50)


def test_a_model_of_one_channel_gets_grey() -> None:
    wanted = vision.photo_input(model([float32(1, 28, 28, 1)], [float32(1, 10)]))
    values = wanted.values(Image.new("RGB", (40, 40), (255, 255, 255)))
    assert values.shape == (28, 28, 1)
    assert (values == 1).all()


@pytest.mark.parametrize(("dtype", "less"), [(DType.UINT8, 0), (DType.INT8, 128)])
def test_quantised_models_get_the_bytes(dtype: DType, less: int) -> None:
    image = Image.fromarray(np.random.default_rng(6).integers(0, 256, (6, 5, 3), np.uint8))
    wanted = vision.photo_input(model([quantised(dtype, 1, 6, 5, 3, zero=-3)], [float32(1, 10)]))
    values = wanted.values(image)
    assert (values.shape, values.dtype) == ((6, 5, 3), dtype.numpy)
    assert np.array_equal(values, np.asarray(image).astype(int) - less)


@pytest.mark.parametrize(("mean", "std"), [(100, 50), (None, 255), (127.5, None)])
@pytest.mark.parametrize(("dtype", "zero"), [(DType.UINT8, 120), (DType.INT8, -5)])
def test_with_mean_or_std_quantised_models_get_the_reals_quantised(
    dtype: DType, zero: int, mean: float | None, std: float | None
) -> None:
    image = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16))
    type = quantised(dtype, 2, 16, 16, 1, scale=0.0312, zero=zero)
    values = vision.photo_input(model([type], [float32(2, 10)]), mean, std).values(image)
    reals = (np.arange(256) - (mean or 127.5)) / (std or 127.5)
    low = np.iinfo(dtype.numpy).min
    expected = np.clip(np.rint(reals / 0.0312) + zero, low, low + 255)
    assert (values.shape, values.dtype) == ((16, 16, 1), dtype.numpy)
    assert np.array_equal(values.reshape(-1), expected)


@pytest.mark.parametrize(("count", "batch"), [(0, 1), (1, 1), (3, 1), (1, 4), (4, 4), (5, 4)])
def test_batches(count: int, batch: int) -> None:
    wanted = vision.photo_input(model([float32(batch, 2, 2, 1)], [float32(batch, 10)]))
    photos = [np.full((2, 2, 1), n + 1, np.float32) for n in range(count)]
    batches = list(wanted.batches(iter(photos)))
    assert len(batches) == -(-count // batch)
    assert all(b.shape == (batch, 2, 2, 1) for b in batches)
    flat = [float(b[n, 0, 0, 0]) for b in batches for n in range(batch)]
    assert flat == [*range(1, count + 1), *[0] * (len(flat) - count)]


@pytest.mark.parametrize(
    "shape", [(1, 640), (1, 3, 224, 224), (1, 32, 32, 2), (32, 32, 3), (1, 0, 32, 3), (0, 32, 32, 3)]
)
def test_wrong_shapes_of_photo_inputs_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"net\.tflite does not take photos: its input 'in0' has shape"):
        vision.photo_input(model([float32(*shape)], [float32(1, 10)]))


@pytest.mark.parametrize("dtype", [DType.UINT8, DType.INT8])
def test_batches_keep_the_dtype(dtype: DType) -> None:
    wanted = vision.photo_input(model([quantised(dtype, 2, 2, 2, 1)], [float32(2, 10)]))
    (batch,) = wanted.batches(iter([wanted.values(Image.new("L", (2, 2), 255))]))
    assert (batch.shape, batch.dtype) == ((2, 2, 2, 1), dtype.numpy)
    assert batch[0].min() == np.iinfo(dtype.numpy).max


def test_signatures_of_other_models_are_refused() -> None:
    photo, scores = float32(1, 8, 8, 3), float32(1, 10)
    with pytest.raises(ModelError, match="has 2 inputs"):
        vision.photo_input(model([photo, photo], [scores]))
    with pytest.raises(UnsupportedError, match="'in0' is int8 without a scale, expected float32, or uint8"):
        vision.photo_input(model([TensorType(DType.INT8, photo.shape)], [scores]))
    with pytest.raises(UnsupportedError, match="is int16"):
        vision.photo_input(model([quantised(DType.INT16, *photo.shape)], [scores]))
    with pytest.raises(UnsupportedError, match="'out0' is uint8 without a scale"):
        vision.score_output(model([photo], [TensorType(DType.UINT8, scores.shape)]))
    scales = Quantization((0.5,) * 10, (0,) * 10, 1)
    with pytest.raises(UnsupportedError, match="'out0' is int8 with many scales"):
        vision.score_output(model([photo], [TensorType(DType.INT8, scores.shape, scales)]))
    for shape in ((), (1, 1), (1, 4, 4, 10), (2, 10)):
        with pytest.raises(ModelError, match="is not a classifier"):
            vision.score_output(model([photo], [float32(*shape)]))


@pytest.mark.parametrize("shape", [(10,), (1, 10), (1, 1, 1, 10)])
def test_shapes_of_classifiers(shape: tuple[int, ...]) -> None:
    assert vision.score_output(model([float32(1, 8, 8, 3)], [float32(*shape)])).classes == 10


@pytest.mark.parametrize(("mean", "std"), [(0, 0), (float("nan"), 1), (0, float("inf"))])
def test_wrong_mean_and_std_are_refused(mean: float, std: float) -> None:
    with pytest.raises(ModelError, match=r"(mean|std) must be finite"):
        vision.photo_input(model([float32(1, 8, 8, 3)], [float32(1, 10)]), mean, std)


def test_labels(tmp_path: Path) -> None:
    signature = ([float32(1, 8, 8, 3)], [float32(1, 3)])
    assert vision.class_labels(model(*signature)) == ("class 0", "class 1", "class 2")
    own = model(*signature, labels=("a", "b", "c"))
    assert vision.class_labels(own) == ("a", "b", "c")
    file = tmp_path / "labels.txt"
    file.write_bytes("\ufeffx\r\ny z\r\n\u00e4\r\n\r\n".encode())
    assert vision.class_labels(own, file) == ("x", "y z", "\u00e4")
    with pytest.raises(FormatError, match=r"net\.tflite has 2 labels, the model has 3 classes"):
        vision.class_labels(model(*signature, labels=("a", "b")))


def test_scales_of_every_kind_of_sequence() -> None:
    classifier, photo = model([float32(1, 4, 8, 3)], [float32(1, 10)]), two_colours()
    wanted = vision.preprocess(classifier, photo, (1.0, 2.0, 3.0), 4)
    for mean in ([1, 2, 3], np.array([1, 2, 3], np.float32)):
        found = vision.preprocess(classifier, photo, mean, np.array(4))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "mean",
    ["1", [None], [[1, 2, 3]], [[1], [2, 3]], 1j, pytest.param(10**400, id="huge"), [1, 2], []],
)
def test_scales_that_are_no_numbers_are_refused(mean: Any) -> None:
    with pytest.raises(ModelError, match="one number or one for each channel"):
        vision.photo_input(model([float32(1, 4, 8, 3)], [float32(1, 10)]), mean)


def test_top() -> None:
    labels = ("a", "b", "c", "d")
    guesses = vision.top_k(np.array([0.1, 0.5, 0.1, np.nan], np.float32), labels, 3)
    assert [g.label for g in guesses] == ["b", "a", "c"]
    assert len(vision.top_k(np.zeros(4, np.float32), labels, 9)) == 4
    for scores, count in ((np.zeros((1, 4)), 1), (np.float32(1), 1), (np.zeros(4), 0), (np.zeros(4), -1)):
        with pytest.raises(ModelError, match="scores of one axis and a count of 1 or more"):
            vision.top_k(np.asarray(scores), ("a", "b", "c", "d"), count)


def output(type: TensorType) -> vision.ScoreOutput:
    """Return the scores of a classifier of one photo."""
    return vision.score_output(model([float32(1, 8, 8, 3)], [type]))


def test_are_probabilities() -> None:
    given = output(float32(1, 2))
    assert given.are_probabilities(np.array([0.25, 0.75], np.float32))
    assert not given.are_probabilities(np.array([1.25, -0.25], np.float32))
    assert not given.are_probabilities(np.array([3, 5], np.float32))
    assert not given.are_probabilities(np.array([np.nan, 1], np.float32))
    assert not given.are_probabilities(np.array([0.49, 0.5], np.float32))


def test_quantised_scores_are_reals() -> None:
    stored = np.array([-128, 0, 127], np.int8)
    scores = output(quantised(DType.INT8, 1, 3, scale=0.5, zero=-128)).scores(stored)
    assert scores.dtype == np.float32
    assert scores.tolist() == [0, 64, 127.5]
    reals = np.array([1, 2], np.float32)
    assert np.array_equal(output(float32(1, 2)).scores(reals), reals)


@given(st.integers(2, 1500), st.floats(0, 30), st.integers(0, 2**32 - 1))
def test_quantised_softmax_gives_probabilities(classes: int, spread: float, seed: int) -> None:
    """Softmax results are recognised despite rounding, and 255/256 in place of 1."""
    logits = np.random.default_rng(seed).normal(0, 1, classes) * spread
    shares = np.exp(logits - logits.max())
    stored: Array = np.clip(np.rint(shares / shares.sum() * 256), 0, 255)
    unsigned = output(quantised(DType.UINT8, 1, classes, scale=1 / 256))
    assert unsigned.are_probabilities(unsigned.scores(stored.astype(np.uint8)))
    signed = output(quantised(DType.INT8, 1, classes, scale=1 / 256, zero=-128))
    assert signed.are_probabilities(signed.scores((stored - 128).astype(np.int8)))


@pytest.mark.parametrize(
    ("scale", "zero", "stored"),
    [
        (1 / 256, 0, [200, 100, 60, 0]),  # sigmoids: the sum is too large
        (1 / 256, 0, [100, 100, 0, 0]),  # the sum is too small
        (1 / 256, 1, [0, 129, 129, 0]),  # negative
        (0.25, 0, [4, 0, 0, 0]),  # a type for scores up to 64
    ],
)
def test_quantised_scores_that_are_no_probabilities(scale: float, zero: int, stored: list[int]) -> None:
    given = output(quantised(DType.UINT8, 1, 4, scale=scale, zero=zero))
    assert not given.are_probabilities(given.scores(np.array(stored, np.uint8)))


def test_the_packaged_model_is_a_classifier() -> None:
    import gpunn

    packaged = gpunn.load(vision.default_model())
    assert vision.photo_input(packaged).channels == 3
    assert vision.class_labels(packaged) == packaged.labels
    assert len(packaged.labels) == 10
