"""Arrays in files are read whole, in bounded memory; damaged files are refused."""

from __future__ import annotations

import io
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gpunn.comparison import arrays
from gpunn.comparison.arrays import read_arrays
from gpunn.errors import FormatError
from gpunn.types import Array

SAMPLES = {
    "rows": np.arange(6, dtype=np.float32).reshape(2, 3),
    "columns": np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
    "scalar": np.array(1.5),
    "empty": np.empty((0, 3), np.uint8),
    "texts": np.array([b"a", b"bc"]),
    "big endian": np.arange(3, dtype=">i4"),
}


def npy(array: Array, **options: tuple[int, int]) -> bytes:
    """Return an array as the bytes of a .npy file."""
    data = io.BytesIO()
    np.lib.format.write_array(data, array, **options)
    return data.getvalue()


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_npy(tmp_path: Path, name: str, version: tuple[int, int]) -> None:
    path = tmp_path / "array.npy"
    path.write_bytes(npy(SAMPLES[name], version=version))
    (found,) = read_arrays(path).values()
    assert found.dtype == SAMPLES[name].dtype
    np.testing.assert_array_equal(found, SAMPLES[name])
    assert not isinstance(found, np.memmap)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path: Path, save: object) -> None:
    path = tmp_path / "arrays.npz"
    save(path, **SAMPLES)  # type: ignore[operator]
    found = read_arrays(path)
    assert found.keys() == SAMPLES.keys()
    for name, array in SAMPLES.items():
        np.testing.assert_array_equal(found[name], array)


def test_an_array_stays_when_its_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"
    path.write_bytes(npy(np.ones(1 << 16)))
    (found,) = read_arrays(path).values()
    os.truncate(path, 128)
    assert found.sum() == 1 << 16


@pytest.mark.parametrize("suffix", arrays.SUFFIXES)
@pytest.mark.parametrize("shape", ["(4000000000000,)", "(-3,)", "(2, 99)"])
def test_a_header_that_promises_more_than_there_is(tmp_path: Path, suffix: str, shape: str) -> None:
    data = npy(np.zeros((2, 3))).replace(b"(2, 3), }" + b" " * (len(shape) - 6), f"{shape}, }}".encode())
    path = tmp_path / f"array{suffix}"
    if suffix == ".npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", data)
    else:
        path.write_bytes(data)
    with pytest.raises(FormatError, match=r"array\.np[yz]: "):
        read_arrays(path)


def test_objects_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "objects.npy"
    np.save(path, np.array([{}], object), allow_pickle=True)
    with pytest.raises(FormatError, match="Python objects"):
        read_arrays(path)


def test_the_limit_is_of_all_arrays_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, a=np.zeros(100), b=np.zeros(100))
    monkeypatch.setattr(arrays, "MAX_BYTES", 1800)
    with pytest.raises(FormatError, match="at most 1800 are read"):
        read_arrays(path)
    monkeypatch.setattr(arrays, "MAX_BYTES", 2000)
    assert len(read_arrays(path)) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
@pytest.mark.parametrize("suffix", arrays.SUFFIXES)
def test_a_pipe_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pipe{suffix}"
    os.mkfifo(path)
    with pytest.raises(FormatError, match="is not a regular file"):
        read_arrays(path)
