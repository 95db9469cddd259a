"""The ZeroMQ door with the Python SDK, and with frames that no SDK would send."""

import os
import pathlib
import sys

import pytest

from raw_zmq import Raw

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "sdk" / "python"))

from baton_client import BatonError, Client, Tensor  # noqa: E402
from baton_client import codec, inference  # noqa: E402
from baton_client.tensors import pack_elements, unpack_elements  # noqa: E402
from baton_client.wire.MessageKind import MessageKind  # noqa: E402


@pytest.fixture
def client(gateway):
    with Client(gateway.zmq) as c:
        yield c


def test_generate_stream_and_chat(client):
    assert client.generate("tokens=3").text == "w0 w1 w2 "
    pieces = list(client.stream("tokens=5 pace_ms=2"))
    assert "".join(c.text for c in pieces) == "w0 w1 w2 w3 w4 "
    assert [c.finish_reason for c in pieces][-1] == "stop"
    answer = client.chat([{"role": "user", "content": "tokens=9"}], max_tokens=2)
    assert answer.finish_reason == "length" and answer.output_tokens == 2
    both = client.generate_all("tokens=2", n=2)
    assert [a.text for a in both] == ["w0 w1 "] * 2


def test_models_and_tokenizer(client):
    assert client.models()[0].name == "fake"
    assert list(client.tokenize("ab").ids) == [97, 98]
    assert client.detokenize([97, 98]) == "ab"
    with pytest.raises(BatonError):
        client.detokenize([500])


@pytest.mark.parametrize("options, code", [
    ({"temperature": 9.0}, "invalid_value"),
    ({"n": 100}, "invalid_value"),
    ({"priority": -1}, "invalid_value"),
    ({"model": "other"}, "model_not_found"),
])
def test_bad_requests_are_refused_as_over_http(client, options, code):
    with pytest.raises(BatonError) as e:
        client.generate("x", **options)
    assert e.value.name == code
    assert client.generate("tokens=1").text == "w0 "


def test_refusals_and_failures_reach_the_client(client):
    with pytest.raises(BatonError) as e:
        client.generate("refuse=context_length_exceeded")
    assert e.value.name == "context_length_exceeded"
    with pytest.raises(BatonError) as e:
        client.generate("tokens=5 fail_at=3")
    assert e.value.name == "internal"


def test_cancel_and_leaving(start):
    g = start("--zmq", "tcp://127.0.0.1:*")
    with Client(g.zmq) as c:
        s = c.stream("tokens=100000 pace_ms=5")
        s.next()
        s.cancel()
        ticket = s.ticket
        assert g.cancelled(ticket)["why"] == 2
        last = [chunk for chunk in s][-1]
        assert last.finish_reason == "cancelled"


@pytest.mark.parametrize("reconnect_timeout, client_gone_or_lost", [(0, 1), (30, 8)])
def test_a_client_that_falls_silent_loses_its_streams(start, reconnect_timeout, client_gone_or_lost):
    g = start("--zmq", "tcp://127.0.0.1:*")
    pid = os.fork()
    if pid == 0:
        c = Client(g.zmq, reconnect_timeout=reconnect_timeout)
        s = c.stream("tokens=100000 pace_ms=20")
        s.next()
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    ticket = g.wait_for("reserve")["ticket"]
    assert g.cancelled(ticket, seconds=40)["why"] == client_gone_or_lost


def test_a_stream_that_is_not_read_ends_alone(start):
    g = start("--zmq", "tcp://127.0.0.1:*")
    with Client(g.zmq) as client:
        unread = client.stream("tokens=100000 bytes=20000 pace_ms=2")
        ticket = g.wait_for("reserve")["ticket"]
        assert client.generate("tokens=3").text == "w0 w1 w2 "
        assert g.cancelled(ticket, seconds=20)["why"] == 2
        assert client.generate("tokens=3").text == "w0 w1 w2 "
        with pytest.raises(BatonError) as e:
            for _ in unread:
                pass
        assert e.value.name == "slow_reader"


def test_a_client_that_gives_no_credit_is_cut_and_affects_no_other(start):
    g = start("--zmq", "tcp://127.0.0.1:*", "--stream-buffer", "100000")
    raw = Raw(g.zmq)
    raw.greet()
    params = codec.GenerateParams()
    raw.send(MessageKind.generate, codec.generate(1, "fake", "tokens=100000 bytes=5000", None, params, 1, 0))
    ticket = g.wait_for("reserve")["ticket"]
    with Client(g.zmq) as other:
        assert other.generate("tokens=3").text == "w0 w1 w2 "
        assert g.cancelled(ticket, seconds=20)["why"] == 3
    raw.socket.close()


def test_malformed_frames_are_counted_and_ignored(start):
    g = start("--zmq", "tcp://127.0.0.1:*")
    raw = Raw(g.zmq)
    for frames in ([b""], [b"x" * 100], [b"a", b"b", b"c"], [b"", b"", b"", b"", b""],
                   [os.urandom(64)], [b"x" * 100_000], [codec.pack(b"x", b"y")], [codec.pack(b"", b"")],
                   [codec.pack(os.urandom(64), os.urandom(64))], [codec.pack(b"x" * 100_000, b"")]):
        raw.socket.send_multipart(frames)
    raw.send(MessageKind.list_models, codec.list_models(1))  # before hello: a stranger
    raw.send(MessageKind.hello, codec.hello(raw.us, "raw", os.getpid()))
    ack = raw.next_message()
    assert ack.kind == MessageKind.hello_ack and ack.value.refused is None
    import httpx
    text = httpx.get(g.url + "/metrics").text
    assert 'baton_messages_dropped_total{kind="zmq_bad_frame"} 10' in text
    assert 'baton_messages_dropped_total{kind="zmq_stranger"} 1' in text
    with Client(g.zmq) as c:
        assert c.generate("tokens=1").text == "w0 "
    raw.socket.close()


def text(name, value):
    return Tensor(name, "BYTES", [1], pack_elements([value]))


def texts_of(pieces):
    return [unpack_elements(t.data)[0].decode() for p in pieces for t in p.outputs if t.name == "text_output"]


def test_a_language_model_is_asked_with_tensors(client):
    whole = client.infer("fake", [text("text_input", "tokens=3")], outputs=["finish_reason", "text_output"])
    assert [t.name for t in whole.outputs] == ["finish_reason", "text_output"] and texts_of([whole]) == ["tokens=3w0 w1 w2 "]
    stream = [text("text_input", "tokens=9 pace_ms=5"), Tensor("stream", "BOOL", [1], b"\1"), text("sampling_parameters", '{"max_tokens": 4}')]
    pieces = list(client.infer_stream("fake", stream, version="1"))
    assert "".join(texts_of(pieces)) == "w0 w1 w2 w3 " and len(pieces) > 1
    assert [p.is_last for p in pieces] == [False] * (len(pieces) - 1) + [True] and [p.index for p in pieces] == list(range(len(pieces)))


@pytest.mark.parametrize("model, inputs, options, code", [
    ("fake", ["x"], {"version": "2"}, "model_not_found"),
    ("other", ["x"], {}, "model_not_found"),
    ("fake", [], {"body": b"x"}, "invalid_request"),
    ("fake", [], {}, "invalid_request"),
    ("fake", ["x"], {"parameters": {"colour": "red"}}, "unsupported_parameter"),
    ("fake", ["x"], {"parameters": {"temperature": 9.0}}, "invalid_value"),
    ("fake", ["refuse=context_length_exceeded"], {}, "context_length_exceeded"),
    ("fake", ["tokens=5 fail_at=3"], {}, "internal"),
])
def test_an_invalid_value_is_an_error_of_its_request(client, model, inputs, options, code):
    with pytest.raises(BatonError) as e:
        client.infer(model, [text("text_input", i) for i in inputs], **options)
    assert e.value.name == code
    assert texts_of([client.infer("fake", [text("text_input", "tokens=1")])]) == ["tokens=1w0 "]


def test_a_language_model_whose_answer_is_left_is_cancelled(start):
    g = start("--zmq", "tcp://127.0.0.1:*")
    asked = [text("text_input", "tokens=100000 pace_ms=5"), Tensor("stream", "BOOL", [1], b"\1"), text("sampling_parameters", '{"max_tokens": 100000}')]
    with Client(g.zmq) as c:
        with c.infer_stream("fake", asked) as pieces:
            assert texts_of([next(pieces)]) == ["w0 "]
            ticket = g.wait_for("reserve")["ticket"]
        assert g.cancelled(ticket)["why"] == 2


def test_an_unread_stream_delays_no_other(start):
    g = start("--zmq", "tcp://127.0.0.1:*", "--stream-buffer", "100000")
    raw = Raw(g.zmq)
    raw.greet()
    asked = inference.Infer(request=1, model="fake", inputs=[text("text_input", "tokens=100000 bytes=5000"), Tensor("stream", "BOOL", [1], b"\1")],
                            parameters_json='{"max_tokens": 1000}')  # 5 MB: more than window and buffer
    raw.send(MessageKind.infer, inference.infer(asked))
    ticket = g.wait_for("reserve")["ticket"]
    with Client(g.zmq) as other:
        assert other.generate("tokens=3").text == "w0 w1 w2 "
        assert g.cancelled(ticket, seconds=20)["why"] == 3
    raw.socket.close()
