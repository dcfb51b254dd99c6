"""shader.py: the generated part of a shader, and what the compiler says about a broken body."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunn.backends.webgpu import shader, wgsl
from gpunn.errors import DeviceError
from gpunn.graph.operation import Operation
from gpunn.kernel import Function, Kernel, Read, Write
from gpunn.model import Model
from gpunn.types import DType, TensorType, float32

BODY = """//!use helper
// A body for tests.

@compute @workgroup_size(WX, WY, WZ)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  if (g.x >= p.COUNT) { return; }
  storev_y(g.x, applyv(twice(loadv_x(g.x)) * p.FACTOR + loadv_b(g.x)));
}
"""
HELPER = "fn twice(v: V) -> V { return v + v; }\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder shaders/ in the place of the real one, with only BODY in it."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "body.wgsl").write_text(BODY)
    (tmp_path / "lib" / "helper.wgsl").write_text(HELPER)
    (tmp_path / "lib" / "bytes.wgsl").write_text("")  # which operands of bytes need
    monkeypatch.setattr(shader, "shader_folder", lambda: tmp_path)
    shader.read_body.cache_clear()
    yield tmp_path
    shader.read_body.cache_clear()


def operation() -> Operation:
    model = Model()
    model.output(*model.add("relu", [model.input("x", float32(8))]))
    return model.operations[0]


def kernel(lanes: int = 4) -> Kernel:
    return Kernel(
        body="body",
        threads=(2, 1, 1),
        workgroup=(64, 1, 1),
        reads=(Read("x", 0, lanes), Read("b", None)),
        writes=(Write(width=lanes),),
        params={"COUNT": 2, "FACTOR": 0.5},
        functions={"apply": Function(("x",), "max(x, T(0))")},
        lanes=lanes,
    )


def test_the_body_comes_first_so_its_line_numbers_stay(folder: Path) -> None:
    source = shader.generate(shader.key_of(kernel(), operation()))
    assert source.startswith(BODY + "\n" + HELPER)


def test_declarations_follow_what_the_kernel_states(folder: Path) -> None:
    source = shader.generate(shader.key_of(kernel(), operation()))
    for line in (
        "alias V = vec4<f32>;",
        "const WX: u32 = 64u;",
        "@group(0) @binding(0) var<storage, read_write> x_data: array<vec4<f32>>;",
        "@group(0) @binding(1) var<storage, read_write> y_data: array<vec4<f32>>;",
        "struct P { COUNT: u32, FACTOR: f32 }",
        "@group(0) @binding(2) var<uniform> p: P;",
        "fn loadv_b(i: u32) -> vec4<f32> { return vec4<f32>(); }",
        "fn apply4(x: vec4<f32>) -> vec4<f32> { return vec4<f32>(apply(x[0]), ",
    ):
        assert line in source
    assert "load_x" not in source, "accessors that nobody calls are not generated"


def test_lanes_make_a_new_pipeline_but_sizes_and_numbers_do_not(folder: Path) -> None:
    from dataclasses import replace

    key = shader.key_of(kernel(), operation())
    other = replace(kernel(), params={"COUNT": 7, "FACTOR": 2.0}, threads=(9, 1, 1))
    assert shader.key_of(other, operation()) == key
    assert shader.key_of(kernel(lanes=1), operation()) != key


# Everything that declarations are generated for, in comments of every kind.
COMMENTED = """//!use helper
// store_y(i, v) and load4_x(i), apply4(v) of V_acc
/* splatv(x) and integer(x) /* nested: store_y(i, v) */ still a comment: V_x
   //!use missing, word_x(i) */
@compute @workgroup_size(WX, WY, WZ)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  store4_y(g.x, /* store_y( */ twice(load4_x(g.x))); // apply(
} // storev_y("""


def test_names_in_comments_add_no_declarations(folder: Path) -> None:
    """For example, a comment with store_y(...) does not make the stores of bytes atomic."""
    (folder / "body.wgsl").write_text(COMMENTED)
    model = Model()
    x = model.input("x", TensorType(DType.INT8, (2, 4)))
    model.output(*model.add("transpose", [x], {"perm": (1, 0)}))
    key = shader.key_of(kernel(), model.operations[0])
    declared = shader.parts(key)[-1].text
    assert "var<storage, read_write> y_data: array<u32>;" in declared
    assert "atomic" not in declared
    functions = set(re.findall(r"fn (\w+)", declared))
    assert functions == {"load4_x", "store4_y"}
    assert set(re.findall(r"alias (\w+)", declared)) == {"T", "V"}
    (folder / "body.wgsl").write_text(COMMENTED.replace("/* store_y( */", "store_y(g.x, 1);"))
    shader.read_body.cache_clear()
    assert "atomic" in shader.parts(key)[-1].text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a // b\nc", "a     \nc"),
        ("a // b", "a     "),
        ("a /* b\nc */ d", "a     \n     d"),
        ("a /* b /* c */ d */ e", "a                   e"),
        ("a /*/ b */ c", "a          c"),
        ("a // /* b\nc */ d", "a        \nc */ d"),
        ("a /* // */ b", "a          b"),
        ("a /* b\nc", "a     \n "),
        ("a / b * c", "a / b * c"),
    ],
)
def test_comments_become_blanks(text: str, code: str) -> None:
    assert wgsl.without_comments(text) == code


def test_libraries_are_named_at_the_beginning() -> None:
    assert wgsl.used_libraries("//!use a b\n//!use c\n// comment\n//!use d\n") == ("a", "b", "c")
    assert wgsl.used_libraries("// comment\n") == ()


def test_parts_tell_where_lines_come_from(folder: Path) -> None:
    key = shader.key_of(kernel(), operation())
    found = shader.parts(key)
    assert [part.file for part in found] == ["shaders/body.wgsl", "shaders/lib/helper.wgsl", ""]
    lines = shader.generate(key).splitlines()
    for part in found:
        assert lines[part.first - 1] == part.text.splitlines()[0]
    assert sum(part.lines for part in found) == len(lines) + 1  # behind the last line break


@pytest.mark.parametrize(
    ("file", "old", "new", "place"),
    [
        ("body.wgsl", "g.x >= p.COUNT", "g.x >= p.MISSING", r"shaders/body\.wgsl:6:\d+: .*MISSING"),
        ("lib/helper.wgsl", "v + v", "v + w", r"shaders/lib/helper\.wgsl:1:\d+: .*w"),
        ("body.wgsl", "storev_y(g.x, ", "storev_y(g.x ", r"shaders/body\.wgsl:7:\d+: "),
    ],
)
def test_errors_of_the_compiler_name_file_and_line(
    folder: Path, gpu: str, file: str, old: str, new: str, place: str
) -> None:
    from gpunn.backends.webgpu.device import open_device

    path = folder / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(DeviceError) as caught:
        open_device(None, False).pipeline(shader.key_of(kernel(), operation()))
    assert re.match(place, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


def test_every_real_body_has_a_head_comment() -> None:
    root = Path(str(shader.shader_folder()))
    bodies = sorted(root.rglob("*.wgsl"))
    assert bodies
    for path in bodies:
        text = path.read_text().lstrip()
        text = re.sub(r"^//!use .*\n", "", text)
        assert text.startswith("// "), f"{path.name} does not say what it computes"
