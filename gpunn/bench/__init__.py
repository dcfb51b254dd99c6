"""gpunn bench: cold starts, latency and throughput of gpunn, and of other libraries on the same model."""
