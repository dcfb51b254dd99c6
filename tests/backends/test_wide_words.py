"""Four elements as two words of 64 bits: where they are bound so, and that all bits pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpunn.backends.adapter import DeviceInfo
from gpunn.backends.webgpu import shader
from gpunn.backends.webgpu.accessors import accessors
from gpunn.backends.webgpu.bindings import Binding, variables
from gpunn.backends.webgpu.device import open_device
from gpunn.backends.webgpu.lower import lower
from gpunn.backends.webgpu.properties import has_narrow_weights, properties
from gpunn.device import BASELINE, SUBGROUPS, WIDE_WORDS, DeviceProperties
from gpunn.graph.operation import Operation
from gpunn.kernel import Kernel
from gpunn.model import Model
from gpunn.types import Array, DType, TensorType, float32

WIDE = replace(BASELINE, software=True, features=frozenset({WIDE_WORDS}))
GPU = replace(WIDE, software=False)
NO_WORDS = replace(WIDE, features=frozenset())
GATHERS = replace(WIDE, gathers=True)


def swapped(dtype: DType = DType.FLOAT32) -> Operation:
    """Make a transpose that moves rows of 4 elements."""
    model = Model()
    x = model.input("x", TensorType(dtype, (3, 5, 4)))
    model.output(*model.add("transpose", [x], {"perm": (1, 0, 2)}))
    return model.operations[0]


def source(operation: Operation, device: DeviceProperties) -> str:
    (kernel,) = lower(operation, device)
    assert isinstance(kernel, Kernel)
    return shader.generate(shader.key_of(kernel, operation))


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT32])
@pytest.mark.parametrize(
    ("device", "wide"), [(WIDE, True), (GPU, False), (NO_WORDS, False), (GATHERS, False)]
)
def test_software_with_such_words_binds_them(dtype: DType, device: DeviceProperties, wide: bool) -> None:
    text = source(swapped(dtype), device)
    for name in "xy":
        assert (f"{name}_data: array<vec2<u64>>" in text) == wide
    assert ("fn four_words" in text) == wide


@pytest.mark.parametrize(
    ("name", "driver", "gathers"),
    [
        ("llvmpipe (LLVM 15.0.6, 256 bits)", "Mesa 22.3.6 (LLVM 15.0.6)", False),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", "Mesa 25.0.7-2~bpo12+1 (LLVM 15.0.6)", False),
        ("llvmpipe (LLVM 22.1.8, 256 bits)", "Mesa 26.2.6-1 (LLVM 22.1.8)", True),
        ("llvmpipe (LLVM 22.1.8, 256 bits)", "a driver", False),
        ("AMD Radeon RX 6800 (RADV NAVI21)", "Mesa 26.2.6-1", False),
    ],
)
def test_lavapipe_gathers_from_mesa_26_on(name: str, driver: str, gathers: bool) -> None:
    info = DeviceInfo(name, "webgpu", "CPU", driver, "Vulkan", {}, ())
    assert properties(info, [], {}, None).gathers == gathers


@pytest.mark.parametrize("narrow", [False, True])
def test_weights_of_shared_rows_may_keep_their_words(narrow: bool) -> None:
    features = frozenset({WIDE_WORDS, SUBGROUPS})
    device = replace(WIDE, features=features, subgroup_sizes=(8, 8), narrow_weights=narrow)
    model = Model()
    filter = model.constant("w", np.ones((64, 1, 1, 64), np.float32))
    model.output(*model.add("conv2d", [model.input("x", float32(1, 8, 8, 64)), filter], {}))
    text = source(model.operations[0], device)
    assert "subgroupBroadcast(" in text
    assert ("w_data: array<vec4<f32>>" in text) == narrow
    for name in ("x", "y", *(() if narrow else ("w",))):
        assert f"{name}_data: array<vec2<u64>>" in text


AVX512 = frozenset({"avx", "avx2", "avx512vl"})
MESA_25 = "Mesa 25.0.7-2~bpo12+1 (LLVM 15.0.6)"


@pytest.mark.parametrize(
    ("name", "driver", "processor", "narrow"),
    [
        ("llvmpipe (LLVM 15.0.6, 256 bits)", MESA_25, AVX512 | {"sse4a"}, True),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", MESA_25, AVX512, False),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", MESA_25, frozenset({"avx", "avx2", "sse4a"}), False),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", "Mesa 22.3.6 (LLVM 15.0.6)", AVX512 | {"sse4a"}, False),
        ("SwiftShader Device (Subzero)", "SwiftShader driver", AVX512 | {"sse4a"}, False),
    ],
)
def test_weights_are_narrow_where_vectors_of_512_bits_take_long(
    name: str, driver: str, processor: frozenset[str], narrow: bool
) -> None:
    info = DeviceInfo(name, "webgpu", "CPU", driver, "Vulkan", {}, ())
    assert has_narrow_weights(info, processor) == narrow


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.INT16, DType.INT8, DType.INT64])
def test_other_types_keep_their_words(dtype: DType) -> None:
    assert source(swapped(dtype), WIDE) == source(swapped(dtype), GPU)


@pytest.mark.parametrize(
    ("names", "wide"), [({"store4_y"}, True), ({"store_y"}, False), ({"store_y", "store4_y"}, False)]
)
def test_a_result_that_is_stored_one_by_one_keeps_its_words(names: set[str], wide: bool) -> None:
    """Two invocations may store elements of one word."""
    y = Binding("y", DType.FLOAT32, 4, stored=True, shared=True, wide=True)
    (declared,) = variables(y, 0, 1, frozenset(names))
    assert ("vec2<u64>" in declared) == wide
    text = "\n".join(accessors(y, "f32", 1, frozenset(names)))
    assert ("wide_words(" in text) == wide


def bits(*shape: int) -> Array:
    """Draw words of any bits, also those of NaNs with a payload."""
    words = np.random.default_rng(7).integers(0, 1 << 32, shape, np.uint32)
    words[0, 0, :4] = 0x7FC01234, 0xFF801234, 0x80000000, 0xFFFFFFFF
    return words


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT32])
def test_all_bits_pass(dtype: DType, gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of rows of four elements, and one into every other row of a larger tensor."""
    x = bits(3, 5, 4).view(dtype.numpy)
    properties = replace(open_device(None, False).properties, gathers=False)
    for features in (properties.features, properties.features - {WIDE_WORDS}):
        monkeypatch.setattr(open_device(None, False), "properties", replace(properties, features=features))
        model = Model()
        operand = model.input("x", TensorType(dtype, x.shape))
        (turned,) = model.add("transpose", [operand], {"perm": (1, 0, 2)})
        (again,) = model.add("transpose", [operand], {"perm": (1, 0, 2)})
        model.output(*model.add("concat", [turned, again], {"axis": 1}))
        with model.compile(gpu) as compiled:
            wide = any(row.kernel.wide_words for row in compiled.plan_rows())
            assert wide == (properties.software and WIDE_WORDS in features)
            found = np.asarray(compiled(x))
        expected = np.concatenate([x.transpose(1, 0, 2), x.transpose(1, 0, 2)], axis=1)
        assert found.tobytes() == expected.tobytes()
