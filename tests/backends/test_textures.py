"""Constants in textures: where they lie so, that all bits pass, and that their memory is counted."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gpunn
from gpunn.backends.adapter import DeviceInfo
from gpunn.backends.processors import processor_features
from gpunn.backends.webgpu import shader
from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import lower
from gpunn.backends.webgpu.properties import loads_texels
from gpunn.backends.webgpu.textures import ROW, TEXELS, in_texels
from gpunn.device import BASELINE, DeviceProperties
from gpunn.errors import LimitError
from gpunn.kernel import Kernel
from gpunn.model import Model
from gpunn.types import Array, DType, TensorType
from tests.ops.harness import limit_device, random

TEXTURES = replace(BASELINE, software=True, texels=True)
LAVAPIPE, MESA = "llvmpipe (LLVM 15.0.6, 256 bits)", "Mesa 22.3.6 (LLVM 15.0.6)"
DTYPES = (DType.FLOAT32, DType.INT32, DType.FLOAT16, DType.INT16, DType.INT8, DType.BOOL, DType.INT64)
AVX2, AVX512 = frozenset({"avx", "avx2"}), frozenset({"avx", "avx2", "avx512vl"})


@pytest.mark.parametrize(
    ("name", "driver", "processor", "texels"),
    [
        (LAVAPIPE, MESA, AVX2, True),
        (LAVAPIPE, MESA, AVX512, False),
        (LAVAPIPE, MESA, frozenset(), False),
        (LAVAPIPE, "Mesa 25.0.7-2~bpo12+1 (LLVM 15.0.6)", AVX2, False),
        ("SwiftShader Device (Subzero)", "SwiftShader driver", AVX512, True),
        ("AMD Radeon RX 6800 (RADV NAVI21)", "Mesa 22.3.6", AVX2, False),
    ],
)
def test_software_has_them_where_it_loads_them_sooner_than_from_buffers(
    name: str, driver: str, processor: frozenset[str], texels: bool
) -> None:
    info = DeviceInfo(name, "webgpu", "CPU", driver, "Vulkan", {}, ())
    assert loads_texels(info, processor) == texels


def test_what_a_processor_can_do_is_in_its_flags(tmp_path: Path) -> None:
    assert processor_features(tmp_path) == frozenset()
    (tmp_path / "proc").mkdir()
    text = "processor\t: 0\nflags\t\t: fpu avx avx2\n\nprocessor\t: 1\nflags\t\t: fpu avx avx2\n"
    (tmp_path / "proc" / "cpuinfo").write_text(text, encoding="utf-8")
    assert processor_features(tmp_path) == {"fpu", "avx", "avx2"}


def dense(rows: int, depth: int, channels: int, dtype: DType = DType.FLOAT32) -> Model:
    """Make a fully connected layer of constants, whose filter is packed by fours."""
    model = Model()
    x = model.input("x", TensorType(dtype, (rows, depth)))
    values = [random(1, channels, depth), random(2, channels)]
    w, bias = (model.constant(f"c{k}", value.astype(dtype.numpy)) for k, value in enumerate(values))
    model.output(*model.add("fully_connected", [x, w, bias]))
    return model


def source(model: Model, device: DeviceProperties) -> str:
    (operation,) = model.operations
    (kernel,) = lower(operation, device)
    assert isinstance(kernel, Kernel)
    return shader.generate(shader.key_of(kernel, operation))


@pytest.mark.parametrize(("dtype", "texels"), [(DType.FLOAT32, "f32"), (DType.FLOAT16, "u32")])
@pytest.mark.parametrize("device", [TEXTURES, replace(TEXTURES, texels=False)], ids=["textures", "buffers"])
def test_constants_lie_in_textures(dtype: DType, texels: str, device: DeviceProperties) -> None:
    text = source(dense(5, 8, 12, dtype), device)
    assert (f"w_data: texture_2d<{texels}>;" in text) == device.texels
    assert "x_data: texture" not in text
    assert "y_data: texture" not in text


@pytest.mark.parametrize(("limit", "most"), [("MOST_BYTES", 16), ("MOST_TEXTURES", 0)])
def test_what_is_too_much_for_textures_stays_in_buffers(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shader, limit, most)
    assert "w_data: array<vec4<f32>>" in source(dense(5, 8, 12), TEXTURES)


@pytest.mark.parametrize("kind", TEXELS)
@pytest.mark.parametrize("words", [0, 1, 4, 7, ROW // 4, ROW // 4 + 1, ROW // 2 + 5])
def test_texels_follow_one_another(words: int, kind: str) -> None:
    data, texels = np.arange(1, words + 1, dtype=np.int32), TEXELS[kind]
    rows = in_texels(data, texels)
    height, width, nbytes = rows.shape
    assert nbytes == texels.nbytes
    assert width <= texels.row
    assert width & (width - 1) == 0 < height & (height - 1), "another kind of size is another shader"
    found = rows.reshape(-1).view(np.int32)
    assert found[:words].tolist() == data.tolist()
    assert not found[words:].any()


def summed(constant: Array) -> Model:
    """Make a model that copies a constant of fours behind its input."""
    model = Model()
    x = model.input("x", TensorType(DType.of(constant.dtype), (1, *constant.shape[1:])))
    model.output(*model.add("concat", [x, model.constant("c", constant)], {"axis": 0}))
    return model


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [8, 7])
@pytest.mark.parametrize("rows", [3, ROW // 16 + 5])
def test_all_bits_pass(
    dtype: DType, columns: int, rows: int, gpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of NaNs with a payload, too, in one row of texels or several."""
    limit_device(monkeypatch, texels=True)
    nbytes = columns * dtype.numpy.itemsize
    drawn = np.random.default_rng(7).integers(0, 256, (rows, nbytes), np.uint8)
    drawn[0, :4] = 0x34, 0x12, 0xC0, 0x7F
    drawn[1, :4] = 0x34, 0x12, 0x80, 0xFF
    constant = drawn.view(dtype.numpy)
    if dtype is DType.FLOAT16:
        constant[np.isnan(constant)] = 1
    if dtype is DType.BOOL:
        constant = drawn > 127
    with summed(constant).compile(gpu) as compiled:
        assert all(row.kernel.texels for row in compiled.plan_rows())
        found = np.asarray(compiled(constant[:1]))
    assert found.tobytes() == constant[:1].tobytes() + constant.tobytes()


def used() -> int:
    gc.collect()
    name = open_device(None, False).info.name
    return next(memory.constants for memory in gpunn.memory() if memory.device == name)


def test_textures_are_shared_counted_and_freed(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_device(monkeypatch, texels=True)
    before, constant = used(), random(1, ROW // 16 + 4, 4)
    first, second = (summed(constant).compile(gpu) for _ in range(2))
    whole = 3 * ROW  # two rows of texels, of which four are used in the second, and one to make three
    assert used() == before + whole
    assert [made.stats.constant_uploads for made in (first, second)] == [constant.nbytes, 0]
    assert first.stats.resident_bytes == whole
    first.close()
    assert used() == before + whole
    second.close()
    assert used() == before
    taken = sum(memory.constants for memory in gpunn.memory())
    with pytest.raises(LimitError, match="device_memory_limit"):
        summed(constant).compile(gpu, device_memory_limit=taken + constant.nbytes)
