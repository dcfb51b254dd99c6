"""Batches of operations that a program of the CPU backend computes with the same settings of the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gpunn.backends.blas import HostProducts
from gpunn.backends.subnormal import flushing, may_flush
from gpunn.graph.prepared import Step, Values


class Batch(NamedTuple):
    """Consecutive operations that use as many threads; 0 for any. flush: as subnormal.may_flush().

    replayed: they do nothing but call compiled loops, so settings of numpy do not matter.
    """

    steps: list[Step]
    threads: int
    flush: bool | None
    replayed: bool = False


def batches(steps: Iterable[tuple[Step, int]]) -> Iterator[Batch]:
    """Yield consecutive operations that use as many threads, and may take subnormal numbers for 0, or not."""
    batch = Batch([], 0, None)
    for step, threads in steps:
        flush = may_flush(step.operation)
        if 0 < threads != batch.threads > 0 or (flush is not None and batch.flush not in (None, flush)):
            yield batch
            batch = Batch([], 0, None)
        batch.steps.append(step)
        known = batch.flush if flush is None else flush
        batch = batch._replace(threads=batch.threads or threads, flush=known)
    if batch.steps:
        yield batch


class Runner:
    """Goes through batches of operations, with the settings of each."""

    def __init__(self, products: HostProducts, found: Iterable[Batch]) -> None:
        self._products = products
        self._flushing = flushing()
        self.batches = [*found]

    def alone(self, runs: int) -> bool:
        """Tell whether all operations are replayed in the next runs: no setting of numpy matters then."""
        return False

    def through(self, run: Callable[[list[Step], Values], None], values: Values) -> None:
        """Run the operations of each batch by a function."""
        for steps, threads, flush, replayed in self.batches:
            if threads and not replayed:
                self._products.use(threads)
            if flush:
                with self._flushing:
                    run(steps, values)
            else:
                run(steps, values)
