"""The unread answers of one request, and how to request the rest of it after a lost connection.

    asked --granted--> streaming --a finish of every choice--> over
      +-----------a refusal, an answer-------------------------^
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Deque, List, Optional, Tuple

from . import codec
from .errors import BadFrame, BatonError, LinkDown, SlowReader
from .inference import Inferred
from .values import Chunk
from .wire.MessageKind import MessageKind

INBOX_BYTES_MAX = 8 << 20  # unread bytes of one stream; a whole answer of the longest context is smaller


@dataclass
class Inbox:
    """Credit is returned when a message arrives here, so an unread stream never blocks the others; its own inbox has a bound."""

    places: List[codec.Place]  # of a generation: how much of each choice has arrived
    question: Optional[Tuple[int, bytes]] = None  # kind and body, until the server has accepted it
    arrived: Deque[Tuple[Any, int]] = field(default_factory=deque)  # value, bytes
    unread_bytes: int = 0
    ticket: int = 0
    resume_key: int = 0
    is_over: bool = False
    cancel_wanted: bool = False  # sent as soon as this connection knows the ticket
    is_forgotten: bool = False  # no longer read: kept until the server has ended it
    ended: Optional[BatonError] = None  # by us: raised once all arrived messages are taken
    is_inference: bool = False  # by a worker model
    has_begun: bool = False  # a worker model's answer: its rest cannot be requested

    def grant(self, ticket: int, resume_key: int) -> None:
        self.ticket, self.resume_key, self.question = ticket, resume_key, None

    def put(self, value: Any, size: int) -> None:
        """Raises SlowReader, and BadFrame if there is no such choice."""
        if isinstance(value, Chunk):
            if value.choice >= len(self.places):
                raise BadFrame(f"a chunk of choice {value.choice} of {len(self.places)}")
            if self.places[value.choice].has_finish:
                return  # a resume repeats the last chunk
            has_finish = value.finish_reason is not None
            self.places[value.choice] = codec.Place(value.index, has_finish)
            self.is_over = all(place.has_finish for place in self.places)
        elif isinstance(value, Inferred):
            self.is_over, self.has_begun, self.question = value.is_last, True, None
        else:
            self.is_over, self.question = True, None
        if self.is_forgotten or self.ended is not None:
            return
        if self.arrived and self.unread_bytes + size > INBOX_BYTES_MAX:
            raise SlowReader(
                f"{self.unread_bytes} bytes of this stream wait unread, "
                f"its bound is {INBOX_BYTES_MAX}"
            )
        self.unread_bytes += size
        self.arrived.append((value, size))

    def take(self) -> Any:
        value, size = self.arrived.popleft()
        self.unread_bytes -= size
        return value

    def rest(self, request: int) -> Optional[Tuple[int, bytes]]:
        """The message that requests the rest from a new server; None: nothing is missing."""
        if self.is_over:
            return None
        if self.has_begun:
            self.is_over, self.ended = True, LinkDown("the gateway was lost within the answer")
            return None
        if self.ticket:
            body = codec.resume(request, self.ticket, self.resume_key, self.places)
            return MessageKind.resume, body
        return None if self.is_forgotten else self.question
