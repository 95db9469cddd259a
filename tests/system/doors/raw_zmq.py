"""The ZeroMQ endpoint by hand, for messages that the SDKs do not send."""

import os
import pathlib
import sys
import time

import zmq

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "sdk" / "python"))

from baton_client import codec  # noqa: E402
from baton_client.wire.MessageKind import MessageKind  # noqa: E402


class Raw:
    def __init__(self, endpoint):
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(endpoint)
        self.us = codec.Address(0x80000001, time.time_ns(), 8)
        self.door = codec.Address(0, 0, 7)
        self.count = 0

    def greet(self):
        self.send(MessageKind.hello, codec.hello(self.us, "raw", os.getpid()))
        ack = self.next_message()
        self.door.node, self.door.epoch = ack.value.node, ack.value.epoch

    def send(self, kind, body, correlation=0):
        self.count += 1
        head = codec.envelope(kind, self.us, self.door, correlation, self.count)
        self.socket.send(codec.pack(head, body))

    def next_message(self, seconds=20):
        return codec.decode(self.socket.recv()) if self.socket.poll(
            seconds * 1000) else None

    def body(self, kind, seconds=20):
        """The body of the next message of this kind, as it is on the wire."""
        while self.socket.poll(seconds * 1000):
            packet = self.socket.recv()
            if codec.decode(packet).kind == kind:
                return codec.unpack(packet)[1]
        raise TimeoutError(f"no message of kind {kind}")
