"""Arrays in .npy and .npz files, read whole, in bounded memory."""

from __future__ import annotations

import math
import tokenize
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from gpunn.errors import FormatError
from gpunn.files import open_regular, open_zip
from gpunn.types import Array

SUFFIXES = (".npy", ".npz")
MAX_BYTES = 2**31 - 1  # of all arrays of a file
_DAMAGED = (zipfile.BadZipFile, tokenize.TokenError)  # the latter from numpy's reader of headers
_ERRORS = (ValueError, EOFError, KeyError, NotImplementedError, RuntimeError, *_DAMAGED)


def read_arrays(path: Path) -> dict[str, Array]:
    """Read the arrays of a .npy or .npz file. Nothing is mapped: another process may shorten the file.

    Raises FormatError if it is not such a file, is damaged, or holds more than MAX_BYTES; OSError if it
    cannot be opened, of it MissingFileError if it does not exist.
    """
    try:
        with open_regular(path) as stream:
            if path.suffix.lower() == ".npy":
                size = stream.seek(0, 2)
                stream.seek(0)
                _expect_few_bytes(size)
                return {path.stem: _read(stream, size)}
            with open_zip(stream) as archive:
                entries = archive.infolist()
                _expect_few_bytes(sum(entry.file_size for entry in entries))
                return {entry.filename.removesuffix(".npy"): _member(archive, entry) for entry in entries}
    except FormatError as error:
        if str(path) in str(error):
            raise
        raise FormatError(f"{path}: {error}") from None
    except MemoryError:
        raise FormatError(f"{path}: there is no memory for its arrays") from None
    except _ERRORS as error:
        raise FormatError(f"{path}: cannot be read as arrays: {error}") from None


def _expect_few_bytes(size: int) -> None:
    if size > MAX_BYTES:
        raise FormatError(f"arrays of {size} bytes, at most {MAX_BYTES} are read")


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    with archive.open(entry) as stream:
        return _read(stream, entry.file_size)


def _read(stream: IO[bytes], size: int) -> Array:
    """Read an array that ends where `size` bytes of the stream do (NumPy, format of .npy files)."""
    version = np.lib.format.read_magic(stream)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"version {version[0]}.{version[1]} of the format is for records only")
    shape, columns_first, dtype = readers[version](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not read")
    count = math.prod(shape)
    wanted, data = count * dtype.itemsize, stream.read(size)
    if len(data) < wanted:
        raise ValueError(f"its header says {wanted} bytes of numbers, there are {len(data)}")
    values = np.frombuffer(data, dtype, count) if wanted else np.empty(count, dtype)
    return values.reshape(shape, order="F" if columns_first else "C")
