"""Benchmarks: gpunn beside its peers on the same networks, in the same run. Nothing here is in the wheel."""
