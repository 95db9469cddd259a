"""The client against a scripted server over real sockets."""

import json
import threading
import time

import pytest

import fake_door
from fake_door import FakeDoor
from baton_client import BatonError, Client, DeadlineExceeded, LinkDown, connection
from baton_client.wire.Generate import Generate
from baton_client.wire.MessageKind import MessageKind
from baton_client.wire.TextPrompt import TextPrompt

STOP, LENGTH, CANCELLED, FAILED = 1, 2, 3, 4


def says(*words):
    def script(peer, kind, table):
        if kind == MessageKind.list_models:
            peer.say(fake_door.models(table.Request(), "tiny", "other"))
        if kind != MessageKind.generate:
            return
        peer.say(fake_door.granted(table.Request(), 9))
        for i, word in enumerate(words):
            for choice in range(table.Choices()):
                end = STOP if i + 1 == len(words) else 0
                peer.say(fake_door.chunk(table.Request(), word, end, choice, output_tokens=i + 1))

    return script


def cancels(ticket):
    return lambda kind, t: kind == MessageKind.cancel and t.Ticket() == ticket


def silent(peer, kind, table):
    pass


def connected(door, **options):
    return Client(door.endpoint, model="tiny", timeout=5, **options)


def test_template_variables_are_sent_with_the_conversation():
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "He"}]
    with FakeDoor(says("x")) as door, connected(door) as client:
        client.chat(
            chat,
            chat_template_kwargs={"enable_thinking": False},
            documents=[{"text": "é"}],
            continue_final_message=True,
        )
        client.generate("Hi", add_special_tokens=False)
        client.chat(chat)
    asked = [t for kind, t in door.received if kind == MessageKind.generate]
    options = asked[0].TemplateOptions()
    assert json.loads(options.Kwargs()) == {"enable_thinking": False}
    assert json.loads(options.Documents()) == [{"text": "é"}]
    assert options.ContinuesFinal() and options.LocalSeconds() == 0
    assert asked[1].TemplateOptions().Special() == 2  # none
    assert asked[2].TemplateOptions() is None


def test_generate_joins_the_chunks_and_stream_gives_them_one_by_one():
    with FakeDoor(says("Once", " upon", " a time")) as door, connected(door) as client:
        answer = client.generate("Tell me", max_tokens=5, seed=42)
        assert (answer.text, answer.finish_reason, answer.output_tokens) == (
            "Once upon a time", "stop", 3,
        )
        chunks = list(client.stream("Tell me"))
        assert [c.text for c in chunks] == ["Once", " upon", " a time"]
        assert [c.finish_reason for c in chunks] == [None, None, "stop"]
        assert door.has_received(
            lambda kind, t: kind == MessageKind.generate
            and t.Sampling().Seed() == 42
            and t.Stop().TokensMax() == 5
            and t.TokensMaxGiven()
            and t.Model() == b"tiny"
        )
    assert door.faults == []


def test_parameters_that_are_not_set_take_the_models_default():
    with FakeDoor(says("x")) as door, connected(door) as client:
        client.generate("words")
        client.generate("words", temperature=0, top_k=0, max_tokens=5)
    first, second = [t for kind, t in door.received if kind == MessageKind.generate]
    assert first.Unsaid() == 63 and first.Sampling().Temperature() == 1
    assert second.Unsaid() == 4 + 8 + 16 and second.Sampling().Temperature() == 0


def test_prompts_travel_as_text_ids_or_conversation():
    with FakeDoor(says("x")) as door, connected(door) as client:
        client.generate("words")
        client.generate([1, 2, 3])
        client.chat([{"role": "user", "content": "Hi"}])
    forms = [t.InputType() for kind, t in door.received if kind == MessageKind.generate]
    assert forms == [1, 2, 3]
    first = next(t for kind, t in door.received if kind == MessageKind.generate)
    text = TextPrompt()
    text.Init(first.Input().Bytes, first.Input().Pos)
    assert text.Text() == b"words"
    with pytest.raises(TypeError):
        client.stream()
    with pytest.raises(TypeError):
        client.stream("both", messages=[])
    with pytest.raises(TypeError):
        client.stream("x", no_such_parameter=1)


def test_all_choices_come_and_an_unnamed_model_is_the_first_served():
    with FakeDoor(says("a", "b")) as door, Client(door.endpoint, timeout=5) as client:
        answers = client.generate_all("x", n=3)
        assert [a.text for a in answers] == ["ab", "ab", "ab"]
        assert [m.name for m in client.models()] == ["tiny", "other"]
        assert client.models()[0].phase == "ready"


def test_tokenize_and_detokenize():
    def script(peer, kind, table):
        if kind == MessageKind.tokenize:
            peer.say(fake_door.tokenized(table.Request(), [4, 5], [b"a", b"\xc3"]))
        elif table.IdsLength():
            peer.say(fake_door.detokenized(table.Request(), "text"))
        else:
            no = (3, "invalid_value", "no ids")
            peer.say(fake_door.detokenized(table.Request(), "", no))

    with FakeDoor(script) as door, connected(door) as client:
        ids = client.tokenize("ab")
        assert (ids.ids, ids.pieces) == ([4, 5], [b"a", b"\xc3"])
        assert client.detokenize([4, 5]) == "text"
        with pytest.raises(BatonError, match="no ids"):
            client.detokenize([])


def test_a_refusal_has_code_name_retryable_and_retry_after():
    def script(peer, kind, table):
        peer.say(fake_door.rejected(table.Request(), 30, "overloaded", "48 wait", 1500))

    with FakeDoor(script) as door, connected(door) as client:
        with pytest.raises(BatonError) as refused:
            client.generate("x")
        e = refused.value
        assert (e.code, e.name, e.retryable, e.retry_after) == (30, "overloaded", True, 1.5)


def test_a_failed_choice_raises_its_reason():
    def script(peer, kind, table):
        if kind == MessageKind.generate:
            why = (54, "pipeline_lost", "no node", True)
            peer.say(fake_door.chunk(table.Request(), "half", FAILED, failure=why))

    with FakeDoor(script) as door, connected(door) as client:
        with pytest.raises(BatonError) as failed:
            list(client.stream("x"))
        assert failed.value.name == "pipeline_lost"


def test_cancel_before_the_ticket_is_known_is_sent_once_it_is():
    asked = []

    def script(peer, kind, table):
        if kind == MessageKind.generate:
            asked.append(table.Request())
        elif kind == MessageKind.list_models:
            peer.say(fake_door.granted(asked[0], 31))
            peer.say(fake_door.models(table.Request(), "tiny"))
        elif kind == MessageKind.cancel:
            text = "ended" if table.Ticket() == 31 else "whose?"
            peer.say(fake_door.chunk(asked[0], text, CANCELLED))

    with FakeDoor(script) as door, connected(door) as client:
        stream = client.stream("x")
        stream.cancel()
        client.models()  # makes the server grant the ticket
        last = stream.next()
        assert (last.text, last.finish_reason) == ("ended", "cancelled")
        assert stream.next() is None


def test_a_stream_left_unfinished_is_cancelled_a_finished_one_is_not():
    def script(peer, kind, table):
        if kind == MessageKind.generate:
            endless = table.Choices() == 2
            peer.say(fake_door.granted(table.Request(), 50 if endless else 60))
            peer.say(fake_door.chunk(table.Request(), "x", 0 if endless else STOP))

    with FakeDoor(script) as door, connected(door) as client:
        client.generate("x")
        with client.stream("x", n=2) as stream:
            next(stream)
        assert door.has_received(cancels(50))
        assert not any(cancels(60)(kind, t) for kind, t in door.received)


def test_an_unread_stream_fails_alone_and_the_others_continue():
    too_many = 12  # 1 MiB each
    credited = []

    def script(peer, kind, table):
        if kind == MessageKind.credit:
            credited.append(table.BytesTotal())
        if kind != MessageKind.generate:
            return
        endless = table.Choices() == 2
        peer.say(fake_door.granted(table.Request(), 50 if endless else 60))
        for _ in range(too_many if endless else 0):
            peer.say(fake_door.chunk(table.Request(), "x" * (1 << 20), 0))
        if not endless:
            peer.say(fake_door.chunk(table.Request(), "ok", STOP))

    with FakeDoor(script) as door, connected(door) as client:
        unread = client.stream("x", n=2)
        assert door.has_received(cancels(50))
        assert client.generate("x").text == "ok"
        read = 0
        with pytest.raises(BatonError) as raised:
            for _ in unread:
                read += 1
        assert raised.value.name == "slow_reader" and 0 < read < too_many
        assert door.has_received(lambda *_: credited and credited[-1] > (too_many - 1) << 20)


def test_a_small_window_passes_any_number_of_chunks():
    window, count = 2000, 300
    state = {"sent": 0, "bytes": 0, "credited": 0, "request": 0}

    def script(peer, kind, table):
        if kind == MessageKind.generate:
            state["request"] = table.Request()
        if kind == MessageKind.credit:
            state["credited"] = table.BytesTotal()
        while state["sent"] < count and state["bytes"] - state["credited"] < window:
            state["sent"] += 1
            end = LENGTH if state["sent"] == count else 0
            state["bytes"] += peer.say(fake_door.chunk(state["request"], "word ", end))

    with FakeDoor(script, window=window) as door, connected(door) as client:
        assert client.generate("x").text == "word " * count
    assert state["credited"] <= state["bytes"]


def test_nothing_in_time_is_deadline_exceeded_and_the_stream_goes_on():
    asked = []

    def script(peer, kind, table):
        if kind == MessageKind.generate:
            asked.append(table.Request())
        else:
            peer.say(fake_door.chunk(asked[0], "late", STOP))
            peer.say(fake_door.models(table.Request(), "tiny"))

    with FakeDoor(script) as door, connected(door) as client:
        stream = client.stream("x")
        with pytest.raises(DeadlineExceeded):
            stream.next(0.01)
        client.models()
        assert stream.next().text == "late"


def test_a_rejected_hello_and_a_mute_server_are_errors_of_the_constructor():
    with FakeDoor(silent, refuses=(32, "draining", "going")) as door:
        with pytest.raises(BatonError) as refused:
            connected(door)
        assert refused.value.name == "draining"
    with FakeDoor(silent, greets=False) as door:
        with pytest.raises(LinkDown):
            connected(door, connect_timeout=0.05)
    with pytest.raises(BatonError) as nonsense:
        Client("carrier-pigeon://roof")
    assert nonsense.value.name == "bad_config"


def test_a_lost_server_ends_streams_and_later_calls_at_once():
    door = FakeDoor(silent)
    client = connected(door, reconnect_timeout=0)
    stream = client.stream("x")
    assert door.has_received(lambda kind, t: kind == MessageKind.generate)
    door.close()
    with pytest.raises(LinkDown):
        stream.next(4)  # below the silence limit: the disconnect ends it
    assert not client.is_open
    with pytest.raises(LinkDown):
        client.models()
    client.close()


def test_a_silent_server_is_lost(monkeypatch):
    monkeypatch.setattr(connection, "SILENCE_MAX", 0.1)
    monkeypatch.setattr(connection, "HEARTBEAT_INTERVAL", 0.02)
    with FakeDoor(silent, beats=False) as door, connected(door, reconnect_timeout=0) as client:
        with pytest.raises(LinkDown, match="silent"):
            client.stream("x").next(5)


@pytest.mark.parametrize("fault", ["garbage", "gap", "epoch"])
def test_garbage_a_gap_and_another_server_incarnation_lose_the_link(fault):
    def script(peer, kind, table):
        if kind != MessageKind.generate:
            return
        if fault == "garbage":
            peer.say((MessageKind.chunk, b"no flatbuffer at all"))
        elif fault == "gap":
            peer.say(fake_door.granted(table.Request(), 1), skip=1)
        else:
            other = fake_door.codec.Address(77, 89, 7)
            peer.say(fake_door.granted(table.Request(), 1), source=other)

    with FakeDoor(script, beats=False) as door, connected(door, reconnect_timeout=0) as client:
        with pytest.raises(BatonError) as lost:
            client.stream("x").next(5)
        assert lost.value.name == ("bad_frame" if fault == "garbage" else "link_down")


def test_a_clock_that_is_set_back_does_not_make_a_client_older(monkeypatch):
    """A server rejects clients with an older incarnation than the last."""
    now = iter(range(10**18, 0, -(10**15)))
    monkeypatch.setattr(connection.time, "time_ns", lambda: next(now))
    asked = []

    def script(peer, kind, table):
        if kind == MessageKind.list_models:
            peer.say(fake_door.models(table.Request(), "tiny"))
        if kind in (MessageKind.generate, MessageKind.resume):
            asked.append(kind)
            peer.say(fake_door.granted(table.Request(), 9), skip=len(asked) == 1)  # a gap: the request is sent again
            if len(asked) > 1:
                peer.say(fake_door.chunk(table.Request(), "x", STOP, 0, output_tokens=1))

    with FakeDoor(script) as door, connected(door) as client:
        assert client.generate("x").text == "x"
        assert door.lives == [10**18, 10**18 + 1]


def test_threads_share_one_client():
    good = []
    with FakeDoor(says("1", "2", "3")) as door, connected(door) as client:

        def work():
            for _ in range(10):
                if client.generate("x").text == "123":
                    good.append(1)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(good) == 60
    assert door.faults == []


def test_close_is_quick_and_a_closed_client_raises():
    with FakeDoor(says("x")) as door:
        client = connected(door)
        began = time.monotonic()
        client.close()
        client.close()
        assert time.monotonic() - began < 1
        with pytest.raises(LinkDown, match="closed"):
            client.generate("x")
