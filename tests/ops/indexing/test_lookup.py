"""Lookups by index, key and locality-sensitive hash."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from gpunn.errors import ModelError
from gpunn.model import Model
from gpunn.ops.indexing.farmhash import fingerprint64
from gpunn.types import Array, DType, Quantization, TensorType, float32
from tests.ops.harness import check, check_litert, model_of, random, type_of
from tests.ops.nnapi_cases import check_cases
from tests.tflite_builder import litert_run, single_op

EXACT: dict[str, Any] = {"atol": 0, "rtol": 0}
HOST = "runs on the numpy backend"


def indices(seed: int, count: int, rows: int) -> Array:
    """Return int32 row numbers; they contain the first and the last row."""
    found = np.random.default_rng(seed).integers(0, rows, count, dtype=np.int32)
    found[:2] = [0, rows - 1][: len(found[:2])]
    return found


@pytest.mark.parametrize("shape", [(7, 3), (40, 20, 8), (1, 1), (5, 2, 3, 4), (6, 0)])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_embedding(shape: tuple[int, ...], count: int, backend: str) -> None:
    chosen, values = indices(0, count, shape[0]), random(1, *shape)
    for constants in ((), (0,), (1,)):
        (y,) = check("embedding_lookup", [chosen, values], backend=backend, constants=constants, **EXACT)
    assert y.shape == (count, *shape[1:])
    assert all((row == values[i]).all() for row, i in zip(y, chosen, strict=True))


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int8])
def test_embedding_of_other_dtypes(dtype: type, backend: str) -> None:
    values = np.random.default_rng(0).integers(-100, 100, (5, 7)).astype(dtype)
    check("embedding_lookup", [indices(0, 6, 5), values], backend=backend, **EXACT)


@pytest.mark.parametrize("wrong", [-1, 5, 2**31 - 1, -(2**31)])
def test_an_index_out_of_range_is_an_error(wrong: int, backend: str) -> None:
    values, chosen = random(0, 5, 4), np.array([0, wrong, 4], np.int32)
    message = rf"embedding_lookup: indices must be in 0 \.\.\. 4, got {wrong}"
    with (
        model_of("embedding_lookup", [chosen, values], {}).compile(backend=backend) as compilation,
        pytest.raises(ModelError, match=message),
    ):
        compilation(chosen, values)
    for constants in ((0,), (0, 1)):
        model = model_of("embedding_lookup", [chosen, values], {}, constants)
        with pytest.raises(ModelError, match=message):
            model.compile(backend=backend)(*([values] if constants == (0,) else []))


def test_embedding_keeps_quantisation() -> None:
    quantization = Quantization((0.5,), (3,))
    model = Model("quantised")
    chosen = model.input("chosen", TensorType(DType.INT32, (2,)))
    values = model.input("values", TensorType(DType.UINT8, (5, 3), quantization))
    (y,) = model.add("embedding_lookup", [chosen, values])
    assert y.type == TensorType(DType.UINT8, (2, 3), quantization)


KEYS = np.array([-7, 0, 3, 3, 123456], np.int32)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_hashtable(dtype: type, backend: str) -> None:
    values = np.random.default_rng(0).integers(1, 100, (5, 2, 3)).astype(dtype)
    lookups = np.array([3, 1, -7, 123456, 2**31 - 1, -(2**31)], np.int32)
    with model_of("hashtable_lookup", [lookups, KEYS, values], {}).compile(backend=backend) as compilation:
        assert all(HOST in p.reason or backend == "cpu" for p in compilation.placement)
        output, hits = compilation(lookups, KEYS, values)
    assert type_of(output) == TensorType(DType.of(dtype), (6, 2, 3))
    assert hits.dtype == np.uint8
    assert hits.tolist() == [1, 0, 1, 1, 0, 0]
    for row, key in zip(output, lookups, strict=True):
        expected = values[KEYS.tolist().index(key)] if key in KEYS else np.zeros((2, 3), dtype)
        np.testing.assert_array_equal(row, expected)


def test_an_empty_hashtable(backend: str) -> None:
    for count, keys in ((0, 5), (3, 0), (0, 0)):
        inputs = [np.ones(count, np.int32), KEYS[:keys], random(0, keys, 4)]
        with model_of("hashtable_lookup", inputs, {}).compile(backend=backend) as compilation:
            output, hits = compilation(*inputs)
        assert (output.shape, hits.shape) == ((count, 4), (count,))
        assert not output.any() and not hits.any()


def test_hashtable_types_and_sorted_keys() -> None:
    inputs = [KEYS, KEYS[::-1].copy(), random(0, 5, 4)]
    model = model_of("hashtable_lookup", inputs, {})
    assert model.operations[0].outputs[1].type == TensorType(DType.UINT8, (5,), Quantization((1.0,), (0,)))
    with pytest.raises(ModelError, match="hashtable_lookup: keys must be in ascending order"):
        model.compile(backend="cpu")(*inputs)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, object])
def test_table(dtype: type, backend: str) -> None:
    """The first of equal keys and the first default count; keys need not be sorted."""
    names = {3: b"3", 1: b"1\x00", -7: b"-7", 4: b"4"}
    keys, asked = ([names[k] for k in c] if dtype is object else c for c in ((3, 1, 3, -7), (1, 4, -7, 3)))
    values, default = random(0, 4), np.float32([9, 8])
    inputs = [np.array(asked, dtype).reshape(2, 2), np.array(keys, dtype), values, default]
    with model_of("table_lookup", inputs, {}).compile(backend=backend) as compilation:
        found = compilation(*inputs)
    np.testing.assert_array_equal(found, [[values[1], 9], [values[3], values[0]]])


def test_lookups_agree_with_litert() -> None:
    chosen, values = indices(0, 6, 5), random(0, 5, 4, 3)
    check_litert("embedding_lookup", [chosen, values], {}, "EMBEDDING_LOOKUP")
    types = [type_of(v) for v in (KEYS, KEYS, values)]
    results = [float32(5, 4, 3), TensorType(DType.UINT8, (5,))]
    keys, lookups = np.array([1, 2, 5, 8, 9], np.int32), np.array([5, 4, 9, 0, 1], np.int32)
    found = litert_run(single_op("HASHTABLE_LOOKUP", types, results), [lookups, keys, values])
    operation = model_of("hashtable_lookup", [lookups, keys, values], {}).operations[0]
    for result, expected in zip(operation.evaluate([lookups, keys, values]), found, strict=True):
        np.testing.assert_array_equal(result, expected)


# Computed with pyfarmhash (google/farmhash): fingerprints of the bytes 0, 1, 2 ... of every kind of length.
FINGERPRINTS = {
    4: 0x82BFFD898958E540,
    7: 0xA2E0BFF20DB0A6A1,
    8: 0xAD5A13E1E8E93B98,
    16: 0x0EFD25A0A34156D4,
    17: 0xBBB6A6F8F20D1F1C,
    32: 0x1A9D8199972CDF49,
    33: 0xE8756EC1CB75524E,
    64: 0xF58504BB53DECC4B,
    65: 0xC6A3282C3E793DBE,
    128: 0x1C484C95F0EA5DD3,
    129: 0xCE8BA3741121083E,
    200: 0x074C7FCC26D66FB3,
}


@pytest.mark.parametrize("length", FINGERPRINTS)
def test_fingerprints(length: int) -> None:
    keys = np.tile(np.arange(length, dtype=np.uint8), (2, 3, 1))
    found = fingerprint64(keys)
    assert found.shape == (2, 3)
    assert set(found.ravel().tolist()) == {FINGERPRINTS[length]}


def test_fingerprints_against_pyfarmhash() -> None:
    farmhash = pytest.importorskip("farmhash", reason="pyfarmhash, the independent oracle, is not installed")
    generator = np.random.default_rng(0)
    for length in range(4, 300):
        keys = generator.integers(0, 256, (3, length), dtype=np.uint8)
        expected = [farmhash.fingerprint64(key.tobytes()) for key in keys]
        assert fingerprint64(keys).tolist() == expected


def slow_projection(hash: Array, input: Array, weight: Array | None, offset: bool | None) -> list[int]:
    """Compute the documented sums one by one; `offset` None means dense."""
    bits = []
    for seed in hash.ravel():
        total = 0.0
        for k, piece in enumerate(input):
            key = np.frombuffer(struct.pack("<f", seed) + piece.tobytes(), np.uint8)
            score = int(fingerprint64(key[None])[0])
            score -= 2**64 if score >= 2**63 else 0
            total += float(score) * (1.0 if weight is None else float(weight[k]))
        bits.append(int(total > 0))
    if offset is None:
        return bits
    width = hash.shape[1]
    numbers = [int("".join(map(str, bits[k : k + width])), 2) for k in range(0, len(bits), width)]
    return [n + (k << width if offset else 0) for k, n in enumerate(numbers)]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.float16])
@pytest.mark.parametrize("weighted", [False, True])
def test_lsh_projection(dtype: type, weighted: bool, backend: str) -> None:
    generator = np.random.default_rng(1)
    hash = random(0, 4, 6)
    weight = random(1, 5) if weighted else None
    for shape in ((5,), (5, 2), (5, 3, 7), (5, 40)):
        x = generator.integers(0, 100, shape).astype(dtype)
        for type, offset in (("dense", None), ("sparse", False), ("sparse", True)):
            inputs = [hash, x] if weight is None else [hash, x, weight]
            model = model_of("lsh_projection", inputs, {"type": type, "offset": bool(offset)})
            with model.compile(backend=backend) as compilation:
                assert all(HOST in p.reason or backend == "cpu" for p in compilation.placement)
                y = compilation(*inputs)
            assert type_of(np.asarray(y)) == model.outputs[0].type
            assert np.asarray(y).tolist() == slow_projection(hash, x, weight, offset)


def test_lsh_projection_of_empty_inputs_and_of_32_bits(backend: str) -> None:
    for shape in ((0,), (0, 3), (3, 0)):
        check(
            "lsh_projection",
            [random(0, 2, 3), random(0, *shape)],
            {"type": "dense"},
            backend=backend,
            host=HOST,
        )
    (y,) = check(
        "lsh_projection", [random(0, 1, 32), random(0, 5)], {"type": "sparse"}, backend=backend, host=HOST
    )
    assert y.dtype == np.int32


def test_lsh_projection_agrees_with_litert() -> None:
    hash, x, weight = random(0, 3, 4), random(1, 5, 2), random(2, 5)
    inputs = [hash, x, weight]
    check_litert("lsh_projection", inputs, {"type": "dense"}, "LSH_PROJECTION", {"type": 2})
    sparse = {"type": "sparse", "offset": True}
    check_litert("lsh_projection", inputs[:2], sparse, "LSH_PROJECTION", {"type": 1})


def test_conformance(backend: str) -> None:
    def project(hash: Array, x: Array, weight: Array | None, kind: Array) -> Any:
        return [hash, x, weight], {"type": {1: "sparse", 2: "dense"}[int(kind)]}

    check_cases("EMBEDDING_LOOKUP", "embedding_lookup", lambda *inputs: (inputs, {}), backend)
    check_cases("HASHTABLE_LOOKUP", "hashtable_lookup", lambda *inputs: (inputs, {}), backend)
    check_cases("LSH_PROJECTION", "lsh_projection", project, backend)


LOOKUPS = np.zeros(3, np.int32)
ROWS = random(0, 5, 4)
SPARSE = {"type": "sparse"}


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "message"),
    [
        ("embedding_lookup", [LOOKUPS[None], ROWS], {}, r"input 0 must have rank 1, got shape \[1, 3\]"),
        ("embedding_lookup", [LOOKUPS.astype(np.int64), ROWS], {}, "input 0 must be int32, got int64"),
        ("embedding_lookup", [LOOKUPS, ROWS[0]], {}, r"input 1 must have rank 2 or more, got shape \[4\]"),
        ("hashtable_lookup", [LOOKUPS, LOOKUPS, ROWS], {}, "a key for each of 5 slices of values, got 3"),
        ("hashtable_lookup", [LOOKUPS, LOOKUPS.astype(np.float32), ROWS], {}, "input 1 must be int32"),
        ("hashtable_lookup", [LOOKUPS[None], LOOKUPS, ROWS[:3]], {}, "input 0 must have rank 1"),
        ("hashtable_lookup", [LOOKUPS, LOOKUPS, ROWS[0, 0]], {}, "input 2 must have rank 1 or more"),
        ("table_lookup", [ROWS, LOOKUPS, LOOKUPS, LOOKUPS], {}, "input 0 must be int32 or int64 or string"),
        ("table_lookup", [LOOKUPS, ROWS, LOOKUPS, LOOKUPS], {}, "input 1 must have rank 1"),
        (
            "table_lookup",
            [LOOKUPS, ROWS[:, 0], LOOKUPS, LOOKUPS],
            {},
            "keys must be int32 as what is looked up",
        ),
        ("table_lookup", [LOOKUPS, LOOKUPS, KEYS, KEYS], {}, "a value for each of 3 keys, got int32"),
        ("table_lookup", [LOOKUPS, LOOKUPS, LOOKUPS, ROWS], {}, "a default of the type of the values, int32"),
        ("table_lookup", [LOOKUPS, LOOKUPS, LOOKUPS, KEYS[:0]], {}, "a default of the type of the values"),
        ("lsh_projection", [ROWS[0], ROWS], SPARSE, "input 0 must have rank 2"),
        ("lsh_projection", [np.zeros((2, 3), np.int64), ROWS], SPARSE, "input 0 must be .* int32, got int64"),
        ("lsh_projection", [ROWS, ROWS[0, 0]], SPARSE, "input 1 must have rank 1 or more, got a scalar"),
        ("lsh_projection", [ROWS, ROWS, ROWS[0]], SPARSE, r"weight must have shape \[5\], got \[4\]"),
        ("lsh_projection", [ROWS, ROWS, LOOKUPS], SPARSE, "input 2 must be float32 or float16, got int32"),
        ("lsh_projection", [ROWS, ROWS], {"type": 1}, "type must be sparse or dense, got 1"),
        ("lsh_projection", [ROWS, ROWS], {}, "needs attribute type"),
        ("lsh_projection", [ROWS, ROWS], {"type": "dense", "offset": True}, "offset is for sparse"),
        ("lsh_projection", [random(0, 3, 31), ROWS], SPARSE, "31 bits .* of 3 functions do not fit 32 bits"),
    ],
)
def test_errors(op: str, inputs: list[Array], attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"{op}: .*{message}"):
        model_of(op, inputs, attrs)
