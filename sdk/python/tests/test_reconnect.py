"""A client that loses its server resumes its streams: against scripted servers."""

import time

import pytest

import fake_door
from fake_door import FakeDoor
from baton_client import BatonError, Client, LinkDown, connection
from baton_client.wire.MessageKind import MessageKind

STOP, CANCELLED = 1, 3
TICKET, KEY = 9, 0xC0FFEE


def connected(door, **options):
    return Client(door.endpoint, model="tiny", timeout=5, **options)


def is_kind(kind):
    return lambda received_kind, _: received_kind == kind


def cancels(ticket):
    return lambda kind, t: kind == MessageKind.cancel and t.Ticket() == ticket


def serving(script):
    """Reports a served model from the second request on."""
    asked = []

    def answer(peer, kind, table):
        if kind == MessageKind.list_models:
            asked.append(table)
            names = ["tiny"] if len(asked) > 1 else []
            peer.say(fake_door.models(table.Request(), *names))
        else:
            script(peer, kind, table)

    return answer


def grants(*chunks):
    """Each (choice, index, text, finish)."""

    def script(peer, kind, table):
        if kind in (MessageKind.generate, MessageKind.resume):
            request = table.Request()
            peer.say(fake_door.granted(request, TICKET, KEY))
            for choice, index, text, finish in chunks:
                peer.say(fake_door.chunk(request, text, finish, choice, index=index))

    return script


def silent(peer, kind, table):
    pass


def places_of(resume):
    points = [resume.From_(i) for i in range(resume.From_Length())]
    return [(p.Index(), bool(p.HasFinish())) for p in points]


def asked_of(door, kind):
    return [table for received_kind, table in door.received if received_kind == kind]


def test_a_stream_continues_after_its_last_chunk_when_the_server_is_back():
    with FakeDoor(grants((0, 2, "Once", 0), (1, 1, "x", STOP))) as door:
        client = connected(door)
        stream = client.stream("Tell me", n=2)
        chunks = [stream.next(), stream.next()]
    rest = serving(grants((1, 1, "", STOP), (0, 3, " upon", 0), (0, 4, "!", STOP)))
    with FakeDoor(rest, at=door.endpoint) as back, client:
        chunks += list(stream)
        resumed = asked_of(back, MessageKind.resume)
        assert asked_of(back, MessageKind.generate) == []
    assert [(c.choice, c.index, c.text) for c in chunks] == [
        (0, 2, "Once"), (1, 1, "x"), (0, 3, " upon"), (0, 4, "!"),
    ]
    assert [(r.Ticket(), r.ResumeKey(), places_of(r)) for r in resumed] == [
        (TICKET, KEY, [(2, False), (1, True)])
    ]
    assert asked_of(door, MessageKind.generate)[0].IsResumable()
    assert door.faults == [] and back.faults == []


def test_a_stream_that_is_granted_again_is_gone_on_with_and_cancelled_by_the_new_ticket():
    def moves(peer, kind, table):
        if kind == MessageKind.generate:
            grants((0, 1, "a", 0))(peer, kind, table)
            peer.say(fake_door.granted(table.Request(), TICKET + 1, KEY + 1))
            peer.say(fake_door.chunk(table.Request(), "b", 0, 0, index=2))

    def goes_on(peer, kind, table):
        if kind == MessageKind.resume:
            peer.say(fake_door.granted(table.Request(), TICKET + 1, KEY + 1))
            peer.say(fake_door.chunk(table.Request(), "c", 0, 0, index=3))

    with FakeDoor(moves) as door:
        client = connected(door)
        stream = client.stream("Tell me")
        assert [stream.next().text, stream.next().text] == ["a", "b"]
        assert stream.ticket == TICKET + 1
    with FakeDoor(serving(goes_on), at=door.endpoint) as back, client:
        assert stream.next().text == "c"
        resumed = asked_of(back, MessageKind.resume)
        stream.cancel()
        assert back.has_received(cancels(TICKET + 1))
    assert [(r.Ticket(), r.ResumeKey(), places_of(r)) for r in resumed] == [
        (TICKET + 1, KEY + 1, [(2, False)])
    ]


def test_it_reconnects_as_often_as_the_server_is_lost():
    words = "one two three four five".split()
    at = "tcp://127.0.0.1:*"
    client = None
    for i, word in enumerate(words):
        script = grants((0, i + 1, word, STOP if word == words[-1] else 0))
        with FakeDoor(serving(script) if i else script, at=at) as door:
            if client is None:
                at = door.endpoint
                client = connected(door)
                stream = client.stream("x")
            assert stream.next().text == word
    client.close()


@pytest.mark.parametrize("fault", ["gap", "epoch", "silence"])
def test_a_gap_another_incarnation_and_silence_are_losses_too(fault, monkeypatch):
    monkeypatch.setattr(connection, "SILENCE_MAX", 0.3)
    other = fake_door.codec.Address(77, 89, 7)

    def script(peer, kind, table):
        if kind == MessageKind.generate:
            grants((0, 1, "a", 0))(peer, kind, table)
            if fault != "silence":
                how = {"skip": 1} if fault == "gap" else {"source": other}
                peer.say(fake_door.chunk(table.Request(), "lost", index=2), **how)
        elif kind == MessageKind.resume:
            grants((0, 2, "b", STOP))(peer, kind, table)

    with FakeDoor(serving(script), beats=False) as door, connected(door) as client:
        assert client.generate("x").text == "ab"
        lives = {routing for routing in door.peers}
        assert len(lives) == 2


def test_unanswered_requests_are_sent_again_and_new_calls_wait():
    def answers(peer, kind, table):
        grants((0, 1, "text", STOP))(peer, kind, table)
        if kind == MessageKind.detokenize:
            peer.say(fake_door.detokenized(table.Request(), "words"))

    with FakeDoor(silent) as door:
        client = connected(door)
        stream = client.stream("not granted", seed=7)
        assert door.has_received(is_kind(MessageKind.generate))
    with pytest.raises(BatonError, match="deadline_exceeded"):
        stream.next(0.05)
    late = client.stream("asked while away", seed=8)
    assert client.is_open
    with FakeDoor(serving(answers), at=door.endpoint) as back, client:
        assert client.detokenize([1]) == "words"
        assert [stream.next().text, late.next().text] == ["text", "text"]
        seeds = [g.Sampling().Seed() for g in asked_of(back, MessageKind.generate)]
    assert seeds == [7, 8]


def test_a_refused_resume_ends_that_stream_alone():
    def refuses(peer, kind, table):
        if kind == MessageKind.resume:
            no = (55, "ticket_not_found", "it has been too long", 0)
            peer.say(fake_door.rejected(table.Request(), *no))
        else:
            grants((0, 1, "ok", STOP))(peer, kind, table)

    with FakeDoor(grants((0, 1, "a", 0))) as door:
        client = connected(door)
        stream = client.stream("x")
        assert stream.next().text == "a"
    with FakeDoor(serving(refuses), at=door.endpoint), client:
        with pytest.raises(BatonError) as refused:
            stream.next()
        assert refused.value.name == "ticket_not_found"
        assert client.generate("y").text == "ok"


def test_a_temporary_rejection_is_retried():
    with FakeDoor(grants((0, 1, "a", 0))) as door:
        client = connected(door)
        stream = client.stream("x")
        stream.next()
    with FakeDoor(silent, at=door.endpoint, refuses=(30, "overloaded", "full", True)) as full:
        deadline = time.monotonic() + 5
        while len(full.peers) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    with FakeDoor(serving(grants((0, 2, "b", STOP))), at=door.endpoint), client:
        assert stream.next().text == "b"


def test_a_stream_left_while_the_server_was_away_is_cancelled_at_the_next_one():
    with FakeDoor(grants((0, 1, "a", 0))) as door:
        client = connected(door)
        stream = client.stream("x")
        stream.next()
    stream.close()  # whether or not it has noticed the lost server
    with FakeDoor(serving(grants()), at=door.endpoint) as back, client:
        assert back.has_received(cancels(TICKET))


def test_a_server_that_stays_away_is_lost_with_the_reason():
    with FakeDoor(silent) as door:
        client = connected(door, reconnect_timeout=0.2)
        stream = client.stream("x")
        assert door.has_received(is_kind(MessageKind.generate))
    began = time.monotonic()
    with pytest.raises(LinkDown, match="closed the connection"):
        stream.next()
    assert time.monotonic() - began < 2
    assert not client.is_open
    with pytest.raises(LinkDown):
        client.models()
    client.close()


def test_a_request_that_loses_each_connection_ends_within_the_reconnect_timeout():
    def loses(peer, kind, table):
        if kind == MessageKind.list_models:
            peer.say(fake_door.models(table.Request(), "tiny"))
        elif kind == MessageKind.generate:
            peer.say(fake_door.granted(table.Request(), TICKET, KEY), skip=1)

    with FakeDoor(loses) as door:
        began = time.monotonic()
        with connected(door, reconnect_timeout=1) as client, pytest.raises(LinkDown):
            client.generate("x")
        assert time.monotonic() - began < 4
        assert 3 <= len(door.lives) <= 8  # after 0, 0.02, 0.04, 0.08, 0.16, 0.32 and 0.64 s


def test_close_does_not_wait_for_a_server():
    with FakeDoor(silent) as door:
        client = connected(door)
        stream = client.stream("x")
        assert door.has_received(is_kind(MessageKind.generate))
    time.sleep(0.1)
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 0.5
    with pytest.raises(LinkDown, match="closed"):
        stream.next()


def test_a_client_that_closes_cancels_what_it_would_not_come_back_to():
    with FakeDoor(grants((0, 1, "a", 0))) as door:
        with connected(door) as client:
            stream = client.stream("x")
            stream.next()
        assert door.has_received(cancels(TICKET))


def test_a_stream_closed_before_its_ticket_is_known_is_cancelled_once_it_is():
    asked = []

    def script(peer, kind, table):
        if kind == MessageKind.generate:
            asked.append(table.Request())
        elif kind == MessageKind.list_models:
            peer.say(fake_door.granted(asked[0], 31))
            peer.say(fake_door.models(table.Request(), "tiny"))

    with FakeDoor(script) as door, connected(door) as client:
        client.stream("x").close()
        client.models()  # makes the server grant the ticket
        assert door.has_received(cancels(31))
