"""TorchServe's APIs with its users' tools: requests reading by chunks, curl, Prometheus' parser. Also with bytes that no client sends."""

import json
import re
import socket
import subprocess
import threading
import time

import jsonschema
import openapi_spec_validator
import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from raw import read_all, request

DOORS = ("--torchserve-inference", "127.0.0.1:0", "--torchserve-management", "127.0.0.1:0", "--torchserve-metrics", "127.0.0.1:0")


@pytest.fixture(scope="module")
def doors():
    from conftest import Gateway
    g = Gateway(*DOORS, "--pipeline", "fake", "--pipeline", "fake", "--pipeline", "second", "--queue", "64")
    assert g.is_ready
    g.order("shards 2")
    yield g
    assert g.stop() == 0


def inference(g, path):
    return g.torchserve["inference"] + path


def management(g, path):
    return g.torchserve["management"] + path


def predict(g, body, path="/predictions/fake", **more):
    return requests.post(inference(g, path), json=body, timeout=30, **more)


def chunks_of(reply):
    assert reply.status_code == 200 and reply.headers["transfer-encoding"] == "chunked"
    return [c.decode() for c in reply.iter_content(chunk_size=None) if c]


def ask_raw(g, data, door="inference"):
    """All bytes of a connection up to its end."""
    host, port = g.torchserve[door].split("://")[1].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=20) as s:
        s.sendall(data)
        return read_all(s)


# -- predictions --


def test_a_text_is_answered_by_pieces_of_text(doors):
    with requests.post(inference(doors, "/predictions/fake"), data="tokens=3 pace_ms=5", headers={"Content-Type": "text/plain"}, stream=True, timeout=30) as r:
        assert chunks_of(r) == ["w0 ", "w1 ", "w2 "]
        assert r.headers["content-type"] == "text/plain; charset=utf-8"
    assert requests.put(inference(doors, "/predictions/fake/1.0"), data="tokens=3", timeout=30).text == "w0 w1 w2 "


def test_the_example_client_of_torchserve_reads_each_chunk(doors):
    """As examples/large_models/utils/test_llm_streaming_response.py does, without and with --openai-api."""
    with predict(doors, {"prompt": "tokens=4", "max_tokens": 64}, stream=True) as r:
        received = [json.loads(c) for c in chunks_of(r)]  # each is JSON though all have come at once
        assert "".join(t["text"] for t in received) == "w0 w1 w2 w3 " and [t["tokens"] for t in received] == [1, 2, 3, 4]
    with predict(doors, {"model": "fake", "prompt": "tokens=4", "max_tokens": 64, "logprobs": 1, "stream": True}, "/predictions/fake/1.0/v1/completions", stream=True) as r:
        text = ""
        for chunk in chunks_of(r):
            assert chunk.startswith("data:")
            data = chunk[len("data:"):].split("\n")[0].strip()
            if not data.startswith("[DONE]"):
                text += json.loads(data)["choices"][0]["text"]
        assert text == "w0 w1 w2 w3 "
    chat = {"model": "fake", "messages": [{"role": "user", "content": "tokens=2"}], "max_tokens": 50, "temperature": 0.0}
    assert predict(doors, chat, "/predictions/fake/1.0/v1/chat/completions").json()["choices"][0]["message"]["content"] == "w0 w1 "
    assert requests.get(inference(doors, "/predictions/fake/1.0/v1/models"), timeout=30).json()["data"][0]["id"] == "fake"
    several = predict(doors, {"model": "fake", "prompt": ["tokens=2", "tokens=3"], "max_tokens": 9}, "/predictions/fake/1.0/v1/completions").json()
    assert [c["text"] for c in several["choices"]] == ["w0 w1 ", "w0 w1 w2 "]


def test_curl_sends_a_prompt_in_every_way(doors, tmp_path):
    def curl(*arguments):
        return subprocess.run(["curl", "-sS", "-N", *arguments], capture_output=True, text=True, timeout=30, check=True).stdout

    url = inference(doors, "/predictions/fake")
    file = tmp_path / "prompt.txt"
    file.write_text("tokens=2")
    assert curl(url, "-T", file) == "w0 w1 "
    assert curl(url, "-d", "data=tokens%3D2") == "w0 w1 "
    assert curl(url, "-F", f"data=@{file}") == "w0 w1 "
    as_json = '{"prompt":"tokens=2", "max_new_tokens": 50, "temperature": 0}'
    pieces = '{"text":"w0 ","tokens":1}{"text":"w1 ","tokens":2}'
    assert curl(url, "-X", "POST", "-d", as_json, "--header", "Content-Type: application/json") == pieces
    assert curl(url, "-d", as_json) == pieces
    assert curl(url, "-d", as_json, "-H", "Accept: text/plain") == "w0 w1 "
    assert json.loads(curl(url, "-d", '{"prompt":"tokens=2","stream":false}')) == {"text": "w0 w1 ", "tokens": 2}


def test_the_chat_app_reads_text(doors):
    """examples/LLM/llama/chat_app: parameters in "params", text/plain wanted."""
    body = {"prompt": "tokens=9", "params": {"max_new_tokens": 3, "top_p": 0.9, "temperature": 0.6}}
    with predict(doors, body, headers={"Accept": "text/plain"}, stream=True) as r:
        assert "".join(chunks_of(r)) == "w0 w1 w2 "


def test_http_1_0_gets_the_answer_whole(doors):
    answer = ask_raw(doors, request("POST", "/predictions/fake", b'{"prompt":"tokens=3","stream":true}', ["Content-Type: application/json"], version="1.0"))
    head, body = answer.split(b"\r\n\r\n", 1)
    assert b"Content-Length:" in head and b"chunked" not in head and json.loads(body)["text"] == "w0 w1 w2 "


def test_instances_are_predicted_together(doors):
    url = inference(doors, "/v1/models/fake:predict")
    output = requests.post(url, json={"instances": ["tokens=2", {"prompt": "tokens=9", "max_new_tokens": 1}, {"data": "tokens=3 pace_ms=10"}]}, timeout=30)
    assert output.status_code == 200 and output.json() == {"predictions": ["w0 w1 ", "w0 ", "w0 w1 w2 "]}
    failed = requests.post(url, json={"instances": ["tokens=2", "tokens=5 fail_at=2 pace_ms=5", "hold=1"]}, timeout=30)
    assert failed.status_code == 500 and failed.json()["type"] == "InternalServerException"
    assert requests.post(inference(doors, "/v1/models/fake:explain"), timeout=30).json()["type"] == "ResourceNotFoundException"


def test_a_failed_instance_cancels_the_others(start):
    g = start(*DOORS)
    requests.post(inference(g, "/v1/models/fake:predict"), json={"instances": ["hold=1", "refuse=context_length_exceeded"]}, timeout=30)
    assert g.wait_for("cancel")["ticket"] == 1


# -- a stream that breaks --


def test_a_stream_that_breaks_is_cut_without_its_last_chunk(doors):
    for body, pieces in (({"prompt": "tokens=9 fail_at=4 pace_ms=10"}, 3), ({"prompt": "tokens=9 fail_at=2 pace_ms=10", "max_tokens": 5}, 1)):
        got = []
        with predict(doors, body, stream=True) as r:
            with pytest.raises(requests.exceptions.ChunkedEncodingError):
                for chunk in r.iter_content(chunk_size=None):
                    got.append(json.loads(chunk)["text"])
        assert got == [f"w{i} " for i in range(pieces)]
    done = subprocess.run(["curl", "-sS", "-N", inference(doors, "/predictions/fake"), "-d", "data=tokens=9 fail_at=4 pace_ms=10"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 18 and done.stdout == "w0 w1 w2 "
    answer = ask_raw(doors, request("POST", "/predictions/fake", b"tokens=9 fail_at=4 pace_ms=10", ["Content-Type: text/plain"]))
    assert answer.endswith(b"\r\nw2 \r\n") and b"HTTP/1.1" not in answer[20:]  # and no second answer within the first


def test_a_stream_in_openais_words_says_what_broke_it(doors):
    with predict(doors, {"prompt": "tokens=9 fail_at=4 pace_ms=10", "max_tokens": 20, "stream": True}, "/predictions/fake/1.0/v1/completions", stream=True) as r:
        events = chunks_of(r)
    assert json.loads(events[-2].removeprefix("data: "))["error"]["code"] == "internal" and events[-1] == "data: [DONE]\n\n"


def test_a_client_that_leaves_has_its_ticket_cancelled(start):
    g = start(*DOORS)
    with requests.post(inference(g, "/predictions/fake"), data="tokens=1000 pace_ms=20", stream=True, timeout=30) as r:
        next(r.iter_content(chunk_size=None))
    assert g.cancelled(1)


# -- errors --


@pytest.mark.parametrize("order, status, kind", [
    ("refuse=overloaded", 503, "ServiceUnavailableException"), ("refuse=no_job_ticket", 503, "ServiceUnavailableException"),
    ("refuse=context_length_exceeded", 400, "BadRequestException"), ("refuse=queue_timeout", 408, "RequestTimeoutException"),
    ("refuse=deadline_exceeded", 500, "InternalServerException"), ("refuse=does_not_fit", 507, "InternalServerException"),
    ("tokens=2 fail_at=1", 500, "InternalServerException"), ("refuse=pipeline_lost", 503, "ServiceUnavailableException"),
])
@pytest.mark.parametrize("path", ["/predictions/fake", "/predictions/fake/1.0/v1/completions"])
def test_a_refusal_before_the_first_token_has_its_status_and_shape(doors, path, order, status, kind):
    for stream in (True, False):
        r = predict(doors, {"prompt": order, "stream": stream}, path)
        received = r.json()
        assert (r.status_code, received["code"], received["type"]) == (status, status, kind) and set(received) == {"code", "type", "message"}
    if "Unavailable" in kind and "pipeline" not in order:
        assert 'Model "fake" has no worker to serve inference request.' in received["message"] and int(r.headers["retry-after"]) >= 1


def test_without_a_free_slot_a_request_is_refused_at_once(start):
    g = start(*DOORS, "--slots", "1", "--job-ticket", "--overload-status", "429")
    holds = threading.Thread(target=lambda: requests.post(inference(g, "/predictions/fake"), data="tokens=40 pace_ms=25", timeout=30))
    holds.start()
    g.wait_for("reserve")
    began = time.monotonic()
    r = requests.post(inference(g, "/predictions/fake"), data="tokens=1", timeout=30)
    assert r.status_code == 503 and r.json()["type"] == "ServiceUnavailableException" and time.monotonic() - began < 1
    assert 'Model "fake" has no worker' in r.json()["message"]
    assert requests.get(management(g, "/models/fake"), timeout=30).json()[0]["useJobTicket"] is True
    holds.join()
    assert requests.post(inference(g, "/predictions/fake"), data="tokens=1", timeout=30).text == "w0 "


ABSURD = ["1e308", "-1e308", "-1", "0", "-0.0", "1e-44", "1e-300", "1e39", "0.5", "NaN", "Infinity", "9223372036854775808", "1e400", '"string"', "true", "[]", "{}", "[1e308]"]
NO_JSON = {"NaN", "Infinity", "1e400"}
NEAR_NOUGHT = {"0", "-0.0", "1e-44", "1e-300"}
TAKEN = {"temperature": NEAR_NOUGHT | {"0.5"}, "top_p": {"0.5"}, "top_k": {"-1", "0"}, "min_p": NEAR_NOUGHT | {"0.5"}, "seed": {"-1", "0", "9223372036854775808"},
         "stop": {'"string"', "[]"}, "stream": {"true"}, "streaming": {"true"}, "max_new_tokens": set(), "max_tokens": set(), "repetition_penalty": {"0.5"},
         "presence_penalty": NEAR_NOUGHT | {"-1", "0.5"}, "n": set(), "params": {"{}"}, "no_such_thing": set(), "logprobs": {"0"}, "lora_adapter": set()}


def test_absurd_values_are_refused_by_field(doors):
    wrong = []
    with requests.Session() as s:
        for field, taken in TAKEN.items():
            for value in ABSURD:
                r = s.post(inference(doors, "/predictions/fake"), data='{"prompt":"tokens=1","%s":%s}' % (field, value), headers={"Content-Type": "application/json"}, timeout=30)
                if value in taken:
                    is_right = r.status_code == 200
                else:
                    is_right = r.status_code == 400 and r.json()["type"] == "BadRequestException" and (value in NO_JSON or field in r.json()["message"])
                if not is_right:
                    wrong.append(f"{field}={value}: {r.status_code} {r.text[:200]}")
        for body in ("", "[]", "{}", '"a"', '{"prompt":1}', '{"prompt":null}', '{"prompt":"\\ud800"}', "[" * 5000, '{"prompt":"a","params":' + "[" * 5000):
            r = s.post(inference(doors, "/predictions/fake"), data=body, headers={"Content-Type": "application/json"}, timeout=30)
            if r.status_code != 400 or r.json()["type"] != "BadRequestException":
                wrong.append(f"{body[:40]}: {r.status_code} {r.text[:200]}")
    assert wrong == []


@pytest.mark.parametrize("door, method, path, status, kind", [
    ("inference", "POST", "/predictions/none", 404, "ModelNotFoundException"),
    ("inference", "POST", "/predictions/fake/2.0", 404, "ModelVersionNotFoundException"),
    ("inference", "POST", "/predictions/fake/" + "9" * 300, 404, "ModelVersionNotFoundException"),
    ("inference", "POST", "/predictions/fake/1.0%00", 404, "ModelVersionNotFoundException"),
    ("inference", "POST", "/predictions/%F0%28%8C%28", 404, "ModelNotFoundException"),
    ("inference", "POST", "/predictions/fake/1.0/v1/embeddings", 404, "ResourceNotFoundException"),
    ("inference", "POST", "/predictions", 404, "ResourceNotFoundException"),
    ("inference", "GET", "/predictions/fake", 405, "MethodNotAllowedException"),
    ("inference", "POST", "/explanations/fake", 404, "ResourceNotFoundException"),
    ("inference", "POST", "/predictions/%zz", 400, "BadRequestException"),
    ("inference", "POST", "/a" * 40, 400, "BadRequestException"),
    ("management", "GET", "/models?limit=" + "9" * 30, 400, "BadRequestException"),
    ("management", "GET", "/models/fake/-1", 404, "ModelVersionNotFoundException"),
    ("management", "PUT", "/models/fake?min_worker=1e9", 400, "BadRequestException"),
    ("management", "PUT", "/models/fake?min_worker=2&max_worker=1", 400, "BadRequestException"),
    ("management", "POST", "/models?url=http://169.254.169.254/m.mar", 405, "MethodNotAllowedException"),
    ("management", "DELETE", "/models/fake/1.0", 405, "MethodNotAllowedException"),
    ("management", "GET", "/metrics", 404, "ResourceNotFoundException"),
    ("metrics", "GET", "/models", 404, "ResourceNotFoundException"),
    ("metrics", "POST", "/metrics", 405, "MethodNotAllowedException"),
])
def test_absurd_addresses_have_torchserves_errors(doors, door, method, path, status, kind):
    head, body = ask_raw(doors, request(method, path, b"", ["Connection: close", "Content-Length: 0"]), door).split(b"\r\n\r\n", 1)
    received = json.loads(body)
    assert head.startswith(b"HTTP/1.1 %d " % status) and (received["code"], received["type"]) == (status, kind)


def test_what_is_no_request_is_refused_in_torchserves_shape(start):
    g = start(*DOORS, "--header-timeout-ms", "300", "--connections", "2")
    for data, status in ((b"GET / SMTP\r\n\r\n", 400), (request("GET", "/ping", headers=["X: " + "a" * 20000]), 431),
                         (request("POST", "/predictions/fake", headers=["Content-Length: 999999999"]), 413), (b"GET /ping HTTP/1.1\r\nHo", 408),
                         (request("POST", "/predictions/fake", b"x", ["Content-Encoding: gzip", "Connection: close"]), 415)):
        head, body = ask_raw(g, data).split(b"\r\n\r\n", 1)
        assert head.startswith(b"HTTP/1.1 %d " % status), (data[:40], head)
        assert json.loads(body)["code"] == status
    idle = [socket.create_connection(g.torchserve["inference"].split("//")[1].split(":"), timeout=20) for _ in range(2)]
    head, body = ask_raw(g, b"").split(b"\r\n\r\n", 1)
    assert b"503" in head and json.loads(body)["type"] == "ServiceUnavailableException"
    assert requests.get(management(g, "/models"), timeout=30).status_code == 200  # the operator still gets in
    for s in idle:
        s.close()


def test_keys_are_tokens(start, keys_file):
    g = start(*DOORS, "--keys", str(keys_file))
    user, admin = {"Authorization": "Bearer k"}, {"Authorization": "Bearer root"}
    post = lambda headers: requests.post(inference(g, "/predictions/fake"), data="tokens=1", headers=headers, timeout=30)
    for wrong in ({}, {"Authorization": "Bearer no"}, {"Authorization": "k"}):
        r = post(wrong)
        assert r.status_code == 400 and r.json()["type"] == "InvalidKeyException"
    assert post(user).text == post(admin).text == "w0 "
    models = lambda headers: requests.get(management(g, "/models"), headers=headers, timeout=30)
    assert [models(h).status_code for h in ({}, user, admin)] == [400, 400, 200]
    assert requests.get(inference(g, "/ping"), timeout=30).text == '{\n  "status": "Healthy"\n}\n'
    assert requests.get(g.torchserve["metrics"] + "/metrics", timeout=30).status_code == 200


def test_addresses_beyond_loopback_need_keys_and_must_differ(start):
    for flags, word in ((("--torchserve-inference", "0.0.0.0:0"), "torchserve_inference"), (("--torchserve-management", "0.0.0.0:0"), "torchserve_management"),
                        (("--torchserve-metrics", "0.0.0.0:0"), "torchserve_metrics"), (("--torchserve-metrics", "nowhere"), "nowhere")):
        g = start(*flags)
        assert not g.is_ready and g.failure == "bad_config" and word in g.message
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        taken = f"127.0.0.1:{s.getsockname()[1]}"
        s.listen()
        g = start("--torchserve-metrics", taken)
        assert g.failure == "address_in_use" and taken in g.message
    g = start("--torchserve-inference", taken, "--torchserve-management", taken)
    assert g.failure == "bad_config" and "each needs an address of its own" in g.message
    assert start().torchserve == {"inference": "", "management": "", "metrics": ""}


# -- management, descriptions, metrics --


def test_models_are_listed_described_and_scaled_as_far_as_they_are(doors):
    assert [m["modelName"] for m in requests.get(management(doors, "/models"), timeout=30).json()["models"]] == ["fake", "second"]
    page = requests.get(management(doors, "/models?limit=1"), timeout=30).json()
    assert page == {"nextPageToken": "1", "models": [{"modelName": "fake", "modelUrl": "fake"}]}
    received = requests.get(management(doors, "/models/fake/all"), params={"customized": "true"}, timeout=30).json()[0]
    assert [w["id"] for w in received["workers"]] == ["shard-0", "shard-1", "shard-1.0", "shard-1.1"]
    assert [w["status"] for w in received["workers"]] == ["READY", "UNLOADING"] * 2
    assert received["minWorkers"] == received["maxWorkers"] == 2 and received["jobQueueStatus"] == {"remainingCapacity": 128, "pendingRequests": 0}
    assert received["customizedMetadata"]["maxModelLen"] == 4096
    doors.order("waiting 5 1")
    assert requests.get(management(doors, "/models/fake"), timeout=30).json()[0]["jobQueueStatus"] == {"remainingCapacity": 123, "pendingRequests": 5}
    assert requests.put(management(doors, "/models/fake?min_worker=2&synchronous=true"), timeout=30).json() == {"status": "Workers scaled to 2 for model: fake"}
    refused = requests.put(management(doors, "/models/fake?min_worker=4"), timeout=30)
    assert refused.status_code == 409 and "cluster add-node" in refused.json()["message"] and "nodes.toml" in refused.json()["message"]
    assert requests.get(management(doors, "/v1/models/second"), timeout=30).json() == {"name": "second", "ready": True}


@pytest.mark.parametrize("door", ["inference", "management", "metrics"])
def test_each_door_describes_itself_truly(doors, door):
    url = doors.torchserve[door]
    received = requests.options(url, timeout=30).json()
    openapi_spec_validator.validate(received)
    assert received["openapi"] == "3.0.1" and received == requests.get(url, timeout=30).json() == requests.get(url + "/api-description", timeout=30).json()
    schema = {"$ref": "#/components/schemas/Error", "components": received["components"]}
    for path, operations in received["paths"].items():
        for method in operations:
            r = requests.request(method, url + path.replace("{model_name}", "fake").replace("{model_version}", "1.0"), timeout=30)
            assert r.status_code not in (404, 405), (method, path)
            if not r.ok:
                jsonschema.Draft202012Validator(schema).validate(r.json())
            elif "200" in operations[method]["responses"]:
                assert r.headers["content-type"].split(";")[0] in operations[method]["responses"]["200"]["content"]


def samples_of(text):
    """The parser appends `_total` to the name of every counter."""
    return {(s.name.removesuffix("_total"), *sorted(s.labels.items())): s.value for f in text_string_to_metric_families(text) for s in f.samples}


def test_metrics_are_torchserves_for_prometheus_parser(start):
    g = start(*DOORS)
    metrics = g.torchserve["metrics"] + "/metrics"
    assert requests.get(metrics, timeout=30).headers["content-type"].startswith("text/plain; version=0.0.4")
    for path in ("/predictions/fake", "/predictions/fake/1.0", "/predictions/fake/1.0"):
        assert requests.post(inference(g, path), data="tokens=3 pace_ms=10", timeout=30).ok
    requests.post(inference(g, "/predictions/none"), data="a", timeout=30)
    requests.post(inference(g, "/predictions/fake"), data="refuse=internal", timeout=30)
    received = samples_of(requests.get(metrics, timeout=30).text)
    host = next(v for k, v in next(k for k in received if k[0] == "MemoryUsed")[1:] if k == "Hostname")
    of = lambda name, version: received[(name, ("hostname", host), ("model_name", "fake"), ("model_version", version))]
    assert of("ts_inference_requests", "default") == 2 and of("ts_inference_requests", "1.0") == 2
    assert of("ts_inference_latency_microseconds", "1.0") >= 2 * 20e3  # of two that took twice 10 ms each
    assert 0 <= of("ts_queue_latency_microseconds", "1.0") < of("ts_inference_latency_microseconds", "1.0")
    level = lambda name: received[(name, ("Hostname", host), ("Level", "Host"))]
    assert level("Requests2XX") >= 4 and level("Requests4XX") == 1 and level("Requests5XX") == 1
    assert level("MemoryUsed") > 0 and 0 < level("MemoryUtilization") <= 100 and level("QueueTime") >= 0 and level("DiskAvailable") > 0
    some = requests.get(metrics, params={"name[]": ["QueueTime", "ts_inference_requests_total"]}, timeout=30).text
    assert {name for name, *_ in samples_of(some)} == {"QueueTime", "ts_inference_requests"}
    assert requests.get(metrics + "?name[]=nothing", timeout=30).text == ""
    assert re.search(r'^# HELP QueueTime Torchserve prometheus gauge metric with unit: Milliseconds$', some, re.M)


def test_the_apis_use_tls_if_there_is_a_certificate(start, tmp_path):
    from test_tls import make_certificate
    certificate, key = make_certificate(tmp_path, "ts")
    g = start(*DOORS, "--tls-certificate", str(certificate), "--tls-key", str(key))
    assert all(url.startswith("https://127.0.0.1") for url in g.torchserve.values())
    assert requests.get(inference(g, "/ping"), verify=str(certificate), timeout=30).json() == {"status": "Healthy"}
    with requests.post(inference(g, "/predictions/fake"), data="tokens=9 fail_at=4 pace_ms=10", verify=str(certificate), stream=True, timeout=30) as r:
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            list(r.iter_content(chunk_size=None))
