"""Several gateways share an address. One dies, and its clients resume their streams at another."""
import collections
import http.client
import json
import subprocess
import tempfile
import urllib.request

import pytest
from harness import CLUSTER, Cluster, free_ports, running
from streams import begin_stories, texts

GATEWAYS = ("gateway", "gateway-1")


def several(admin):
    return f'processes = 2\nadmin = "127.0.0.1:{admin}"'


@pytest.fixture(scope="module")
def cluster():
    admin = free_ports(2)
    with running(gateway=several(admin)) as c:
        c.admin = admin
        yield c


@pytest.fixture(scope="module")
def undisturbed(cluster):
    return texts(begin_stories(cluster))


def metrics(cluster, index):
    with urllib.request.urlopen(f"http://127.0.0.1:{cluster.admin + index}/metrics", timeout=10) as answer:
        return answer.read().decode()


def requests_of(cluster, index):
    return sum(float(line.split()[-1]) for line in metrics(cluster, index).splitlines() if line.startswith("baton_http_requests_total{") and "chat" in line)


def test_connections_are_spread_and_each_has_its_metrics(cluster, undisturbed):
    assert {p["name"] for p in cluster.status()["processes"]} >= set(GATEWAYS)
    for _ in range(4):
        assert texts(begin_stories(cluster)) == undisturbed
    counts = [requests_of(cluster, i) for i in range(2)]
    assert sum(counts) == 40 and min(counts) >= 4, counts
    assert get(cluster, "/metrics")[0] == 403


def get(cluster, path, key=""):
    connection = http.client.HTTPConnection("127.0.0.1", cluster.http_port, timeout=10)
    connection.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})
    answer = connection.getresponse()
    return answer.status, answer.headers, json.loads(answer.read())


@pytest.mark.parametrize("victim", GATEWAYS)
def test_a_gateway_that_is_killed_is_stood_in_for_by_the_other(cluster, undisturbed, victim):
    streams = begin_stories(cluster)
    former = (victim, cluster.pid(victim))
    cluster.kill(victim)
    answers = collections.Counter()
    while cluster.pid(victim) == former[1] or len(answers) == 0:  # who comes meanwhile is served
        try:
            answers[get(cluster, "/health")[0]] += 1
        except OSError:  # it was in the line of the one that died
            answers["cut"] += 1
    assert set(answers) <= {200, "cut"} and answers["cut"] <= 3, answers
    for s in streams:
        s.join(60)
    cut = [s for s in streams if s.finish is None]
    assert 0 < len(cut) < len(streams), "each had some"
    for s in cut:
        s.broken.clear()
        s.status = s.error = None
        s.read()
    assert texts(streams) == undisturbed
    cluster.wait_standing(former)


def test_the_shared_address_has_no_metrics_for_the_operator_either():
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        keys = f"{directory}/keys.toml"
        made = subprocess.run([CLUSTER, "keygen", "--api", "ops", "--admin", keys], capture_output=True, text=True, check=True)
        with running(gateway=f'{several(free_ports(2))}\napi_keys = "{keys}"') as c:
            status, _, body = get(c, "/metrics", made.stdout.strip())
            assert status == 409 and "gateway.admin" in body["error"]["message"], body
            assert get(c, "/load", made.stdout.strip())[0] == 200


def test_all_of_them_drain():
    with running(gateway=several(free_ports(2))) as c:
        reply = texts(begin_stories(c))
        streams = begin_stories(c)
        done = c.command("down", str(c.config), timeout=60)
        assert done.returncode == 0, done
        assert texts(streams) == reply
        assert c.process.wait(20) == 0


@pytest.fixture
def directory():
    with tempfile.TemporaryDirectory(prefix="baton-") as made:  # pytest's are too long for sockets
        yield made


def test_an_address_that_is_taken_is_found_out_before_anything_starts(cluster, directory):
    other = Cluster(directory, gateway=several(free_ports(2)))
    other.config.write_text(other.config.read_text().replace(f"127.0.0.1:{other.http_port}", f"127.0.0.1:{cluster.http_port}"))
    done = other.command("up", str(other.config))
    assert done.returncode == 78 and "in use" in done.stderr, done


def test_each_gateway_needs_an_address_for_its_metrics(directory):
    alone = Cluster(directory, gateway="processes = 2")
    done = alone.command("plan", str(alone.config))
    assert done.returncode == 78 and "gateway.processes above 1 needs gateway.admin" in done.stderr, done
