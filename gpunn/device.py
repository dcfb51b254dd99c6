"""DeviceProperties: what kernel functions know of the GPU device that a kernel is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

# The features that a device is opened with where its adapter has them, and what uses them. None is needed.
TIMESTAMPS = "timestamp-query"  # profiles: the time of each dispatch, a compute pass of its own
TIMESTAMPS_INSIDE_PASSES = "timestamp-query-inside-passes"  # nothing yet: dispatches of one pass
HALF_PRECISION = "shader-f16"  # candidates whose shaders compute in f16
SUBGROUPS = "subgroup"  # candidates whose shaders have subgroup operations; WebGPU calls it "subgroups"
SUBGROUP_BARRIERS = "subgroup-barrier"  # loops and bundles, where a workgroup is one subgroup
WIDE_WORDS = "shader-int64"  # software: loads and stores of four elements, two words at a time
FEATURES = (TIMESTAMPS, TIMESTAMPS_INSIDE_PASSES, HALF_PRECISION, SUBGROUPS, SUBGROUP_BARRIERS, WIDE_WORDS)

# What every WebGPU device allows (WebGPU, section 3.6.2, "Limits"); only what kernels and buffers need.
DEFAULT_LIMITS: Mapping[str, int] = MappingProxyType(
    {
        "max-storage-buffers-per-shader-stage": 8,
        "max-storage-buffer-binding-size": 128 << 20,
        "max-buffer-size": 256 << 20,
        "max-compute-workgroup-storage-size": 16_384,
        "max-compute-invocations-per-workgroup": 256,
        "max-compute-workgroup-size-x": 256,
        "max-compute-workgroup-size-y": 256,
        "max-compute-workgroup-size-z": 64,
        "max-compute-workgroups-per-dimension": 65_535,
        "min-storage-buffer-offset-alignment": 256,
        "min-uniform-buffer-offset-alignment": 256,
    }
)


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """A GPU device as data. The defaults are what WebGPU promises of every device.

    features: those of FEATURES that the device has. limits: numbers by the names that WebGPU gives them, in
    kebab case. subgroup_sizes: the least and the greatest number of invocations in a subgroup, None if the
    driver does not tell. parallel_invocations: how many invocations occupy the device, by the order of
    magnitude; kernels divide sums until so many invocations have work. software: whether the CPU does the
    device's work. gathers: whether software loads what its lanes want by one instruction. texels: whether it
    loads four elements of a constant sooner from a texture than from a buffer. narrow_weights: whether
    products whose rows a subgroup shares load weights by words of 32 bits, where others have 64.
    max_loop_iterations: the most that a kernel's loop_iterations may be, None if the driver does not count
    them.
    """

    features: frozenset[str] = frozenset()
    limits: Mapping[str, int] = field(default_factory=lambda: DEFAULT_LIMITS)
    subgroup_sizes: tuple[int, int] | None = None
    parallel_invocations: int = 1
    software: bool = False
    gathers: bool = False
    texels: bool = False
    narrow_weights: bool = False
    max_loop_iterations: int | None = None

    @property
    def wide_words(self) -> bool:
        """Tell whether kernels load and store words of 64 bits where elements lie together.

        Lavapipe had a loop over its lanes for each word of a load or store. With half of them, MobileNet
        takes 4 to 7 % less time, and its tiles and strips compile up to a third quicker. Where it gathers
        words, those of 32 bits take 4 to 25 % less time: 64 bits would need vectors of 512. So they do in
        some products (narrow_weights). Other software
        was not seen to have words of 64 bits, and GPUs load and store four words at once.
        """
        return self.software and not self.gathers and WIDE_WORDS in self.features

    @property
    def subgroups_of_four(self) -> bool:
        """Tell whether the largest subgroups have four invocations.

        SwiftShader's have. There an invocation takes long to load a word, so kernels load fewer.
        """
        return self.subgroup_sizes is not None and self.subgroup_sizes[1] == 4

    @property
    def looks_up_texels(self) -> bool:
        """Tell whether tables of words lie in textures.

        Lavapipe takes half the time for a table of 256 bytes then. SwiftShader takes 1.4 times as long as for
        words in a buffer.
        """
        return self.texels and not self.subgroups_of_four

    @property
    def shifts_singly(self) -> bool:
        """Tell whether kernels take bytes out of words without shifts (lib/bytes_by_reals.wgsl).

        SwiftShader shifts the elements of a vector one by one, by constants, too: ten times the time of a
        product or a conversion. Other software was not seen to have subgroups of four.
        """
        return self.software and self.subgroups_of_four

    @property
    def most_bindings(self) -> int:
        """Give how many storage buffers a kernel may bind."""
        return self.limit("max-storage-buffers-per-shader-stage")

    def limit(self, name: str) -> int:
        """Give a limit by its name in WebGPU, in kebab case."""
        return int(self.limits[name])


BASELINE = DeviceProperties()  # what every device has
