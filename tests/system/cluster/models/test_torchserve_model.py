"""TorchServe's APIs with a real model: the same text through each, also when a shard is killed. The shards are listed as workers."""
import json
import threading
import time

import pytest
import requests
from harness import free_port, free_ports, running

PROMPT = "Once upon a time, in a small town by the sea,"


@pytest.fixture(scope="module")
def cluster():
    doors = {name: f"127.0.0.1:{free_port()}" for name in ("inference", "management", "metrics")}
    with running(gateway="\n".join(f'torchserve_{name} = "{address}"' for name, address in doors.items())) as c:
        c.torchserve = {name: f"http://{address}" for name, address in doors.items()}
        yield c


def predict(cluster, path="", **more):
    return requests.post(cluster.torchserve["inference"] + "/predictions/smollm2" + path, timeout=120, **more)


def test_every_way_brings_the_text_that_openais_brings(cluster):
    greedy = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0}
    status, _, reply = cluster.post("/v1/completions", {"model": "smollm2", **greedy})
    text = reply["choices"][0]["text"]
    assert status == 200 and text
    with predict(cluster, json={**greedy}, stream=True) as r:
        pieces = [json.loads(c)["text"] for c in r.iter_content(chunk_size=None) if c]
    assert "".join(pieces) == text and len(pieces) > 4
    assert predict(cluster, json={**greedy, "stream": False}).json()["text"] == text
    assert predict(cluster, json=greedy, headers={"Accept": "text/plain"}).text == text
    assert predict(cluster, "/1.0/v1/completions", json=greedy).json()["choices"][0]["text"] == text
    both = requests.post(cluster.torchserve["inference"] + "/v1/models/smollm2:predict", json={"instances": [greedy, greedy]}, timeout=120)
    assert both.json() == {"predictions": [text, text]}


def test_a_killed_shard_is_not_seen_in_the_pieces(cluster):
    greedy = {"prompt": PROMPT, "max_tokens": 120, "temperature": 0, "ignore_eos": True}
    undisturbed = predict(cluster, json=greedy, headers={"Accept": "text/plain"}).text
    text = b""
    with predict(cluster, json=greedy, headers={"Accept": "text/plain"}, stream=True) as r:
        for i, chunk in enumerate(r.iter_content(chunk_size=None)):
            text += chunk
            if i == 5:
                threading.Thread(target=cluster.kill, args=("shard-1",)).start()
    assert text.decode() == undisturbed


def test_the_workers_are_the_shards(cluster):
    cluster.wait_standing()
    pids = cluster.pids()
    reply = requests.get(cluster.torchserve["management"] + "/models/smollm2", timeout=30).json()[0]
    assert {w["id"]: w["pid"] for w in reply["workers"]} == {name: pid for name, pid in pids.items() if name.startswith("shard-")}
    assert {w["status"] for w in reply["workers"]} == {"READY"} and reply["minWorkers"] == reply["maxWorkers"] == 1
    assert requests.put(cluster.torchserve["management"] + "/models/smollm2?min_worker=1&synchronous=true", timeout=30).status_code == 200
    assert "ts_inference_requests_total" in requests.get(cluster.torchserve["metrics"] + "/metrics", timeout=30).text


def test_recovery_timeout_does_not_cut_a_long_answer():
    address = f"127.0.0.1:{free_port()}"
    with running(model="recovery_timeout = 0.5", gateway=f'torchserve_inference = "{address}"'):
        asked = {"prompt": PROMPT, "max_tokens": 1500, "temperature": 0, "ignore_eos": True}
        begun = time.monotonic()
        with requests.post(f"http://{address}/predictions/smollm2", json=asked, stream=True, timeout=120) as r:
            pieces = 0
            for piece in r.iter_content(chunk_size=None):
                assert "error" not in json.loads(piece), piece
                pieces += 1
                if time.monotonic() - begun > 2:
                    break
        assert pieces > 4 and time.monotonic() - begun > 1


def test_several_gateways_share_two_addresses_and_have_metrics_of_their_own(tmp_path):
    at = free_ports(14)
    doors = f"""processes = 2
admin = "127.0.0.1:{at}"
torchserve_inference = "127.0.0.1:{at + 10}"
torchserve_management = "127.0.0.1:{at + 11}"
torchserve_metrics = "127.0.0.1:{at + 12}"
"""
    with running(gateway=doors):
        for _ in range(12):  # a connection each
            r = requests.post(f"http://127.0.0.1:{at + 10}/predictions/smollm2", json={"prompt": PROMPT, "max_tokens": 2}, timeout=60)
            assert r.status_code == 200
            assert requests.get(f"http://127.0.0.1:{at + 11}/models", timeout=60).json()["models"][0]["modelName"] == "smollm2"
        counted = 0
        for port in (at + 12, at + 13):
            for line in requests.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text.splitlines():
                if line.startswith("ts_inference_requests_total{"):
                    counted += float(line.rsplit(" ", 1)[1])
        assert counted == 12
