"""The wire format of protobuf, as far as it is read before the messages are known, or written."""

from __future__ import annotations

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # types of fields, in their tags below the number


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the variable-length integer at a place, and the place behind it.

    Raises IndexError at the end of the data, and for more than ten bytes.
    """
    value = 0
    for k in range(10):
        value |= (data[at + k] & 0x7F) << (7 * k)
        if data[at + k] < 0x80:
            return value, at + k + 1
    raise IndexError("an integer of more than ten bytes")


def encoded(value: int) -> bytes:
    """Return an integer of 0 or more in the variable-length form."""
    if value < 0x80:
        return _SHORT[value]
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


_SHORT = [bytes([k]) for k in range(0x80)]


def encoded_varint(number: int, value: int) -> bytes:
    """Return a field that is an integer of 0 or more."""
    return encoded(number << 3 | VARINT) + encoded(value)


def encoded_bytes(number: int, value: bytes) -> bytes:
    """Return a field that is bytes, a string or a message."""
    return encoded(number << 3 | BYTES) + encoded(len(value)) + value
