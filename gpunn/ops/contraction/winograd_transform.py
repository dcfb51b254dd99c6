"""The WGSL of transform() (shaders/lib/winograd.wgsl), which the sizes of tiles determine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpunn.kernel import ceil_div, nested

_ROWS = 2  # of a tile that are transformed and stored in a round


def transform_of(cells: int, results: int, loops: bool) -> Iterator[str]:
    """Write transform() of shaders/lib/winograd.wgsl: columns of `cells` elements, then rows of what they
    give. Each index in registers is written out.
    """
    taken = range(cells)
    yield f"alias Line = array<V, {cells}>;"
    yield f"alias Results = array<V, {results}>;"
    column = ", ".join(f"taken(at, {k}u, column)" for k in taken)
    yield f"fn of_column(at: Place, column: u32) -> Results {{ return transformed(Line({column})); }}"
    yield "fn put_row(at: Place, row: u32, line: Line) {"
    yield "let v = transformed(line);"
    yield from (f"put_at(at, row, {k}u, v[{k}]);" for k in range(results))
    yield "}"
    yield "fn transform(at: Place) {"
    yield from (_in_loops if loops else _written_out)(cells, results)
    yield "}"


def _in_loops(cells: int, results: int) -> Iterator[str]:
    """Write the loops of transform().

    Columns, and then rows, move up in each round of a loop, because lavapipe takes 1 to 10 ms to compile each
    load and store that is written out. How often loops go round is known at run time only: compilers would
    write them out again.
    """
    taken, found, step = range(cells), range(results), min(_ROWS, results)
    yield from (f"var column{k}: Results;" for k in taken)
    yield "for (var column = 0u; column < p.REACH; column++) {"
    yield from (f"column{k} = column{k + 1};" for k in taken[:-1])
    yield f"column{cells - 1} = of_column(at, column);"
    yield "}"
    yield f"for (var row = 0u; row < rows(at); row += {step}u) {{"
    yield from (_put_row(f"row + {k}u", k, taken) for k in range(step))
    yield from (f"column{k}[{row}] = column{k}[{row + step}];" for k in taken for row in found[:-step])
    yield "}"


def _written_out(cells: int, results: int) -> Iterator[str]:
    """Write transform() without loops."""
    taken = range(cells)
    yield from (f"let column{k} = of_column(at, {k}u);" for k in taken)
    yield from (_put_row(f"{k}u", k, taken) for k in range(results))


def _put_row(row: str, number: int, columns: Iterable[int]) -> str:
    """Write the call of put_row() for what columns have at a place in registers."""
    return f"put_row(at, {row}, Line({', '.join(f'column{k}[{number}]' for k in columns)}));"


def rounds(cells: int, results: int) -> int:
    """Count the iterations of the loops of transform(); see Kernel.loop_iterations."""
    return nested(cells).iterations + nested(ceil_div(results, _ROWS)).iterations
