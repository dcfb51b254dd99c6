"""The small files of ../shared/models/tflite_ops: stored answers, LiteRT's, or a refusal with its reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import gpunn
from gpunn.errors import FormatError, GpunnError, ModelError, UnsupportedError
from gpunn.model import Model
from gpunn.types import Array
from tests.resources import shared
from tests.tflite_builder import DEFAULT_KERNELS, litert_run

TOLERANCE = 1e-4  # of an output's range, as for the models
FOLDER = "tflite_ops/tflite_testdata"
# Files that LiteRT does not run either, or that have no results: the error, and words of its message.
REFUSED: dict[str, tuple[type[GpunnError], str]] = {
    "0_subgraphs": (FormatError, "has no subgraph"),
    "2_subgraphs": (FormatError, "has no outputs"),
    "2_subgraphs_dont_delegate_name": (FormatError, "has no outputs"),
    "add_shared_tensors": (FormatError, "comes from nowhere"),
    "custom_sinh": (UnsupportedError, "CUSTOM Sinh"),
    "double_flex": (UnsupportedError, "CUSTOM FlexDouble"),
    "empty_model": (FormatError, "has no outputs"),
    "multi_add_flex": (UnsupportedError, "CUSTOM FlexAddV2"),
    "no_subgraphs": (FormatError, "has no subgraph"),
    "segment_sum_invalid_buffer": (FormatError, "SEGMENT_SUM, comes from nowhere"),
    "softplus_flex": (UnsupportedError, "CUSTOM FlexSoftplus"),
    "sparse_tensor": (UnsupportedError, "CUSTOM FakeOp"),
    "tensor_string_data_type": (UnsupportedError, "STRING"),
    "test_custom_node_with_init_data": (UnsupportedError, "CUSTOM the_custom_code"),
    "test_model": (ModelError, "must have rank 4"),
    "test_model_versioned_ops": (ModelError, "must have rank 4"),
    "two_subgraphs": (FormatError, "has no outputs"),
    "with_metadata": (UnsupportedError, "CUSTOM NPU_OP"),
}
# Files without operators and results.
NOTHING = {"2_subgraphs", "2_subgraphs_dont_delegate_name", "empty_model", "two_subgraphs"}
TEXTS = {"string_input_model", "string_input_model_with_signature"}  # their outputs are their inputs
TEXT_LOOP = "while_op_with_forwarding_input"  # counts up, and returns a text
SLOW = {"conv3d_huge_im2col", "conv_huge_im2col"}  # 700 and 80 MB, ten seconds and more on two cores


def entries() -> list[dict[str, Any]]:
    """Return the manifest's small files."""
    found: list[dict[str, Any]] = json.loads(shared("models/MANIFEST.json").read_text())["op_tests"]
    return found


def name(entry: dict[str, Any]) -> str:
    return str(entry["file"]).removeprefix(f"{FOLDER}/").removesuffix(".bin")


def test_small_files_give_the_expected_answers_on_both_backends(gpu: str) -> None:
    tried = [e for e in entries() if name(e) not in {*REFUSED, *SLOW, *TEXTS, TEXT_LOOP}]
    assert len(tried) + len(REFUSED) + len(SLOW) + len(TEXTS) + 1 == len(entries())
    wrong = {}
    for entry in tried:
        model = gpunn.load(shared(f"models/{entry['file']}"))
        inputs, expected = stored(entry) if entry.get("expected") else computed(entry, model)
        first: list[Array] = []
        for backend in ("cpu", gpu):
            with model.compile(backend=backend) as compiled:
                found = compiled(*inputs)
            outputs = list(found) if isinstance(found, tuple) else [found] if model.outputs else []
            first = first or outputs
            problem = difference(outputs, expected, first)
            if problem:
                wrong[name(entry), backend] = problem
    assert not wrong


def stored(entry: dict[str, Any]) -> tuple[list[Array], list[Array]]:
    """Return inputs and outputs from the manifest's file of answers."""
    answers = np.load(shared(f"models/{entry['expected']}"))
    return [[answers[k] for k in answers if k.startswith(kind)] for kind in ("in", "out")]


def computed(entry: dict[str, Any], model: Model) -> tuple[list[Array], list[Array]]:
    """Return random inputs and LiteRT's results, for tensors too large for the file of answers."""
    pytest.importorskip("ai_edge_litert", reason="ai-edge-litert, the independent oracle, is not installed")
    rng = np.random.default_rng(7)
    inputs = [(rng.random(i.type.shape) * 9).astype(i.type.dtype.numpy) for i in model.inputs]
    return inputs, litert_run(shared(f"models/{entry['file']}").read_bytes(), inputs)


def difference(outputs: Sequence[Array], expected: Sequence[Array], first: Sequence[Array]) -> str:
    """Return errors of outputs; integers must have the bits of `first`, the other backend's outputs."""
    if [(o.dtype, o.shape) for o in outputs] != [(e.dtype, e.shape) for e in expected]:
        return f"{[(o.dtype, o.shape) for o in outputs]} instead of {[(e.dtype, e.shape) for e in expected]}"
    for output, answer, other in zip(outputs, expected, first, strict=True):
        real = output.dtype.kind == "f"
        if not real and not np.array_equal(output, other):
            return "the backends differ"
        limit = TOLERANCE * (np.ptp(answer) if answer.size > 1 else np.abs(answer).max(initial=0))
        distance = np.abs(output.astype(np.float64) - answer).max(initial=0)
        if not distance <= (limit if real else 1):
            return f"off by {distance}"
    return ""


@pytest.mark.parametrize("file", REFUSED)
def test_other_small_files_are_refused_with_a_reason(file: str) -> None:
    error, words = REFUSED[file]
    with pytest.raises(error, match=words):
        gpunn.load(shared(f"models/{FOLDER}/{file}.bin"))


@pytest.mark.parametrize("file", REFUSED)
def test_litert_refuses_them_too_unless_there_is_nothing_to_run(file: str) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="the oracle is not installed")
    if file in NOTHING:
        assert litert_open(litert, file).get_output_details() == []
        return
    with pytest.raises((RuntimeError, ValueError)):
        litert_open(litert, file).invoke()


def litert_open(litert: Any, file: str) -> Any:
    """Return LiteRT's interpreter of a file, ready to run."""
    interpreter = litert.Interpreter(
        model_content=shared(f"models/{FOLDER}/{file}.bin").read_bytes(),
        experimental_op_resolver_type=litert.OpResolverType[DEFAULT_KERNELS],
        num_threads=1,
    )
    interpreter.allocate_tensors()
    return interpreter


@pytest.mark.parametrize("file", sorted(TEXTS))
def test_texts_are_returned_unchanged(file: str, backend: str) -> None:
    texts = np.array([[b"", b"a text", b"another"]], object)
    with gpunn.load(shared(f"models/{FOLDER}/{file}.bin")).compile(backend=backend) as compiled:
        assert compiled(texts).tolist() == texts.tolist()


@pytest.mark.parametrize(("count", "numbers"), [(1, (1, 1)), (2, (2, 3)), (5, (5, 6))])
def test_a_text_passes_through_a_loop(count: int, numbers: tuple[int, int], backend: str) -> None:
    """The loop goes from 1 and 1 to n + 1 and n + 2 as long as the first number is below the count."""
    with gpunn.load(shared(f"models/{FOLDER}/{TEXT_LOOP}.bin")).compile(backend=backend) as compiled:
        *found, text = compiled(np.array([count], np.int32), ["a text"])
    assert tuple(found) == numbers
    assert text.tolist() == [b"a text"]
