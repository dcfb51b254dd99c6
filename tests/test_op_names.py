"""An op is one place: other modules that know ops by name are listed here, with their reasons."""

from __future__ import annotations

import ast
import importlib
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunn.ops import OPS
from gpunn.ops.op import Op
from tests.resources import ROOT

# Not searched: the ops themselves, and the tables of ops for operators of a format.
TABLES = (
    "gpunn/ops/",
    "gpunn/importers/tflite/rules/",
    "gpunn/importers/coreml/rules/",
    "gpunn/importers/nnapi/rules.py",
    "gpunn/importers/nnapi/table.py",
    "gpunn/importers/nnapi/recurrent.py",
    "gpunn/importers/nnapi/listing.py",
    "gpunn/bench/peers/ncnn_",
    "gpunn/bench/peers/onnx_",
)
ACTIVATIONS_OF_A_FORMAT = "the format's table of fused activations"
A_WORD = "the English word, no op"
REMAINDER: dict[str, tuple[str, set[str]]] = {
    "gpunn/__init__.py": ("public functions of the same names", {"dequantize", "quantize"}),
    "gpunn/backends/lines.py": ("what has a loop, and what may come before", {"add", "mul", "pad"}),
    "gpunn/cli/bench.py": (A_WORD, {"round"}),
    "gpunn/cli/comparison.py": (A_WORD, {"equal"}),
    "gpunn/comparison/figures.py": (A_WORD, {"equal"}),
    "gpunn/graph/pixels.py": (A_WORD, {"mean"}),
    "gpunn/report/layers.py": (A_WORD, {"equal"}),
    "gpunn/vision/__init__.py": ("a public function of the same name", {"top_k"}),
    "gpunn/vision/photos.py": (A_WORD, {"mean"}),
    "gpunn/vision/steps.py": (
        "what it adds before and behind a classifier",
        {
            *("cast", "dequantize", "div", "not_equal", "quantize", "reduce_min", "reduce_sum", "reshape"),
            *("sub", "top_k"),
        },
    ),
    "gpunn/importers/common/strided_slice.py": (
        "rules of STRIDED_SLICE that formats share",
        {"dynamic_slice", "reshape", "strided_slice", "sub"},
    ),
    "gpunn/importers/coreml/classes.py": (
        "types of layers of the format",
        {"reshape", "softmax", "squeeze", "transpose"},
    ),
    "gpunn/importers/coreml/contradictions.py": ("the name of a layer's weights", {"mean"}),
    "gpunn/importers/coreml/control.py": (
        "rules of layers with bodies: the operations, and the decisions and counters of loops",
        {
            *("abs", "add", "cast", "fill", "greater", "if_else", "less", "logical_and", "logical_not"),
            *("reshape", "while_loop"),
        },
    ),
    "gpunn/importers/coreml/conversion.py": (
        "what an input goes through before the first layer, and an output after the last",
        {"add", "cast", "dequantize", "mul", "quantize", "reshape", "strided_slice", "sub", "transpose"},
    ),
    "gpunn/importers/coreml/layer.py": ("outputs of a lower rank", {"reshape"}),
    "gpunn/importers/coreml/reader.py": ("default values", {"fill"}),
    "gpunn/importers/nnapi/layout.py": ("images of the layout NCHW", {"transpose"}),
    "gpunn/importers/nnapi/node.py": (ACTIVATIONS_OF_A_FORMAT, {"relu", "relu1", "relu6"}),
    "gpunn/importers/tflite/node.py": (
        ACTIVATIONS_OF_A_FORMAT,
        {"relu", "relu1", "relu6", "sign_bit", "tanh"},
    ),
    "gpunn/importers/coreml/updates.py": (
        "names of layers and fields of the format",
        {"range", "softmax", "tanh"},
    ),
    "gpunn/importers/tflite/control.py": (
        "rules of operators that call subgraphs",
        {"if_else", "while_loop"},
    ),
    "gpunn/importers/tflite/custom.py": (
        "the table of custom operators that gpunn brings",
        {"detection_postprocess"},
    ),
    "gpunn/importers/tflite/operator_builder.py": ("adds it, for filters that meet reals", {"dequantize"}),
    "gpunn/importers/tflite/resources.py": ("rules of operators on resources", {"table_lookup"}),
    "gpunn/importers/tflite/types.py": (
        "TFLite's operators take less than these ops do",
        {"add", "add_n", "mul", "reduce_sum"},
    ),
    "gpunn/nnapi/translation.py": ("adds it, as NNAPI has no scalars", {"reshape"}),
    "gpunn/performance/workload.py": ("a model to measure", {"conv2d", "depthwise_conv2d", "relu6"}),
    "gpunn/backends/cpu.py": ("what a loop gives may be on a device", {"while_loop"}),
    "gpunn/backends/webgpu/loop.py": ("one dispatch for all rounds, or for some", {"some_rounds"}),
    "gpunn/backends/webgpu/lower.py": ("one dispatch for all rounds", {"some_rounds", "while_loop"}),
    "gpunn/compilation/assembly.py": (
        "the values of a loop stay on the device, for several rounds",
        {"some_rounds", "while_loop"},
    ),
    "gpunn/compilation/on_gpu.py": ("a GPU runs all rounds", {"some_rounds", "while_loop"}),
    "gpunn/compilation/specialise.py": ("they may never end", {"some_rounds", "while_loop"}),
    "gpunn/passes/average_pad.py": ("what it finds and writes", {"average_pool2d", "pad"}),
    "gpunn/passes/arrangement.py": ("writes them", {"reshape", "transpose"}),
    "gpunn/training/gradients.py": ("gives an output its name", {"reshape"}),
    "gpunn/training/losses.py": (
        "what losses are written in; softmax, whose logarithm is computed from its operand",
        {"log", "log_softmax", "mean", "mul", "reduce_sum", "softmax", "squared_difference"},
    ),
    "gpunn/training/optimizers.py": ("what updates are written in", {"sqrt", "square"}),
    "gpunn/training/step.py": ("copies a weight", {"maximum"}),
    "gpunn/passes/adjoint.py": ("transposes an operand by itself", {"batch_matmul", "reshape", "transpose"}),
    "gpunn/passes/clamp.py": ("writes them", {"maximum", "minimum", "neg"}),
    "gpunn/passes/combine.py": (
        "what comes together",
        {"mean", "reduce_sum", "reshape", "roll", "transpose"},
    ),
    "gpunn/passes/dilate.py": (
        "these two stand for a dilation",
        {"batch_to_space_nd", "space_to_batch_nd"},
    ),
    "gpunn/passes/fold.py": ("its first result needs no allowance", {"dequantize"}),
    "gpunn/passes/fuse.py": ("becomes an attribute", {"pad"}),
    "gpunn/passes/layer_norm.py": (
        "these stand for a layer normalisation",
        {
            *("add", "div", "layer_normalization", "mean", "mul", "reduce_sum", "rsqrt", "sqrt", "square"),
            *("squared_difference", "broadcast_to", "reshape"),
        },
    ),
    "gpunn/passes/forms.py": (
        "what forms of others are made of",
        {"add", "logistic", "mul", "neg", "sub", "tanh"},
    ),
    "gpunn/passes/left_product.py": (
        "what it finds and writes",
        {"batch_matmul", "fully_connected", "reshape", "transpose"},
    ),
    "gpunn/passes/phases.py": (
        "what it finds and writes",
        {"concat", "reshape", "strided_slice", "transpose"},
    ),
    "gpunn/passes/rotary.py": ("what it finds and writes", {"concat", "reshape", "rotary_embedding"}),
    "gpunn/passes/softmax.py": (
        "what it finds and writes",
        {
            *("div", "exp", "log", "log_softmax", "maximum", "reduce_max", "reduce_sum", "softmax"),
        },
    ),
    "gpunn/passes/unrolled.py": (
        "what steps of recurrent layers are made of, and how states are taken out of a sequence",
        {"fully_connected", "reshape", "strided_slice"},
    ),
    "gpunn/passes/grouped_heads.py": (
        "what it finds and writes",
        {"batch_matmul", "broadcast_to", "mul", "reshape", "softmax", "transpose"},
    ),
    "gpunn/passes/affine.py": (
        "what sums are made of",
        {"add_n", "concat", "fully_connected", "split", "strided_slice"},
    ),
    "gpunn/passes/loops.py": (
        "what may be known of a loop before it starts; terms of its condition",
        {"logical_and", "while_loop"},
    ),
    "gpunn/passes/merge_layers.py": ("what it merges, and divides again", {"fully_connected", "split"}),
    "gpunn/passes/prune.py": (
        "what readers may do themselves, and what takes parts of what is joined",
        {"broadcast_to", "concat", "strided_slice"},
    ),
    "gpunn/passes/cells.py": (
        "what it finds and writes",
        {
            *("add", "fully_connected", "mul_n", "relu", "reshape"),
            *("recurrence", "gru_recurrence", "gru_reset_after", "lstm_recurrence"),
        },
    ),
    "gpunn/passes/step_loops.py": (
        "what it finds and writes",
        {
            *("while_loop", "gather", "scatter_slices", "dynamic_update_slice", "concat"),
            *("reshape", "strided_slice"),
        },
    ),
    "gpunn/passes/rejoin.py": (
        "gives it a tensor instead of pieces or parts; what moves it around or turns it instead",
        {"concat", "reshape", "roll", "stack", "strided_slice"},
    ),
    "gpunn/passes/rounds.py": (
        "what it writes: a loop of rounds that a condition can end",
        {"logical_and", "reshape", "select", "while_loop"},
    ),
    "gpunn/passes/stack_pieces.py": ("what it finds and writes", {"reshape", "split", "transpose"}),
    "gpunn/passes/sink_reshapes.py": ("what changes places", {"pad", "reshape"}),
    "gpunn/passes/swish.py": (
        "what it finds and writes",
        {"silu", "hard_swish", "div", "relu01", "relu6", "select", "less", "zeros_like"},
    ),
    "gpunn/passes/tabulate.py": ("what it writes, and what it leaves", {"lut", "quantize"}),
    "gpunn/passes/requantize.py": ("what it removes and writes", {"dequantize", "quantize", "reshape"}),
}


def imported(tree: ast.Module) -> dict[str, object]:
    """Return the imports of a module from gpunn.ops, by their names in the module."""
    found: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gpunn.ops"):
            source = importlib.import_module(node.module or "")
            for alias in node.names:
                if not hasattr(source, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                found[alias.asname or alias.name] = getattr(source, alias.name)
    return found


def named(source: str) -> Iterator[str]:
    """Yield the ops that a module names, as strings and as imported objects."""
    tree = ast.parse(source)
    objects = imported(tree)
    yield from (found.name for found in objects.values() if isinstance(found, Op))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in OPS:
            yield node.value
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = objects.get(node.value.id)
            found = getattr(module, node.attr, None) if isinstance(module, types.ModuleType) else None
            if isinstance(found, Op):
                yield found.name


def modules() -> Iterator[Path]:
    """Yield all modules that are searched."""
    for path in sorted((ROOT / "gpunn").rglob("*.py")):
        if not path.relative_to(ROOT).as_posix().startswith(TABLES):
            yield path


def test_only_modules_with_a_reason_know_ops_by_name() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): set(named(path.read_text(encoding="utf-8"))) for path in modules()
    }
    assert {name: ops for name, ops in found.items() if ops} == {n: ops for n, (_, ops) in REMAINDER.items()}


@pytest.mark.parametrize(
    "source",
    [
        'if operation.op == "conv2d": pass',
        'KINDS = {"conv2d": 1}',
        "from gpunn.ops.contraction.conv import conv2d as c",
        "from gpunn.ops.contraction import conv\nfound = conv.conv2d",
    ],
)
def test_each_way_to_name_an_op_is_found(source: str) -> None:
    assert set(named(source)) == {"conv2d"}
