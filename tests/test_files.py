"""Files of users: nothing blocks, nothing is read without a bound, and each refusal has its reason."""

from __future__ import annotations

import errno
import io
import os
import socket
import struct
import sys
import zipfile
from pathlib import Path

import pytest

import gpunn
from gpunn import files, vision
from gpunn.cache import CacheFile, Key
from gpunn.errors import FormatError, MissingFileError
from gpunn.files import (
    MAX_DIRECTORY_BYTES,
    Skipped,
    describe_skipped,
    files_in,
    open_regular,
    open_zip,
    replace_file,
)
from gpunn.importers.tflite.labels import labels
from gpunn.types import float32

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")


def pipe(folder: Path, name: str = "pipe") -> Path:
    """Make a named pipe that nobody writes to."""
    os.mkfifo(folder / name)
    return folder / name


def test_a_regular_file_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with open_regular(path) as stream:
        assert stream.read() == b"content"
    with pytest.raises(MissingFileError, match="absent"):
        open_regular(tmp_path / "absent")
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)


@posix
def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    path = pipe(tmp_path)
    for refused in (path, Path(os.devnull)):
        with pytest.raises(FormatError, match="is not a regular file"):
            open_regular(refused)
    with pytest.raises(FormatError, match="is not a regular file"):
        vision.load_photo(path)
    with pytest.raises(FormatError, match="is not a regular file"):
        vision.class_labels(gpunn.load(vision.default_model()), path)


@posix
def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        with pytest.raises(FormatError, match="is not a regular file"):
            open_regular("socket")


@posix
def test_a_pipe_in_the_cache_counts_as_no_file(tmp_path: Path) -> None:
    file = CacheFile(tmp_path, "times", Key("adapter", "driver", "api"), 100)
    pipe(tmp_path, file.path.name)
    assert file.read() is None and not file.write({})


@posix
def test_the_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("z", "a", "b/c"):
        (tmp_path / name).touch()
    pipe(tmp_path)
    (tmp_path / "broken").symlink_to(tmp_path / "absent")
    assert files_in(tmp_path) == [tmp_path / "a", tmp_path / "b" / "c", tmp_path / "z"]
    with pytest.raises(FormatError, match="is no folder"):
        files_in(tmp_path / "a")
    (tmp_path / "b" / "c").unlink()
    with pytest.raises(FormatError, match="the folder holds no files"):
        files_in(tmp_path / "b")


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError):
        files_in(tmp_path)


def test_skipped_files_are_described() -> None:
    skipped = Skipped()
    assert describe_skipped(0, []) == ""
    skipped.add(Path("a.txt"), FormatError("a.txt: not a picture"))
    skipped.add(Path("b.png"), PermissionError(13, "Permission denied", "b.png"))
    assert describe_skipped(len(skipped.no_photos), [*skipped.unreadable.values()]) == (
        "skipped 1 file that is no photo, and 1 file that cannot be read (b.png: Permission denied)"
    )


def archive(names: int) -> bytes:
    """Return a zip archive with so many empty files, and with labels."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as written:
        written.writestr("labels.txt", "cat\ndog\n")
        for number in range(names):
            written.writestr(f"{number:050}", "")
    return data.getvalue()


def test_a_large_zip_directory_is_not_read() -> None:
    small, large = archive(10), archive(2 * MAX_DIRECTORY_BYTES // 96)
    assert len(open_zip(io.BytesIO(small)).namelist()) == 11
    with pytest.raises(FormatError, match=f"at most {MAX_DIRECTORY_BYTES} are read"):
        open_zip(io.BytesIO(large))
    with pytest.raises(FormatError, match="at most"):
        open_zip(io.BytesIO(b"model" + large))
    types = [float32(1, 2)]
    assert labels(b"model" + small, types) == ("cat", "dog")
    assert labels(b"model" + large, types) == ()


def test_a_zip_directory_that_states_more_than_there_is() -> None:
    data = bytearray(archive(1))
    struct.pack_into("<I", data, len(data) - 10, 1 << 31)
    with pytest.raises((FormatError, zipfile.BadZipFile)):
        open_zip(io.BytesIO(bytes(data)))


@posix
def test_a_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, link = tmp_path / "model.tflite", tmp_path / "link"
    replace_file(path, b"first")
    path.chmod(0o640)
    link.symlink_to(path)
    replace_file(link, b"second")
    assert path.read_bytes() == b"second" and link.is_symlink() and path.stat().st_mode & 0o777 == 0o640

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        replace_file(path, b"third")
    assert path.read_bytes() == b"second" and {*tmp_path.iterdir()} == {path, link}


@posix
def test_what_cannot_be_replaced_is_written_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file("/dev/null", b"gone")
    assert Path("/dev/null").is_char_device()
    path = tmp_path / "model.tflite"
    path.write_bytes(b"first")

    def forbidden(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(files.os, "open", forbidden)  # Path.open() does not use it
    replace_file(path, b"second")
    assert path.read_bytes() == b"second"
    with pytest.raises(FileNotFoundError):
        monkeypatch.undo()
        replace_file(tmp_path / "nowhere" / "model.tflite", b"third")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_a_full_disk_is_an_error_that_names_the_file() -> None:
    with pytest.raises(OSError, match="/dev/full"):
        replace_file("/dev/full", b"some bytes")
