"""Tables of the conformance run, printed at the end."""

from __future__ import annotations

import textwrap
from collections import Counter

import pytest

# (operation, backend, kind of data) -> cases, those that passed, and those without an op on the host
CASES: Counter[tuple[str, str, str]] = Counter()
PASSED: Counter[tuple[str, str, str]] = Counter()
ON_DEVICE: Counter[tuple[str, str, str]] = Counter()
OUT_OF_SCOPE: Counter[str] = Counter()  # reason -> cases that do not run completely
REFUSED: Counter[str] = Counter()  # cases that must be refused and were refused


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for each operation: passed / cases by backend and kind of data; then other cases."""
    if CASES:
        _print_cases(terminalreporter)
    if OUT_OF_SCOPE:
        terminalreporter.section("NNAPI cases that do not run whole, and why; cases that are refused")
        for reason, count in (OUT_OF_SCOPE + REFUSED).most_common():
            line = textwrap.fill(f"{count:6}  {reason}", 110, subsequent_indent=" " * 8)
            terminalreporter.write_line(line)


def _print_cases(reporter: pytest.TerminalReporter) -> None:
    reporter.section("NNAPI conformance: passed / cases (wholly on the GPU)")
    columns = sorted({(backend, kind) for _, backend, kind in CASES})
    titles = [f"{backend} {kind}" for backend, kind in columns]
    reporter.write_line(f"{'operation':30}" + "".join(f"{title:>21}" for title in titles))
    for operation in [*sorted({operation for operation, _, _ in CASES}), "total"]:
        cells = []
        for backend, kind in columns:
            keys = [k for k in CASES if k[1:] == (backend, kind) and operation in (k[0], "total")]
            ran, passed, device = (sum(c[k] for k in keys) for c in (CASES, PASSED, ON_DEVICE))
            where = f" ({device})" if backend == "webgpu" else ""
            cells.append(f"{passed} / {ran}{where}" if ran else "-")
        reporter.write_line(f"{operation:30}" + "".join(f"{cell:>21}" for cell in cells))
