"""Files of users: regular files, so that nothing blocks; those of a folder; zip archives of bounded size."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from gpunn.errors import FormatError, MissingFileError
from gpunn.wording import counted

if TYPE_CHECKING:
    import zipfile

MAX_FILE_BYTES = 2**31 - 1  # of a model: a flatbuffer's offsets and a protobuf's lengths end there
MAX_DIRECTORY_BYTES = 1 << 20  # of a zip archive; an entry has about 100
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a pipe is opened at once
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


@dataclass(slots=True)
class Skipped:
    """Files of folders that were left out, with the reason: no photos, or files that cannot be read."""

    no_photos: dict[Path, str] = field(default_factory=dict)
    unreadable: dict[Path, str] = field(default_factory=dict)

    def add(self, path: Path, error: Exception) -> None:
        """Note a file with the error that it led to."""
        if isinstance(error, OSError):
            self.unreadable[path] = f"{path}: {error.strerror or error}"
        else:
            self.no_photos[path] = str(error)


def describe_skipped(no_photos: int, unreadable: Sequence[str]) -> str:
    """Say how many files were left out because they are no photos or cannot be read; "" for none."""
    parts = [counted(no_photos, "file that is no photo", "files that are no photos")] if no_photos else []
    if unreadable:
        count = counted(len(unreadable), "file that cannot be read", "files that cannot be read")
        parts.append(f"{count} ({unreadable[0]})")
    return f"skipped {', and '.join(parts)}" if parts else ""


def expect_writable(path: str | os.PathLike[str]) -> None:
    """Raise FormatError if a file cannot be written, before there is something to write. Makes no file."""
    target = Path(path)
    if not target.parent.is_dir():
        raise FormatError(f"{target.parent}: is no folder")
    if target.is_dir():
        raise FormatError(f"{target}: is a folder")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise FormatError(f"{target}: there is no permission to write it")


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file whole: until all of it is written, what was there before stays.

    Where no other file can be made in its folder, and where `path` is no regular file, it is written in
    place. Raises OSError if it cannot be written.
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{os.urandom(8).hex()}.tmp")
    try:
        in_place = target.exists() and not (target.is_file() and os.access(target, os.W_OK))
        descriptor = None if in_place else os.open(beside, _NEW_FLAGS, 0o666)
    except PermissionError:
        descriptor = None
    if descriptor is None:
        with _naming(target):
            target.write_bytes(data)
        return
    try:
        with _naming(target), open(descriptor, "wb") as stream:
            stream.write(data)
        if target.exists():
            os.chmod(beside, stat.S_IMODE(target.stat().st_mode))
        os.replace(beside, target)
    except BaseException:  # also Ctrl-C
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let an OSError name the file; those of writing to an open one do not."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading. Pipes and devices, at which a process could wait forever, are refused.

    Raises FormatError for these, MissingFileError if the file does not exist, OSError if it cannot be opened,
    of it IsADirectoryError for a folder.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise MissingFileError(path) from None
    except OSError as error:
        if error.errno != errno.ENXIO:  # of sockets
            raise
        raise FormatError(f"{path}: is not a regular file") from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise FormatError(f"{path}: is not a regular file")


def files_in(folder: Path) -> list[Path]:
    """List the regular files of a folder and its subfolders, sorted.

    Raises FormatError if there are none, OSError if a folder cannot be listed.
    """

    def fail(error: OSError) -> None:
        raise error

    if not folder.is_dir():
        raise FormatError(f"{folder}: is no folder")
    walked = os.walk(folder, onerror=fail)
    found = sorted(Path(parent, name) for parent, _, names in walked for name in names)
    files = [path for path in found if _is_file(path)]
    if not files:
        raise FormatError(f"{folder}: the folder holds no files")
    return files


def _is_file(path: Path) -> bool:
    """Tell whether a path is a regular file, or cannot be asked for: then reading it says why."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def open_zip(stream: BinaryIO) -> zipfile.ZipFile:
    """Open a zip archive for reading; it may follow other data.

    Raises FormatError for a directory of more than MAX_DIRECTORY_BYTES, which would be read as a whole, and
    what zipfile raises for damaged archives.
    """
    import zipfile  # takes long, and few files need it

    watched = _Watched(stream)
    archive = zipfile.ZipFile(cast(BinaryIO, watched))
    watched.most = None
    return archive


class _Watched:
    """A stream that reads `most` bytes at a time, and refuses more; None is no limit."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.most: int | None = MAX_DIRECTORY_BYTES

    def read(self, count: int = -1) -> bytes:
        if self.most is not None and count > self.most:
            raise FormatError(f"has a zip directory of {count} bytes, at most {self.most} are read")
        return self._stream.read(count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
