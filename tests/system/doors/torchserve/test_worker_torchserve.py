"""Worker models through TorchServe's APIs, over HTTP and gRPC: bodies and forms, answers whole and in pieces, its error format, and its
management API."""
import http.client
import json
import sys
import time

import grpc
import httpx
import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from test_grpc import bearer
from test_grpc_torchserve import channel_to, stubs  # noqa: F401
from test_worker_models import PLAY, ROOT, Models, wait_for

DOORS = ("--torchserve-inference", "127.0.0.1:0", "--torchserve-management", "127.0.0.1:0", "--torchserve-metrics", "127.0.0.1:0",
         "--torchserve-grpc-inference", "127.0.0.1:0", "--torchserve-grpc-management", "127.0.0.1:0")
WORDS = ROOT / "sdk" / "python" / "tests" / "models" / "ts_class_handler.py"


class Doors(Models):
    def at(self, door, path):
        return self.gateway.torchserve[door] + path

    def predict(self, model, data=None, **more):
        return requests.post(self.at("inference", f"/predictions/{model}"), data=data, timeout=30, **more)

    def do(self, what, model="play", **more):
        return self.predict(model, json.dumps({"do": what, **more}), headers={"Content-Type": "application/json"}, stream=what in ("stream", "endless"))


def parsed(text):
    return list(text_string_to_metric_families(text))


def worker(*words, module="baton_worker"):
    return [sys.executable, "-m", module, *map(str, words)]


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    from conftest import Gateway
    door = f"ipc://{tmp_path_factory.mktemp('doors')}/w"
    g = Gateway("--zmq", "tcp://127.0.0.1:*", *DOORS, "--worker-door", door, "--workers", "play 2 1 0 60000 7", "--workers", "words 1 4 50 60000 10")
    assert g.is_ready, g.message
    d = Doors(g, door)
    try:
        d.begin(5000, "play")
        d.begin(5001, "play")
        d.begin(5002, "words", worker(WORDS, module="baton_worker.torchserve"))
        yield d
    finally:
        d.stop()
    assert g.stop() == 0


# -- predictions --


def test_any_body_goes_there_and_comes_back(doors):
    body = bytes(range(256)) * 1000
    echo = doors.predict("play", body, headers={"Content-Type": "image/x"})
    assert (echo.status_code, echo.content, echo.headers["Content-Type"]) == (200, body, "image/x")
    assert echo.headers["Content-Length"] == str(len(body))
    for method, path in (("PUT", "/predictions/play"), ("POST", "/predictions/play/1"), ("POST", "/models/play/invoke"), ("POST", "/invocations?model_name=play"),
                         ("POST", "/v1/models/play:predict")):
        reply = requests.request(method, doors.at("inference", path), data=b"x", headers={"Content-Type": "a/b"}, timeout=30)
        assert (reply.status_code, reply.content) == (200, b"x"), path
    assert doors.do("who").json()["model"] == "play"


def test_a_form_is_its_one_field(doors):
    part = doors.predict("play", files={"data": ("x.png", b"\x89PNG\0", "image/png")})
    assert (part.content, part.headers["Content-Type"]) == (b"\x89PNG\0", "image/png")
    assert doors.predict("play", files={"body": b"ab"}).content == b"ab"
    assert doors.predict("play", {"data": "a b&c"}).content == b"a b&c"
    curled = doors.predict("play", '{"do": "who"}', headers={"Content-Type": "application/x-www-form-urlencoded"})  # curl -d
    assert curled.json()["model"] == "play"
    assert doors.predict("play", files={"image": b"a"}).content == b"a"
    refused = doors.predict("play", "no form", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert refused.status_code == 400 and refused.json()["type"] == "BadRequestException" and "'data'" in refused.json()["message"]


def test_several_inputs_go_on_as_a_form(doors):
    for form in ({"files": {"data": b"a", "mask": b"b"}}, {"data": {"data": "a", "mask": "b"}}):
        reply = doors.predict("play", **form)
        assert reply.headers["Content-Type"].startswith("multipart/form-data; boundary=")
        assert b'name="data"\r\n' in reply.content and b'name="mask"\r\n\r\nb\r\n' in reply.content
    reply = doors.predict("play", data=b"x", params={"mask": "b"})
    assert b'name="mask"\r\n\r\nb\r\n' in reply.content and b'name="body"\r\n\r\nx\r\n' in reply.content


def test_a_handler_of_torchserve_is_asked_as_there(doors):
    reply = doors.predict("words", "one two three", headers={"Content-Type": "text/plain", "Accept": "a/b"})
    assert (reply.status_code, reply.headers["X-Words"]) == (200, "3")
    assert reply.json() == {"model": "words", "words": 3, "accept": "a/b"}  # headers come with it
    assert doors.predict("words", json={"text": "a b"}).json()["words"] == 2
    refused = doors.predict("words", "refuse")
    assert refused.status_code == 513 and refused.json() == {"code": 513, "type": "InternalServerException", "message": "I will not count this"}
    with doors.predict("words", "stream this", headers={"Content-Type": "text/plain"}, stream=True) as r:
        pieces = [c for c in r.iter_content(chunk_size=None) if c]
        assert pieces[:2] == [b"0 ", b"1 "] and json.loads(b"".join(pieces[2:]))["words"] == 2
        assert r.headers["Transfer-Encoding"] == "chunked"


def test_an_answer_of_several_pieces_has_a_chunk_for_each(doors, tmp_path):
    with doors.do("stream", count=3, pause_at=1, until=str(tmp_path / "go")) as r:
        chunks = r.iter_content(chunk_size=None)
        assert next(chunks) == b"0 "
        (tmp_path / "go").touch()
        assert list(chunks) == [b"1 ", b"2 "]
    pot = doors.do("status")
    assert (pot.status_code, pot.headers["X-Kind"], pot.text, pot.headers["Content-Type"]) == (418, "pot", "short and stout", "text/plain")


def test_errors_have_torchserves_shape(doors, tmp_path):
    for asked, status, kind in ((doors.do("raise"), 500, "InternalServerException"), (doors.do("refuse"), 400, "BadRequestException"),
                                (doors.predict("nobody", b"x"), 404, "ModelNotFoundException"), (doors.predict("play/2", b"x"), 404, "ModelVersionNotFoundException"),
                                (doors.predict("play/1/v1/completions", json={}), 404, "ResourceNotFoundException"),
                                (doors.do("nonsense"), 500, "InternalServerException")):
        assert asked.status_code == status, asked.text
        assert asked.json()["code"] == status and asked.json()["type"] == kind and asked.json()["message"], asked.text
    assert requests.get(doors.at("inference", "/predictions/play"), timeout=30).status_code == 405
    with doors.do("stream", count=4, pause_at=1, until=str(tmp_path / "never")) as r:
        chunks = r.iter_content(chunk_size=None)
        assert next(chunks) == b"0 "
        for place in (5000, 5001):
            doors.processes[place].kill()
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            list(chunks)
    for place in (5000, 5001):
        doors.begin(place, "play")


def test_who_leaves_ends_the_handlers_stream(doors, tmp_path):
    with doors.do("endless", ended=str(tmp_path / "ended")) as r:
        next(r.iter_content(chunk_size=None))
    wait_for((tmp_path / "ended").exists)


def test_beyond_the_queue_it_is_503_with_its_words(start, tmp_path):
    door = f"ipc://{tmp_path}/w"
    g = start("--zmq", "tcp://127.0.0.1:*", *DOORS, "--worker-door", door, "--workers", "play 1 1 0 60000 1")
    d = Doors(g, door)
    try:
        d.begin(5000, "play")
        address = g.torchserve["inference"].removeprefix("http://")
        waiting = []
        for number in range(2):
            c = http.client.HTTPConnection(address, timeout=30)
            c.request("POST", "/predictions/play", json.dumps({"do": "wait", "begun": str(tmp_path / "b"), "until": str(tmp_path / "go")}), {"Content-Type": "application/json"})
            waiting.append(c)
            wait_for(lambda: d.gauge("baton_worker_requests_running", "play") + d.gauge("baton_worker_requests_waiting", "play") == number + 1)
        full = d.do("who")
        assert full.status_code == 503 and full.json()["type"] == "ServiceUnavailableException" and full.headers["Retry-After"]
        assert 'Model "play" has no worker to serve inference request' in full.json()["message"]
        status = requests.get(d.at("management", "/models/play"), timeout=30).json()[0]["jobQueueStatus"]
        assert status == {"remainingCapacity": 0, "pendingRequests": 1}
        (tmp_path / "go").touch()
        assert all(c.getresponse().status == 200 for c in waiting)
    finally:
        d.stop()


# -- management --


def test_worker_models_are_listed_described_and_scaled_as_far_as_they_are(doors):
    get = lambda path: requests.get(doors.at("management", path), timeout=30)  # noqa: E731
    assert [m["modelName"] for m in get("/models").json()["models"]] == ["fake", "play", "words"]
    (reply,) = get("/models/play").json()
    assert reply["modelVersion"] == "1" and reply["batchSize"] == 1 and reply["minWorkers"] == reply["maxWorkers"] == 2
    assert reply["jobQueueStatus"] == {"remainingCapacity": 7, "pendingRequests": 0} and reply["responseTimeout"] == 60
    assert [w["id"] for w in reply["workers"]] == ["worker-play-0", "worker-play-1"]
    (words,) = get("/models/words/all?customized=true").json()
    assert words["batchSize"] == 4 and words["maxBatchDelay"] == 50 and words["customizedMetadata"]["running"] == 0
    assert get("/models/play/1").status_code == 200 and get("/models/play/2").json()["type"] == "ModelVersionNotFoundException"
    assert get("/v1/models/play").json() == {"name": "play", "ready": True}
    put = lambda path: requests.put(doors.at("management", path), timeout=30)  # noqa: E731
    assert put("/models/play?min_worker=2").status_code == put("/models/play/1?min_worker=1&max_worker=3").status_code == 200
    more = put("/models/play?min_worker=3")
    assert more.status_code == 409 and "count" in more.json()["message"] and more.json()["type"] == "ConflictStatusException"
    assert put("/models/play/1/set-default").status_code == 200
    assert requests.delete(doors.at("management", "/models/play"), timeout=30).status_code == 405


def test_what_a_handler_counts_is_told_with_its_dimensions(doors):
    def words():
        rows = [s for family in parsed(requests.get(doors.at("metrics", "/metrics"), timeout=30).text) if family.name == "Words" for s in family.samples]
        return [(s.labels["ModelName"], s.labels["Level"], s.labels["Hostname"] != "", s.value) for s in rows if s.name in ("Words", "Words_total")]

    before, many = sum(row[-1] for row in words()), 10_000  # more than other tests have asked for in the last second
    assert doors.predict("words", "word " * many, headers={"Content-Type": "text/plain"}).json()["words"] == many
    wait_for(lambda: sum(row[-1] for row in words()) >= before + many)
    (row,) = words()
    assert row[:3] == ("words", "Model", True) and row[3] < before + 2 * many
    of_server = parsed(httpx.get(doors.gateway.url + "/metrics").text)
    (value,) = (s.value for family in of_server if family.name == "Words" for s in family.samples)
    assert value >= row[3]
    assert "Requests2XX" not in requests.get(doors.at("metrics", "/metrics?name[]=Words"), timeout=30).text


def test_how_long_handlers_took_to_be_ready(doors):
    (family,) = parsed(requests.get(doors.at("metrics", "/metrics?name[]=WorkerLoadTime"), timeout=30).text)
    took = {s.labels["WorkerName"]: s.value for s in family.samples}
    assert took and all(0 < millis < 120_000 for millis in took.values())
    assert all(s.labels["Level"] == "Host" and s.labels["Hostname"] for s in family.samples)


def test_its_metrics_count_predictions_of_worker_models(doors):
    def count(name, version="default"):
        text = requests.get(doors.at("metrics", f"/metrics?name[]={name}"), timeout=30).text
        lines = [line for line in text.splitlines() if 'model_name="play"' in line and f'model_version="{version}"' in line]
        return float(lines[0].split()[-1]) if lines else 0

    before, spent = count("ts_inference_requests_total"), count("ts_inference_latency_microseconds")
    doors.do("who")
    assert count("ts_inference_requests_total") == before + 1
    wait_for(lambda: count("ts_inference_latency_microseconds") > spent)
    assert count("ts_queue_latency_microseconds") < count("ts_inference_latency_microseconds")


# -- gRPC --


def test_predictions_over_grpc(doors, stubs, tmp_path):  # noqa: F811
    messages, services, _, _ = stubs
    with channel_to(doors.gateway, "inference") as channel:
        stub = services.InferenceAPIsServiceStub(channel)
        raw = messages.PredictionsRequest(model_name="words", input={"body": b"one two"})
        assert json.loads(stub.Predictions(raw, timeout=20).prediction)["words"] == 2
        assert stub.Predictions(messages.PredictionsRequest(model_name="play", model_version="1", input={"data": b"\xff\0"}), timeout=20).prediction == b"\xff\0"
        raw = messages.PredictionsRequest(model_name="words", input={"data": b"stream it"})
        pieces = [r.prediction for r in stub.StreamPredictions(raw, timeout=20)]
        assert pieces[:2] == [b"0 ", b"1 "] and json.loads(pieces[2])["words"] == 2
        whole = stub.Predictions(raw, timeout=20).prediction
        assert whole.startswith(b"0 1 {")
        several = messages.PredictionsRequest(model_name="play", input={"data": b"1", "mask": b"2"})
        assert b'name="mask"\r\n\r\n2\r\n' in stub.Predictions(several, timeout=20).prediction
        assert stub.Predictions(messages.PredictionsRequest(model_name="play", input={"image": b"1"}), timeout=20).prediction == b"1"
        for message, code, word in (
            (messages.PredictionsRequest(model_name="play"), grpc.StatusCode.INVALID_ARGUMENT, "data"),
            (messages.PredictionsRequest(model_name="play", model_version="2", input={"data": b"1"}), grpc.StatusCode.NOT_FOUND, "version"),
            (messages.PredictionsRequest(model_name="words", input={"data": b"refuse"}), grpc.StatusCode.INTERNAL, "I will not count this"),
        ):
            with pytest.raises(grpc.RpcError) as e:
                stub.Predictions(message, timeout=20)
            assert e.value.code() == code and word in e.value.details(), e.value


ECHO_STREAM = """from ts.handler_utils.utils import send_intermediate_predict_response


def handle(data, context):
    if type(data) is list:
        for i in range(3):
            send_intermediate_predict_response(["intermediate_response"], context.request_ids, "Intermediate Prediction success", 200, context)
        return ["hello world "]
"""


def test_streamed_predictions_share_no_batch(start, stubs, tmp_path):  # noqa: F811
    """The handler comes from TorchServe's documentation and answers batches of one."""
    (tmp_path / "echo_stream.py").write_text(ECHO_STREAM)
    door = f"ipc://{tmp_path}/w"
    g = start("--zmq", "tcp://127.0.0.1:*", *DOORS, "--worker-door", door, "--workers", "echo 1 4 1000 60000 10")
    d = Doors(g, door)
    try:
        d.begin(5000, "echo", worker(tmp_path / "echo_stream.py", module="baton_worker.torchserve"))
        messages, services, _, _ = stubs
        with channel_to(g, "inference") as channel:
            stub = services.InferenceAPIsServiceStub(channel)
            request = messages.PredictionsRequest(model_name="echo", input={"data": b"x"})
            before = time.monotonic()
            calls = [stub.StreamPredictions(request, timeout=20) for _ in range(4)]  # all wait for the one worker
            for call in calls:
                assert [r.prediction for r in call] == [b"intermediate_response"] * 3 + [b"hello world "]
            assert time.monotonic() - before < 1, "none waits for max_batch_delay"
    finally:
        d.stop()


def test_management_over_grpc(doors, stubs):  # noqa: F811
    _, _, messages, services = stubs
    with channel_to(doors.gateway, "management") as channel:
        stub = services.ManagementAPIsServiceStub(channel)
        listed = json.loads(stub.ListModels(messages.ListModelsRequest(), timeout=20).msg)
        assert [m["modelName"] for m in listed["models"]] == ["fake", "play", "words"]
        (reply,) = json.loads(stub.DescribeModel(messages.DescribeModelRequest(model_name="words", customized=True), timeout=20).msg)
        assert reply["batchSize"] == 4 and reply["modelVersion"] == "1"
        assert "scaled" in stub.ScaleWorker(messages.ScaleWorkerRequest(model_name="play", min_worker=2), timeout=20).msg
        with pytest.raises(grpc.RpcError) as e:
            stub.ScaleWorker(messages.ScaleWorkerRequest(model_name="play", min_worker=3), timeout=20)
        assert e.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        with pytest.raises(grpc.RpcError) as e:
            stub.UnregisterModel(messages.UnregisterModelRequest(model_name="play"), timeout=20)
        assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_keys(start, keys_file, tmp_path, stubs):  # noqa: F811
    door = f"ipc://{tmp_path}/w"
    g = start("--zmq", "tcp://127.0.0.1:*", *DOORS, "--keys", str(keys_file), "--worker-door", door, "--workers", "play 1 1 0 60000 9")
    d = Doors(g, door)
    try:
        d.begin(5000, "play")
        assert d.predict("play", b"x").json()["type"] == "InvalidKeyException"
        assert d.predict("play", b"x", headers={"Authorization": "Bearer k"}).content == b"x"
        messages, services, _, _ = stubs
        with channel_to(g, "inference") as channel:
            stub = services.InferenceAPIsServiceStub(channel)
            request = messages.PredictionsRequest(model_name="play", input={"data": b"x"})
            with pytest.raises(grpc.RpcError) as e:
                stub.Predictions(request, timeout=20)
            assert e.value.code() == grpc.StatusCode.UNAUTHENTICATED
            assert stub.Predictions(request, timeout=20, metadata=bearer("k")).prediction == b"x"
    finally:
        d.stop()
