"""The first request loads these models. They share devices and make room for each other, and no fault loses a waiting request."""
import datetime
import json
import pathlib
import re
import shutil
import signal
import threading
import time
import urllib.request

import pytest
from harness import MODEL, running
from machines import two_machines
from streams import Stream

PROMPT = "Write a short story about a fox."


def tables(names, path=MODEL, more=""):
    return "".join(f'[[models]]\nname = "{name}"\npath = "{path}"\nkv_cache_bytes = "64MiB"\nmax_model_len = 1024\nload = "on-demand"\n{more}\n'
                   for name in names)


def ask(cluster, model, timeout=60):
    status, headers, body = cluster.post("/v1/completions", {"model": model, "prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}, timeout)
    return (status, body["choices"][0]["text"]) if status == 200 else (status, body["error"], headers)


def shards(cluster):
    """Names of the shards without generations, with the numbers of their pipelines: shard-0, shard-1.0."""
    return {p["name"].split("-g")[0] for p in cluster.status()["processes"] if p["name"].startswith("shard-")}


def wait_for(what, seconds=20):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def cluster():
    with running(devices=("cpu:0",), cluster="max_loaded_models = 1", models=tables(("one", "two", "three"))) as c:
        yield c


def test_nothing_is_loaded_before_the_first_request(cluster):
    assert cluster.health()[0] == 200
    assert shards(cluster) == set()
    status, _, listed = cluster.post("/v1/completions", {"model": "none", "prompt": "x"})
    assert (status, listed["error"]["code"]) == (404, "model_not_found")


def test_models_make_room_for_each_other(cluster):
    texts = set()
    for name, shard in (("one", "shard-0"), ("two", "shard-1.0"), ("one", "shard-0"), ("three", "shard-2.0")):
        status, text = ask(cluster, name)
        assert status == 200
        texts.add(text)
        assert shards(cluster) == {shard}
        assert cluster.health()[0] == 200
    assert len(texts) == 1 and texts != {""}
    assert cluster.metric('baton_model_loads_total{model_name="one"}') == 2
    assert cluster.metric("baton_model_evictions_total") == 3
    wait_for(lambda: cluster.metric("baton_model_loaded") == 1)
    loads = [p["on_demand"] for p in cluster.status()["pipelines"]]
    assert [m["phase"] for m in loads] == ["unloaded", "unloaded", "ready"]
    assert all(0 < m["load_seconds"] < 30 for m in loads)


def router(cluster):
    with urllib.request.urlopen(cluster.url + "/models", timeout=5) as answer:
        return {m["id"]: m["status"]["value"] for m in json.load(answer)["data"]}


def test_clients_load_and_unload_as_at_llama_server_triton_and_ollama(cluster):
    ask(cluster, "one")
    wait_for(lambda: router(cluster) == {"one": "loaded", "two": "unloaded", "three": "unloaded"})
    assert cluster.post("/models/load", {"model": "two"})[::2] == (200, {"success": True})
    wait_for(lambda: router(cluster) == {"one": "unloaded", "two": "loaded", "three": "unloaded"})
    assert cluster.post("/models/unload", {"model": "two"})[::2] == (200, {"success": True})
    wait_for(lambda: set(router(cluster).values()) == {"unloaded"})
    assert cluster.post("/v2/repository/models/three/load", {})[::2] == (200, {})  # answered when it is loaded
    wait_for(lambda: router(cluster)["three"] == "loaded")
    assert cluster.post("/v2/repository/models/three/unload", {})[::2] == (200, {})
    assert shards(cluster) == set()
    assert cluster.post("/api/generate", {"model": "one"})[2]["done_reason"] == "load"
    assert router(cluster)["one"] == "loaded"
    assert cluster.post("/api/chat", {"model": "one:latest", "messages": [], "keep_alive": 0})[2]["done_reason"] == "unload"
    assert shards(cluster) == set()
    for path in ("/models/load", "/models/unload"):
        assert cluster.post(path, {"model": "none"})[0] == 404
        assert cluster.post(path, {})[0] == 400


def test_requests_of_one_model_join_its_load(cluster):
    ask(cluster, "one")
    streams = [Stream(cluster, PROMPT, max_tokens=16, model="two") for _ in range(6)]
    assert len({s.check().text for s in streams}) == 1
    assert cluster.log("root").count("model two is being loaded") == cluster.log("root").count("model two is loaded")


def test_a_busy_model_stays_until_its_streams_have_ended(cluster):
    long = Stream(cluster, PROMPT, max_tokens=200, model="one")
    assert long.begun.wait(30)
    assert ask(cluster, "two")[0] == 200
    long.check()
    assert long.finish in ("stop", "length") and len(long.text) > 100


@pytest.mark.parametrize("victim", ["head-1", "agent-a", "gateway", "root", "shard-1.0"])
def test_a_request_that_waits_for_its_model_survives_kill_9(cluster, victim):
    alone = Stream(cluster, PROMPT, max_tokens=32, model="one").check().text
    answer = []
    # A stream ends with its gateway. The client repeats the request with its own request id.
    body = {"model": "two", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 32, "temperature": 0, "request_id": f"waits-{victim}"}

    def wait():
        for _ in range(100):
            try:
                status, _, reply = cluster.post("/v1/chat/completions", body)
                if status == 200:
                    answer.append(reply["choices"][0]["message"]["content"])
                    return
                assert reply["error"]["retryable"] if "retryable" in reply["error"] else status in (503, 429), reply
            except OSError:
                pass
            time.sleep(0.1)

    if victim == "shard-1.0":
        client = threading.Thread(target=wait)
        client.start()
        wait_for(lambda: "shard-1.0" in shards(cluster))
        name = next(p["name"] for p in cluster.status()["processes"] if p["name"].startswith("shard-1.0"))
        cluster.kill(name)
    elif victim == "root":
        client = threading.Thread(target=wait)
        client.start()
        cluster.process.kill()
        cluster.process.wait(10)
        cluster.start(wait=False)
    else:
        pid = cluster.pid(victim)
        client = threading.Thread(target=wait)
        client.start()
        cluster.kill(victim)
        cluster.wait_standing((victim, pid))
    client.join(60)
    assert answer == [alone]
    wait_for(lambda: cluster.health()[0] == 200)


def test_an_idle_model_is_unloaded_and_comes_back():
    with running(devices=("cpu:0",), models=tables(("one", "two"), more="idle_timeout = 1")) as c:
        first = ask(c, "one")
        assert first[0] == 200
        wait_for(lambda: shards(c) == set())
        assert c.health()[0] == 200
        assert ask(c, "one") == first


BYTES_ASLEEP_MAX = 60_000_000


def proportional_bytes(pid):
    """Its share of all pages that it has mapped."""
    return int(re.search(r"^Pss: +(\d+) kB$", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1]) << 10


def test_a_cluster_without_loaded_models_is_small():
    with running(devices=("cpu:0",), models=tables(("one",), more="idle_timeout = 1")) as c:
        assert ask(c, "one")[0] == 200
        wait_for(lambda: shards(c) == set())
        used = {name: proportional_bytes(pid) for name, pid in {**c.pids(), "root": c.process.pid}.items()}
        assert len(used) == 4 and sum(used.values()) < BYTES_ASLEEP_MAX, used


def test_keep_alive_of_ollama_decides_how_long_a_model_stays():
    def asked(keep_alive, route="/api/generate"):
        body = {"model": "one", "stream": False, "options": {"num_predict": 4, "temperature": 0}, "keep_alive": keep_alive}
        body |= {"prompt": "Once"} if route == "/api/generate" else {"messages": [{"role": "user", "content": "Once"}]}
        status, _, answer = c.post(route, body)
        assert status == 200, answer
        return answer["eval_count"]

    def expires_at():
        with urllib.request.urlopen(c.url + "/api/ps", timeout=5) as answer:
            return [m["expires_at"] for m in json.load(answer)["models"]]

    def expires_in():
        return [(datetime.datetime.fromisoformat(t[:26] + "+00:00") - datetime.datetime.now(datetime.timezone.utc)).total_seconds() for t in expires_at()]

    with running(devices=("cpu:0",), models=tables(("one",), more="idle_timeout = 2")) as c:
        assert expires_at() == []
        assert asked(-1) > 0
        wait_for(lambda: expires_at() == ["9999-12-31T23:59:59Z"])
        time.sleep(3.5)
        assert shards(c) == {"shard-0"}
        assert asked("10m") > 0
        wait_for(lambda: 590 < expires_in()[0] <= 600)
        time.sleep(3.5)
        assert shards(c) == {"shard-0"} and 580 < expires_in()[0] < 598
        assert c.post("/api/embed", {"model": "one", "input": "fox", "keep_alive": "20m"})[0] == 200
        wait_for(lambda: 1190 < expires_in()[0] <= 1200)
        c.process.kill()
        c.process.wait(10)
        c.start(wait=False)  # the next root goes by it
        wait_for(lambda: c.log("root").count("gateway is up") == 2)
        wait_for(lambda: len(expires_at()) == 1 and 1190 < expires_in()[0] <= 1200)
        c.process.kill()
        c.process.wait(10)
        assert asked("30m") > 0  # no root is there
        c.start(wait=False)
        wait_for(lambda: len(expires_at()) == 1 and 1790 < expires_in()[0] <= 1800)
        assert asked(0, "/api/chat") > 0
        wait_for(lambda: shards(c) == set())
        assert ask(c, "one")[0] == 200  # the next load has the timeout of nodes.toml
        wait_for(lambda: shards(c) == set())
        assert c.post("/api/generate", {"model": "one", "keep_alive": "1h"})[2]["done_reason"] == "load"
        time.sleep(3.5)
        assert shards(c) == {"shard-0"}
        status, _, answer = c.post("/api/generate", {"model": "one", "prompt": "x", "keep_alive": "soon"})
        assert status == 400 and "keep_alive" in answer["error"], answer


def test_a_pinned_model_is_loaded_at_the_start_and_stays():
    models = tables(("kept",), more="pin = true\nidle_timeout = 1") + tables(("other",))
    with running(devices=("cpu:0",), models=models, cluster="max_loaded_models = 2") as c:
        c.wait_standing()
        assert shards(c) == {"shard-0"}
        assert ask(c, "other")[0] == 200
        time.sleep(1.5)
        assert "shard-0" in shards(c)


def test_a_model_that_cannot_be_loaded_says_why_and_costs_the_others_nothing(tmp_path):
    file = tmp_path / "gone.gguf"
    shutil.copy(MODEL, file)
    with running(devices=("cpu:0",), models=tables(("good",)) + tables(("bad",), path=file)) as c:
        away = file.rename(tmp_path / "away")
        status, error, headers = ask(c, "bad")
        assert status == 503 and int(headers["Retry-After"]) >= 1, error
        assert error["code"] == "not_ready" and "gone.gguf" in error["message"], error
        assert ask(c, "good")[0] == 200
        away.rename(file)
        wait_for(lambda: ask(c, "bad")[0] == 200, seconds=60)


def test_a_load_that_takes_too_long_ends_its_requests():
    with running(devices=("cpu:0",), models=tables(("slow",), more="load_timeout = 1")) as c:
        c.process.send_signal(signal.SIGSTOP)  # the root alone loads
        began, earliest = time.monotonic(), time.perf_counter() + 0.9
        status, error, headers = ask(c, "slow")
        assert (status, error["code"]) == (503, "not_ready") and "Retry-After" in headers, error
        assert time.perf_counter() > earliest and time.monotonic() - began < 10
        c.process.send_signal(signal.SIGCONT)
        wait_for(lambda: ask(c, "slow")[0] == 200, seconds=60)


def test_a_model_is_loaded_on_another_machine():
    models = f'[[models]]\nname = "near"\npath = "{MODEL}"\nnodes = ["a"]\nkv_cache_bytes = "64MiB"\nmax_model_len = 1024\n'
    with two_machines(models=models + tables(("far", "further"), more='nodes = ["b"]'), cluster="max_loaded_models = 1") as both:
        assert shards(both.near) == {"shard-0"}
        expected = ask(both.near, "near")
        for name, shard in (("far", "shard-1.0"), ("further", "shard-2.0"), ("far", "shard-1.0")):
            assert ask(both.near, name) == expected
            assert shards(both.near) == {"shard-0", shard}
            assert list((both.far.directory / "run").glob(f"{shard}-g*.pid"))
        done = both.near.command("drain", "b", str(both.near.config), timeout=60)
        assert done.returncode == 0, (done.stdout, done.stderr)
        status, error, _ = ask(both.near, "far")
        assert (status, error["code"]) == (503, "not_ready") and "add-node" in error["message"], error
        assert ask(both.near, "near") == expected
        done = both.near.command("add-node", "b", str(both.near.config), timeout=60)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert shards(both.near) == {"shard-0"}  # a request loads a model; a new node does not
        assert ask(both.near, "further") == expected
