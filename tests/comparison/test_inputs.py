"""Samples from photos, arrays and random numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gpunn
from gpunn import vision
from gpunn.comparison.inputs import Sample, array_sample, file_source, random_source
from gpunn.types import DType, Quantization, TensorType, float32


def two_inputs() -> gpunn.Model:
    model = gpunn.Model("two")
    a = model.input("a", float32(1, 2))
    b = model.input("b", TensorType(DType.INT32, (3,)))
    model.output(a, b)
    return model


def test_random_inputs_respect_their_ranges() -> None:
    model = gpunn.Model("ranges")
    grey = model.input("grey", float32(1, 9, 9, 1))
    table = model.constant("table", np.zeros((3, 2), np.float32))
    rows = model.input("rows", TensorType(DType.INT32, (64,)))
    stored = model.input("stored", TensorType(DType.INT8, (2000,), Quantization((0.1,), (3,))))
    flags = model.input("flags", TensorType(DType.BOOL, (64,)))
    real = model.input("real", float32(500))
    model.output(*model.add("gather", [table, rows]), grey, stored, flags, real)
    source = random_source(model, 2, seed=5)
    for part in (
        "seed 5",
        "grey float32[1, 9, 9, 1] in 0 to 1",
        "rows int32[64] in 0 to 2",
        "in -128 to 127",
    ):
        assert part in source.description
    first, second = source.samples
    limits = ((0, 1), (0, 2), (-128, 127), (0, 1), (-1, 1))
    for array, operand, (low, high) in zip(first.arrays, model.inputs, limits, strict=True):
        assert (array.dtype, array.shape) == (operand.type.dtype.numpy, operand.type.shape)
        assert low <= array.min() <= low + 0.02 * (high - low)
        assert high >= array.max() >= high - 0.02 * (high - low)
    again = next(random_source(model, 1, seed=5).samples)
    assert all(np.array_equal(a, b) for a, b in zip(first.arrays, again.arrays, strict=True))
    assert not np.array_equal(first.arrays[4], second.arrays[4])


@pytest.mark.parametrize("op", ["gather_nd", "scatter_nd"])
def test_random_integers_are_valid_for_operations_that_check_them(op: str) -> None:
    model = gpunn.Model("indices")
    places = model.input("places", TensorType(DType.INT32, (50, 2)))
    if op == "gather_nd":
        model.output(*model.add(op, [model.constant("x", np.ones((4, 7), np.float32)), places]))
    else:
        model.output(*model.add(op, [places, model.input("x", float32(50))], {"shape": (4, 7)}))
    (sample,) = random_source(model, 1).samples
    with model.compile(backend="cpu") as compiled:
        compiled(*sample.arrays)
    assert {*sample.arrays[0].reshape(-1).tolist()} == {0, 1, 2, 3}


def test_arrays_by_name_in_order_and_stacked(tmp_path: Path) -> None:
    model, a, b = two_inputs(), np.float32([[1, 2]]), np.int32([4, 5, 6])
    np.savez(tmp_path / "named.npz", b=b, a=a, other=b)
    np.savez(tmp_path / "ordered.npz", a, b)
    np.savez(tmp_path / "many.npz", a=np.stack([a, 2 * a]), b=b)
    source = file_source(model, [tmp_path / f"{n}.npz" for n in ("named", "ordered", "many")])
    found: list[Sample] = list(source.samples)
    assert [s.names for s in found] == [("named.npz",), ("ordered.npz",), ("many.npz[0]",), ("many.npz[1]",)]
    for sample, factor in zip(found, (1, 1, 1, 2), strict=True):
        np.testing.assert_array_equal(sample.arrays[0], factor * a)
        np.testing.assert_array_equal(sample.arrays[1], b)


def test_arrays_of_other_names_could_be_exchanged(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", first=np.float32([[1, 2]]), second=np.int32([4, 5, 6]))
    with pytest.raises(gpunn.FormatError, match="holds first, second; the model's inputs are a, b"):
        list(file_source(two_inputs(), [tmp_path / "other.npz"]).samples)


def test_arrays_may_leave_out_inputs_with_a_default(tmp_path: Path) -> None:
    model = gpunn.Model("optional")
    inputs = (model.input("x", float32(2)), model.input("state", float32(3), default=5))
    model.output(*model.add("concat", inputs, {"axis": 0}))
    x, state = np.float32([1, 2]), np.float32([3, 4, 5])
    np.savez(tmp_path / "named.npz", x=x)
    np.savez(tmp_path / "many.npz", x=np.stack([x, x]), state=state)
    np.save(tmp_path / "only.npy", x)
    source = file_source(model, [tmp_path / name for name in ("named.npz", "many.npz", "only.npy")])
    found = [s.arrays[1].tolist() for s in source.samples]
    assert found == [[5, 5, 5], [3, 4, 5], [3, 4, 5], [5, 5, 5]]
    assert array_sample(model, [x], "x").arrays[1].tolist() == [5, 5, 5]
    np.savez(tmp_path / "wrong.npz", state=state, a=state, b=state)
    with pytest.raises(gpunn.FormatError, match="the model's inputs are x, state"):
        list(file_source(model, [tmp_path / "wrong.npz"]).samples)


def test_npy(tmp_path: Path) -> None:
    model = gpunn.Model("one")
    model.output(model.input("x", float32(1, 2)))
    np.save(tmp_path / "x.npy", np.float32([[3, 4]]))
    (sample,) = file_source(model, [tmp_path / "x.npy"]).samples
    np.testing.assert_array_equal(sample.arrays[0], [[3, 4]])


def damaged(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_files_that_are_no_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "unequal.npz", a=np.zeros((2, 1, 2), np.float32), b=np.zeros((4, 3), np.int32))
    np.savez(tmp_path / "short.npz", x=np.zeros(1))
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    cases = {
        damaged(tmp_path / "text.npy", b"not an array"): "cannot be read as arrays",
        damaged(tmp_path / "empty.npy", b""): "cannot be read as arrays",
        damaged(tmp_path / "text.npz", b"PK\3\4 cut short"): "cannot be read as arrays",
        tmp_path / "objects.npy": "cannot be read as arrays",
        tmp_path / "unequal.npz": r"different numbers of samples: \[2, 4\]",
        tmp_path / "short.npz": "holds x; the model's inputs are a, b",
    }
    for path, message in cases.items():
        with pytest.raises(gpunn.FormatError, match=message):
            list(file_source(two_inputs(), [path]).samples)
    with pytest.raises(OSError):
        list(file_source(two_inputs(), [tmp_path / "absent.npz"]).samples)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write three photos, one of them in a subfolder, and a text."""
    (tmp_path / "dog").mkdir()
    for name in ("cat_1.png", "cat_2.png", "dog/3.png"):
        Image.new("RGB", (40, 40), (len(name), 9, 9)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no photo")
    return tmp_path


def test_photos_with_and_without_truth(folder: Path) -> None:
    model = gpunn.load(vision.default_model())
    source = file_source(model, [folder / "cat_1.png"], truth=folder, labels=model.labels)
    found = list(source.samples)
    assert source.count == 1 + 4
    assert [*source.skipped.no_photos] == [folder / "notes.txt"]
    assert [s.names for s in found] == [("cat_1.png",), ("cat_1.png",), ("cat_2.png",), ("3.png",)]
    names = [[model.labels[t] for t in s.truth] for s in found]
    assert names == [[], ["cat"], ["cat"], ["dog"]]
    expected = vision.photo_input(model).values(vision.load_photo(folder / "cat_1.png"))
    np.testing.assert_array_equal(found[0].arrays[0][0], expected)


def test_named_file_that_is_no_photo(folder: Path) -> None:
    model = gpunn.load(vision.default_model())
    with pytest.raises(gpunn.FormatError, match="not a picture"):
        list(file_source(model, [folder / "notes.txt"]).samples)
    (folder / "empty").mkdir()
    with pytest.raises(gpunn.FormatError, match="the folder holds no files"):
        file_source(model, [folder / "empty"])
    with pytest.raises(gpunn.FormatError, match="is no folder"):
        file_source(model, [], truth=folder / "absent")


def test_numbers_of_rows_that_do_not_exist_are_not_drawn() -> None:
    model = gpunn.Model("empty table")
    rows = model.input("rows", TensorType(DType.INT32, (3,)))
    model.output(*model.add("embedding_lookup", [rows, model.input("table", float32(0, 4))]))
    with pytest.raises(gpunn.ModelError, match="no value of input 'rows' is allowed"):
        random_source(model)
