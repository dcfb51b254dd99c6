"""shaders/lib/int64.wgsl: 64-bit integers made of two words, against Python's integers."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gpunn.backends.webgpu import shader
from gpunn.custom import Call, Kernel, Read, op
from gpunn.model import Model
from gpunn.types import Array, DType, TensorType

# Expression in the Wides a and b and the shift n, whose two words are the result; what it means, modulo 2^64.
FUNCTIONS: dict[str, Callable[[int, int, int], int]] = {
    "i64_from_i32(i32(a.x))": lambda a, b, n: low_word(a),
    "i64_from_i32(i64_to_i32(a))": lambda a, b, n: min(max(a, -(2**31)), 2**31 - 1),
    "i64_add(a, b)": lambda a, b, n: a + b,
    "i64_subtract(a, b)": lambda a, b, n: a - b,
    "i64_negate(a)": lambda a, b, n: -a,
    "magnitude(a)": lambda a, b, n: abs(a),
    "i64_multiply(a, b)": lambda a, b, n: a * b,
    "i64_product(i32(a.x), i32(b.x))": lambda a, b, n: low_word(a) * low_word(b),
    "I64(u32(i64_less(a, b)), u32(is_negative(a)))": lambda a, b, n: (a < b) + ((a < 0) << 32),
    "i64_max(a, b)": lambda a, b, n: max(a, b),
    "i64_min(a, b)": lambda a, b, n: min(a, b),
    "i64_shift_left(a, n)": lambda a, b, n: a << n,
    "i64_shift_right(a, n)": lambda a, b, n: a >> n,
    "I64(bitcast<u32>(i64_to_f32(a)), 0u)": lambda a, b, n: float_bits(nearest_float(a)),
    "i64_from_f32(i64_to_f32(a))": lambda a, b, n: saturated(nearest_float(a)),
    "i64_from_f32(bitcast<f32>(a.x))": lambda a, b, n: saturated(np.uint32(a % 2**32).view(np.float32)),
}
BODY = """//!use int64
// All functions of every pair of numbers.
@compute @workgroup_size(WX, WY, WZ)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if (i >= p.count) { return; }
  let x = bitcast<vec4<u32>>(load4_x(i));
  let a = x.xy;
  let b = x.zw;
  let n = b.x & 63u;
"""


def low_word(a: int) -> int:
    return (a + 2**31) % 2**32 - 2**31


def nearest_float(a: int) -> np.float32:
    """Return the nearest float32, by exact comparison with the neighbours of a first guess."""
    guess = np.float32(a)
    near = [np.nextafter(guess, np.float32(to)) for to in (-np.inf, np.inf)]
    return min([guess, *near], key=lambda f: (abs(Fraction(float(f)) - a), float_bits(f) & 1))


def float_bits(x: np.float32) -> int:
    return int(x.view(np.uint32))


def saturated(x: np.float32) -> int:
    if np.isnan(x):
        return 0
    return -(2**63) if x < -(2.0**63) else 2**63 - 1 if x >= 2.0**63 else int(x)


def numbers() -> list[int]:
    """Return pairs of numbers in a row: all pairs of edge cases, and random numbers of every length."""
    edges = [
        s * (2**k + d) for k in (0, 23, 24, 30, 31, 32, 33, 47, 52, 62) for d in (-1, 0, 1) for s in (1, -1)
    ]
    edges += [2**63 - 1, -(2**63), -(2**63) + 1, 2**32 - 1, 0x7F800000, 0x7FC00000, 0x5F000000, -0x21000000]
    rng = random.Random(5)
    # A length in bits first: numbers drawn evenly would all be close to the longest.
    drawn = [rng.getrandbits(rng.randint(1, 63)) * rng.choice((1, -1)) for _ in range(8000)]
    # Ties of f32, and their neighbours.
    ties = [((2 * rng.getrandbits(24) + 1) << rng.randint(0, 38)) + rng.randint(-1, 1) for _ in range(2000)]
    return [*(n for a in edges for b in edges for n in (a, b)), *drawn, *ties]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder shaders/ with only lib/ and a body that calls FUNCTIONS."""
    shutil.copytree(str(shader.shader_folder().joinpath("lib")), tmp_path / "lib")
    stores = (f"  put({len(FUNCTIONS)}u * i + {k}u, {e});\n" for k, e in enumerate(FUNCTIONS))
    put = "fn put(i: u32, v: I64) { store_y(2u * i, i32(v.x)); store_y(2u * i + 1u, i32(v.y)); }\n"
    (tmp_path / "int64_probe.wgsl").write_text(f"{BODY}{''.join(stores)}}}\n{put}")
    monkeypatch.setattr(shader, "shader_folder", lambda: tmp_path)
    shader.read_body.cache_clear()
    yield
    shader.read_body.cache_clear()


def _infer(call: Call) -> TensorType:
    return TensorType(DType.INT32, (call.x.shape[0], len(FUNCTIONS), 2))


def _kernel(call: Call) -> Kernel:
    pairs = call.x.shape[0]
    return Kernel(
        body="int64_probe",
        threads=(pairs, 1, 1),
        workgroup=(64, 1, 1),
        reads=(Read("x", 0),),
        params={"count": pairs},
    )


@op(_infer, _kernel)
def int64_probe(x: Array) -> Array:
    """Compute all FUNCTIONS of pairs of 64-bit numbers."""
    raise NotImplementedError


def test_every_function_is_that_of_pythons_integers(folder: None, gpu: str) -> None:
    values = np.array(numbers(), np.int64)
    model = Model()
    words = values.view(np.int32).reshape(-1, 4)
    model.output(*model.add(int64_probe, [model.input("x", TensorType(DType.INT32, words.shape))]))
    with model.compile(gpu) as compiled:
        found = np.asarray(compiled(words)).view(np.uint64)[..., 0]
    pairs = values.reshape(-1, 2).tolist()
    for k, (expression, meaning) in enumerate(FUNCTIONS.items()):
        expected = [meaning(a, b, b % 64) % 2**64 for a, b in pairs]
        wrong = [(a, b) for (a, b), f, e in zip(pairs, found[:, k].tolist(), expected, strict=True) if f != e]
        assert not wrong, f"{expression} of {len(wrong)} pairs, {wrong[0]} among them"
