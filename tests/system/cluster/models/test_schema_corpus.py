"""Schemas in published styles (tests/data/json_schemas): answers drawn at temperature 1 are valid by the PyPI package jsonschema. This
also holds when a stage is killed in the middle. Some of them here; `./check bench --only schemas` has all."""
import json

import jsonschema
from harness import ROOT
from streams import Stream, all_begun

SCHEMAS = [json.loads(line) for line in (ROOT / "tests/data/json_schemas/schemas.jsonl").read_text().splitlines()]
UNDISTURBED = range(3, len(SCHEMAS), 17)  # twelve, of all shapes
KILLED = {"shard-1": range(5, 95, 16), "shard-0": range(108, 198, 16)}  # six of each


def begin(cluster, numbers):
    return {n: Stream(cluster, f"Give me an example of this as JSON: {SCHEMAS[n]['name'].replace('_', ' ')}.", max_tokens=2000, temperature=1.0, seed=n,
                      response_format={"type": "json_schema", "json_schema": {"name": "example", "schema": SCHEMAS[n]["schema"]}}) for n in numbers}


def check(streams):
    for n, stream in streams.items():
        assert stream.check().finish == "stop", (SCHEMAS[n]["name"], stream.finish, stream.text)
        schema = SCHEMAS[n]["schema"]
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        kind(schema, format_checker=kind.FORMAT_CHECKER).validate(json.loads(stream.text))


def test_the_corpus_is_two_hundred_valid_schemas():
    assert len({s["name"] for s in SCHEMAS}) == len({json.dumps(s["schema"]) for s in SCHEMAS}) == 200
    for s in SCHEMAS:
        jsonschema.validators.validator_for(s["schema"], jsonschema.Draft202012Validator).check_schema(s["schema"])


def test_answers_hold_for_their_schemas(shared):
    assert len(UNDISTURBED) == 12
    check(begin(shared, UNDISTURBED))


def test_answers_in_whose_middle_a_stage_is_killed_hold_for_theirs(fresh):
    for shard, numbers in KILLED.items():
        streams = begin(fresh, numbers)
        all_begun(list(streams.values()))
        fresh.kill(shard)
        in_the_middle = [n for n, s in streams.items() if not s.terminals]
        check(streams)
        assert len(in_the_middle) >= 4, in_the_middle  # of six; a short one may have ended
        fresh.wait_standing()
    assert [p["restarts"] for p in fresh.status()["processes"] if p["name"] in ("shard-0", "shard-1")] == [1, 1]
