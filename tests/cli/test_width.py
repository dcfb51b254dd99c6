"""What commands print fits the terminal, and no word is broken."""

from __future__ import annotations

import io
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from gpunn import vision
from gpunn.cli.columns import Column, Row, print_table
from gpunn.cli.operations import places, results
from gpunn.cli.wrap import say, shortened
from tests.cli.conftest import Run
from tests.resources import ENVIRONMENT

MODEL = vision.default_model()
COMMANDS = {
    "classify": ("classify", "photo"),
    "compare": ("compare", MODEL, "--per-layer", "--random", 1),
    "compare --all": ("compare", MODEL, "--per-layer", "--random", 1, "--all", "--backends", "webgpu"),
    "compare --other": (
        "compare",
        MODEL,
        "--other",
        MODEL,
        "--per-layer",
        "--random",
        1,
        "--backends",
        "cpu",
    ),
    "profile": ("profile", MODEL, "--runs", 2, "--backend", "webgpu"),
    "profile --all": ("profile", MODEL, "--runs", 2, "--backend", "cpu", "--all"),
    "inspect": ("inspect", MODEL),
    "inspect --plan": ("inspect", MODEL, "--plan"),
    "bench": ("bench", MODEL, "--backends", "cpu", "--rounds", 1, "--turn", 0, "--threads", 1),
    "devices": ("devices",),
    "finetune": ("finetune", MODEL, "folder", "--labels-from-folders", "--epochs", 1, "--backend", "cpu"),
    "help": ("--help",),
    "help of a command": ("classify", "--help"),
    "help of finetune": ("finetune", "--help"),
}
HEADINGS = {
    "classify": "# class probability",
    "compare": "pair error allowed RMSE cosine SNR top-1 top-5 # operation isolated accumulated",
    "compare --all": "max mean Pearson PSNR NaN Inf |x| error file",
    "compare --other": "tensor other shape paired by: name",
    "profile": "# operation result kernel time share GFLOP/s",
    "profile --all": "MFLOP GB/s file",
    "inspect": "# operation float32 result runs on file",
    "inspect --plan": "kernel groups workgroup reason",
    "bench": "from cold import load first answer warm median p95 samples/s err",
    "help": "Options: --install-completion Commands: classify libraries. layer.",
    "finetune": "epoch loss accuracy",
    "help of a command": "Options: --model --labels standard",
    "help of finetune": "Options: --labels-from-folders --validation",
    "devices": "backend kind driver api PCI features:",
}
WIDE = {"compare --all", "profile --all", "inspect", "classify"}  # also for a wide terminal
GPU = {"compare", "compare --all", "profile", "inspect --plan"}
LETTERS = re.compile("[A-Za-z_]{3,}")


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Return a function that makes commands print for a terminal of so many columns; None: for a pipe."""

    def on(columns: int | None) -> None:
        monkeypatch.setattr("gpunn.cli.show.on_terminal", lambda: columns is not None)
        monkeypatch.setenv("COLUMNS", str(columns))

    return on


@pytest.mark.parametrize("columns", [40, 20])
def test_values_of_devices_are_readable_on_narrow_terminals(
    run: Run, on_terminal: Callable[[int | None], None], columns: int
) -> None:
    on_terminal(columns)
    lines = {re.sub(":? +", " ", line) for line in run("devices").out.splitlines()}
    assert {"backend cpu", "kind CPU", "api numpy"} <= lines


@pytest.mark.sample(2)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_fit_the_terminal(
    run: Run,
    on_terminal: Callable[[int | None], None],
    photo: Path,
    command: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Words of letters are those that a pipe gets, unless their middle is left out.

    What is the same in every row stands before the table, behind its heading and a colon.
    """
    if command in GPU:
        request.getfixturevalue("gpu")
    folder = photo.parent / "folder"
    for number in range(4):
        kind = folder / f"class {number % 2}"
        kind.mkdir(parents=True, exist_ok=True)
        shutil.copy(photo, kind / f"{number}.png")
    monkeypatch.chdir(photo.parent)
    places = {"photo": photo, "folder": folder}
    args = [places.get(str(word), word) for word in COMMANDS[command]]
    on_terminal(None)
    whole = run(*args)
    assert whole.code == 0
    for columns in (80, 120) if command in WIDE else (80,):
        on_terminal(columns)
        outcome = run(*args)
        assert (outcome.code, outcome.err) == (0, "")
        for line in outcome.out.splitlines():
            assert cell_len(line) <= columns, line
        words = {word for word in outcome.out.split() if "\N{HORIZONTAL ELLIPSIS}" not in word}
        assert {*HEADINGS[command].split()} <= words | {word.rstrip(":") for word in words}
        broken = {*LETTERS.findall(" ".join(words))} - {*LETTERS.findall(whole.out)}
        assert broken <= {"room", "columns", "for", "all", "prints"}  # said of columns that are left out


def test_rare_columns_need_an_option(run: Run) -> None:
    few, every = (run("compare", MODEL, "--backends", "cpu", "--random", 1, *o).out for o in ((), ("--all",)))
    assert "Pearson" not in few and "PSNR" not in few
    assert "Pearson" in every and "PSNR dB" in every and "NaN" in every


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
@pytest.mark.parametrize(("variable", "colour"), [("NO_COLOR", False), ("NOTHING", True)])
def test_a_real_terminal(variable: str, colour: bool) -> None:
    """The width is that of the terminal, and NO_COLOR is kept to."""
    import fcntl
    import termios

    main, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    kept = {name: value for name, value in ENVIRONMENT.items() if name not in ("COLUMNS", "NO_COLOR")}
    environment = kept | {"TERM": "xterm-256color", variable: "1"}
    command = [sys.executable, "-m", "gpunn", "compare", str(MODEL), "--backends", "cpu", "--random", "1"]
    process = subprocess.Popen(command, stdout=terminal, env=environment)
    os.close(terminal)
    shown = b""
    try:
        while piece := os.read(main, 65536):
            shown += piece
    except OSError:  # Linux says in this way that the other side is closed
        pass
    os.close(main)
    assert process.wait() == 0
    text = shown.decode()
    assert ("\x1b[32m" in text) is colour
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.splitlines()]
    assert 40 < max(map(cell_len, lines)) <= 60


def printed(
    columns: int, *table: Column, rows: list[tuple[str, ...]], every: bool | None = None
) -> list[str]:
    """Return the lines of a table."""
    file = io.StringIO()
    console = Console(file=file, width=columns, highlight=False)
    print_table(console, table, [Row(tuple(map(Text, row))) for row in rows], every=every)
    return file.getvalue().splitlines()


def test_a_table_with_room() -> None:
    table = Column("name", least=4), Column("mean error", number=True), Column("why", sentences=True)
    lines = printed(60, *table, rows=[("first", "1.5", "as it is"), ("second", "20", "")])
    assert lines == ["name    mean error  why", "first          1.5  as it is", "second          20"]


def test_headings_fold_before_anything_is_left_out() -> None:
    table = Column("name", least=4), Column("mean error", number=True), Column("place", spare=1)
    lines = printed(20, *table, rows=[("first", "1.5", "here")])
    assert lines == ["        mean", "name   error  place", "first    1.5  here"]


def test_names_are_shortened_in_the_middle() -> None:
    table = Column("name", least=8), Column("n", number=True)
    lines = printed(14, *table, rows=[("beginning/middle/end", "1"), ("\u732b" * 8, "2")])
    assert lines == ["name         n", "begin\u2026e/end  1", "\u732b\u732b\u732b\u2026\u732b\u732b  2"]
    assert all(cell_len(line) <= 14 for line in lines)


def test_sentences_go_below_their_row() -> None:
    table = Column("#", number=True), Column("name"), Column("reason", sentences=True)
    rows = [("0", "convolution", "it is so because of many reasons that need room"), ("1", "add", "")]
    assert printed(32, *table, rows=rows) == [
        "#  name",
        "   reason",
        "0  convolution",
        "   it is so because of many",
        "   reasons that need room",
        "1  add",
    ]


def test_a_column_without_a_heading_is_left_out_silently() -> None:
    table = Column("name"), Column("", spare=1)
    assert printed(12, *table, rows=[("photo", "=" * 20)]) == ["name", "photo"]


def test_what_all_rows_agree_on_is_said_once() -> None:
    table = Column("name"), Column("runs on", shared=True), Column("reason", shared=True)
    assert printed(60, *table, rows=[("a", "cpu", ""), ("b", "cpu", "")]) == [
        "in every row  runs on: cpu",
        "name",
        "a",
        "b",
    ]
    assert printed(60, *table, rows=[("a", "cpu", "")]) == ["name  runs on", "a     cpu"]


def test_columns_without_room_are_named() -> None:
    table = Column("name"), Column("place", spare=1), Column("more", rare=True)
    rows = [("a-long-name", "somewhere-else", "rarely")]
    assert printed(24, *table, rows=rows, every=False) == [
        "name",
        "a-long-name",
        "no room in 24 columns",
        "for: place (--all prints",
        "all columns)",
    ]
    assert printed(24, *table, rows=rows, every=True) == [
        "a-long-name",
        "  place somewhere-else,",
        "  more rarely",
    ]
    assert printed(60, *table, rows=rows) == ["name         place", "a-long-name  somewhere-else"]


def test_a_heading_takes_what_all_cells_begin_with() -> None:
    found = places(["net: operation 0, ADD", "net: operation 1, MUL"], "net")
    assert (found.heading, found.cells) == ("operation in the file", ("0, ADD", "1, MUL"))
    mixed = places(["input 'x'", "layer 1 'y'"], "net")
    assert (mixed.heading, mixed.cells) == ("in the file", ("input 'x'", "layer 1 'y'"))
    types = results([["int8[1]", "int8[2]"], ["int8[]"]])
    assert (types.heading, types.cells) == ("int8 result", ("[1] [2]", "[]"))


@pytest.mark.parametrize("width", [1, 2, 7, 20])
@pytest.mark.parametrize("text", ["", "a", "abcdefghij" * 3, "\u732b" * 12, "a\u0301" * 20])
def test_shortened_texts_fit(text: str, width: int) -> None:
    assert cell_len(shortened(text, width)) <= width
    assert shortened(text, 100) == text


def test_lines_are_broken_between_words() -> None:
    file = io.StringIO()
    console = Console(file=file, width=20, highlight=False)
    say(console, "one two three four five-and-a-long-word-more", "label  ")
    assert file.getvalue().splitlines() == [
        "label  one two three",
        "       four",
        "       five-a\u2026d-more",
    ]
