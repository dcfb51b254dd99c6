"""Rules of TFLite operators that choose, convert, make and find values (a part of the table in table.py).

Versions need no rule of their own: a later version adds a type, or a field whose default is the earlier
meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tflite as schema

from gpunn.graph.operation import Operand
from gpunn.importers.common.answers import PREVIOUS, Known, Result, Step, StepList, Steps, at_once, constant
from gpunn.importers.common.node import RefusedError
from gpunn.importers.tflite.node import Node, symmetric
from gpunn.importers.tflite.rules.blocks import block_reals
from gpunn.importers.tflite.rules.tensor import INDEX_TYPES
from gpunn.types import DType

MAX_RANGE = 1 << 22  # elements that a few numbers may unfold to in the reader
COMBINERS = {
    schema.CombinerType.SUM: "sum",
    schema.CombinerType.MEAN: "mean",
    schema.CombinerType.SQRTN: "sqrtn",
}
PROJECTIONS: Mapping[int, Mapping[str, Any]] = {
    schema.LSHProjectionType.SPARSE: {"type": "sparse", "offset": True},
    schema.LSHProjectionType.DENSE: {"type": "dense"},
}


def blocks(op: str, options: str) -> Callable[[Node], Step]:
    """Make a rule for DEPTH_TO_SPACE and SPACE_TO_DEPTH."""
    return lambda node: Step(op, node.inputs, {"block_size": node.options(options).get("BlockSize")})


def to_output_type(op: str) -> Callable[[Node], Step]:
    """Make a rule for CAST and BITCAST to the type of the output, which CastOptions only repeat."""

    def rule(node: Node) -> Step:
        result = node.outputs[0] if node.outputs else None
        if result is None:
            raise RefusedError("the output is of a type that is not supported")
        return Step(op, node.inputs, {"dtype": result.dtype.value})

    return rule


def broadcast_args(node: Node) -> Step | Known:
    """Translate BROADCAST_ARGS of two shapes: the shape that both broadcast to."""
    return at_once(Step("broadcast_args", (node.operand(0), node.operand(1))), node)


def concat_embeddings(node: Node) -> Step:
    """Translate CONCAT_EMBEDDINGS of ids and a table for each channel; the options give the other numbers."""
    options = node.options("ConcatEmbeddingsOptions")
    columns, dims = options.ints("NumColumnsPerChannel"), options.ints("EmbeddingDimPerChannel")
    tables = [node.operand(k) for k in range(1, len(node.inputs))]
    channels = options.get("NumChannels")
    if not channels == len(tables) == len(columns):
        node.corrupt(f"has {channels} channels, columns for {len(columns)} and {len(tables)} tables")
    found = tuple(t.type.shape[-1] for t in tables if t.type.rank)
    if dims and dims != found:
        node.corrupt(f"the tables should have rows of {list(dims)} elements, got {list(found)}")
    return Step("concat_embeddings", node.inputs, {"columns": columns})


def embedding_lookup(node: Node) -> Sequence[Step] | Steps:
    """Translate EMBEDDING_LOOKUP; rows of a quantised table become real if the file says FLOAT32."""
    rows, table = node.operand(0), node.operand(1)
    if 1 in node.blocks:
        return _rows_of_blocks(node, rows, table)
    result, quantization = node.outputs[0] if node.outputs else None, table.type.quantization
    if quantization is None or result is None or result.dtype is not DType.FLOAT32:
        return [Step("embedding_lookup", node.inputs)]
    table = symmetric(table)
    if not quantization.per_tensor:  # which a pick of rows would have to pick from as well
        return [Step("dequantize", (table,)), Step("gather", (PREVIOUS, rows))]
    return [Step("embedding_lookup", (rows, table)), Step("dequantize", (PREVIOUS,))]


def _rows_of_blocks(node: Node, rows: Operand, table: Operand) -> Steps:
    """Pick rows of stored integers and of their scales, and compute their reals, FLOAT32 or FLOAT16."""
    result, steps = node.outputs[0] if node.outputs else None, StepList()
    if result is None or result.dtype not in (DType.FLOAT32, DType.FLOAT16):
        raise RefusedError("the rows of a table with scales of blocks must become FLOAT32 or FLOAT16")

    def chosen(source: Operand) -> Result:
        return steps.add("embedding_lookup", (rows, source))

    shape = *rows.type.shape, table.type.shape[1]
    reals = block_reals(steps, node.blocks[1], chosen(table), shape, chosen)
    if result.dtype is DType.FLOAT16:
        reals = steps.add("cast", (reals,), {"dtype": result.dtype.value})
    return steps.answer(reals)


def embedding_lookup_sparse(node: Node) -> Step:
    """Translate EMBEDDING_LOOKUP_SPARSE of a constant dense shape."""
    number = node.options("EmbeddingLookupSparseOptions").get("Combiner")
    if number not in COMBINERS:
        node.corrupt(f"there is no combiner number {number}")
    attrs = {"shape": node.ints(2, "extents"), "combiner": COMBINERS[number]}
    return Step("embedding_lookup_sparse", tuple(node.operand(k) for k in (0, 1, 3, 4)), attrs)


def fake_quant(node: Node) -> Step:
    """Translate FAKE_QUANT: rounding to the values that num_bits can represent."""
    options = node.options("FakeQuantOptions")
    attrs = {
        "min": options.get("Min"),
        "max": options.get("Max"),
        "num_bits": options.get("NumBits"),
        "narrow_range": options.get("NarrowRange"),
    }
    return Step("fake_quant", node.inputs, attrs)


def gelu(node: Node) -> Step:
    """Translate GELU, exact or with a hyperbolic tangent."""
    approximate = node.options("GeluOptions").get("Approximate")
    return Step("gelu_tanh" if approximate else "gelu", node.inputs)


def l2_normalization(node: Node) -> Sequence[Step]:
    """Translate L2_NORMALIZATION over the last axis, and the fused activation."""
    steps = [Step("l2_normalization", node.inputs, {"axis": -1})]
    activation = node.options("L2NormOptions").activation()
    if activation:
        steps.append(Step(activation["activation"], (PREVIOUS,)))
    return steps


def local_response_normalization(node: Node) -> Step:
    """Translate LOCAL_RESPONSE_NORMALIZATION over the last axis."""
    options = node.options("LocalResponseNormalizationOptions")
    attrs = {name: options.get(name.capitalize()) for name in ("radius", "bias", "alpha", "beta")}
    return Step("local_response_normalization", node.inputs, attrs)


def lsh_projection(node: Node) -> Step:
    """Translate LSH_PROJECTION; a sparse signature has its function's number in the upper bits."""
    number = node.options("LSHProjectionOptions").get("Type")
    if number not in PROJECTIONS:
        node.corrupt(f"there is no projection type number {number}")
    return Step("lsh_projection", node.inputs, PROJECTIONS[number])


def skip_grams(node: Node) -> Step | Known:
    """Translate SKIP_GRAM of a text."""
    options = node.options("SkipGramOptions")
    attrs = {
        "ngram_size": options.get("NgramSize"),
        "max_skip_size": options.get("MaxSkipSize"),
        "include_all_ngrams": options.get("IncludeAllNgrams"),
    }
    return at_once(Step("skip_gram", (node.operand(0),), attrs), node)


def bucketize(node: Node) -> Step:
    """Translate BUCKETIZE by the option's boundaries."""
    return Step(
        "bucketize", node.inputs, {"boundaries": node.options("BucketizeOptions").floats("Boundaries")}
    )


def sum_of_all(node: Node) -> Step:
    """Translate ADD_N of terms of one shape."""
    terms = [node.operand(k) for k in range(max(len(node.inputs), 1))]
    if any(o.type.shape != terms[0].type.shape for o in terms):
        node.corrupt("the terms should have one shape")
    return Step("add_n", tuple(terms))


def expect_few(extents: Iterable[int]) -> None:
    """Refuse to make many numbers: a small file may say any count, also of a tensor without elements."""
    count = math.prod(max(n, 1) for n in extents)
    if count > MAX_RANGE:
        raise RefusedError(f"{count} numbers are too many, at most {MAX_RANGE} are supported")


def fill(node: Node) -> Step:
    """Translate FILL of constant extents."""
    return Step("fill", (node.operand(1),), {"shape": node.ints(0, "extents")})


def random(op: str) -> Callable[[Node], Steps]:
    """Make a rule for operators that draw a constant number of random numbers; the last input counts draws.

    LiteRT reads 32 bits of each seed. If both are 0 the file leaves them open: any seed is allowed.
    """

    def rule(node: Node) -> Steps:
        options = node.options("RandomOptions")
        seeds = tuple((options.get(name) + 2**31) % 2**32 - 2**31 for name in ("Seed", "Seed2"))
        if not any(seeds):
            seeds = tuple(int(v) for v in np.random.SeedSequence().generate_state(2))
        *given, drawn = node.inputs
        if op == "multinomial":
            dtype = node.outputs[0].dtype.value if node.outputs and node.outputs[0] else "int64"
            (samples,) = node.ints(1, "numbers of samples", 1)
            draw = Step(op, (node.operand(0), drawn), {"samples": samples, "dtype": dtype, "seeds": seeds})
        else:
            draw = Step(op, (drawn,), {"shape": node.ints(0, "extents"), "seeds": seeds})
        return Steps((draw,), (Result(0),), {len(given): Result(0, 1)})

    return rule


def suppression(outputs: Sequence[int]) -> Callable[[Node], Steps]:
    """Make a rule for NON_MAX_SUPPRESSION; a version of it has these results of the op."""

    def rule(node: Node) -> Steps:
        (count,) = node.ints(2, "numbers of boxes", 1)
        names = ("iou_threshold", "score_threshold", "sigma")[: len(node.inputs) - 3]
        numbers = (_real(node, k, name) for k, name in enumerate(names, 3))
        inputs = (node.operand(0), node.operand(1), *numbers)
        boxes = Step("non_max_suppression", inputs, {"max_output_size": count})
        return Steps((boxes,), tuple(Result(0, k) for k in outputs))

    return rule


def _real(node: Node, index: int, what: str) -> Operand:
    """Return input `index`, one real number; a known integer is allowed too."""
    operand = node.operand(index)
    if operand.value is None or operand.type.dtype is DType.FLOAT32:
        return operand
    return constant(f"{node.origin}: {what}", np.array(_number(node, index, what), np.float32))


def unique(node: Node) -> Step | Known:
    """Translate UNIQUE of a list: its values in order of appearance, and the place of each element."""
    dtype = node.options("UniqueOptions").get("IdxOutType")
    if dtype not in INDEX_TYPES:
        node.corrupt(f"takes a list of numbers, and numbers places by INT32 or INT64, not by number {dtype}")
    return at_once(Step("unique", (node.operand(0),), {"dtype": INDEX_TYPES[dtype]}), node)


def one_hot(node: Node) -> Step:
    """Translate ONE_HOT of a constant depth."""
    (depth,) = node.ints(1, "depths", 1)
    attrs = {"depth": depth, "axis": node.options("OneHotOptions").get("Axis")}
    return Step("one_hot", (node.operand(0), node.operand(2), node.operand(3)), attrs)


def sequence(node: Node) -> Step | Known:
    """Translate RANGE from start to limit in steps of delta; real numbers add up in float32 as in TFLite."""
    return at_once(Step("range", tuple(node.operand(k) for k in range(3))), node)


def _number(node: Node, index: int, what: str) -> Any:
    """Return the only element of constant input `index`."""
    value = node.constant(index, what, "int32", "int64", "float32")
    if value.size != 1:
        node.corrupt(f"the {what} should be one number, got {value.size}")
    return value.reshape(())


def choose(node: Node) -> Sequence[Step]:
    """Translate SELECT: a condition of rank 1 chooses among slices of tensors with a higher rank."""
    condition, a, b = (node.operand(k) for k in range(3))
    if a.type.shape != b.type.shape:
        node.corrupt(f"chooses between shapes {list(a.type.shape)} and {list(b.type.shape)}")
    pick = Step("select", (condition, a, b))
    if condition.type.rank != 1 or a.type.rank < 2:
        return (pick,)
    shape = (*condition.type.shape, *(1,) * (a.type.rank - 1))
    return Step("reshape", (condition,), {"shape": shape}), Step("select", (PREVIOUS, a, b))


def where(node: Node) -> Step | Known:
    """Translate WHERE of a condition: the places of its true elements."""
    return at_once(Step("where", (node.operand(0),)), node)
