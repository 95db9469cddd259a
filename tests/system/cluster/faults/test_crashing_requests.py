"""Requests that crash the gateway: it refuses their client from then on, and serves all others."""
import http.client
import json
import mmap
import struct
import subprocess

import pytest
from harness import CLUSTER, running

# gateway/auth/crash_record.cpp: a version, 256 rows of suspects, then the notes of threads.
NOTES_AT = 8 + 256 * (64 + 4 + 4 + 8)
NOTE = struct.Struct("<I64s")
CRASHED = 2
ONE_TOKEN = {"model": "smollm2", "prompt": "Hello", "max_tokens": 1}


def keygen(path, name):
    return subprocess.run([CLUSTER, "keygen", "--api", name, path], capture_output=True, text=True, check=True, timeout=30).stdout.strip()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys.toml"
    of = {name: keygen(keys, name) for name in ("alice", "bob")}
    with running(gateway=f'api_keys = "{keys}"') as c:
        c.keys = of
        yield c


def crash(cluster, client):
    """Writes the record as a thread leaves it that gets a fatal signal while it handles this client's request."""
    before = cluster.pid("gateway")
    with open(cluster.directory / "run/gateway.crashes", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[NOTES_AT:NOTES_AT + NOTE.size] = NOTE.pack(CRASHED, client.encode())
    cluster.kill("gateway")
    cluster.wait_standing(("gateway", before))


def ask(cluster, key, path="/v1/completions", body=ONE_TOKEN):
    connection = http.client.HTTPConnection("127.0.0.1", cluster.http_port, timeout=60)
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, {"Authorization": f"Bearer {key}"} if key else {})
    answer = connection.getresponse()
    return answer.status, answer.headers, json.loads(answer.read() or "{}")


def test_a_client_whose_requests_end_the_gateway_twice_is_refused_alone(cluster):
    alice, bob = cluster.keys["alice"], cluster.keys["bob"]
    crash(cluster, "key alice")
    assert ask(cluster, alice)[0] == 200  # once may be bad luck
    crash(cluster, "key alice")
    status, headers, body = ask(cluster, alice)
    assert status == 429 and 50 <= int(headers["Retry-After"]) <= 60
    assert body["error"]["type"] == "rate_limit_error" and "crashed the server" in body["error"]["message"]
    assert ask(cluster, alice, "/v1/models", None)[0] == 429
    assert ask(cluster, bob)[0] == 200
    assert ask(cluster, None, "/health", None)[0] == 200
    assert "a request of key alice crashed this gateway's last process" in cluster.log("gateway")


def test_a_kill_counts_against_no_request(cluster):
    bob = cluster.keys["bob"]
    for _ in range(3):
        before = cluster.pid("gateway")
        cluster.kill("gateway")
        cluster.wait_standing(("gateway", before))
    assert ask(cluster, bob)[0] == 200
