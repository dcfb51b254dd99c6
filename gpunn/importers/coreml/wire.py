"""The wire format of protobuf, as far as it is read before the messages are known."""

from __future__ import annotations


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length integer at a place, and the place behind it.

    Raises IndexError at the end of the data, and for more than ten bytes.
    """
    value = 0
    for k in range(10):
        value |= (data[at + k] & 0x7F) << (7 * k)
        if data[at + k] < 0x80:
            return value, at + k + 1
    raise IndexError("an integer of more than ten bytes")
