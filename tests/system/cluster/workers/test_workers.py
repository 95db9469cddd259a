"""Worker models through the gateway's own route and the Python SDK: batches, streams, and the faults of workers."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import signal
import struct
import sys
import time

import pytest
from harness import BUILD, ROOT, Cluster, running

sys.path.insert(0, str(ROOT / "sdk" / "python"))

from baton_client import BatonError, Client, Tensor  # noqa: E402

HANDLERS = pathlib.Path(__file__).parent / "handlers"
PLAY = HANDLERS / "play.py"
EXAMPLES = ROOT / "examples" / "workers"
SHIMMED = ROOT / "sdk" / "python" / "tests" / "models"  # as people wrote them for other servers
CPP = BUILD / "sdk" / "cpp"


def table(name, *words, module="baton_worker", **settings):
    """The [[workers]] table of a Python handler, or of a program if its path is given."""
    command = ["env", f"PYTHONPATH={ROOT / 'sdk' / 'python'}", sys.executable, "-m", module, *map(str, words)]
    if module is None:
        command = [*map(str, words)]
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    return f'[[workers]]\nname = "{name}"\ncommand = {json.dumps(command)}\n{lines}\n'


class WithWorkers(Cluster):
    """One stage for the LLM; the tables of the workers follow that of the gateway."""

    def __init__(self, directory, workers, gateway="", **options):
        super().__init__(directory, devices=("cpu:0",), gateway=gateway, nodes=workers, **options)

    def ask(self, model, body, content_type="application/json", timeout=30):
        """-> (status, headers, body)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=timeout)
        with contextlib.closing(connection):
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", f"/v1/workers/{model}", data, {"Content-Type": content_type})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    def reply_of(self, model, **asked):
        status, _, body = self.ask(model, asked)
        assert status == 200, body
        return json.loads(body)

    def refused(self, model, **asked):
        """-> (status, error's code, its message)"""
        status, _, body = self.ask(model, asked)
        error = json.loads(body)["error"]
        return status, error["code"], error["message"]

    def open_stream(self, model, **asked):
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=30)
        connection.request("POST", f"/v1/workers/{model}", json.dumps(asked).encode(), {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def workers_of(self, model):
        return {p["name"]: p for p in self.status()["processes"] if p["name"].startswith(f"worker-{model}-")}

    def wait_workers(self, model, *former, seconds=30):
        """Waits until all workers are ready and none is one of `former` (pids)."""
        deadline = time.monotonic() + seconds
        while True:
            now = self.workers_of(model)
            if now and all(p["phase"] == "ready" and p["pid"] not in former for p in now.values()):
                return [p["pid"] for p in now.values()]
            assert time.monotonic() < deadline, (now, self.logs())
            time.sleep(0.05)


TABLES = (
    table("pair", PLAY, count=2, response_timeout=60)
    + table("batch", PLAY, batch_size=4, max_batch_delay=0.5)
    + table("one", PLAY, max_queued=2)
    + table("strict", PLAY, response_timeout=2)
)


@pytest.fixture(scope="module")
def cluster():
    with running(WithWorkers, workers=TABLES) as c:
        for model in ("pair", "batch", "one", "strict"):
            c.wait_workers(model)
        yield c


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        yield threads


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def test_any_body_goes_there_and_comes_back(cluster):
    body = bytes(range(256)) * 1000
    status, headers, echo = cluster.ask("pair", body, "application/octet-stream")
    assert status == 200 and echo == body and headers["Content-Type"] == "application/octet-stream"
    assert cluster.ask("pair/1", b"a", "image/png")[1]["Content-Type"] == "image/png"
    assert cluster.reply_of("pair", do="who")["model"] == "pair"


def test_a_missing_model_is_rejected(cluster):
    for path in ("nobody", "pair/2", "smollm2"):
        status, _, body = cluster.ask(path, b"a")
        assert status == 404 and json.loads(body)["error"]["code"] == "model_not_found"


def test_a_handlers_metadata_reaches_the_client(cluster):
    status, headers, body = cluster.ask("pair", {"do": "status"})
    assert (status, headers["X-Kind"], headers["Content-Type"], body) == (418, "pot", "text/plain", b"short and stout")
    assert cluster.refused("pair", do="split")[:2] == (500, "handler_failed")
    assert cluster.refused("pair", do="refuse") == (422, "unprocessable", "not this one")


def test_requests_that_come_together_are_answered_together(cluster, pool):
    reply = list(pool.map(lambda _: cluster.reply_of("batch", do="who")["batch"], range(8)))
    assert max(reply) > 1 and max(reply) <= 4
    assert cluster.reply_of("batch", do="who")["batch"] == 1  # alone, once it has waited


def test_two_workers_share_the_load(cluster, pool, tmp_path):
    asked = {"do": "wait", "begun": str(tmp_path / "begun"), "until": str(tmp_path / "go")}
    both = [pool.submit(cluster.reply_of, "pair", **asked) for _ in range(2)]
    wait_for(lambda: len(list(tmp_path.glob("begun*"))) == 2)
    (tmp_path / "go").touch()
    assert len({b.result()["pid"] for b in both}) == 2
    assert cluster.metric('baton_workers_ready{model_name="pair"') == 2


def test_pieces_come_as_they_are_made(cluster, tmp_path):
    connection, answer = cluster.open_stream("pair", do="stream", count=4, pause_at=2, until=str(tmp_path / "go"))
    with contextlib.closing(connection):
        assert answer.headers["Transfer-Encoding"] == "chunked"
        begun = b""
        while begun != b"0 1 ":
            begun += answer.read1(100)
        (tmp_path / "go").touch()
        assert answer.read() == b"2 3 "


def test_a_client_that_leaves_ends_the_handlers_stream(cluster, tmp_path):
    connection, answer = cluster.open_stream("one", do="endless", ended=str(tmp_path / "ended"))
    assert answer.read1(1)
    connection.close()
    answer.close()
    wait_for((tmp_path / "ended").exists)
    assert cluster.reply_of("one", do="who")


def test_a_handler_that_raises_costs_its_batch_alone(cluster):
    pids = cluster.wait_workers("batch")
    assert cluster.refused("batch", do="raise") == (500, "handler_failed", "RuntimeError: as it was asked to")
    assert cluster.refused("batch", do="nonsense")[:2] == (500, "handler_failed")
    assert cluster.refused("batch", do="short")[:2] == (500, "handler_failed")
    assert cluster.wait_workers("batch") == pids


def test_an_answer_that_is_too_large_is_an_error_of_its_request(cluster):
    pids = cluster.wait_workers("pair")
    assert cluster.refused("pair", do="large", bytes=17 << 20)[:2] == (500, "handler_failed")
    assert len(cluster.ask("pair", {"do": "large", "bytes": 15 << 20})[2]) == 15 << 20
    assert cluster.wait_workers("pair") == pids


def test_a_request_whose_worker_is_killed_is_done_by_another(cluster, tmp_path):
    before = cluster.wait_workers("pair")
    assert cluster.reply_of("pair", do="die_once", file=str(tmp_path / "died"))["pid"] in before
    assert len(set(cluster.wait_workers("pair")) & set(before)) == 1


def test_a_request_that_kills_two_workers_is_refused(cluster):
    assert cluster.refused("pair", do="die")[:2] == (500, "quarantined")
    cluster.wait_workers("pair")
    assert cluster.reply_of("pair", do="who")


def test_an_answer_breaks_off_with_its_worker(cluster, tmp_path):
    connection, answer = cluster.open_stream("one", do="stream", count=4, pause_at=1, until=str(tmp_path / "never"))
    with contextlib.closing(connection):
        assert answer.read1(100) == b"0 "
        (pid,) = cluster.wait_workers("one")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
    cluster.wait_workers("one", pid)
    assert cluster.reply_of("one", do="who")["pid"] != pid


def test_a_worker_that_hangs_is_ended_and_its_client_gets_an_error(cluster):
    (pid,) = cluster.wait_workers("strict")
    assert cluster.refused("strict", do="hang")[:2] == (504, "deadline_exceeded")
    (other,) = cluster.wait_workers("strict", pid)
    assert cluster.reply_of("strict", do="who")["pid"] == other


def test_response_timeout_counts_from_reply_to_reply(cluster):
    begun = time.monotonic()
    connection, answer = cluster.open_stream("strict", do="stream", count=7, seconds=0.4)
    with contextlib.closing(connection):
        assert answer.read() == b"0 1 2 3 4 5 6 "
    assert time.monotonic() - begun > 2  # response_timeout


def test_requests_beyond_the_queue_are_rejected_with_a_retry_time(cluster, pool, tmp_path):
    asked = {"do": "wait", "begun": str(tmp_path / "begun"), "until": str(tmp_path / "go")}
    running_one = pool.submit(cluster.reply_of, "one", **asked)
    wait_for(lambda: list(tmp_path.glob("begun*")))
    waiting = [pool.submit(cluster.reply_of, "one", do="who") for _ in range(2)]
    wait_for(lambda: cluster.metric('baton_worker_requests_waiting{model_name="one"') == 2)
    status, headers, body = cluster.ask("one", {"do": "who"})
    assert status == 503 and headers["Retry-After"] and json.loads(body)["error"]["code"] == "overloaded"
    (tmp_path / "go").touch()
    assert running_one.result()["pid"] and all(w.result()["pid"] for w in waiting)


def test_a_worker_that_is_asked_to_end_finishes_what_it_has(cluster, pool, tmp_path):
    (pid,) = cluster.wait_workers("batch")
    asked = {"do": "wait", "begun": str(tmp_path / "begun"), "until": str(tmp_path / "go")}
    last = pool.submit(cluster.reply_of, "batch", **asked)
    wait_for(lambda: list(tmp_path.glob("begun*")))
    os.kill(pid, signal.SIGTERM)
    late = pool.submit(cluster.reply_of, "batch", do="who")
    (tmp_path / "go").touch()
    assert last.result()["pid"] == pid
    assert late.result()["pid"] != pid


def test_the_python_sdk_asks_for_tensors_and_bodies(cluster):
    with Client(cluster.door) as client:
        reply = client.infer("pair", [Tensor("x", "FP32", [2], b"\0\0\x80\x3f\0\0\0\x40")])
        assert [(t.name, t.datatype, t.shape, t.data) for t in reply.outputs] == [("again-x", "FP32", [2], b"\0\0\x80\x3f\0\0\0\x40")]
        assert client.infer("pair", body=b"\0\1", content_type="a/b").body == b"\0\1"
        asked = json.dumps({"do": "stream", "count": 5}).encode()
        pieces = client.infer_stream("pair", body=asked, content_type="application/json")
        assert b"".join(p.body for p in pieces) == b"0 1 2 3 4 "
        with pytest.raises(BatonError) as refused:
            client.infer("nobody")
        assert refused.value.name == "model_not_found"
        with pytest.raises(BatonError) as failed:
            client.infer("pair", body=b'{"do": "raise"}', content_type="application/json")
        assert failed.value.name == "handler_failed"


def test_the_python_sdk_cancels_what_it_leaves(cluster, tmp_path):
    with Client(cluster.door) as client:
        asked = json.dumps({"do": "endless", "ended": str(tmp_path / "ended")}).encode()
        with client.infer_stream("pair", body=asked, content_type="application/json") as pieces:
            assert next(pieces).body == b"x"
        wait_for((tmp_path / "ended").exists)
        assert client.infer("pair", body=b"1").body == b"1"


def test_workers_outlive_their_gateway(cluster):
    pids = cluster.wait_workers("pair")
    gateway = cluster.pid("gateway")
    os.kill(gateway, signal.SIGKILL)
    cluster.wait_standing(("gateway", gateway))
    assert cluster.reply_of("pair", do="who")["pid"] in pids
    assert cluster.wait_workers("pair") == pids


def test_an_idle_worker_that_is_stopped_is_replaced(cluster):
    (pid,) = cluster.wait_workers("one")
    os.kill(pid, signal.SIGSTOP)
    (other,) = cluster.wait_workers("one", pid)
    assert cluster.reply_of("one", do="who")["pid"] == other


def test_workers_outlive_their_root_and_are_adopted(tmp_path):
    with running(WithWorkers, workers=table("one", PLAY)) as c:
        (pid,) = c.wait_workers("one")
        c.process.kill()
        c.process.wait()
        assert c.reply_of("one", do="who")["pid"] == pid
        c.start()
        assert c.wait_workers("one") == [pid]
        os.kill(pid, signal.SIGKILL)
        (other,) = c.wait_workers("one", pid)
        assert c.reply_of("one", do="who")["pid"] == other


def test_a_handler_that_cannot_be_loaded_is_given_up_and_the_llm_serves(tmp_path):
    with running(WithWorkers, workers=table("none", "no_such_file.py")) as c:
        worker = wait_for(lambda: [p for p in c.workers_of("none").values() if p["phase"] == "failed"])[0]
        assert "no_such_file.py is no file" in worker["reason"]
        assert c.health()[0] == 200


def test_running_requests_are_answered_before_the_cluster_stops(tmp_path):
    with running(WithWorkers, workers=table("one", PLAY)) as c, concurrent.futures.ThreadPoolExecutor() as pool:
        c.wait_workers("one")
        asked = {"do": "wait", "begun": str(tmp_path / "begun"), "until": str(tmp_path / "go")}
        last = pool.submit(c.reply_of, "one", **asked)
        wait_for(lambda: list(tmp_path.glob("begun*")))
        c.process.send_signal(signal.SIGTERM)
        wait_for(lambda: c.health()[0] == 503)
        assert c.ask("one", {"do": "who"})[0] == 503
        (tmp_path / "go").touch()
        assert last.result()["pid"]
        assert c.process.wait(20) == 0


@pytest.fixture(scope="module")
def others():
    """Workers of other kinds than a handler in Python."""
    tables = (
        table("echo", CPP / "baton_echo_worker", module=None, batch_size=2, max_batch_delay=0)
        + table("sum", CPP / "baton_worker_host", CPP / "libbaton_sum_worker.so", module=None)
        + table("refused", CPP / "baton_worker_host", CPP / "libbaton_sum_worker.so", "refuse", module=None)
        + table("words", SHIMMED / "ts_class_handler.py", module="baton_worker.torchserve")
        + table("ask", HANDLERS / "ask.py")
        + table("rhyme", EXAMPLES / "top_p.py", batch_size=8, max_batch_delay=0.5)
        + table("add_sub", EXAMPLES / "models/add_sub/1/model.onnx", module="baton_worker.onnx", batch_size=8, preferred_batch_size=[2], max_batch_delay=10)
        + table("tensors", HANDLERS / "tensors.py", platform="python")
        + 'inputs = [{ name = "IN", datatype = "FP32", shape = [-1] }]\n'
    )
    with running(WithWorkers, workers=tables) as c:
        for model in ("echo", "sum", "words", "ask", "rhyme", "add_sub", "tensors"):
            c.wait_workers(model)
        yield c


def test_a_worker_in_cpp_streams(others):
    connection, answer = others.open_stream("echo", do="nothing")
    with contextlib.closing(connection):
        assert answer.headers["Transfer-Encoding"] == "chunked" and answer.read() == b'{"do": "nothing"}'
    text = b"a b  c " * 20000
    assert others.ask("echo", text, "text/plain")[2] == text


def test_a_worker_in_cpp_is_restarted_and_ends_in_order(others):
    (pid,) = others.wait_workers("echo")
    os.kill(pid, signal.SIGKILL)
    (other,) = others.wait_workers("echo", pid)
    os.kill(other, signal.SIGTERM)
    others.wait_workers("echo", pid, other)
    assert others.ask("echo", b"x")[2] == b"x"


def test_a_worker_in_a_library(others):
    with Client(others.door) as client:
        reply = client.infer_stream("sum", [Tensor("a", "FP32", [3], struct.pack("<3f", 1, 2, 4)), Tensor("b", "FP32", [1], struct.pack("<f", 8))])
        sums = {t.name: struct.unpack("<f", t.data)[0] for piece in reply for t in piece.outputs}
        assert sums == {"a": 7.0, "b": 8.0}
        with pytest.raises(BatonError, match="only FP32 can be summed"):
            client.infer("sum", [Tensor("a", "INT8", [1], b"1")])
        with pytest.raises(BatonError, match="left the request unanswered"):
            client.infer("sum", body=b"no tensors")
    refused = wait_for(lambda: [p for p in others.workers_of("refused").values() if p["phase"] == "failed"])[0]
    assert "as it was asked to" in refused["reason"]


def test_a_handler_of_torchserve(others):
    status, headers, body = others.ask("words", b"one two three", "text/plain")
    assert (status, headers["X-Words"]) == (200, "3") and json.loads(body)["words"] == 3
    assert others.ask("words", b"refuse", "text/plain")[0] == 513
    connection, answer = others.open_stream("words", text="stream")
    with contextlib.closing(connection):
        assert answer.headers["Transfer-Encoding"] == "chunked" and answer.read().startswith(b"0 1 ")


def test_a_model_of_onnx_runtime(others, pool):
    def asked(client, x, y):
        tensors = [Tensor(name, "FP32", [1, 2], struct.pack("<2f", *values)) for name, values in (("INPUT0", x), ("INPUT1", y))]
        return {t.name: struct.unpack("<2f", t.data) for t in client.infer("add_sub", tensors, timeout=5).outputs}

    with Client(others.door) as client:  # two make a batch of the preferred size: nobody waits for max_batch_delay
        both = [pool.submit(asked, client, (x, 2), (1, 1)) for x in (5, 7)]
        assert [one.result() for one in both] == [{"OUTPUT0": (x + 1, 3), "OUTPUT1": (x - 1, 1)} for x in (5, 7)]
        good = pool.submit(asked, client, (1, 2), (1, 1))
        with pytest.raises(BatonError, match="there is no input named 'INPUT0'"):
            client.infer("add_sub", [Tensor("INPUT1", "FP32", [1, 2], bytes(8))], timeout=5)
        assert good.result()["OUTPUT0"] == (2, 3)


def test_tensors_are_those_that_are_declared(others):
    def ask(path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", others.http_port, timeout=30)
        with contextlib.closing(connection):
            connection.request("POST" if body else "GET", "/v2/models/tensors" + path, body and json.dumps({"inputs": [body]}), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    status, reply = ask("")
    assert status == 200, reply
    assert (reply["platform"], reply["inputs"]) == ("python", [{"name": "IN", "datatype": "FP32", "shape": [-1]}])
    assert ask("/config")[1]["instance_group"][0]["count"] == 1 and ask("/ready")[0] == 200
    status, answer = ask("/infer", {"name": "IN", "datatype": "FP32", "shape": [2], "data": [1, 2.5]})
    assert (status, answer["outputs"][0]["data"]) == (200, [2, 5])
    status, answer = ask("/infer", {"name": "IN", "datatype": "INT32", "shape": [2], "data": [1, 2]})
    assert status == 400 and "FP32" in answer["error"]


def test_a_handler_asks_other_models(others):
    reply = json.loads(others.ask("ask", b"Once upon a time")[2])
    with Client(others.door) as client:
        assert reply["llm"] == client.generate("Once upon a time", max_tokens=8, temperature=0).text != ""
    assert reply["worker"] == reply["llm"]


def test_a_generation_loop_with_top_p(others, pool):
    """examples/workers/top_p.py: tokens as they are drawn, and the same ones whatever else is in the batch."""
    drawn = {"prompt": "the ", "max_tokens": 40, "top_p": 0.9, "seed": 7}
    connection, answer = others.open_stream("rhyme", **drawn)
    with contextlib.closing(connection):
        assert answer.headers["Transfer-Encoding"] == "chunked"
        alone = answer.read()
    assert len(alone) == 40
    asked = [drawn, {**drawn, "seed": 8}, {"prompt": "the wheel ", "max_tokens": 12, "top_p": 0.01}, drawn]
    together = [body for _, _, body in pool.map(lambda a: others.ask("rhyme", a), asked)]
    assert together[0] == together[3] == alone != together[1] and len(together[2]) == 12
    assert others.refused("rhyme", top_p=0)[:2] == (422, "unprocessable")
