"""wgpu's header as byte code: the same types, kept until the header changes, and never needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import cffi
import cffi.cparser
import pytest

from gpunn.backends.webgpu import header

DECLARATIONS = """
typedef struct AImpl *A;
typedef enum E { E_One = 1, E_Large = 0x7FFFFFFF } E;
typedef struct S { A a; E e; uint64_t n; char const *text; struct S *next; } S;
typedef void (*Called)(E e, S s, void *data);
#define WHOLE 0xffffffff
double sqrt(double x);
"""


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep byte code in a folder of the test's own."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path


@pytest.fixture
def no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("cffi parses declarations")

    monkeypatch.setattr(cffi.cparser.Parser, "parse", refuse)


def files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def test_types_are_those_that_cffi_finds() -> None:
    expected = cffi.FFI()
    expected.cdef(DECLARATIONS)
    found = header.parsed(DECLARATIONS)
    described = [
        [(name, field.type.kind, field.offset) for name, field in ffi.typeof("S").fields]
        for ffi in (found, expected)
    ]
    assert described[0] == described[1]
    assert found.sizeof("S") == expected.sizeof("S")
    assert found.typeof("E").elements == expected.typeof("E").elements
    assert [arg.kind for arg in found.typeof("Called").args] == ["enum", "struct", "pointer"]
    library = found.dlopen(None)
    assert (library.WHOLE, library.E_Large) == (0xFFFFFFFF, 0x7FFFFFFF)


def test_nothing_is_printed_or_left(kept: Path, capfd: pytest.CaptureFixture[str]) -> None:
    header.parsed(DECLARATIONS)
    assert capfd.readouterr() == ("", "")
    (code,) = files(kept)
    assert code.suffix == ".pyc"


def test_byte_code_serves_until_the_declarations_change(request: pytest.FixtureRequest) -> None:
    header.parsed(DECLARATIONS)
    request.getfixturevalue("no_parser")
    assert header.parsed(DECLARATIONS).sizeof("S") == 40
    with pytest.raises(AssertionError, match="cffi parses"):
        header.parsed(DECLARATIONS.replace("uint64_t", "uint32_t"))  # as long as before


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "file"))
    assert header.parsed(DECLARATIONS).sizeof("S") == 40


@pytest.mark.parametrize("damage", ["truncated", "other numbers", "no code"])
def test_damaged_byte_code_is_left_alone(kept: Path, damage: str) -> None:
    header.parsed(DECLARATIONS)
    (code,) = files(kept)
    content = code.read_bytes()
    wrong = {
        "truncated": content[: len(content) // 2],
        "other numbers": content.replace(b"_version", b"_ver5ion"),
        "no code": content[:16] + b"N",
    }
    code.write_bytes(wrong[damage])
    ffi = header._LibraryFFI()
    ffi.cdef(DECLARATIONS)
    assert ffi.sizeof("S") == 40


# With each process's own folder of byte code; wgpu itself before gpunn, if asked for.
RUN = """
import json, sys
if sys.argv[2] == "wgpu first":
    import wgpu.backends.wgpu_native
import numpy as np
import gpunn
model = gpunn.load(sys.argv[1])
with model.compile("webgpu") as compiled:
    image = np.zeros(model.inputs[0].type.shape, model.inputs[0].type.dtype.numpy)
    answer = compiled(image)
import wgpu.backends.wgpu_native as native
print(json.dumps([answer.tolist(), type(native.ffi).__module__, "cffi.cparser" in sys.modules]))
"""


def answer(kept: Path, *options: str) -> Any:
    model = Path(__file__).parents[2] / "gpunn" / "data" / "cifar10_mobilenet.tflite"
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(kept), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", RUN, str(model), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def test_a_second_process_parses_nothing(gpu: str, kept: Path) -> None:
    first, second, other = answer(kept, ""), answer(kept, ""), answer(kept, "wgpu first")
    assert first[0] == second[0] == other[0]
    assert first[1:] == ["_cffi_backend", True]
    assert second[1:] == ["_cffi_backend", False]
    assert other[1:] == ["cffi.api", True], "who imports wgpu's library first has it as wgpu-py makes it"
