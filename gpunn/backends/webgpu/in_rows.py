"""WGSL of accessors that find an operand's elements in rows of a larger tensor (shaders/lib/in_rows.wgsl), or
that compute operations of what they load (prepended.py).

`rows` is 4 if places are those of fours, else 1; element, vector: the types of an element, and of four.
"""

from __future__ import annotations

from collections.abc import Iterator


def place(name: str, rows: int, levels: int) -> str:
    """Write place_<name>, which says where an element or a four of an operand lies in the larger tensor.

    levels: how many lengths there are with gaps between them.
    """
    terms = ["i" if rows == 4 else f"i * p.{name}_apart", f"p.{name}_first"]
    for level in range(levels):
        length, inverse, gap = (f"p.{name}_{param}{level}" for param in ("length", "inverse", "gap"))
        terms.append(f"rows_before(i, {length}, {inverse}) * {gap}")
    return f"fn place_{name}(i: u32) -> u32 {{ return {' + '.join(terms)}; }}"


def row_loads(
    name: str, element: str, vector: str, loads: tuple[str, str], verb: str = "get"
) -> Iterator[str]:
    """Write get_<name> and get4_<name>, which loads call; `loads`: expressions for these."""
    for suffix, kind, expression in zip(("", "4"), (element, vector), loads, strict=True):
        yield f"fn {verb}{suffix}_{name}(i: u32) -> {kind} {{ return {expression}; }}"


def computed(name: str, element: str, vector: str, loads: tuple[str, str]) -> tuple[list[str], str, str]:
    """Return raw_<name> and raw4_<name>, and expressions for what operations make of element i of an operand,
    and of the four elements from 4 i on; `loads`: expressions for these.
    """
    one, four = (f"first{n}_{name}(i, raw{n}_{name}(i))" for n in ("", "4"))
    return [*row_loads(name, element, vector, loads, "raw")], one, four


def from_rows(name: str, rows: int, vector: str) -> tuple[str, str]:
    """Return expressions for element i of an operand, and for the four elements from 4 i on."""
    if rows == 4:
        return f"get_{name}(4u * place_{name}(i >> 2u) + (i & 3u))", f"get4_{name}(place_{name}(i))"
    several = ", ".join(f"get_{name}(place_{name}(4u * i + {k}u))" for k in range(4))
    return f"get_{name}(place_{name}(i))", f"{vector}({several})"


def row_stores(name: str, element: str, vector: str, stores: tuple[str, str]) -> Iterator[str]:
    """Write put_<name> and put4_<name>, which stores call; `stores`: statements of these."""
    for verb, kind, statement in zip(("put", "put4"), (element, vector), stores, strict=True):
        if statement:
            yield f"fn {verb}_{name}(i: u32, v: {kind}) {{ {statement} }}"


def in_rows(name: str, rows: int, several: int) -> str:
    """Write statements that store v, one element or `several`, of an operand."""
    if several == rows:
        return f"put{'4' if several == 4 else ''}_{name}(place_{name}(i), v);"
    if several == 1:
        return f"put_{name}(4u * place_{name}(i >> 2u) + (i & 3u), v);"
    return " ".join(f"put_{name}(place_{name}(4u * i + {k}u), v[{k}]);" for k in range(4))
