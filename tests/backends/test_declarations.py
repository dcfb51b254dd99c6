"""C types that cffi parses together: the same types, and none left that a first answer asks for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import cffi
import pytest

from gpunn.backends.webgpu.declarations import NAMES, parse_together

HEADER = "typedef struct { int a; } A; typedef struct BImpl* B; typedef enum { C_1, C_2 } C;"
SPELLED = (
    "A *",
    "A * ",
    "A[]",
    "B[]",
    "A const *",
    "char []",
    "uint32_t []",
    "uintptr_t",
    "C",
    "void(B, C, A *)",
)


def ffi_of(header: str) -> cffi.FFI:
    ffi = cffi.FFI()
    ffi.cdef(header)
    return ffi


@pytest.mark.parametrize("name", SPELLED)
def test_types_are_those_that_cffi_finds(name: str) -> None:
    ffi = ffi_of(HEADER)
    parse_together(ffi, SPELLED)
    known = ffi._parsed_types.pop(name)
    ffi.callback(name, lambda *_: None) if "(" in name else ffi.typeof(name)
    assert ffi._parsed_types[name] == known
    assert ffi._parsed_types[name] is not known, "it has been parsed again"


def test_an_unknown_type_leaves_all_as_it_was() -> None:
    ffi = ffi_of(HEADER)
    parse_together(ffi, ["A *", "Missing *"])
    assert not {"A *", "Missing *"} & {*ffi._parsed_types}
    assert ffi.new("A *").a == 0


def test_another_cffi_may_keep_its_types_elsewhere() -> None:
    parse_together(object(), NAMES)


RUN = """
import json, sys
import cffi.cparser
asked, parse = [], cffi.cparser.Parser.parse_type
def noting(parser, name):
    asked.append(name)
    return parse(parser, name)
cffi.cparser.Parser.parse_type = noting
import numpy as np
import gpunn
import wgpu.backends.wgpu_native
before = len(asked)
model = gpunn.load(sys.argv[1])
with model.compile("webgpu") as compiled:
    image = np.zeros(model.inputs[0].type.shape, model.inputs[0].type.dtype.numpy)
    compiled(image)
    compiled.trace(image)
print(json.dumps(asked[before:]))
"""


def test_a_first_answer_parses_nothing_else(gpu: str) -> None:
    """Every name costs 10 ms: those of a run are in NAMES."""
    model = Path(__file__).parents[2] / "gpunn" / "data" / "cifar10_mobilenet.tflite"
    done = subprocess.run([sys.executable, "-c", RUN, str(model)], capture_output=True, text=True, check=True)
    (together,) = json.loads(done.stdout)
    assert together.startswith("struct {")
