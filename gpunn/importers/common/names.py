"""Names: the names of a graph's operands, each given once; and names in messages."""

from __future__ import annotations

MAX_NAME = 200  # characters of a name in messages


class Names:
    """Names of a graph's operands, each given once."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def copy(self) -> Names:
        """Return the same names, for another graph that goes on where this one stops."""
        made = Names()
        made._given.update(self._given)
        return made

    def unique(self, wanted: str) -> str:
        """Return a name that was not given before: the wanted one, if possible with a number behind it."""
        number = self._given.get(wanted, 0)
        self._given[wanted] = number + 1
        return wanted if number == 0 else self.free(f"{wanted}:{number}")

    def free(self, name: str) -> str:
        """Return the name, with as many strokes behind it as it takes to be another one."""
        while name in self._given:
            name += "'"
        self._given[name] = 1
        return name


def shown(name: str) -> str:
    """Return a name of a file for messages, in quotes and not too long."""
    return repr(name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}...")
