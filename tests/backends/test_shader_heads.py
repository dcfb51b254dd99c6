"""Comments of shaders: they name everything that a file leaves open."""

from __future__ import annotations

import re

import pytest

from gpunn.backends.webgpu.shader import with_dependencies
from gpunn.backends.webgpu.wgsl import used_libraries, without_comments
from tests.resources import ROOT

FOLDER = ROOT / "shaders"
FILES = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.wgsl"))
ACCESSOR = re.compile(r"\b(?:load4|loadv|load|splat|int|word|store[4sv]|store|column4|row4)_(\w+)\(")
KNOWN = """WGSL's own words:
    abs all any array atomicLoad atomicMax atomicStore bitcast builtin clamp countLeadingZeros dot extractBits
    floor for if insertBits
    inverseSqrt max min pow round return select sqrt storageBarrier subgroupBroadcast switch transpose
    unpack2x16float while
    workgroupBarrier
    workgroup_size
    i32 u32 f32 vec2 vec3 vec4 mat4x4
naga's:
    u64
What every body may use:
    apply integer splat WX WY WZ
"""


def read(name: str) -> str:
    return (FOLDER / f"{name}.wgsl").read_text(encoding="utf-8")


def missing(text: str) -> set[str]:
    """Return operands, parameters, constants and functions in the code of a file that no comment mentions.

    Comments of the file itself must mention operands. Other names may be in comments of a library that it
    uses, or be defined by a library that a comment names, or by one that this uses.
    """
    code = without_comments(text)
    texts = [text, *(read(f"lib/{library}") for library in with_dependencies(used_libraries(text)))]
    said = "\n".join(comment for t in texts for comment in re.findall(r"//(.*)", t))
    named = with_dependencies(sorted(set(re.findall(r"\blib/(\w+)\.wgsl", said))))
    texts += (read(f"lib/{library}") for library in named)
    around = "\n".join(map(without_comments, texts))
    words = {*re.findall(r"\w+", said + KNOWN), *re.findall(r"\b(?:fn|const|alias) (\w+)", around)}
    params = set(re.findall(r"\bp\.(\w+)", said))
    params |= {f"{name}_hi" for name in params} if "_hi" in words else set()
    found = {f"p.{name}" for name in set(re.findall(r"\bp\.(\w+)", code)) - params}
    found |= set(ACCESSOR.findall(code)) - {*re.findall(r"\w+", "\n".join(re.findall(r"//(.*)", text)))}
    found |= set(re.findall(r"(?<!\.)\b[A-Z][A-Z_0-9]+\b", code)) - words
    calls = {name for name in re.findall(r"\b([a-z]\w*)\s*\(", code) if not ACCESSOR.match(f"{name}(")}
    return found | {name for name in calls if not {name, re.sub("[4v]$", "", name)} & words}


@pytest.mark.parametrize("name", FILES)
def test_comments_name_what_is_left_open(name: str) -> None:
    assert missing(read(name)) == set()


def test_what_is_missing_is_found() -> None:
    assert missing(re.sub("// .*", "// A body.", read("unary"))) == {"x", "y"}
    assert missing(read("pad").replace("p.value", "a number", 1).replace(" p.value;", "", 1)) == {"p.value"}
    assert missing(read("unary").replace("{", "{ let n = unknown(COUNT);")) == {"unknown", "COUNT"}
