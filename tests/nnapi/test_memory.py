"""Memory: mapped files, and arrays."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gpunn.nnapi import PROT_NONE, PROT_READ, PROT_WRITE, Memory, ResultCode
from tests.nnapi.builder import compiled, expect, relu, run, single, tensor

PAGE = mmap.ALLOCATIONGRANULARITY
BAD_DATA = ResultCode.BAD_DATA


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    """Open a file of two pages that contains float32 0, 1, 2, ..."""
    path = tmp_path / "weights"
    path.write_bytes(np.arange(2 * PAGE // 4, dtype=np.float32).tobytes())
    descriptor = os.open(path, os.O_RDWR)
    yield descriptor
    os.close(descriptor)


def test_a_file_is_mapped_not_read(fd: int) -> None:
    memory = Memory.create_from_fd(PAGE, PROT_READ, fd, PAGE)
    assert memory.size == PAGE
    values = memory.view(4, 8).view(np.float32)
    assert values.tolist() == [PAGE / 4 + 1, PAGE / 4 + 2]
    os.pwrite(fd, np.float32(-1).tobytes(), PAGE + 4)
    assert values[0] == -1


def test_outputs_reach_the_file(fd: int) -> None:
    memory = Memory.create_from_fd(2 * PAGE, PROT_READ | PROT_WRITE, fd)
    memory.view(0, 12, write=True).view(np.float32)[:] = 9
    assert os.pread(fd, 12, 0) == np.full(3, 9, np.float32).tobytes()


def test_the_descriptor_is_duplicated(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(100)))
    descriptor = os.open(path, os.O_RDONLY)
    memory = Memory.create_from_fd(100, PROT_READ, descriptor)
    os.close(descriptor)
    assert memory.view(98, 2).tolist() == [98, 99]


def test_protection(fd: int) -> None:
    assert Memory.create_from_fd(8, PROT_NONE, fd).size == 8
    for protect, write, word in (
        (PROT_NONE, False, "read"),
        (PROT_WRITE, False, "read"),
        (PROT_READ, True, "written"),
    ):
        with expect(BAD_DATA, word):
            Memory.create_from_fd(8, protect, fd).view(0, 8, write=write)
    with expect(BAD_DATA, "protect"):
        Memory.create_from_fd(8, 4, fd)


@pytest.mark.parametrize("size", [0, -1, 2 * PAGE + 1])
def test_sizes_beyond_the_file_are_refused(fd: int, size: int) -> None:
    with expect(BAD_DATA, "size"):
        Memory.create_from_fd(size, PROT_READ, fd)


@pytest.mark.parametrize("offset", [1, PAGE - 1, -PAGE])
def test_offsets_are_aligned_to_pages(fd: int, offset: int) -> None:
    with expect(BAD_DATA, "offset"):
        Memory.create_from_fd(8, PROT_READ, fd, offset)


def test_an_offset_beyond_the_end(fd: int) -> None:
    with expect(BAD_DATA, "size"):
        Memory.create_from_fd(8, PROT_READ, fd, 2 * PAGE)


@pytest.mark.parametrize("descriptor", [-1, 1 << 20, 1 << 40])
def test_no_descriptor(descriptor: int) -> None:
    with expect(BAD_DATA, "descriptor"):
        Memory.create_from_fd(8, PROT_READ, descriptor)


@pytest.mark.skipif(os.name != "posix", reason="other systems map files that they may read")
def test_files_that_cannot_be_mapped_are_unmappable(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(bytes(100))
    descriptor = os.open(path, os.O_WRONLY)
    try:
        with expect(ResultCode.UNMAPPABLE, "mapped"):
            Memory.create_from_fd(100, PROT_READ, descriptor)
    finally:
        os.close(descriptor)


def test_null(fd: int) -> None:
    with expect(ResultCode.UNEXPECTED_NULL):
        Memory.create_from_fd(8, PROT_READ, None)  # type: ignore[arg-type]
    with expect(ResultCode.UNEXPECTED_NULL):
        Memory.from_array(None)  # type: ignore[arg-type]


def test_arrays_must_be_contiguous_and_not_empty() -> None:
    for array in (np.zeros((2, 3)).T, np.zeros(0), "text"):
        with expect(BAD_DATA):
            Memory.from_array(array)  # type: ignore[arg-type]


def test_an_array_is_not_copied() -> None:
    array = np.arange(4, dtype=np.float32)
    memory = Memory.from_array(array)
    array[1] = 7
    assert memory.size == 16 and memory.view(4, 4).view(np.float32)[0] == 7


def test_large_constants_are_not_copied(fd: int, backend: str) -> None:
    count = PAGE // 4
    memory = Memory.create_from_fd(PAGE, PROT_READ, fd)
    model = single("ADD", [tensor(count), tensor(count), 0], [tensor(count)], finish=False)
    model.identify_inputs_and_outputs([0], [3])
    model.set_operand_value_from_memory(1, memory, 0, PAGE)
    model.finish()
    compilation = compiled(model, backend)
    (found,) = compilation.specialisations
    constant = found.compiled.model.operations[0].inputs[1]
    assert constant is not None and constant.value is not None
    assert np.shares_memory(constant.value, memory.view(0, PAGE))
    x = np.ones(count, np.float32)
    out = run(compilation, x, out=np.empty(count, np.float32))
    np.testing.assert_array_equal(out, 1 + np.arange(count, dtype=np.float32))


def test_a_memory_lives_as_long_as_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(np.array([-1, 2], np.float32).tobytes())
    with path.open("rb") as file:
        memory = Memory.create_from_fd(8, PROT_READ, file.fileno())
    view = memory.view(0, 8).view(np.float32)
    del memory
    assert run(compiled(relu(2)), view, out=np.empty(2, np.float32)).tolist() == [0, 2]
