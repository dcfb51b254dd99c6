"""From measured times to figures and ratios."""

from __future__ import annotations

import pytest

from gpunn.bench.conditions import Conditions
from gpunn.bench.result import Benchmark, Entrant, Ratio, Result, quotient


def result(
    peer: str, rounds: list[list[float]], first: list[float], rates: list[float], **entrant: int | str
) -> Result:
    """Return the result of a peer with these times, on two threads."""
    described = {"series": peer, "peer": peer, "threads": 2, "batch": 1, **entrant}
    many = [0.004] * len(rounds)
    return Result(Entrant(**described), "", "1", "cpu", [0.5], [0.1], first, rounds, many, rates, 2e-6)  # type: ignore[arg-type]


def benchmark(bases: tuple[str, ...], *results: Result) -> Benchmark:
    """Return these results, relative to these bases."""
    here = Conditions("a machine", {"python": "3"}, "today", 0.0)
    return Benchmark("net", "random", "litert", 1, 2, 1.0, bases, here, None, results)


def test_ratios_are_medians_of_the_rounds_ratios() -> None:
    base = result("base", [[0.010], [0.040], [0.010]], [1.0], [100, 20, 90])
    peer = result("peer", [[0.9, 0.020, 0.021], [0.084], [0.030]], [3.0, 2.0, 2.5], [50, 20, 30])
    ratio = Ratio.of(peer, base)
    assert ratio.time == pytest.approx(2.1)
    assert ratio.throughput == pytest.approx(0.5)
    assert ratio.first == pytest.approx(2.5)
    none = Ratio.of(Result(peer.entrant), base)
    assert (none.time, none.throughput, none.first) == (None, None, None)


def test_quotient_is_taken_round_by_round() -> None:
    assert quotient([2.0, 9.0, 4.0], [1.0, 3.0, 1.0]) == 3.0


def test_figures_include_all_runs_of_all_rounds() -> None:
    times = [[0.001 * n for n in range(1, 11)], [0.001 * n for n in range(11, 22)]]
    found = result("peer", times, [3.0, 1.0, 2.0], [10.0, 30.0], batch=4).figures
    assert found == {
        "import_s": 0.5,
        "load_s": 0.1,
        "first_s": 2.0,
        "median_s": pytest.approx(0.011),
        "p95_s": pytest.approx(0.020),  # 19/20 of the way from the least to the largest
        "min_s": pytest.approx(0.001),
        "cpu_s": 0.004,
        "samples_per_s": 80.0,
    }
    assert set(Result(Entrant("peer", "peer", 1, 1)).figures.values()) == {None}


def test_a_base_has_the_same_batch_and_threads() -> None:
    def peer(name: str, threads: int, batch: int, time: float) -> Result:
        series = f"{name}:{threads}"
        return result(name, [[time]], [1.0], [1.0], series=series, threads=threads, batch=batch)

    bases = [peer("base", threads, batch, threads * batch) for threads in (1, 2) for batch in (1, 8)]
    measured = peer("peer", 2, 8, 32.0)
    lonely = peer("peer", 2, 4, 32.0)
    found = benchmark(("base", "base:1"), *bases, measured, lonely)
    assert [ratio and ratio.time for ratio in found.ratios(measured)] == [2.0, 4.0]
    assert [ratio and ratio.base for ratio in found.ratios(measured)] == ["base:2 x8", "base:1 x8"]
    assert found.ratios(lonely) == (None, None)
    bases[3].failed = "gone"
    assert found.ratios(measured)[0] is None
