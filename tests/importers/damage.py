"""Files of any format with damaged bytes."""

from __future__ import annotations

from random import Random


def damaged_bytes(data: bytes, random: Random) -> bytes:
    """Change, insert, delete or repeat a few bytes, or cut the file."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at, length = random.randrange(len(changed) + 1), random.randint(1, 8)
        kind = random.randrange(8)
        if kind < 4 and at < len(changed):
            changed[at] = random.randrange(256)
        elif kind == 4:
            changed[at:at] = random.randbytes(length)
        elif kind == 5:
            del changed[at : at + length]
        elif kind == 6:
            changed[at:at] = changed[at : at + 10 * length]
        elif random.random() < 0.2:
            del changed[at:]
    return bytes(changed)
