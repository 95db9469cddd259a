"""Worker models behind the real APIs, with processes of the test itself: the responses when batches form, handlers raise and processes
end. Supervision is tested with a whole cluster (tests/system/cluster/workers/test_workers.py)."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import httpx
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "sdk" / "python"))

from baton_client import BatonError, Client, Tensor, codec  # noqa: E402
from baton_client.wire.MessageKind import MessageKind  # noqa: E402
from baton_client.wire.Role import Role  # noqa: E402
from counters import counters, fallen  # noqa: E402
from raw_zmq import Raw  # noqa: E402

PLAY = ROOT / "tests" / "system" / "cluster" / "workers" / "handlers" / "play.py"
JSON = {"Content-Type": "application/json"}


class Models:
    """A gateway with worker models, and processes with the ids from 5000 on, each in its newest incarnation."""

    def __init__(self, gateway, door):
        self.gateway, self.door, self.processes, self.epoch = gateway, door, {}, 0

    def begin(self, place, model, command=None):
        self.epoch += 1
        env = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "sdk" / "python"),
            "BATON_WORKER_DOOR": self.door,
            "BATON_WORKER_NODE": str(place),
            "BATON_WORKER_EPOCH": str(self.epoch),
            "BATON_WORKER_NAME": f"worker-{model}",
            "BATON_WORKER_MODEL": model,
            "BATON_WORKER_VERSION": "1",
            "BATON_WORKER_BATCH_SIZE": "4",
            "BATON_DOOR": self.gateway.zmq,
        }
        words = command or [sys.executable, "-m", "baton_worker", str(PLAY)]
        self.processes[place] = subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL)
        self.wait(place, "ready")
        return self.processes[place]

    def wait(self, place, phase):
        while True:
            event = self.gateway.wait_for("worker", seconds=30)
            if event["node"] == place and event["phase"] == phase:
                return event

    def ask(self, model, timeout=30, **asked):
        return httpx.post(f"{self.gateway.url}/v1/workers/{model}", json=asked, timeout=timeout)

    def reply_of(self, model, **asked):
        answer = self.ask(model, **asked)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, model, **asked):
        answer = self.ask(model, **asked)
        return answer.status_code, answer.json()["error"]["code"]

    def gauge(self, name, model):
        lines = httpx.get(self.gateway.url + "/metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f'{name}{{model_name="{model}"'))

    def stop(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture
def models(start, tmp_path):
    opened = []

    def go(*tables):
        door = f"ipc://{tmp_path}/workers"
        gateway = start("--zmq", "tcp://127.0.0.1:*", "--worker-door", door, *(flag for t in tables for flag in ("--workers", t)))
        opened.append(Models(gateway, door))
        return opened[-1]

    yield go
    for m in opened:
        m.stop()


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        yield threads


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_bodies_errors_and_headers(models):
    m = models("play 1 1 0 60000 10")
    m.begin(5000, "play")
    body = bytes(range(256)) * 1000
    echo = httpx.post(m.gateway.url + "/v1/workers/play", content=body, headers={"Content-Type": "image/x"})
    assert (echo.content, echo.headers["content-type"]) == (body, "image/x")
    pot = m.ask("play/1", do="status")
    assert (pot.status_code, pot.headers["x-kind"], pot.text) == (418, "pot", "short and stout")
    for asked, refusal in {
        "raise": (500, "handler_failed"), "short": (500, "handler_failed"), "nonsense": (500, "handler_failed"),
        "split": (500, "handler_failed"), "refuse": (422, "unprocessable"),
    }.items():
        assert m.refused("play", do=asked) == refusal, asked
    assert m.refused("play", do="large", bytes=17 << 20) == (500, "handler_failed")
    assert len(m.ask("play", do="large", bytes=15 << 20).content) == 15 << 20
    assert m.refused("play/2", do="who") == m.refused("nobody", do="who") == (404, "model_not_found")
    assert m.reply_of("play", do="who")["pid"] == m.processes[5000].pid  # through all of it


def test_comments_stand_between_plain_events_alone_and_not_at_torchserves_address(start, tmp_path):
    door, until = f"ipc://{tmp_path}/w", tmp_path / "go"
    g = start("--sse-ping-ms", "50", "--torchserve-inference", "127.0.0.1:0", "--worker-door", door, "--workers", "play 3 1 0 60000 9")
    m = Models(g, door)
    try:
        for place in range(5000, 5003):
            m.begin(place, "play")
        with contextlib.ExitStack() as streams:

            def begun(url, **more):
                asked = {"do": "events", "until": str(until), **more}
                pieces = streams.enter_context(httpx.stream("POST", url, json=asked, timeout=30)).iter_raw()
                assert next(pieces) == b"data: 0\n\n"
                return pieces

            coded = begun(f"{g.url}/v1/workers/play", as_if="gzip")
            foreign = begun(f"{g.torchserve['inference']}/predictions/play")
            plain, seen = begun(f"{g.url}/v1/workers/play"), b""
            while seen.count(b": waiting\n\n") < 4:  # the others are as quiet, and for longer
                seen += next(plain)
            until.touch()
            assert set((seen + b"".join(plain)).split(b"\n\n")) == {b": waiting", b"data: 1", b""}
            assert b"".join(coded) == b"".join(foreign) == b"data: 1\n\n"
    finally:
        m.stop()


def test_messages_of_a_newer_workers_build_are_ignored(models):
    m = models("play 1 1 0 60000 10")
    m.processes[5000] = subprocess.Popen(["sleep", "60"])  # whose end would be seen
    newer = Raw(m.door)
    newer.us = codec.Address(5000, 1, 8)
    newer.send(MessageKind.hello, codec.hello(newer.us, "newer", m.processes[5000].pid, role=Role.worker))
    ack = newer.next_message().value
    newer.door.node, newer.door.epoch = ack.node, ack.epoch
    m.wait(5000, "ready")
    newer.send(4000, codec.heartbeat(1))
    newer.send(MessageKind.heartbeat, codec.heartbeat(1))
    newer.send(MessageKind.drain, codec.drain())
    while newer.next_message().kind != MessageKind.drain:
        pass  # it is heard on, as nothing had come between
    assert 'baton_messages_dropped_total{kind="worker_unknown_kind"} 1' in httpx.get(m.gateway.url + "/metrics").text


def test_batches_form_and_load_is_shared(models, pool, tmp_path):
    m = models("play 2 4 300 60000 20")
    m.begin(5000, "play")
    assert max(pool.map(lambda _: m.reply_of("play", do="who")["batch"], range(4))) > 1
    m.begin(5001, "play")
    asked = {"do": "wait", "begun": str(tmp_path / "begun"), "until": str(tmp_path / "go")}
    both = [pool.submit(m.reply_of, "play", **asked)]
    wait_for(lambda: len(list(tmp_path.glob("begun*"))) == 1)
    both.append(pool.submit(m.reply_of, "play", **asked))
    wait_for(lambda: len(list(tmp_path.glob("begun*"))) == 2)
    assert m.gauge("baton_workers_ready", "play") == m.gauge("baton_worker_requests_running", "play") == 2
    (tmp_path / "go").touch()
    assert len({b.result()["pid"] for b in both}) == 2


def stream(m, model, **asked):
    connection = http.client.HTTPConnection(m.gateway.host, m.gateway.port, timeout=30)
    connection.request("POST", f"/v1/workers/{model}", json.dumps(asked).encode(), JSON)
    return connection, connection.getresponse()


def test_streams_go_as_they_are_made_and_end_with_their_client_or_worker(models, tmp_path):
    m = models("play 1 1 0 60000 10")
    process = m.begin(5000, "play")
    connection, answer = stream(m, "play", do="stream", count=4, pause_at=2, until=str(tmp_path / "go"))
    begun = b""
    while begun != b"0 1 ":
        begun += answer.read1(100)
    (tmp_path / "go").touch()
    assert answer.read() == b"2 3 "
    connection.request("POST", "/v1/workers/play", b'{"do": "who"}', JSON)  # the connection goes on
    assert json.load(connection.getresponse())["pid"] == process.pid
    connection, answer = stream(m, "play", do="endless", ended=str(tmp_path / "ended"))
    assert answer.read1(1) == b"x"
    connection.close()
    answer.close()
    wait_for((tmp_path / "ended").exists)
    connection, answer = stream(m, "play", do="stream", count=4, pause_at=1, until=str(tmp_path / "never"))
    assert answer.read1(100) == b"0 "
    process.kill()
    with pytest.raises(http.client.IncompleteRead):
        answer.read()
    other = m.begin(5000, "play")
    assert m.reply_of("play", do="who")["pid"] == other.pid


def test_no_counter_falls_when_a_worker_is_killed(models):
    m = models("play 1 1 0 60000 10")
    process = m.begin(5000, "play")
    for _ in range(3):
        m.reply_of("play", do="who")
    before = counters(httpx.get(m.gateway.url + "/metrics").text)
    executions = ("nv_inference_exec_count_total", (("model", "play"), ("version", "1")))
    assert before[executions] == 3
    process.kill()
    process.wait()
    assert fallen(before, counters(httpx.get(m.gateway.url + "/metrics").text)) == {}
    m.begin(5000, "play")
    m.reply_of("play", do="who")
    after = counters(httpx.get(m.gateway.url + "/metrics").text)
    assert fallen(before, after) == {} and after[executions] == 4


def test_a_request_survives_its_worker_once(models, pool, tmp_path):
    m = models("play 1 1 0 60000 10")
    m.begin(5000, "play")
    waits = pool.submit(m.reply_of, "play", do="die_once", file=str(tmp_path / "died"))
    wait_for((tmp_path / "died").exists)
    m.processes[5000].wait()
    assert not waits.done()  # no process is connected, so it waits
    second = m.begin(5000, "play")
    assert waits.result()["pid"] == second.pid
    poison = pool.submit(m.refused, "play", do="die")
    second.wait()
    m.begin(5000, "play").wait()
    assert poison.result() == (500, "quarantined")


def test_a_worker_that_hangs_is_reported_and_its_queue_is_bounded(models, pool):
    m = models("play 1 1 0 1500 1")
    process = m.begin(5000, "play")
    hangs = pool.submit(m.refused, "play", do="hang")
    wait_for(lambda: m.gauge("baton_worker_requests_running", "play") == 1)
    waits = pool.submit(m.reply_of, "play", do="who")
    wait_for(lambda: m.gauge("baton_worker_requests_waiting", "play") == 1)
    full = m.ask("play", do="who")
    assert full.status_code == 503 and full.json()["error"]["code"] == "overloaded" and full.headers["retry-after"]
    assert hangs.result() == (504, "deadline_exceeded")
    assert "response_timeout" in m.wait(5000, "failed")["reason"]
    process.kill()
    assert m.begin(5000, "play").pid == waits.result()["pid"]


def test_a_worker_that_is_asked_to_end_finishes_what_it_has(models, pool, tmp_path):
    m = models("play 1 1 0 60000 10")
    process = m.begin(5000, "play")
    last = pool.submit(m.reply_of, "play", do="wait", begun=str(tmp_path / "begun"), until=str(tmp_path / "go"))
    wait_for(lambda: list(tmp_path.glob("begun*")))
    process.send_signal(signal.SIGTERM)
    late = pool.submit(m.reply_of, "play", do="who")
    (tmp_path / "go").touch()
    assert last.result()["pid"] == process.pid and process.wait(20) == 0
    assert m.begin(5000, "play").pid == late.result()["pid"]


def test_a_drained_gateway_takes_no_more(models):
    m = models("play 1 1 0 60000 10")
    m.begin(5000, "play")
    m.gateway.order("drain")
    assert m.refused("play", do="who") == (503, "draining")


def test_the_python_sdk(models, tmp_path):
    m = models("play 1 1 0 60000 10")
    m.begin(5000, "play")
    with Client(m.gateway.zmq) as client:
        reply = client.infer("play", [Tensor("x", "FP32", [2], b"12345678")], request_id="r")
        assert reply.outputs == [Tensor("again-x", "FP32", [2], b"12345678")]
        asked = json.dumps({"do": "stream", "count": 5}).encode()
        pieces = list(client.infer_stream("play", body=asked, content_type="application/json"))
        assert b"".join(p.body for p in pieces) == b"0 1 2 3 4 " and [p.index for p in pieces] == list(range(6))
        for model, body, name in (("nobody", b"", "model_not_found"), ("play", b'{"do": "raise"}', "handler_failed")):
            with pytest.raises(BatonError) as wrong:
                client.infer(model, body=body, content_type="application/json")
            assert wrong.value.name == name
        with pytest.raises(BatonError, match="JSON"):
            client._connection.take(client._connection.ask(*broken_parameters()), 10)
        endless = json.dumps({"do": "endless", "ended": str(tmp_path / "ended")}).encode()
        with client.infer_stream("play", body=endless, content_type="application/json") as left:
            assert next(left).body == b"x"
        wait_for((tmp_path / "ended").exists)
        assert client.infer("play", body=b"1").body == b"1"


def broken_parameters():
    """A body that Client does not write: the gateway refuses it before a handler reads it."""
    from baton_client import inference
    from baton_client.wire.MessageKind import MessageKind

    return MessageKind.infer, lambda number: inference.infer(inference.Infer(request=number, model="play", parameters_json="[" * 1000))


def test_a_process_that_is_no_worker_is_rejected(models):
    m = models("play 1 1 0 60000 10")
    stranger = subprocess.run(
        [sys.executable, "-m", "baton_worker", str(PLAY)], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "sdk" / "python"), "BATON_WORKER_DOOR": m.door, "BATON_WORKER_NODE": "77",
             "BATON_WORKER_EPOCH": "1", "BATON_WORKER_NAME": "w", "BATON_WORKER_MODEL": "play", "BATON_WORKER_VERSION": "1",
             "BATON_WORKER_BATCH_SIZE": "1"},
    )
    assert stranger.returncode == 1 and "no worker is configured under this number" in stranger.stderr


def test_priorities_and_timeouts_are_parameters_of_a_request(models, pool, tmp_path):
    m = models("play 1 1 0 60000 10 priority_levels=3 allow_timeout_override=1")
    m.begin(5000, "play")
    until, begun = tmp_path / "until", tmp_path / "begun"

    def ask(parameters, **asked):
        return client.infer("play", body=json.dumps(asked).encode(), content_type="application/json", parameters=parameters, timeout=30)

    def note(name, **parameters):
        return ask(parameters, do="note", name=name, file=str(begun))

    with Client(m.gateway.zmq) as client:
        first = pool.submit(ask, {}, do="wait", begun=str(tmp_path / "first"), until=str(until))
        wait_for(lambda: list(tmp_path.glob("first*")))
        waiting = []
        for name, parameters in (("low", {"priority": 3}), ("none", {}), ("middle", {"priority": 2}), ("high", {"priority": 1})):
            waiting.append(pool.submit(note, name, **parameters))
            wait_for(lambda: m.gauge("baton_worker_requests_waiting", "play") == len(waiting))
        with pytest.raises(BatonError, match="queue_timeout") as late:
            note("late", timeout=50_000)
        assert late.value.name == "queue_timeout"
        for parameters, name in (({"priority": 4}, "priority"), ({"priority": "high"}, "priority"), ({"timeout": -1}, "timeout")):
            with pytest.raises(BatonError, match=name) as refused:
                note("refused", **parameters)
            assert refused.value.name == "invalid_value"
        until.touch()
        for one in (first, *waiting):
            one.result()
    assert begun.read_text().split() == ["high", "middle", "low", "none"]  # none says the default, the lowest


def test_answers_leave_in_the_order_of_their_requests(models, pool, tmp_path):
    m = models("play 2 1 0 60000 10 preserve_ordering=1")
    for place in (5000, 5001):
        m.begin(place, "play")
    until, now = tmp_path / "until", tmp_path / "now"
    now.touch()
    running = lambda: m.gauge("baton_worker_requests_running", "play")
    first = pool.submit(m.reply_of, "play", do="wait", begun=str(tmp_path / "first"), until=str(until))
    wait_for(lambda: running() == 1)
    second = pool.submit(m.reply_of, "play", do="wait", begun=str(tmp_path / "second"), until=str(now))
    wait_for(lambda: list(tmp_path.glob("second*")) and running() == 1)  # its worker has answered
    time.sleep(0.2)
    assert not second.done()
    until.touch()
    assert first.result()["pid"] != second.result()["pid"]


def test_a_preferred_size_goes_at_once(models, pool):
    m = models("play 1 4 60000 60000 10 preferred_batch_size=2")
    m.begin(5000, "play")
    both = [pool.submit(m.reply_of, "play", do="who") for _ in range(2)]
    assert [one.result()["batch"] for one in both] == [2, 2]
