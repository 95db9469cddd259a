"""The bytes that bus_proxy.py reads and writes are those of ZMTP, however they are cut."""
import socket

import pytest
import zmq
import zmtp

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(16) + b"\x00" + bytes(31)
FRAMES = [zmtp.Frame(b"\x05READY", zmtp.COMMAND), zmtp.Frame(b""), zmtp.Frame(b"x" * 255, zmtp.MORE), zmtp.Frame(b"y" * 256), zmtp.Frame(b"z" * 70000)]


@pytest.mark.parametrize("piece", [1, 7, 64, 1 << 20])
def test_frames_are_read_as_written(piece):
    whole, reader, found = GREETING + b"".join(f.encode() for f in FRAMES), zmtp.Reader(), []
    for at in range(0, len(whole), piece):
        found += reader.take(whole[at:at + piece])
    assert b"".join(x.part for x in found if isinstance(x, zmtp.Greeting)) == GREETING
    assert [x for x in found if isinstance(x, zmtp.Frame)] == FRAMES
    assert b"".join(x.encode() for x in found) == whole
    assert [x.is_message for x in FRAMES] == [False, True, True, True, True]


def test_data_that_is_not_zmtp_is_reported():
    with pytest.raises(ValueError):
        zmtp.Reader().take(b"GET / HTTP/1.1\r\n")
    reader = zmtp.Reader()
    reader.take(GREETING)
    with pytest.raises(ValueError):
        reader.take(b"\x38\x00")


def test_a_message_of_zeromq_is_one_frame(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener, zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        dealer.linger = 0
        dealer.connect(f"ipc://{tmp_path}/s")
        dealer.send(b"m" * 300)
        peer, _ = listener.accept()
        peer.settimeout(10)
        reader, found = zmtp.Reader(), []
        with peer:
            peer.sendall(GREETING)
            peer.sendall(zmtp.Frame(b"\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER", zmtp.COMMAND).encode())
            while not any(x.is_message for x in found):
                found += reader.take(peer.recv(65536))
    assert [x.payload for x in found if x.is_message] == [b"m" * 300]
    assert any(isinstance(x, zmtp.Frame) and x.payload.startswith(b"\x05READY") for x in found)
