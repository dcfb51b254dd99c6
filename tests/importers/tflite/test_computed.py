"""Shapes that depend on values: planned up to the unknown ones, and further in a run, against LiteRT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn import nnapi
from gpunn.backends.webgpu.device import open_device
from gpunn.compilation.specialise import MAX_SPECIALISATIONS
from gpunn.importers.tflite.file import TfliteFile
from gpunn.types import Array, DType, TensorType, float32
from tests.ops.harness import random, type_of
from tests.resources import shared
from tests.tflite_builder import Graph, litert_run, single_op

X = random(1, 2, 3, 4)
UNKNOWN = float32(1)  # the shape that a file states if it does not know the shape


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


def scalar(value: int) -> Array:
    return np.array(value, np.int32)


# Operator, its values (all of them are inputs of the model), dtype of the output, options.
CASES: list[tuple[str, Sequence[Array], DType, Mapping[str, Any]]] = [
    ("ARG_MAX", [X, ints(1)], DType.INT32, {"output_type": "INT32"}),
    ("BROADCAST_TO", [X[:, :1], ints(2, 5, 4)], DType.FLOAT32, {}),
    ("EXPAND_DIMS", [X, scalar(-1)], DType.FLOAT32, {}),
    ("FILL", [ints(3, 2), np.float32(7)], DType.FLOAT32, {}),
    ("MEAN", [X, ints(0, 2)], DType.FLOAT32, {"keep_dims": True}),
    ("MIRROR_PAD", [X, ints([1, 0], [0, 2], [1, 1])], DType.FLOAT32, {"mode": "REFLECT"}),
    ("ONE_HOT", [ints(2, 0, 1), scalar(4), np.float32(1), np.float32(0)], DType.FLOAT32, {"axis": -1}),
    ("PAD", [X, ints([1, 0], [0, 2], [0, 0])], DType.FLOAT32, {}),
    ("RANGE", [scalar(2), scalar(11), scalar(4)], DType.INT32, {}),
    ("RANGE", [np.float32(1), np.float32(-1), np.float32(-0.5)], DType.FLOAT32, {}),
    ("RESHAPE", [X, ints(4, -1)], DType.FLOAT32, {}),
    ("RESIZE_BILINEAR", [X[:, :, :, None], ints(5, 2)], DType.FLOAT32, {}),
    ("RESIZE_NEAREST_NEIGHBOR", [X[:, :, :, None], ints(5, 2)], DType.FLOAT32, {}),
    ("SEGMENT_SUM", [X, ints(0, 1)], DType.FLOAT32, {}),
    ("SLICE", [X, ints(0, 1, 2), ints(-1, 2, 1)], DType.FLOAT32, {}),
    ("SPACE_TO_BATCH_ND", [X[..., None], ints(2, 2), ints([1, 0], [0, 0])], DType.FLOAT32, {}),
    ("SPARSE_TO_DENSE", [ints([0, 1], [2, 0]), ints(3, 2), ints(5, 6), scalar(1)], DType.INT32, {}),
    ("STRIDED_SLICE", [X, ints(1, 2), ints(2, 0), ints(1, -1)], DType.FLOAT32, {}),
    ("SUM", [X, ints(1)], DType.FLOAT32, {}),
    ("TILE", [X, ints(2, 1, 3)], DType.FLOAT32, {}),
    ("TRANSPOSE", [X, ints(2, 0, 1)], DType.FLOAT32, {}),
    ("WHERE", [X > 0], DType.INT64, {}),
]


@pytest.mark.parametrize(("operator", "inputs", "dtype", "options"), CASES)
def test_operators_with_computed_parameters(
    backend: str, operator: str, inputs: Sequence[Array], dtype: DType, options: Mapping[str, Any]
) -> None:
    """LiteRT's bits, apart from sums and means (12 roundings of 2^-24) and interpolation (4 roundings)."""
    inputs = [np.asarray(x) for x in inputs]
    said = (2, 2, 1) if operator == "SLICE" else (1,)  # LiteRT wants the slice's shape in the file
    types, version = [type_of(x) for x in inputs], 2 if operator == "BROADCAST_TO" else 1
    data = single_op(operator, types, [TensorType(dtype, said)], options, version=version)
    model = gpunn.load(data)
    (wanted,) = litert_run(data, inputs)
    assert model.outputs[0].declared == f"{dtype.value}[...]"
    with model.compile(backend) as compiled:
        for _ in range(2):
            found = compiled(*inputs)
            assert found.shape == wanted.shape and found.dtype == wanted.dtype
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 if dtype is DType.FLOAT32 else 0)
        assert compiled.stats.programs == 2


def test_broadcast_args(backend: str) -> None:
    """The length of the result does not depend on values."""
    inputs = [ints(2, 1, 4), ints(3, 1)]
    data = single_op("BROADCAST_ARGS", [type_of(x) for x in inputs], [TensorType(DType.INT32, (3,))])
    with gpunn.load(data).compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(*inputs), litert_run(data, inputs)[0])
        assert compiled(ints(2, 1, 1), ints(3, 5)).tolist() == [2, 3, 5]
        assert compiled.stats.programs == 1


def test_where_may_find_no_place(backend: str) -> None:
    """LiteRT computes it, but its Python interface cannot return empty tensors."""
    data = single_op("WHERE", [type_of(X > 0)], [TensorType(DType.INT64, (1, 3))])
    with gpunn.load(data).compile(backend) as compiled:
        assert compiled(np.zeros(X.shape, bool)).shape == (0, 3)
        assert compiled(X > 0).shape == (np.count_nonzero(X > 0), 3)


def chain() -> bytes:
    """A file of WHERE, GATHER_ND of the places, RESHAPE by an input, TILE by their count: three stops."""
    graph = Graph()
    x, shape = graph.input(float32(3, 4), "x"), graph.input(TensorType(DType.INT32, (2,)), "shape")
    (relu,) = graph.add("RELU", [x], [float32(3, 4)], names=["relu"])
    limit = graph.constant(np.float32(1))
    (large,) = graph.add("GREATER", [relu, limit], [TensorType(DType.BOOL, (3, 4))])
    (places,) = graph.add("WHERE", [large], [TensorType(DType.INT64, (1, 2))])
    (found,) = graph.add("GATHER_ND", [relu, places], [UNKNOWN], names=["found"])
    (turned,) = graph.add("RESHAPE", [relu, shape], [float32(1, 1)], names=["turned"])
    (count,) = graph.add("SHAPE", [found], [TensorType(DType.INT32, (1,))], {"out_type": "INT32"})
    (tiled,) = graph.add("TILE", [found, count], [UNKNOWN], names=["tiled"])
    return graph.build([relu, found, turned, tiled, x])


def sample(seed: int, *shape: int) -> list[Array]:
    return [2 * random(seed, 3, 4), np.array(shape, np.int32)]


SAMPLES = [sample(seed, *shape) for seed, shape in enumerate([(4, 3), (2, 6), (4, 3), (12, 1), (-1, 6)])]


@pytest.mark.parametrize("preference", [*gpunn.Preference])
def test_several_stops_and_every_way_to_run(backend: str, preference: gpunn.Preference) -> None:
    data = chain()
    wanted = [litert_run(data, inputs) for inputs in SAMPLES]
    with gpunn.load(data).compile(backend, preference=preference) as compiled:
        names = ["relu", "found", "turned", "tiled", "x"]
        events = [compiled.submit(*inputs) for inputs in SAMPLES]
        for inputs, event, expected, streamed in zip(
            SAMPLES, events, wanted, compiled.stream(tuple(s) for s in SAMPLES), strict=True
        ):
            named = compiled.run({"x": inputs[0], "shape": inputs[1]})
            assert list(named) == names
            for results in (compiled(*inputs), event.result(), streamed, tuple(named.values())):
                for found, want in zip(results, expected, strict=True):
                    np.testing.assert_array_equal(found, want)
        assert compiled.stats.runs == 4 * len(SAMPLES)


def test_later_sections_are_planned_once_for_each_shape_or_value(backend: str) -> None:
    with gpunn.load(chain()).compile(backend) as compiled:
        assert [p.operation.op for p in compiled.placement] == ["relu", "greater"]
        pending = [entry.op for entry in compiled.model.pending]
        assert pending == ["where", "gather_nd", "reshape", "shape", "tile"]
        assert "for each shape" in compiled.model.pending[0].reason
        x = np.zeros((3, 4), np.float32)
        x[0, :2] = 5
        compiled(x, ints(3, 4))
        assert compiled.stats.programs == 2
        compiled(x[::-1].copy(), ints(3, 4))
        assert compiled.stats.programs == 2, "other places, but the same number of them and the same shape"
        compiled(x, ints(12, 1))
        assert compiled.stats.programs == 3, "another shape, the same number of places"
        ops = [(p.operation.op, p.backend) for p in compiled.placement]
        assert ops == [
            *((op, backend) for op in ("relu", "greater")),
            ("where", "cpu"),
            ("gather_nd", compiled.placement[3].backend),
            ("reshape", "alias"),
            ("tile", backend),
        ]


def test_specialisations_of_sections_are_bounded_and_freed(gpu: str) -> None:
    store = open_device(None, False).constants
    before = store.nbytes
    graph = Graph()
    x, repeats = graph.input(float32(1, 8)), graph.input(TensorType(DType.INT32, (2,)))
    (tiled,) = graph.add("TILE", [x, repeats], [UNKNOWN])
    offsets = graph.constant(random(3, 8))  # weights of a product would be packed as the rows want it
    (y,) = graph.add("ADD", [tiled, offsets], [UNKNOWN])
    compiled = gpunn.load(graph.build([y])).compile(gpu)
    value = random(4, 1, 8)
    compiled(value, ints(1, 1))
    resident = compiled.stats.resident_bytes
    for n in range(1, MAX_SPECIALISATIONS + 4):
        assert compiled(value, ints(n, 1)).shape == (n, 8)
    stats = compiled.stats
    assert (stats.programs, stats.runs) == (MAX_SPECIALISATIONS + 4, MAX_SPECIALISATIONS + 4)
    assert stats.resident_bytes == resident
    assert len(compiled._specialisations._later[0].values()) == MAX_SPECIALISATIONS
    compiled.close()
    assert store.nbytes == before and compiled.stats.arena_bytes == 0
    with pytest.raises(gpunn.DeviceError, match="closed"):
        compiled(value, ints(1, 1))
    with pytest.raises(gpunn.DeviceError, match="closed"):
        compiled.submit(value, ints(1, 1))


def test_close_lets_submitted_runs_end(backend: str) -> None:
    compiled = gpunn.load(chain()).compile(backend)
    event = compiled.submit(*SAMPLES[0])
    compiled.close()
    np.testing.assert_array_equal(event.result()[3], litert_run(chain(), SAMPLES[0])[3])


@pytest.mark.parametrize(
    ("operator", "inputs", "message"),
    [
        ("RESHAPE", [X, ints(2**31 - 1, 2**31 - 1)], "cannot take shape"),
        ("RESHAPE", [X, ints(5, -1)], "cannot take shape"),
        ("FILL", [ints(2**31 - 1, 2), np.float32(1)], "at most 2147483647"),
        ("FILL", [ints(-1, 2), np.float32(1)], "entries >= 0"),
        ("TILE", [X, ints(2**20, 2**20, 1)], "at most 2147483647"),
        ("PAD", [X, ints([2**30, 2**30], [0, 0], [0, 0])], "at most 2147483647"),
        ("SLICE", [X, ints(0, 0, 0), ints(3, 1, 1)], "does not fit"),
        ("RANGE", [scalar(0), scalar(5), scalar(0)], "in steps of 0"),
        ("RANGE", [scalar(0), scalar(2**30), scalar(1)], "at most 4194304 are supported"),
        ("TRANSPOSE", [X, ints(0, 0, 1)], "perm"),
    ],
)
def test_values_that_give_no_shape_are_refused_and_others_run(
    backend: str, operator: str, inputs: Sequence[Array], message: str
) -> None:
    graph = Graph()
    numbers = [graph.input(type_of(np.asarray(x))) for x in inputs]
    dtype = DType.INT32 if operator == "RANGE" else DType.FLOAT32
    (y,) = graph.add(operator, numbers, [TensorType(dtype, (1,))])
    fine = {"RESHAPE": ints(4, 6), "FILL": ints(1, 1), "TILE": ints(1, 1, 1), "TRANSPOSE": ints(0, 1, 2)}
    with gpunn.load(graph.build([y])).compile(backend) as compiled:
        error = gpunn.UnsupportedError if "supported" in message else gpunn.ModelError
        with pytest.raises(error, match=message) as caught:
            compiled(*inputs)
        assert not isinstance(caught.value, gpunn.FormatError), "the file is not at fault"
        assert "operation 0" in str(caught.value) or "tensor" in str(caught.value)
        if operator in fine:
            good = [fine[operator] if np.asarray(x).dtype == np.int32 else x for x in inputs]
            assert compiled(*good).size == (1 if operator == "FILL" else X.size)


def test_dynamic_shapes_file(backend: str) -> None:
    """A file of TensorFlow Lite's own tests; sums of 1024 products are within 1024 * 2^-24 of about 300."""
    data = shared("models/tflite_ops/tflite_testdata/dynamic_shapes.bin").read_bytes()
    model = gpunn.load(data)
    assert model.outputs[0].declared == "float32[8, ?, 1024]"
    x, y = (np.random.default_rng(k).random(i.type.shape, np.float32) for k, i in enumerate(model.inputs[:2]))
    with model.compile(backend) as compiled:
        for length in (17, 90, 17):
            inputs = [x, y, np.full((1, 1), length, np.float32)]
            (wanted,) = litert_run(data, inputs)
            found = compiled(*inputs)
            assert found.shape == wanted.shape == (8, length, 1024)
            np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
        assert compiled.stats.programs == 3  # before the values, and for each length


def test_inputs_of_other_shapes_and_a_stop(backend: str) -> None:
    graph = Graph()
    x = graph.input(float32(1, 4), "x", (-1, 4))
    (large,) = graph.add(
        "GREATER",
        [x, graph.constant(np.float32(0))],
        [TensorType(DType.BOOL, (1, 4))],
        signatures=[(-1, 4)],
    )
    data = graph.build(graph.add("WHERE", [large], [TensorType(DType.INT64, (1, 2))], signatures=[(-1, 2)]))
    model = gpunn.load(data)
    assert (model.inputs[0].declared, model.outputs[0].declared) == ("float32[?, 4]", "int64[?, 2]")
    with model.compile(backend) as compiled:
        for rows in (1, 5, 2):
            value = random(rows, rows, 4)
            np.testing.assert_array_equal(compiled(value), litert_run(data, [value])[0])
    value = random(1, 3, 4)
    with model.reshaped({"x": (3, 4)}).compile(backend) as compiled:
        np.testing.assert_array_equal(compiled(value), litert_run(data, [value])[0])


def test_unsupported_operators_after_a_stop_are_reported_at_once() -> None:
    graph = Graph()
    x, shape = graph.input(float32(2, 3)), graph.input(TensorType(DType.INT32, (2,)))
    (y,) = graph.add("RESHAPE", [x, shape], [UNKNOWN])
    (z,) = graph.add("Mystery", [y], [UNKNOWN])
    with pytest.raises(gpunn.UnsupportedError, match="operation 1, CUSTOM Mystery"):
        gpunn.load(graph.build([z]))


def composite(graph: Graph, index: int, inputs: Sequence[int], operator: str) -> tuple[int, ...]:
    """Add a call of another subgraph; it has two results of unknown extents."""
    made_of = {
        "name": b"mine",
        "decomposition_subgraph_index": index,
        "composite_attributes": np.zeros(3, np.uint8),
    }
    options = made_of if operator == "STABLEHLO_COMPOSITE" else {"subgraph": index}
    return graph.add(operator, inputs, [UNKNOWN, UNKNOWN], options, signatures=[(-1,), (-1,)])


def inside(operator: str) -> bytes:
    """A file in which subgraph 2 stops twice, subgraph 1 before and after it, and the model at the end."""
    main, middle, inner = Graph(), Graph(), Graph()
    x = inner.input(float32(1), signature=(-1,))
    (large,) = inner.add("GREATER", [x, inner.constant(np.float32(0))], [TensorType(DType.BOOL, (1,))])
    (places,) = inner.add("WHERE", [large], [TensorType(DType.INT64, (1, 1))])
    (found,) = inner.add("GATHER_ND", [x, places], [UNKNOWN])
    (count,) = inner.add("SHAPE", [found], [TensorType(DType.INT32, (1,))], {"out_type": "INT32"})
    (tiled,) = inner.add("TILE", [found, count], [UNKNOWN])
    x, times = middle.input(float32(2)), middle.input(TensorType(DType.INT32, (1,)))
    (twice,) = middle.add("TILE", [x, times], [UNKNOWN], signatures=[(-1,)])
    a, b = composite(middle, 2, [twice], operator)
    (c,) = middle.add("TILE", [a, times], [UNKNOWN])
    x, times = main.input(float32(2)), main.input(TensorType(DType.INT32, (1,)))
    a, b = composite(main, 1, [x, times], operator)
    (y,) = main.add("TILE", [main.add("NEG", [a], [UNKNOWN])[0], times], [UNKNOWN])
    return main.build([y, b, x], called=[(middle, [c, b]), (inner, [tiled, x])])


@pytest.mark.parametrize("operator", ["CALL", "STABLEHLO_COMPOSITE"])
def test_stops_inside_called_subgraphs(backend: str, operator: str) -> None:
    """LiteRT has no CALL and gets the same subgraphs as composites."""
    wanted = inside("STABLEHLO_COMPOSITE")
    with gpunn.load(inside(operator)).compile(backend) as compiled:
        for x, times in (([3, -1], 2), ([1, 2], 1), ([3, 4], 3), ([3, -1], 2)):
            inputs = [np.array(x, np.float32), ints(times)]
            for y, expected in zip(compiled(*inputs), litert_run(wanted, inputs), strict=True):
                np.testing.assert_array_equal(y, expected)
        stops = [p.operation.op for p in compiled.placement if p.operation.op in ("shape", "where")]
    assert stops == ["where"], "SHAPE gives a constant as soon as WHERE is computed"


def test_export_to_nnapi_needs_the_whole_graph() -> None:
    model = gpunn.load(chain())
    with pytest.raises(gpunn.UnsupportedError, match="NNAPI cannot express"):
        nnapi.from_model(model)
    model.add("neg", [model.inputs[0]])


def test_a_changed_model_keeps_its_pending_operations(backend: str) -> None:
    model = gpunn.load(chain())
    model.output(*model.add("neg", [model.outputs[1]]))
    with model.reshaped({"x": (3, 4)}).compile(backend) as compiled:
        *found, last = compiled(*SAMPLES[0])
        np.testing.assert_array_equal(last, -found[1])
        for y, wanted in zip(found, litert_run(chain(), SAMPLES[0]), strict=True):
            np.testing.assert_array_equal(y, wanted)


def test_a_file_is_read_once(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its operators are added again to graphs with other shapes, without reading the file again."""
    data, shapes = inside("CALL"), {"t0": (3,)}
    inputs = [np.array([1, -2, 3], np.float32), ints(2)]
    wanted = gpunn.load(data).compile("cpu", shapes=shapes)(*inputs)
    model = gpunn.load(data)

    def read(*arguments: Any) -> None:
        raise AssertionError("the file is read again")

    for name in ("_graph", "_tensor", "_operator"):
        monkeypatch.setattr(TfliteFile, name, read)
    with model.reshaped(shapes).compile(backend) as compiled:
        for y, expected in zip(compiled(*inputs), wanted, strict=True):
            np.testing.assert_array_equal(y, expected)
