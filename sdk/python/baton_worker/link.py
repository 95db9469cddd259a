"""A worker's end of the worker door (docs/reference/protocol.md): hello, heartbeats, batches, credit.

    connecting --hello_ack--> open --silence, disconnect, gap--> connecting     (what was open is void)
    connecting --silence--> connecting
    open --leave--> leaving --drain--> released
    connecting --refusal--> lost

A thread owns the socket; the handler's thread takes batches and puts pieces.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Deque, List, Optional, Set, Tuple

import zmq

from baton_client import codec, inference
from baton_client.errors import BatonError, LinkDown
from baton_client.inference import Infer
from baton_client.wire.MessageKind import MessageKind
from baton_client.wire.Role import Role

from .metrics import Metrics, Told

HEARTBEAT_INTERVAL = 1.0
SILENCE_MAX = 5.0
BATCH_BYTES_MAX = 64 << 20  # body_bytes_max of schema/limits.hpp
PACKET_EXTRA_BYTES_MAX = 2048
METRIC_BYTES_MAX = 256 << 10  # of one message of what is counted
UNHEARD_MAX = 32  # such messages that the door has not said to have heard: what is counted further waits
RECONNECT_MIN, RECONNECT_MAX = 0.05, 0.5  # seconds between two attempts at a door that does not open: they double
POLL_INTERVAL_MS = 250
LINGER_MS = 500
STALE_EPOCH = 72  # another life has this place: ours is over
DOOR_ACTOR, WORKER_ACTOR = 7, 8


class Void(Exception):
    """The door has lost this batch: nobody would hear its pieces."""


@dataclass
class Batch:
    life: int  # of the connection that it came by
    items: List[Infer]
    packet: bytes = b""  # as it came, if a group's ranks are to have it


def _part_of(left: Deque[Told]) -> List[Told]:
    """What fits into the next message: at least one."""
    part = [left.popleft()]
    size = part[0].size
    while left and len(part) < inference.METRICS_MAX and size + left[0].size <= METRIC_BYTES_MAX:
        size += left[0].size
        part.append(left.popleft())
    return part


class Link:
    """`put`, `next_batch` and `is_cancelled` are the handler's thread's; `leave` anybody's."""

    def __init__(
        self,
        door: str,
        node: int,
        epoch: int,
        name: str,
        metrics: Optional[Metrics] = None,
        load_seconds: float = 0,
        keeps_packets: bool = False,
    ):
        self._keeps_packets = keeps_packets
        self._endpoint = door
        self._us = codec.Address(node, epoch, WORKER_ACTOR)
        self._name = name
        self._metrics = metrics or Metrics()
        self._load_micros = int(load_seconds * 1e6)
        self._told_epoch = 0  # of the door that has heard the metrics so far
        self._unheard: Deque[Tuple[int, List[Told]]] = deque()  # by the sequence of their message
        self._changed = threading.Condition(threading.RLock())  # a signal may come while it is held
        self._life = 0
        self._is_open = False
        self._batches: Deque[Batch] = deque()
        self._cancelled: Set[int] = set()
        self._queued: Deque[Tuple[int, bytes]] = deque()
        self._sent_bytes = self._credited_bytes = self._window_bytes = 0
        self._is_leaving = self._is_told = self._is_released = False
        self._lost: Optional[BatonError] = None
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._thread = threading.Thread(target=self._run, name="baton-worker", daemon=True)
        self._thread.start()

    # -- The handler's thread --

    def next_batch(self) -> Optional[Batch]:
        """None: the worker has left. Raises what ended the link for good."""
        with self._changed:
            while not self._batches:
                if self._lost is not None:
                    raise self._lost
                if self._is_released:
                    return None
                self._changed.wait(1.0)
            batch = self._batches.popleft()
            self._cancelled.intersection_update(item.request for item in batch.items)
            return batch

    def is_cancelled(self, batch: Batch, request: int) -> bool:
        with self._changed:
            return request in self._cancelled or batch.life != self._life

    def put(self, batch: Batch, piece: bytes) -> None:
        """An encoded piece; waits for credit. Raises Void."""
        with self._changed:
            while (
                batch.life == self._life
                and self._sent_bytes > self._credited_bytes
                and self._sent_bytes - self._credited_bytes + len(piece) > self._window_bytes
            ):
                self._changed.wait(1.0)
            if batch.life != self._life or not self._is_open:
                raise Void
            self._sent_bytes += len(piece)
            self._queued.append((MessageKind.inferred, piece))
        self._wake()

    def leave(self) -> None:
        """No further batch; next_batch says None when the door has what this one answered."""
        with self._changed:
            self._is_leaving = True
            self._changed.notify_all()
        self._wake()

    def close(self) -> None:
        self._thread.join(LINGER_MS / 1000)

    # -- The socket's thread --

    def _wake(self) -> None:
        try:
            os.write(self._wake_out, b"x")
        except BlockingIOError:
            pass  # a wake-up is pending

    def _run(self) -> None:
        # Signals are the handler's thread's.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        pause = RECONNECT_MIN
        while True:
            context = zmq.Context()
            try:
                self._connect(context)
                self._serve()
            except Exception as wrong:  # whatever it is, the handler's thread waits to hear of it
                if self._is_open:
                    pause = RECONNECT_MIN
                if not self._is_over(wrong):
                    time.sleep(pause)
                    pause = min(2 * pause, RECONNECT_MAX)
                    continue
            finally:
                context.destroy(linger=LINGER_MS)
            return

    def _is_over(self, wrong: Exception) -> bool:
        with self._changed:
            self._is_open = False
            self._life += 1
            self._batches.clear()
            self._cancelled.clear()
            self._queued.clear()
            if self._is_leaving:
                self._is_released = True
            elif not isinstance(wrong, (BatonError, zmq.ZMQError)):
                self._lost = LinkDown(f"{type(wrong).__name__}: {wrong}")
            elif isinstance(wrong, BatonError) and (not wrong.retryable or wrong.code == STALE_EPOCH):
                self._lost = wrong
            self._changed.notify_all()
            return self._is_released or self._lost is not None

    def _connect(self, context: zmq.Context) -> None:
        self._door = codec.Address(0, 0, DOOR_ACTOR)
        self._sequence_in = self._sequence_out = 0
        self._socket = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, LINGER_MS)
        self._socket.setsockopt(zmq.SNDTIMEO, int(SILENCE_MAX * 1000))  # a door that takes nothing in
        self._socket.setsockopt(zmq.MAXMSGSIZE, BATCH_BYTES_MAX + PACKET_EXTRA_BYTES_MAX)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 20)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._socket.connect(self._endpoint)
        self._poller = zmq.Poller()
        for readable in (self._socket, self._monitor, self._wake_in):
            self._poller.register(readable, zmq.POLLIN)
        body = codec.hello(self._us, self._name, os.getpid(), role=Role.worker, load_micros=self._load_micros)
        self._send(MessageKind.hello, body)

    def _send(self, kind: int, body: bytes) -> None:
        self._sequence_out += 1
        head = codec.envelope(kind, self._us, self._door, 0, self._sequence_out)
        if kind == MessageKind.inferred:
            with self._changed:
                self._sent_bytes += len(head)
        # Bounded by credit; a hello waits until the door is there.
        self._socket.send(codec.pack(head, body))

    def _serve(self) -> None:
        beats = 0
        heard_at = beat_at = time.monotonic()
        while True:
            now = time.monotonic()
            if self._is_open and now >= beat_at:
                beats, beat_at = beats + 1, now + HEARTBEAT_INTERVAL
                self._send(MessageKind.heartbeat, codec.heartbeat(beats))
                self._send_metrics()
            if self._send_queued():
                return
            ready = dict(self._poller.poll(POLL_INTERVAL_MS))
            if self._wake_in in ready:
                self._drain_wake()
            if self._socket in ready:
                heard_at = time.monotonic()
                self._receive_all()
            if self._monitor in ready:
                raise LinkDown("the door closed the connection")
            if time.monotonic() - heard_at > SILENCE_MAX:
                raise LinkDown("the door fell silent")

    def _send_metrics(self, is_last: bool = False) -> None:
        """Bounded, and once a second: without credit."""
        if len(self._unheard) >= UNHEARD_MAX and not is_last:
            return
        left = deque(self._metrics.take())
        while left:
            part = _part_of(left)
            try:
                self._send(MessageKind.handler_metrics, inference.handler_metrics(part))
            except BaseException:
                self._metrics.put_back([*part, *left])
                raise
            self._unheard.append((self._sequence_out, part))

    def _settle_unheard(self, epoch: int) -> None:
        """Of a door that is there anew. Another life of it counts from the beginning: what the one before may not have heard is told to
        it. The same one may still come upon it, and would count it twice."""
        if self._told_epoch != epoch:
            for _, part in self._unheard:
                self._metrics.put_back(part)
        self._unheard.clear()

    def _heard_up_to(self, sequence: int) -> None:
        """0: a door that does not say; it hears what is said in order."""
        while self._unheard and (sequence == 0 or self._unheard[0][0] <= sequence):
            self._unheard.popleft()

    def _send_queued(self) -> bool:
        """True: released, nothing is left to say."""
        while True:
            with self._changed:
                if not self._is_open and self._is_leaving:
                    raise LinkDown("left before the door was there")
                if not self._queued:
                    if self._is_leaving and not self._is_told:
                        self._is_told = True
                        self._queued.append((MessageKind.drain, codec.drain()))
                    else:
                        return self._is_released
                kind, body = self._queued.popleft()
            if kind == MessageKind.drain:
                self._send_metrics(is_last=True)  # behind it nothing is heard
            self._send(kind, body)

    def _drain_wake(self) -> None:
        try:
            os.read(self._wake_in, 4096)
        except BlockingIOError:
            pass

    def _receive_all(self) -> None:
        while True:
            try:
                packet = self._socket.recv(flags=zmq.DONTWAIT)
            except zmq.Again:
                return
            self._take(codec.decode(packet), packet if self._keeps_packets else b"")

    def _take(self, heard: codec.Heard, packet: bytes) -> None:
        self._sequence_in += 1
        if heard.sequence != self._sequence_in:
            raise LinkDown(f"message {heard.sequence} came in place of {self._sequence_in}")
        with self._changed:
            if heard.kind == MessageKind.hello_ack:
                if heard.value.refused is not None:
                    raise heard.value.refused
                self._door.node, self._door.epoch = heard.value.node, heard.value.epoch
                self._window_bytes = heard.value.window_bytes
                self._settle_unheard(heard.value.epoch)
                if self._told_epoch not in (0, heard.value.epoch):
                    self._metrics.tell_again()
                self._told_epoch = heard.value.epoch
                self._sent_bytes = self._credited_bytes = 0
                self._is_open, self._is_told = True, False
            elif heard.kind == MessageKind.infer_batch:
                self._batches.append(Batch(self._life, heard.value, packet))
            elif heard.kind == MessageKind.cancel_infer:
                self._cancelled.add(heard.value)
            elif heard.kind == MessageKind.heartbeat:
                self._heard_up_to(heard.value)
            elif heard.kind == MessageKind.credit:
                self._credited_bytes = heard.value
            elif heard.kind == MessageKind.drain:
                self._is_released = True
            self._changed.notify_all()
