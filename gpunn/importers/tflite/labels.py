"""Class names from TFLite metadata behind a model."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence

from gpunn.files import open_zip
from gpunn.importers.tflite.subgraph import printable
from gpunn.types import TensorType

MAX_LABEL_BYTES = 1 << 20
MAX_LABEL_FILES = 16
ZIP_ERRORS = (  # what zipfile raises on damaged archives
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    LookupError,
    RuntimeError,
)


def labels(data: bytes, outputs: Sequence[TensorType]) -> tuple[str, ...]:
    """Return class names from the files of TFLite metadata behind the model: a zip archive at the end.

    The first text file with one line for each class of an output counts. A zip archive that cannot be read
    counts as none: a model works without labels.
    """
    classes = {o.shape[-1] for o in outputs if o.rank}
    for text in texts(data, ".txt").values():
        lines = text.splitlines()
        while lines and not lines[-1].strip():
            lines.pop()
        if len(lines) in classes:
            return tuple(printable(line.strip()) for line in lines)
    return ()


def texts(data: bytes, ending: str) -> dict[str, str]:
    """Return text files by name, of those with this end of a zip at the end of the data.

    They are bounded in number and size, and so is the archive's directory. A zip archive that cannot be read
    counts as none.
    """
    found: dict[str, str] = {}
    try:
        with open_zip(io.BytesIO(data)) as archive:
            plain = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            members = [
                m for m in archive.infolist() if m.filename.endswith(ending) and m.compress_type in plain
            ]
            for member in members[:MAX_LABEL_FILES]:
                with archive.open(member) as stream:
                    text = stream.read(MAX_LABEL_BYTES + 1)
                if len(text) <= MAX_LABEL_BYTES:
                    found[member.filename] = text.decode("utf-8", "replace")
    except ZIP_ERRORS:
        pass
    return found
