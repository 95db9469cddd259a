"""A worker of several processes (docs/apis/workers/groups-and-devices.md): rank 0 has the connection to the gateway, and a socket with each of
the others.

Over that socket a rank sends one byte when it has its model, and receives batches: each is the server's packet after its length. `cluster`
starts the ranks, and ends them all when one ends.
"""

from __future__ import annotations

import inspect
import logging
import os
import select
import signal
import socket
import struct
import sys
import time
from typing import Any, List, NoReturn, Optional

from baton_client import codec

from .handler import Handler, Request

log = logging.getLogger("baton_worker")

READY = b"R"
LENGTH = struct.Struct("<I")
PACKET_MAX = (64 << 20) + 2048  # the server's limit (link.py)
END_MAX = 10.0  # seconds until `cluster` has ended a group that lost a rank
LOST_WAIT_MS = 250  # the handler may notice a rank's end before its socket does


def _take_socket(number: str) -> socket.socket:
    """A socket that `cluster` has opened. Child processes of the handler must not inherit it."""
    mine = socket.socket(fileno=int(number))
    mine.set_inheritable(False)
    return mine


def end_with_group() -> NoReturn:
    """A rank has ended, and `cluster` is about to end the others; the log must end with that rank's error."""
    time.sleep(END_MAX)
    sys.exit(1)


class Leader:
    """Rank 0's side."""

    def __init__(self, ranks: List[socket.socket], hands_on: bool):
        self._ranks = ranks
        self.hands_on = hands_on  # passes each batch to all ranks; else only rank 0 gets it

    @classmethod
    def of_environment(cls) -> Optional["Leader"]:
        """None: this worker is a single process, or another rank."""
        numbers = os.environ.pop("BATON_GROUP_RANKS", None)
        if numbers is None:
            return None
        ranks = [_take_socket(n) for n in numbers.split(",") if n]
        return cls(ranks, os.environ.get("BATON_GROUP_PARALLEL") != "pp" and bool(ranks))

    def wait_ready(self) -> None:
        """Waits until all ranks have their model. After `startup_timeout` `cluster` ends all of them."""
        for one in self._ranks:
            try:
                is_ready = one.recv(1) == READY
            except OSError:
                is_ready = False
            if not is_ready:
                end_with_group()

    def hand_on(self, packet: bytes) -> None:
        """Sends the batch to all ranks before rank 0 starts it. Waits for ranks that are still busy with the previous batch; the server's
        `response_timeout` bounds the wait."""
        try:
            for one in self._ranks:
                one.sendall(LENGTH.pack(len(packet)))
                one.sendall(packet)
        except OSError:
            end_with_group()

    def end_if_lost(self) -> None:
        """Called before an exception of the handler is reported. If a lost rank has caused it, the next group repeats the batch."""
        lost = select.poll()
        for one in self._ranks:
            lost.register(one, select.POLLRDHUP)
        if self._ranks and lost.poll(LOST_WAIT_MS):
            end_with_group()


class Follower:
    """The side of the other ranks."""

    def __init__(self, leader: socket.socket):
        self._leader = leader

    @classmethod
    def of_environment(cls) -> Optional["Follower"]:
        number = os.environ.pop("BATON_GROUP_LEADER", None)
        return None if number is None else cls(_take_socket(number))

    def serve(self, handler: Handler) -> None:
        """Serves until rank 0 has ended, or SIGTERM arrives; the current batch is finished first."""
        signal.signal(signal.SIGTERM, lambda *_: self._leader.shutdown(socket.SHUT_RD))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._leader.sendall(READY)
        while (packet := self._next()) is not None:
            take_part(handler, packet)
        handler.finalize()

    def _next(self) -> Optional[bytes]:
        head = self._read(LENGTH.size)
        if head is None:
            return None
        size = LENGTH.unpack(head)[0]
        if size > PACKET_MAX:
            raise ValueError(f"a batch of {size} bytes, at most {PACKET_MAX} are possible")
        return self._read(size)

    def _read(self, size: int) -> Optional[bytes]:
        """None: end of the stream."""
        data = bytearray(size)
        view, got = memoryview(data), 0
        while got < size:
            try:
                n = self._leader.recv_into(view[got:])
            except ConnectionResetError:  # rank 0 ended with unread data
                n = 0
            if n == 0:
                return None
            got += n
        return bytes(data)


def take_part(handler: Handler, packet: bytes) -> None:
    """Computes the batch like rank 0, in the same order, and sends nothing."""
    asked = codec.decode(packet).value
    requests = [Request(item, lambda: False, lambda piece: None) for item in asked]
    try:
        exhaust(handler.handle(requests))
    except Exception:  # rank 0 reports its own exception; here the batch is over as well
        log.exception("the handler raised")


def exhaust(made: Any) -> None:
    """Advances generators in turn as rank 0 does (serve.py), because they share its collective operations."""
    if inspect.isgenerator(made):
        for _ in made:
            pass
        return
    streams = [one for one in made if inspect.isgenerator(one)] if isinstance(made, (list, tuple)) else []
    while streams:
        streams = [one for one in streams if _has_more(one)]


def _has_more(stream: Any) -> bool:
    try:
        next(stream)
    except StopIteration:
        return False
    except Exception:
        log.exception("a handler's stream raised")
        return False
    return True
