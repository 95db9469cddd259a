"""What has come for one request and waits to be read, and how to ask for the rest of it when the
door was lost in the middle.

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

INBOX_BYTES_MAX = 8 << 20  # of one stream, unread: a whole answer of the longest context is below it


@dataclass
class Inbox:
    """Credit goes back when a message has arrived here, so that a stream which nobody reads never
    holds up its siblings; its own inbox has a bound."""

    places: List[codec.Place]  # of a generation: what has arrived of each choice
    question: Optional[Tuple[int, bytes]] = None  # kind and body, until the door has taken it up
    arrived: Deque[Tuple[Any, int]] = field(default_factory=deque)  # value, bytes
    unread_bytes: int = 0
    ticket: int = 0
    resume_key: int = 0
    is_over: bool = False
    cancel_wanted: bool = False  # said as soon as the ticket is known to this connection
    is_forgotten: bool = False  # nobody reads it: kept until the door has ended it
    ended: Optional[BatonError] = None  # by us: raised when all that arrived is taken
    is_inference: bool = False  # by a worker model
    has_begun: bool = False  # an answer of a worker model: the rest of it cannot be asked for

    def grant(self, ticket: int, resume_key: int) -> None:
        self.ticket, self.resume_key, self.question = ticket, resume_key, None

    def put(self, value: Any, size: int) -> None:
        """Raises SlowReader, and BadFrame if there is no such choice."""
        if isinstance(value, Chunk):
            if value.choice >= len(self.places):
                raise BadFrame(f"a chunk of choice {value.choice} of {len(self.places)}")
            if self.places[value.choice].has_finish:
                return  # behind a resume the last chunk comes again
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
        """What to ask a door that knows nothing of it; None: nothing is missing."""
        if self.is_over:
            return None
        if self.has_begun:
            self.is_over, self.ended = True, LinkDown("the door was lost within the answer")
            return None
        if self.ticket:
            body = codec.resume(request, self.ticket, self.resume_key, self.places)
            return MessageKind.resume, body
        return None if self.is_forgotten else self.question
