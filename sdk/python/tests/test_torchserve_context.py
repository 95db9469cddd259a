"""Envelopes in an archive's manifest, and sequences in the context of a handler."""

import json
import sys

import pytest
from test_shims import context, made, run

from baton_client import inference
from baton_worker import torchserve

HANDLER = """
def handle(data, context):
    if data is None:
        return None
    return [REPLY for one in data]
"""


@pytest.fixture(autouse=True)
def read(monkeypatch):
    monkeypatch.setattr(inference, "inferred", lambda request, piece: (request, piece))
    yield
    for name in [n for n in sys.modules if n == "ts" or n.startswith("ts.")]:
        del sys.modules[name]


def archive(tmp_path, reply, **model):
    (tmp_path / "MAR-INF").mkdir()
    (tmp_path / "h.py").write_text(HANDLER.replace("REPLY", reply))
    manifest = {"runtime": "python", "model": {"modelName": "m", "modelVersion": "1.0", "handler": "h.py", **model}}
    (tmp_path / "MAR-INF" / "MANIFEST.json").write_text(json.dumps(manifest))
    return str(tmp_path)


def answer_to(handler, *bodies, **fields):
    return [piece for _, piece in run(handler, *({"body": json.dumps(b).encode(), "content_type": "application/json", **fields} for b in bodies))]


def test_the_envelope_of_an_archive_goes_ahead_of_the_servers(tmp_path, monkeypatch):
    monkeypatch.setenv("TS_SERVICE_ENVELOPE", "json")
    handler = made(torchserve.make, archive(tmp_path, "repr(one)", envelope="body"))
    assert [p.body for p in answer_to(handler, {"a": 1}, [2])] == [b"{'a': 1}", b"[2]"]


def test_an_envelope_gives_the_instances_of_all_requests(tmp_path):
    handler = made(torchserve.make, archive(tmp_path, "str(one) + str(len(data))", envelope="json"))
    first, second = answer_to(handler, {"instances": [1, {"b64": "aGk="}]}, {"instances": [2]})
    assert json.loads(first.body) == {"predictions": ["13", "b'hi'3"]}
    assert json.loads(second.body) == {"predictions": ["23"]}


def test_an_envelope_that_is_not_here_ends_the_worker(tmp_path):
    with pytest.raises(ValueError, match="'kservev2'"):
        torchserve.make(context(archive(tmp_path, "one", envelope="kservev2")))


def test_the_context_identifies_a_sequence_by_its_header(tmp_path):
    handler = made(torchserve.make, archive(tmp_path, "[context.get_sequence_id(0), context.stopping_criteria, context.header_key_sequence_start]"))
    (piece,) = answer_to(handler, {"a": 1}, headers=[("ts_request_sequence_id", "s7")])
    assert json.loads(piece.body) == ["s7", None, "ts_request_sequence_start"]
