"""A tool that measures a page of documentation again: python -m benchmarks.document docs/performance.md

Every shell block that is followed by a pair of figures comments is run, one after the other, and its output
replaces the text between them. A command may set variables first and continue over several lines. Variables
of the environment, such as $MESA25, stand for places that differ from machine to machine.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from benchmarks.command import command

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(
    r"(?P<head>```sh\n(?P<command>(?:(?!```).)*?)\n```\n\n<!-- figures -->\n).*?(?=<!-- end of figures -->)",
    re.DOTALL,
)
_VARIABLE = re.compile(r"[A-Z_]+=")

Run: TypeAlias = Callable[[list[str], dict[str, str]], str]


def refresh(path: Path, run: Run) -> None:
    """Replace the figures of a page by what `run` returns for their commands and variables, one by one."""
    text, position = path.read_text(), 0
    while block := _BLOCK.search(text, position):
        words = [os.path.expandvars(word) for word in shlex.split(block["command"].replace("\\\n", " "))]
        count = next(i for i, word in enumerate(words) if not _VARIABLE.match(word))
        variables = dict(word.split("=", 1) for word in words[:count])
        done = f"{text[: block.end('head')]}{run(words[count:], variables).strip()}\n"
        text, position = done + text[block.end() :], len(done)
        path.write_text(text)


def run_here(arguments: list[str], variables: dict[str, str]) -> str:
    """Return the output of a command in the root of the repository; `python` and `gpunn` are the running
    ones.
    """
    print(shlex.join(arguments), file=sys.stderr)
    own = {"python": [sys.executable], "gpunn": [sys.executable, "-m", "gpunn"]}
    command = [*own.get(arguments[0], arguments[:1]), *arguments[1:]]
    environment = {**os.environ, **variables}
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def main(arguments: Sequence[str] | None = None) -> None:
    """Refresh one page."""
    parser = command("document", __doc__)
    parser.add_argument("page", type=Path)
    refresh(parser.parse_args(arguments).page, run_here)


if __name__ == "__main__":
    main()
