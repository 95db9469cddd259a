"""kill -9, as a client sees it: after the kill of a shard there is only a pause."""
import http.client
import json
import os
import signal
import threading
import time
import urllib.error
import urllib.request

import pytest
import websockets.sync.client
from harness import running
from streams import ResumingStream, Stream

PROMPTS = [f"Write a short story about {x}." for x in ("a fox", "the sea", "a clock", "rain", "a bridge", "bread", "the moon", "a train")]


@pytest.fixture(scope="module")
def undisturbed(shared):
    return [Stream(shared, p, max_tokens=96).check().text for p in PROMPTS]


@pytest.mark.parametrize("shard", ["shard-0", "shard-1"])
def test_a_killed_shard_changes_nothing_but_the_pace(fresh, undisturbed, shard):
    streams = [Stream(fresh, p, max_tokens=96) for p in PROMPTS]
    for s in streams:
        assert s.begun.wait(60)
    fresh.kill(shard)
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected
    restarts = {p["name"]: p["restarts"] for p in fresh.status()["processes"]}
    assert restarts[shard] == 1
    assert "KV kept" in fresh.log("head")


def test_a_killed_shard_finds_its_q8_0_keys_and_values_again():
    with running(model='kv_cache_dtype = "q8_0"') as cluster:
        assert "KV q8_0: " in cluster.output.read_text()
        undisturbed = [Stream(cluster, p, max_tokens=96).check().text for p in PROMPTS[:4]]
        streams = [Stream(cluster, p, max_tokens=96) for p in PROMPTS[:4]]
        for s in streams:
            assert s.begun.wait(60)
        cluster.kill("shard-0")
        for s, expected in zip(streams, undisturbed):
            assert s.check().text == expected
        assert "KV kept" in cluster.log("head")


def test_a_crashed_shard_takes_its_kv_with_it_and_the_text_is_the_same(fresh, undisturbed):
    """A crashed process may have written anywhere, so its memory is not trusted."""
    streams = [Stream(fresh, p, max_tokens=96) for p in PROMPTS[:4]]
    for s in streams:
        assert s.begun.wait(60)
    fresh.kill("shard-1", signal.SIGSEGV)
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected
    assert "KV lost" in fresh.log("head") and "KV kept" not in fresh.log("head")


@pytest.mark.parametrize("shard", ["shard-0", "shard-1"])
def test_a_shard_that_hangs_is_found_killed_and_replaced(fresh, undisturbed, shard):
    """A stopped process keeps its sockets and does not answer: only its silence reveals it."""
    streams = [Stream(fresh, p, max_tokens=96) for p in PROMPTS[:4]]
    for s in streams:
        assert s.begun.wait(60)
    begin = time.monotonic()
    fresh.kill(shard, signal.SIGSTOP)
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected
    assert time.monotonic() - begin < 30  # the bound of a pipeline that does not come back is 60
    restarts = {p["name"]: p["restarts"] for p in fresh.status()["processes"]}
    assert restarts[shard] == 1
    assert "does not answer: killed" in fresh.log("agent-a")
    assert "KV kept" in fresh.log("head")


@pytest.mark.parametrize("process", ["head", "gateway"])
def test_a_head_or_gateway_that_hangs_is_replaced(fresh, process):
    pid = fresh.pid(process)
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 30
    while fresh.pid(process) in (0, pid) or fresh.health()[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    fresh.wait_ready()
    assert Stream(fresh, "Hello", max_tokens=8).check().finish


def test_streams_do_not_notice_the_death_of_the_agent_and_the_next_one_adopts_its_shards(fresh, undisturbed):
    before = fresh.pids()

    def live_through(victim):
        streams = [Stream(fresh, p, max_tokens=96) for p in PROMPTS[:4]]
        for s in streams:
            assert s.begun.wait(60)
        fresh.kill(victim)
        for s, expected in zip(streams, undisturbed):
            assert s.check().text == expected
        fresh.wait_standing((victim, before[victim]))

    live_through("agent-a")
    after = fresh.pids()
    assert {name for name in after if after[name] != before[name]} == {"agent-a"}
    live_through("shard-1")
    assert {p["name"]: p["restarts"] for p in fresh.status()["processes"]}["shard-1"] == 1


def test_a_killed_gateway_is_back_and_nobody_listens_to_its_streams_for_long(fresh):
    stream = Stream(fresh, PROMPTS[0], max_tokens=4000, ignore_eos=True)
    assert stream.begun.wait(60)
    fresh.kill("gateway")
    stream.join(30)
    assert stream.terminals == 0  # this client does not come back
    fresh.wait_ready()
    wait_load(fresh, lambda load: load["running"] == 1)
    wait_load(fresh, lambda load: load["running"] == 0 and load["kv_blocks_used"] == 0)
    assert fresh.metric("baton_streams_detached") == 1  # parked: for whoever comes back
    assert Stream(fresh, "Hello", max_tokens=8).check().finish


def test_a_new_gateway_refuses_nobody_before_it_knows_who_serves(fresh):
    """The first connection that the next gateway accepts is answered as any other."""
    body = json.dumps({"model": "smollm2", "prompt": "Hello", "max_tokens": 1})
    for _ in range(3):
        former = fresh.pid("gateway")
        fresh.kill("gateway")
        deadline = time.monotonic() + 30
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", fresh.http_port, timeout=30)
            try:
                connection.request("POST", "/v1/completions", body)
                answer = connection.getresponse()
                assert answer.status == 200, answer.read()
                break
            except OSError:  # no gateway listens yet
                assert time.monotonic() < deadline
                time.sleep(0.001)
            finally:
                connection.close()
        fresh.wait_standing(("gateway", former))


def test_clients_of_a_killed_gateway_come_back_to_their_streams(fresh, undisturbed):
    streams = [ResumingStream(fresh, p, max_tokens=96) for p in PROMPTS]
    for s in streams:
        assert s.begun.wait(60)
    fresh.kill("gateway")
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected
    assert sum(s.returns for s in streams) >= 4
    assert fresh.metric("baton_requests_resumed_total") >= 4


def test_streams_live_through_the_loss_of_the_gateway_and_then_of_the_head(fresh):
    """The second gateway did not receive the requests; the head sends them to it, and it sends them to the second head."""
    undisturbed = [Stream(fresh, p, max_tokens=300, ignore_eos=True).check().text for p in PROMPTS[:2]]
    streams = [ResumingStream(fresh, p, max_tokens=300, ignore_eos=True) for p in PROMPTS[:2]]
    for s in streams:
        assert s.begun.wait(60)
    had = [len(s.indices) for s in streams]
    fresh.kill("gateway")
    fresh.wait_ready()
    deadline = time.monotonic() + 30
    while any(len(s.indices) <= h + 2 for s, h in zip(streams, had)):  # they are back
        assert time.monotonic() < deadline
        time.sleep(0.01)
    fresh.kill("head")
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected
    assert all(s.returns for s in streams)


def test_a_request_that_is_asked_again_by_its_name_is_done_once(fresh):
    """The client has received nothing, not even a ticket: it can only send the request again."""
    body = {"model": "smollm2", "messages": [{"role": "user", "content": PROMPTS[0]}], "max_tokens": 96, "temperature": 1, "request_id": "order-66"}
    connection = http.client.HTTPConnection("127.0.0.1", fresh.http_port, timeout=60)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    wait_load(fresh, lambda load: load["running"] == 1)
    fresh.kill("gateway")
    connection.close()
    fresh.wait_ready()
    status, _, first = fresh.post("/v1/chat/completions", body)
    assert status == 200 and first["usage"]["completion_tokens"] > 0
    status, _, second = fresh.post("/v1/chat/completions", body)  # when it is over
    assert status == 200 and second["choices"] == first["choices"] and second["usage"] == first["usage"]
    assert fresh.metric("baton_requests_resumed_total") == 2
    status, _, refused = fresh.post("/v1/chat/completions", {**body, "max_tokens": 7})
    assert status == 409 and refused["error"]["param"] == "request_id"
    status, _, other = fresh.post("/v1/chat/completions", {**body, "request_id": "order-67"})
    assert status == 200 and other["choices"] != first["choices"]


def test_streams_of_a_killed_head_go_on_with_the_same_text(fresh, undisturbed):
    """Only the gateway knows the stream: it sends the new head the request and the delivered tokens."""
    streams = [Stream(fresh, p, max_tokens=96) for p in PROMPTS]
    whole = threading.Thread(target=lambda: answers.append(fresh.post("/v1/chat/completions", {
        "model": "smollm2", "messages": [{"role": "user", "content": PROMPTS[0]}], "max_tokens": 96, "temperature": 0})), daemon=True)
    answers = []
    whole.start()
    for s in streams:
        assert s.begun.wait(60)
    fresh.kill("head")
    for s, expected in zip(streams, undisturbed):
        assert s.check().text == expected
    whole.join(60)
    status, _, body = answers[0]
    assert (status, body["choices"][0]["message"]["content"]) == (200, undisturbed[0])
    fresh.wait_ready()
    assert Stream(fresh, "Hello", max_tokens=8).check().finish


def test_a_resumable_stream_waits_for_its_client_and_another_does_not(fresh, undisturbed):
    def cut_off(**fields):
        body = {"model": "smollm2", "stream": True, "messages": [{"role": "user", "content": PROMPTS[0]}], "max_tokens": 96, "temperature": 0,
                "stream_options": {"include_usage": True}, **fields}
        connection = http.client.HTTPConnection("127.0.0.1", fresh.http_port, timeout=60)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer, text, last_id = connection.getresponse(), "", None
        while text.count(" ") < 4:
            line = answer.readline().decode().rstrip()
            if line.startswith("id: "):
                last_id = line[4:]
            elif line.startswith("data: "):
                text += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
        connection.close()
        return body, text, last_id

    def go_on(body, last_id):
        request = urllib.request.Request(fresh.url + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", "Last-Event-ID": last_id})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                events = [line[6:] for line in answer.read().decode().splitlines() if line.startswith("data: ")]
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)
        assert events[-1] == "[DONE]"
        return 200, [json.loads(e) for e in events[:-1]]

    def text_of(events):
        return "".join(c["delta"].get("content") or "" for e in events for c in e["choices"])

    body, text, last_id = cut_off(resumable=True)
    status, events = go_on(body, last_id)
    assert status == 200
    assert text + text_of(events) == undisturbed[0]
    assert [c["finish_reason"] for e in events for c in e["choices"] if c["finish_reason"]] == ["length"]
    assert events[-1]["usage"]["completion_tokens"] == 96
    status, again = go_on(body, last_id)  # it has ended, and is kept
    assert (status, text_of(again), again[-1]["usage"]) == (200, text_of(events), events[-1]["usage"])

    ticket, place = last_id.split("-")
    status, body_of = go_on(body, f"{ticket}-{int(place.split(':')[0], 16) ^ 1:016x}:1")
    assert (status, body_of["error"]["code"]) == (404, "ticket_not_found")  # who guesses a ticket does not learn that it exists
    status, body_of = go_on(body, "nonsense")
    assert (status, body_of["error"]["param"]) == (400, "Last-Event-ID")
    status, body_of = go_on({**body, "stream": False, "resumable": False, "stream_options": None}, last_id)
    assert (status, body_of["error"]["param"]) == (400, "Last-Event-ID")

    body, _, last_id = cut_off()  # an ordinary stream: closing it cancels it
    wait_load(fresh, lambda load: load["running"] == 0)
    status, rest = go_on(body, last_id)
    assert status == 499 or rest[-1].get("error", {}).get("code") == "cancelled", (status, rest)


def test_a_websocket_goes_on_behind_what_it_had(fresh, undisturbed):
    def messages_of(first, until):
        """Sends `first`; -> (messages, whether the socket fell) up to one that `until` accepts."""
        got = []
        with websockets.sync.client.connect(f"ws://127.0.0.1:{fresh.http_port}/v1/stream") as socket:
            socket.send(json.dumps(first))
            while not got or not until(got[-1]):
                got.append(json.loads(socket.recv(timeout=60)))
            if len(got) > 1 and got[-1]["type"] == "tokens":
                fresh.kill("gateway")
        return got

    start = {"type": "start", "id": "a", "model": "smollm2", "messages": [{"role": "user", "content": PROMPTS[0]}], "max_tokens": 96, "temperature": 0}
    first = messages_of(start, lambda m: m["type"] == "tokens" and m["index"] >= 8)
    fresh.wait_ready()
    rest = messages_of({"type": "resume", "id": "b", "resume": first[0]["resume"], "from": first[-1]["index"]}, lambda m: m["type"] in ("done", "error"))
    assert rest[0]["type"] == "granted" and rest[0]["ticket"] == first[0]["ticket"]
    assert "".join(m["text"] for m in first + rest if m["type"] == "tokens") == undisturbed[0]
    assert (rest[-1]["type"], rest[-1]["finish_reason"], rest[-1]["last"]) == ("done", "length", True)


def test_streams_go_on_without_the_root_and_down_ends_the_rest():
    with running() as cluster:
        stream = Stream(cluster, PROMPTS[0], max_tokens=200)
        assert stream.begun.wait(60)
        os.kill(cluster.process.pid, signal.SIGKILL)
        stream.check()
        assert cluster.command("down", str(cluster.config)).returncode == 0
        assert cluster.health()[0] == 0


def test_a_new_root_adopts_what_another_has_left():
    with running() as cluster:
        before = cluster.pids()
        cluster.process.kill()
        cluster.process.wait()
        config = cluster.config.read_text()
        cluster.config.write_text(config.replace('name = "smollm2"', 'name = "other"'))
        refused = cluster.command("up", str(cluster.config))
        assert refused.returncode != 0 and "without its root" in refused.stderr + refused.stdout, refused
        cluster.config.write_text(config)
        stream = Stream(cluster, PROMPTS[0], max_tokens=200)
        assert stream.begun.wait(60)
        cluster.start()
        cluster.wait_standing()
        assert cluster.pids() == before
        stream.check()
        for name in ("head", "gateway", "shard-0"):  # each has a supervisor again
            cluster.kill(name)
            cluster.wait_standing((name, before[name]))
        assert Stream(cluster, "Hello", max_tokens=8).check().finish
        assert cluster.command("down", str(cluster.config)).returncode == 0
        assert cluster.process.wait(60) == 0
        assert not list((cluster.directory / "run").glob("*.pid"))


def wait_load(cluster, is_so, seconds=30):
    """The load is reported four times a second; to a new root not before the head is linked to it."""
    deadline = time.monotonic() + seconds
    while not ((load := cluster.status().get("load")) and is_so(load)):
        assert time.monotonic() < deadline, load
        time.sleep(0.1)


def test_a_client_that_goes_away_frees_its_blocks(fresh):
    connection = http.client.HTTPConnection("127.0.0.1", fresh.http_port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps({"model": "smollm2", "prompt": "Once", "max_tokens": 4000, "stream": True,
                                                              "ignore_eos": True}))
    connection.getresponse().readline()
    wait_load(fresh, lambda load: load["running"] == 1)
    connection.close()
    wait_load(fresh, lambda load: load["running"] == 0 and load["kv_blocks_used"] == 0)


def test_sigterm_drains():
    with running() as cluster:
        stream = Stream(cluster, PROMPTS[1], max_tokens=150)
        assert stream.begun.wait(60)
        cluster.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        while True:
            status, headers, body = cluster.post("/v1/completions", {"model": "smollm2", "prompt": "x"})
            if status == 503 and body["error"]["code"] == "draining":
                break
            assert time.monotonic() < deadline, body
        assert int(headers["Retry-After"]) >= 1
        stream.check()
        assert stream.finish in ("stop", "length")
        assert cluster.process.wait(30) == 0


@pytest.mark.parametrize("pause", [0.05, 0.4])
def test_further_signals_cut_streams_and_leave_no_process_behind(pause):
    with running() as cluster:
        stream = Stream(cluster, PROMPTS[0], max_tokens=2000, ignore_eos=True)
        assert stream.begun.wait(60)
        pids = cluster.pids()
        for _ in range(3):
            cluster.process.send_signal(signal.SIGTERM)
            time.sleep(pause)
        assert cluster.process.wait(20) == 4  # streams were cut
        assert {name for name, pid in pids.items() if os.path.exists(f"/proc/{pid}")} == set()


def test_job_tickets_refuse_at_once_when_no_slot_is_free():
    with running(model="max_num_seqs = 2\nuse_job_ticket = true") as cluster:
        busy = [Stream(cluster, p, max_tokens=300, ignore_eos=True) for p in PROMPTS[:2]]
        for s in busy:
            assert s.begun.wait(60)
        status, headers, body = cluster.post("/v1/completions", {"model": "smollm2", "prompt": "x"})
        assert (status, body["error"]["code"]) == (503, "no_job_ticket")
        assert int(headers["Retry-After"]) >= 1
        assert all(s.is_alive() for s in busy)  # it did not wait for a slot
        for s in busy:
            s.check()


def test_the_queue_is_bounded():
    with running(model="max_num_seqs = 1\nmax_num_queued_reqs = 2", gateway="overload_status = 429") as cluster:
        streams = [Stream(cluster, p, max_tokens=60, ignore_eos=True) for p in PROMPTS]
        for s in streams:
            s.join(120)
        refused = [s for s in streams if s.status == 429]
        assert {(s.error["code"], s.error["queue_position"], s.error["retry_after"]) for s in refused} == {("overloaded", 2, 1)}
        for s in streams:
            if s.status == 200:
                s.check()
        assert 1 <= len(refused) <= 7


def test_shards_that_hang_do_not_outlive_a_cluster_that_stops():
    with running() as cluster:
        pids = cluster.pids()
        for name in ("shard-0", "shard-1"):
            cluster.kill(name, signal.SIGSTOP)
        cluster.process.send_signal(signal.SIGTERM)
        assert cluster.process.wait(60) == 5  # they had to be killed
        assert {name for name, pid in pids.items() if os.path.exists(f"/proc/{pid}")} == set()
