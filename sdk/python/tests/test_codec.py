"""Bytes written by C++ are read value for value, and corrupted ones raise BadFrame and nothing else."""

import random
import struct
from pathlib import Path

import pytest

from baton_client import BatonError, codec
from baton_client.errors import BadFrame
from baton_client.tables import FIELDS
from baton_client.wire.Generate import Generate
from baton_client.wire.MessageKind import MessageKind
from baton_client.wire.Resume import Resume

GOLDEN = Path(__file__).resolve().parents[3] / "tests" / "data" / "schema"
DOOR = codec.Address(1, 2, 7)


def parts_of_golden(name):
    kind = getattr(MessageKind, name)
    head = codec.envelope(kind, DOOR, codec.Address(3, 4, 8), 0, 1)
    return head, (GOLDEN / f"{name}.bin").read_bytes()


def golden(name):
    return codec.pack(*parts_of_golden(name))


def printed_values(name):
    """The values of the golden message, depth first, as C++ printed them."""
    return (GOLDEN / f"{name}.txt").read_text().splitlines()


def test_a_chunk_of_cpp_is_read_with_every_field():
    received = codec.decode(golden("chunk"))
    values = printed_values("chunk")
    assert str(received.request) == values[0]
    chunk = received.value
    assert [str(v) for v in (chunk.ticket, chunk.choice, chunk.index)] == values[1:4]
    assert f'"{chunk.text}"' == values[5]
    assert [str(i) for i in chunk.ids] == values[7:9]
    assert chunk.finish_reason == "cancelled"
    assert len(chunk.logprobs) == 2 and len(chunk.logprobs[0].top) == 2
    first = chunk.logprobs[0].chosen
    assert [f'"{first.text.decode()}"', str(first.token), str(first.logprob)] == values[10:13]
    assert isinstance(chunk.failure, BatonError)
    assert (chunk.failure.code, chunk.failure.name) == (53, "quarantined")
    assert f'"{chunk.failure.message}"' in values
    assert f'"{chunk.stop_text}"' in values
    assert str(chunk.prompt_tokens) in values and str(chunk.output_tokens) in values


def test_rejected_models_tokenized_and_detokenized_of_cpp_are_read():
    reason = codec.decode(golden("rejected")).value
    assert (reason.code, reason.name, reason.retryable) == (53, "quarantined", False)
    assert f"{round(reason.retry_after * 1000)} ms" in printed_values("rejected")
    cards = codec.decode(golden("models")).value
    assert len(cards) == 2
    for card in cards:
        assert f'"{card.name}"' in printed_values("models") and str(card.parameters) in printed_values("models")
        assert card.phase == "draining"
    for name in ("tokenized", "detokenized"):  # with a failure: it is the value
        assert codec.decode(golden(name)).value.name == "quarantined"
    assert codec.decode(golden("granted")).value == (int(printed_values("granted")[1]), 0)
    greeting = codec.decode(golden("hello_ack")).value
    assert [str(v) for v in (greeting.node, greeting.epoch, greeting.window_bytes)] == printed_values(
        "hello_ack"
    )[:3]


@pytest.mark.parametrize("name", ["chunk", "models", "rejected", "tokenized", "hello_ack"])
def test_broken_bytes_are_a_bad_frame_or_another_message(name):
    head, body = parts_of_golden(name)
    rng = random.Random(7)
    broken = [body[:size] for size in range(len(body))]
    for at in range(len(body)):
        broken.append(body[:at] + bytes([body[at] ^ rng.randrange(1, 256)]) + body[at + 1 :])
    refused = 0
    for spoilt in broken:
        try:
            codec.decode(codec.pack(head, spoilt))
        except BadFrame:
            refused += 1
    assert refused > len(body) // 4


def test_the_packet_of_cpp_is_read_and_written():
    packet = (GOLDEN / "packet.bin").read_bytes()
    assert codec.unpack(packet) == (b"head", b"body of 19 bytes ..", b"bulk")
    assert codec.pack(b"head", b"") == b"\4" + b"\0" * 15 + b"head" + b"\0" * 12
    for size in range(len(packet)):
        with pytest.raises((ValueError, struct.error)):
            codec.unpack(packet[:size])


def test_another_version_and_packets_that_do_not_add_up_are_refused():
    head, body = parts_of_golden("models")
    whole = golden("models")
    for bad in (b"", whole[:-1], whole + b"\0", b"\xff" * len(whole), codec.pack(body, body)):
        with pytest.raises(BadFrame):
            codec.decode(bad)
    codec_version = codec.PROTOCOL_VERSION
    try:
        codec.PROTOCOL_VERSION = 2
        newer = codec.envelope(MessageKind.models, DOOR, DOOR, 0, 1)
    finally:
        codec.PROTOCOL_VERSION = codec_version
    with pytest.raises(BadFrame, match="version 2"):
        codec.decode(codec.pack(newer, body))


def test_python_encodes_the_bytes_that_cpp_tests():
    """tests/unit/schema/golden_test.cpp reads this file with C++'s verifier."""
    params = codec.GenerateParams(
        temperature=0.5, top_k=4, top_p=1.0, min_p=0.0, repetition_penalty=1.0, logit_bias={7: -1.5, 8: 2.0}, max_tokens=9, min_tokens=1,
        stop=["end", "stop"], stop_token_ids=[5, 6], n=2, logprobs=3, ignore_eos=True,
    )
    messages = [{"role": "user", "content": "Hällo"}]
    body = codec.generate(11, "tiny", None, messages, params, 1 << 60, 2500)
    assert (GOLDEN / "python_generate.bin").read_bytes() == body


@pytest.mark.parametrize("table, part", [("SamplingParams", "Sampling"), ("Stopping", "Stop")])
def test_a_parameter_with_the_name_of_a_field_is_sent(table, part):
    names = {field.name: field for field in FIELDS[table].values() if hasattr(codec.GenerateParams(), field.member)}
    assert {"min_p", "typical_p"} <= set(names) or {"tokens_max", "ignore_eos"} <= set(names)
    for name in names.keys() - {"seed"}:  # the client chooses it
        field = names[name]
        value = {"bool": True, "float": 0.5}.get(field.type, 3)
        body = codec.generate(1, "m", "x", None, codec.GenerateParams(**{field.member: value}), 5, 0)
        sent = getattr(Generate.GetRootAs(body), part)()
        assert getattr(sent, name.title().replace("_", ""))() == value, name


def test_resume_holds_the_values_that_cpp_wrote():
    cpp = Resume.GetRootAs((GOLDEN / "resume.bin").read_bytes())
    places = [codec.Place(5, True), codec.Place(6, True)]
    body = codec.resume(cpp.Request(), cpp.Ticket(), cpp.ResumeKey(), places)
    ours = Resume.GetRootAs(body)
    for field in ("Request", "Ticket", "ResumeKey", "From_Length"):
        assert getattr(ours, field)() == getattr(cpp, field)()
    for i in range(cpp.From_Length()):
        theirs, sent = cpp.From_(i), ours.From_(i)
        assert (sent.Index(), sent.HasFinish()) == (theirs.Index(), theirs.HasFinish())
