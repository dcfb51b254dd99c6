"""Lowering for descriptions of devices: what each can run, and which candidate it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpunn.backends.adapter import DeviceInfo
from gpunn.backends.webgpu import shader
from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import choose, lower
from gpunn.backends.webgpu.properties import LAVAPIPE_LOOP_ITERATIONS, properties
from gpunn.backends.webgpu.shader import read_body
from gpunn.custom import Call, Candidate, Kernel, Read, Unsupported, op
from gpunn.device import BASELINE, DEFAULT_LIMITS, FEATURES, HALF_PRECISION, SUBGROUPS, DeviceProperties
from gpunn.kernel import Scratch, Write
from gpunn.model import Model
from gpunn.types import Array, float32
from tests.ops.harness import model_of, random
from tests.resources import ROOT

LAVAPIPE = replace(BASELINE, max_loop_iterations=LAVAPIPE_LOOP_ITERATIONS)


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def kernels_of(
    device: DeviceProperties,
    op: str,
    inputs: Sequence[Array],
    attrs: dict[str, Any] | None = None,
    constants: Sequence[int] = (),
) -> tuple[Kernel, ...] | str:
    return lower(model_of(op, inputs, attrs or {}, constants).operations[0], device)


def bodies(found: tuple[Kernel, ...] | str) -> list[str]:
    assert not isinstance(found, str), found
    return [kernel.body for kernel in found]


def test_filters_are_divided_only_if_the_device_needs_it() -> None:
    inputs = [ones(1, 2), ones(20_000, 2), ones(20_000, 1), ones(1), ones(1, 20_000)]
    assert bodies(kernels_of(BASELINE, "svdf", inputs, {"rank": 20_000})) == ["svdf"]
    divided = kernels_of(LAVAPIPE, "svdf", inputs, {"rank": 20_000})
    assert bodies(divided) == ["svdf_entry", "svdf_memory"]


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "whole", "part"),
    [
        ("cumsum", [ones(70_000, 64)], {"axis": 0}, "cumsum", "cumsum_part"),
        ("cumsum", [ones(70_000, 1), np.array(0)], {}, "cumsum_along", "cumsum_along_part"),
        ("arg_max_pool2d", [ones(1, 300, 300, 1)], {"size": (300, 300)}, "arg_max_pool2d", "arg_max_pool2d"),
        ("fully_connected", [ones(1, 70_001), ones(2, 70_001)], {}, "matmul_any", "matmul_any"),
        ("reduce_sum", [ones(5_000_000)], {"axes": (0,)}, "reduce", "reduce"),
        ("batch_matmul", [ones(2, 70_001), ones(70_001, 2)], {}, "batch_matmul", "batch_matmul"),
        ("arg_max", [ones(5_000_000)], {"axis": 0}, "extreme", "extreme_part"),
        ("rnn", [ones(1, 5_000_000), ones(1, 5_000_000), ones(1, 1), ones(1), ones(1, 1)], {}, "rnn", "rnn"),
        ("conv2d", [ones(1, 20, 20, 200), ones(2, 20, 20, 200)], {}, "conv2d_grouped", "conv2d_grouped"),
    ],
)
def test_sums_are_divided_only_if_the_device_needs_it(
    op: str, inputs: list[Array], attrs: dict[str, Any], whole: str, part: str
) -> None:
    assert bodies(kernels_of(BASELINE, op, inputs, attrs)) == [whole]
    assert bodies(kernels_of(LAVAPIPE, op, inputs, attrs)) == [part] * 2


def test_a_sequence_is_divided_only_if_the_device_needs_it() -> None:
    inputs = [ones(1, 20_000, 5), ones(5, 5), ones(1, 5)]
    assert bodies(kernels_of(BASELINE, "recurrence", inputs, constants=(1,))) == ["recurrence"]
    divided = kernels_of(LAVAPIPE, "recurrence", inputs, constants=(1,))
    assert len(bodies(divided)) > 1
    assert not isinstance(divided, str)
    assert sum(int(str(k.params["steps"])) for k in divided) == 20_000
    assert max(k.loop_iterations for k in divided) <= LAVAPIPE_LOOP_ITERATIONS


def test_a_sequence_that_takes_a_workgroup_long_is_divided() -> None:
    """Drivers end a dispatch that takes seconds."""
    inputs = [ones(1, 600, 3 * 1000), ones(3 * 1000, 1000), ones(1, 1000)]
    plenty = {**DEFAULT_LIMITS, "max-compute-workgroup-storage-size": 1 << 15}
    found = kernels_of(replace(BASELINE, limits=plenty), "gru_recurrence", inputs, constants=(1,))
    assert not isinstance(found, str)
    assert [k.params["steps"] for k in found] == [357, 243]
    (between,) = found[0].scratch
    assert found[1].reads[2].operand is between


def test_updates_of_a_row_are_divided_only_if_the_device_needs_it() -> None:
    inputs = [ones(70_000, 1), np.zeros(70_000, np.int32)]
    attrs = {"segments": 1}
    assert bodies(kernels_of(BASELINE, "segment_sum", inputs, attrs, (1,))) == ["join_rows"]
    assert bodies(kernels_of(LAVAPIPE, "segment_sum", inputs, attrs, (1,))) == ["join_rows"] * 2


def test_top_k_walks_along_long_rows_if_the_device_allows_it() -> None:
    row = [random(0, 1, 1_000_000)]
    assert bodies(kernels_of(BASELINE, "top_k", row, {"k": 16})) == ["extremes"]
    assert bodies(kernels_of(LAVAPIPE, "top_k", row, {"k": 16}))[0] == "sort_blocks"
    assert bodies(kernels_of(LAVAPIPE, "top_k", row, {"k": 2})) == ["extremes"]


def test_a_sum_has_as_many_parts_as_the_device_needs() -> None:
    inputs, attrs = [random(0, 9, 64), random(1, 20, 64)], {"activation": None}
    splits = []
    for parallel in (1, 8, 1 << 15):
        device = replace(BASELINE, parallel_invocations=parallel)
        (kernel,) = kernels_of(device, "fully_connected", inputs, attrs, (1,))
        assert isinstance(kernel, Kernel)
        splits.append(kernel.constants["SPLITS"])
    assert splits == [1, 2, 8]


KERNEL = Kernel(body="unary", threads=(64, 1, 1), workgroup=(64, 1, 1), reads=(Read("x", 0),))
BINDING = DEFAULT_LIMITS["max-storage-buffer-binding-size"]
OVER = (
    (replace(KERNEL, reads=(Read("x", 0),) * 8), "9 buffers are over the device's limit of 8"),
    (replace(KERNEL, threads=(64 * 65_536, 1, 1)), "a grid of (65536, 1, 1) workgroups is over the device's"),
    (replace(KERNEL, workgroup=(512, 1, 1)), "a workgroup of (512, 1, 1) is over the device's limits of 256"),
    (replace(KERNEL, workgroup=(1, 1, 65)), "a workgroup of (1, 1, 65) is over the device's limits of 256"),
    (replace(KERNEL, workgroup_bytes=16_385), "16385 bytes of workgroup memory are over the device's limit"),
    (
        replace(KERNEL, writes=(Write(output=Scratch(float32(BINDING // 4 + 1))),)),
        f"a tensor of {BINDING + 4} bytes is over the device's binding limit of {BINDING}",
    ),
)


@pytest.mark.parametrize(("kernel", "reason"), OVER, ids=[reason for _, reason in OVER])
def test_every_limit_is_checked(kernel: Kernel, reason: str) -> None:
    assert choose(KERNEL, BASELINE) == (KERNEL,)
    objection = choose([KERNEL, kernel], BASELINE)
    assert isinstance(objection, str)
    assert objection.startswith(reason)
    larger = replace(BASELINE, limits={name: 4 * limit for name, limit in DEFAULT_LIMITS.items()})
    assert choose([KERNEL, kernel], larger) == [KERNEL, kernel]


def ways(asked: list[str]) -> Iterator[Candidate]:
    """Yield three candidates, and note which of them have been asked for."""
    asked.append("subgroups")
    yield Candidate([KERNEL], "subgroups", frozenset({SUBGROUPS, HALF_PRECISION}))
    asked.append("one pass")
    yield Candidate([replace(KERNEL, workgroup_bytes=1 << 15)], "one pass")
    asked.append("two passes")
    yield Candidate([KERNEL, KERNEL], "two passes")


def test_the_first_candidate_that_a_device_supports_is_taken() -> None:
    asked: list[str] = []
    assert choose(ways(asked), replace(BASELINE, features=frozenset(FEATURES))) == [KERNEL]
    assert asked == ["subgroups"], "others are not even made"
    roomy = {**DEFAULT_LIMITS, "max-compute-workgroup-storage-size": 1 << 15}
    one_pass = choose(ways([]), replace(BASELINE, limits=roomy))
    assert [k.workgroup_bytes for k in one_pass if isinstance(k, Kernel)] == [1 << 15]
    assert choose(ways([]), BASELINE) == [KERNEL, KERNEL]


def test_others_may_decide_among_the_candidates_that_a_device_supports() -> None:
    slow = Candidate([KERNEL] * 4, "one value an invocation", fallback=True)
    offered: list[list[str]] = []

    def decide(supported: Sequence[Candidate]) -> Sequence[Kernel]:
        offered.append([candidate.reason for candidate in supported])
        return supported[-1].kernels

    roomy = replace(BASELINE, limits={**DEFAULT_LIMITS, "max-compute-workgroup-storage-size": 1 << 15})
    assert choose(iter((*ways([]), slow)), roomy, decide) == [KERNEL, KERNEL]
    assert choose(iter((*ways([]), slow)), BASELINE, decide) == [KERNEL, KERNEL]
    assert choose(iter((slow, slow)), BASELINE, decide) == [KERNEL] * 4
    assert offered == [["one pass", "two passes"]], "a single one needs no decision"


def test_who_decides_is_not_offered_what_only_compiles_sooner() -> None:
    hasty = Candidate([KERNEL] * 3, "loops", quick_to_compile=True)
    offered: list[list[str]] = []

    def decide(supported: Sequence[Candidate]) -> Sequence[Kernel]:
        offered.append([candidate.reason for candidate in supported])
        return supported[0].kernels

    roomy = replace(BASELINE, limits={**DEFAULT_LIMITS, "max-compute-workgroup-storage-size": 1 << 15})
    assert choose(iter((hasty, *ways([]))), roomy) == [KERNEL] * 3
    assert choose(iter((hasty, *ways([]))), roomy, decide) != [KERNEL] * 3
    assert choose(iter((hasty, *ways([]))), BASELINE, decide) == [KERNEL, KERNEL]
    assert choose(iter((hasty,)), BASELINE, decide) == [KERNEL] * 3, "there is no other one"
    assert offered == [["one pass", "two passes"]]


def test_if_no_candidate_fits_the_reason_names_each() -> None:
    first_two = (candidate for candidate, _ in zip(ways([]), range(2), strict=False))
    assert choose(first_two, replace(BASELINE, features=frozenset({SUBGROUPS}))) == (
        "subgroups: the device has no shader-f16; "
        "one pass: 32768 bytes of workgroup memory are over the device's limit of 16384"
    )


def test_an_error_after_a_candidate_that_does_not_fit_comes_after_its_reason() -> None:
    def offers() -> Iterator[Candidate]:
        yield Candidate([KERNEL], "subgroups", frozenset({SUBGROUPS}))
        raise Unsupported("the filter is not a constant")

    assert choose(offers(), BASELINE) == (
        "subgroups: the device has no subgroup; the filter is not a constant"
    )


def test_a_kernel_function_without_candidates_has_a_reason() -> None:
    assert choose(iter(()), BASELINE) == "no candidate is offered"


@pytest.mark.parametrize(("op", "gates"), [("recurrence", 1), ("gru_recurrence", 3), ("lstm_recurrence", 4)])
def test_kernels_state_the_workgroup_memory_of_their_bodies(op: str, gates: int) -> None:
    """Bodies that may need more than every device has."""
    plenty = {**DEFAULT_LIMITS, "max-compute-workgroup-storage-size": 1 << 15}
    for units in (1, 5, 64, 300, 1024):
        states = [ones(2, units)] * (2 if gates == 4 else 1)
        inputs = [ones(2, 3, gates * units), ones(gates * units, units), *states]
        (kernel,) = kernels_of(replace(BASELINE, limits=plenty), op, inputs, constants=(1,))
        assert isinstance(kernel, Kernel)
        declared = re.findall(r"var<workgroup> \w+: array<([\w<>]+), (.+)>;", read_body("lib/sequence"))
        sizes = {**kernel.constants, "WX": kernel.workgroup[0], "WY": kernel.workgroup[1]}
        bytes_of = {"T": 4, "vec4<T>": 16}
        assert kernel.workgroup_bytes == sum(bytes_of[of] * eval(n, {}, sizes) for of, n in declared)
        if gates == 1 or units <= 512:
            assert kernel.workgroup_bytes <= DEFAULT_LIMITS["max-compute-workgroup-storage-size"]


@pytest.mark.parametrize(
    ("name", "kind", "parallel", "loops"),
    [
        ("llvmpipe (LLVM 15.0.6, 256 bits)", "CPU", 1, 65_000),
        ("SwiftShader Device (Subzero)", "CPU", 1, None),
        ("NVIDIA H200", "DiscreteGPU", 1 << 15, None),
        ("Apple M2", "IntegratedGPU", 1 << 12, None),
    ],
)
def test_a_device_is_described_by_its_adapter(name: str, kind: str, parallel: int, loops: int | None) -> None:
    info = DeviceInfo(name, "webgpu", kind, "a driver", "Vulkan", {}, (SUBGROUPS, "clip-distances"))
    assert properties(info, [SUBGROUPS], {"max-buffer-size": 5}, (8, 32)) == DeviceProperties(
        features=frozenset({SUBGROUPS}),
        limits={"max-buffer-size": 5},
        subgroup_sizes=(8, 32),
        parallel_invocations=parallel,
        software=kind == "CPU",
        texels="SwiftShader" in name,
        max_loop_iterations=loops,
    )


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("llvmpipe (LLVM 15.0.6, 256 bits)", (8, 8)),
        ("llvmpipe (LLVM 15.0.6, 128 bits)", (4, 4)),
        ("llvmpipe", None),
        ("NVIDIA H200, 256 bits", None),
    ],
)
def test_subgroups_of_lavapipe_are_its_vectors(name: str, sizes: tuple[int, int] | None) -> None:
    info = DeviceInfo(name, "webgpu", "CPU", "a driver", "Vulkan", {}, ())
    assert properties(info, [], {}, None).subgroup_sizes == sizes


def test_the_contract_of_kernel_functions_has_every_property() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, contract = text.partition("\n## Contract of a kernel function\n")
    rows = re.findall(r"^\| `(\w+)` \|", contract.partition("\n## ")[0], re.MULTILINE)
    assert rows == [field.name for field in fields(DeviceProperties)]


def test_a_device_is_opened_with_the_features_that_its_adapter_has(gpu: str) -> None:
    device = open_device(None, False)
    assert device.properties.features == set(FEATURES).intersection(device.info.features)
    assert device.properties.features <= device.wgpu.features
    assert all(device.properties.limit(name) >= 1 for name in DEFAULT_LIMITS)


SUM_OF_HALVES = """enable f16;
// y[0] = the sum of 4 of x, in f16, joined within a subgroup where there is one invocation for each.
@compute @workgroup_size(WX, WY, WZ)
fn main(@builtin(local_invocation_index) i: u32) {
  let sum = subgroupAdd(select(f16(0), f16(load_x(i)), i < 4u));
  if (i == 0u) { store_y(0u, f32(sum)); }
}
"""
SUM = """// y[0] = the sum of 4 of x.
@compute @workgroup_size(WX, WY, WZ)
fn main() {
  store_y(0u, load_x(0u) + load_x(1u) + load_x(2u) + load_x(3u));
}
"""


def _sum_kernels(call: Call) -> Iterator[Candidate]:
    if call.x.size != 4:
        raise Unsupported("a sum of four numbers is all there is")
    kernel = Kernel(body="sum", threads=(1, 1, 1), workgroup=(1, 1, 1), reads=(Read("x", 0),))
    halves = replace(kernel, body="sum_of_halves", threads=(4, 1, 1), workgroup=(4, 1, 1))
    yield Candidate([halves], "in a subgroup", frozenset({SUBGROUPS, HALF_PRECISION}))
    yield Candidate([kernel], "one by one")


@op(lambda call: call.x.with_shape((1,)), _sum_kernels)
def sum4(x: Array) -> Array:
    """Add up four numbers."""
    return x.sum(keepdims=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of shaders with the bodies of sum4."""
    (tmp_path / "sum.wgsl").write_text(SUM)
    (tmp_path / "sum_of_halves.wgsl").write_text(SUM_OF_HALVES)
    monkeypatch.setattr(shader, "shader_folder", lambda: tmp_path)
    shader.read_body.cache_clear()
    yield
    shader.read_body.cache_clear()


@pytest.mark.parametrize("features", [frozenset(), frozenset(FEATURES)], ids=["none", "all"])
def test_a_custom_op_may_use_features(
    folder: None, gpu: str, features: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = open_device(None, False)
    found = device.properties.features & features
    monkeypatch.setattr(device, "properties", replace(device.properties, features=found))
    model = Model()
    model.output(*model.add(sum4, [model.input("x", float32(4))]))
    with model.compile(gpu) as compiled:
        (row,) = compiled.plan_rows()
        assert row.kernel.body == ("sum_of_halves" if found >= {SUBGROUPS, HALF_PRECISION} else "sum")
        assert np.asarray(compiled(np.float32([1, 2, 4, 8]))).tolist() == [15]


def test_the_error_of_a_candidate_is_the_reason() -> None:
    model = Model()
    model.output(*model.add(sum4, [model.input("x", float32(5))]))
    assert lower(model.operations[0], BASELINE) == "a sum of four numbers is all there is"
