"""ZMTP 3.x as bytes: a greeting of 64, then frames, commands among them (rfc.zeromq.org/spec/23). Pure."""
import dataclasses

GREETING_BYTES = 64
MORE, LONG, COMMAND = 1, 2, 4
FRAME_BYTES_MAX = 1 << 30


@dataclasses.dataclass
class Greeting:
    """A part of the greeting: each side waits for the other's first bytes before it sends the rest."""
    part: bytes
    is_message = False

    def encode(self):
        return self.part


@dataclasses.dataclass
class Frame:
    payload: bytes
    flags: int = 0  # without LONG: the size tells

    @property
    def is_message(self):
        return not self.flags & COMMAND

    def encode(self):
        size = len(self.payload)
        if size < 256:
            return bytes((self.flags, size)) + self.payload
        return bytes((self.flags | LONG,)) + size.to_bytes(8, "big") + self.payload


class Reader:
    """One direction of a connection: bytes in, parts of the greeting and whole frames out."""

    def __init__(self):
        self._greeting, self._buffer = b"", bytearray()

    def take(self, data):
        """Raises ValueError if it is not ZMTP."""
        self._buffer += data
        found = []
        if self._buffer and (missing := GREETING_BYTES - len(self._greeting)) > 0:
            part = bytes(self._buffer[:missing])
            del self._buffer[:missing]
            self._greeting += part
            if self._greeting[0] != 0xFF or self._greeting[9:10] not in (b"", b"\x7f") or self._greeting[10:11] not in (b"", b"\x03"):
                raise ValueError(f"no ZMTP 3 greeting: {self._greeting[:12].hex()}")
            found.append(Greeting(part))
        while (frame := self._next()) is not None:
            found.append(frame)
        return found

    def _next(self):
        header = 9 if self._buffer and self._buffer[0] & LONG else 2
        if len(self._buffer) < header:
            return None
        flags, size = self._buffer[0], int.from_bytes(self._buffer[1:header], "big")
        if flags & ~(MORE | LONG | COMMAND) or size > FRAME_BYTES_MAX:
            raise ValueError(f"no ZMTP frame: flags {flags:#x}, {size} bytes")
        if len(self._buffer) < header + size:
            return None
        payload = bytes(self._buffer[header:header + size])
        del self._buffer[:header + size]
        return Frame(payload, flags & ~LONG)
