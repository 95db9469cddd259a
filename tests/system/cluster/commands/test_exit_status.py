"""How `cluster up` ends says whether it ended cleanly, and whether a restart can help: service managers and scripts go by it (docs/operate/running.md has
the table)."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

import pytest
from harness import CLUSTER, Cluster, free_port, running
from streams import Stream

CLEAN, USAGE, NOT_RUNNING, STREAMS_CUT, PROCESS_FAILED, PERMANENT = 0, 2, 3, 4, 5, 78  # cluster/files/exit_status.hpp
PROMPT = "Write a short story about a fox."
AGENT_RESTARTS_MAX = 3  # within 300 s: actors/supervision/restart.hpp


def endless(cluster):
    stream = Stream(cluster, PROMPT, max_tokens=4000, ignore_eos=True)
    assert stream.begun.wait(60)
    return stream


def ended(cluster, seconds=60):
    """-> (exit status, its last line)"""
    status = cluster.process.wait(seconds)
    return status, cluster.output.read_text().splitlines()[-1]


def wait_until(is_so, seconds=30):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_nothing_is_open_and_everybody_goes():
    with running(cluster="shutdown_timeout = 0") as cluster:
        Stream(cluster, PROMPT).check()
        cluster.process.send_signal(signal.SIGTERM)
        assert ended(cluster) == (CLEAN, "stopped")


def test_streams_open_at_the_end_of_the_grace_are_reported():
    with running(cluster="shutdown_timeout = 1") as cluster:
        stream = endless(cluster)
        cluster.process.send_signal(signal.SIGTERM)
        status, answer = ended(cluster)
        assert status == STREAMS_CUT
        assert answer == "stopped, not cleanly: streams were cut after 1000 ms of grace (gateway: 1 open requests)"
        stream.join(10)
        assert stream.finish is None


def test_streams_open_at_a_second_signal_are_reported():
    with running() as cluster:
        endless(cluster)
        cluster.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        cluster.process.send_signal(signal.SIGINT)
        status, answer = ended(cluster)
        assert status == STREAMS_CUT
        assert answer == "stopped, not cleanly: streams were cut because it was asked again (gateway: 1 open requests)"


def test_a_gateway_lost_while_it_drains_is_reported():
    with running() as cluster:
        endless(cluster)
        gateway = cluster.pid("gateway")
        cluster.process.send_signal(signal.SIGTERM)
        wait_until(lambda: cluster.post("/v1/completions", {"model": "smollm2", "prompt": "x"})[0] == 503)
        os.kill(gateway, signal.SIGKILL)
        assert ended(cluster) == (STREAMS_CUT, "stopped, not cleanly: gateway was lost while it drained")


def test_killed_shards_are_reported():
    with running() as cluster:
        cluster.kill("shard-1", signal.SIGSTOP)
        cluster.process.send_signal(signal.SIGTERM)
        status, answer = ended(cluster)
        assert (status, answer) == (PROCESS_FAILED, "stopped, not cleanly: agent-a while it was stopped: exit status 5")
        assert "shard-1 while it was stopped: killed by signal 9" in cluster.log("agent-a")


def test_a_process_that_was_given_up_is_told_and_leaves_nobody_behind():
    with running() as cluster:
        pids = cluster.pids()
        for restarts in range(AGENT_RESTARTS_MAX + 1):
            was = cluster.pid("agent-a")
            os.kill(was, signal.SIGKILL)
            if restarts < AGENT_RESTARTS_MAX:
                cluster.wait_standing(("agent-a", was))
        wait_until(lambda: cluster.health()[0] == 503)
        why = "agent-a: crash_loop: more than 3 restarts in 300 s; last: killed by signal 9 (Killed)"
        assert cluster.health()[1]["reason"].startswith(why)
        reply = cluster.status()
        assert (reply["phase"], reply["reason"].startswith(why)) == ("failed", True)
        assert os.path.exists(f"/proc/{pids['shard-0']}")  # shards go on without it
        cluster.process.send_signal(signal.SIGTERM)
        status, answer = ended(cluster)
        assert status == PROCESS_FAILED
        assert answer.startswith("stopped, not cleanly: " + why)
        wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids.values()))  # the process that adopted the orphans reaps them


# -- Failures that a restart cannot mend: 78, which the units list in RestartPreventExitStatus --


@pytest.fixture
def directory():
    with tempfile.TemporaryDirectory(prefix="baton-") as made:  # pytest's are too long for sockets
        yield pathlib.Path(made)


@contextlib.contextmanager
def taken():
    """The port of somebody else."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", free_port()))
        s.listen(1)
        yield s.getsockname()[1]


def configured(directory, change=lambda text: text, **options):
    cluster = Cluster(directory, **options)
    cluster.config.write_text(change(cluster.config.read_text()))
    return cluster


def refused(cluster, command, status=PERMANENT, config=None):
    done = cluster.command(command, str(config or cluster.config))
    assert done.returncode == status, done
    assert not done.stdout, done.stdout  # no plan of what does not come
    return done.stderr


BAD_FILES = {
    "an unknown key": (lambda text: text + "\n[gatway]\nhttp = 1\n", "gatway"),
    "a value that cannot be": (lambda text: text.replace('kv_cache_bytes = "256MiB"', "kv_cache_bytes = 1"), "kv_cache_bytes"),
    "no TOML": (lambda text: text + "\n[model\n", "test.toml"),
    "no model file": (lambda text: re.sub(r'\npath = ".*"', '\npath = "/nowhere/model.gguf"', text), "/nowhere/model.gguf"),
    "a model file that is none": (lambda text: re.sub(r'\npath = ".*"', f'\npath = "{pathlib.Path(__file__)}"', text), "test_exit_status.py"),
    "more than there is memory": (lambda text: text.replace("256MiB", "60TiB"), ""),
    "keys that are not there": (lambda text: text.replace("[gateway]", '[gateway]\napi_keys = "/nowhere/keys.toml"'), "/nowhere/keys.toml"),
    "an engine that is not there": (lambda text: text.replace('"cpu:0", "cpu:1"', '"gone/0", "gone/1"'), "engine_gone.so"),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_configuration_that_cannot_be_is_permanent(directory, what):
    change, answer = BAD_FILES[what]
    cluster = configured(directory, change)
    assert answer in refused(cluster, "up")
    if what not in ("keys that are not there", "an engine that is not there"):  # a plan needs neither
        assert answer in refused(cluster, "plan")


def test_a_file_that_is_not_there_is_permanent(directory):
    cluster = Cluster(directory)
    for command in ("up", "plan"):
        assert "nowhere.toml" in refused(cluster, command, config=directory / "nowhere.toml")


@pytest.mark.parametrize("command", [["status"], ["down"], ["rotate-key"], ["drain", "a"], ["add-node", "a"], ["remove-node", "a"],
                                     ["scale", "smollm2", "--replicas", "1"], ["chat", "hello", "--cluster"]])
def test_every_command_rejects_an_invalid_configuration(directory, command):
    cluster = configured(directory, lambda text: text + "\nnobody = 1\n")
    done = cluster.command(*command, str(cluster.config))
    assert done.returncode == PERMANENT and "nobody" in done.stderr, done


@pytest.mark.parametrize("command", [["status"], ["down"], ["rotate-key"], ["drain", "a"], ["scale", "smollm2", "--replicas", "1"], ["chat", "hello", "--cluster"]])
def test_a_stopped_cluster_is_no_configuration_error(directory, command):
    cluster = Cluster(directory)
    done = cluster.command(*command, str(cluster.config))
    assert done.returncode == NOT_RUNNING and done.stderr == f"test is not running: looked in {directory}/run\n", done
    assert not (directory / "run").exists()


@pytest.mark.parametrize("key", ["http", "zmq", "admin", "kserve_grpc", "torchserve_inference"])
def test_an_address_that_is_taken_is_permanent_and_named(directory, key):
    with taken() as port:
        other = f'{key} = "{"tcp://" if key == "zmq" else ""}127.0.0.1:{port}"'
        cluster = configured(directory, lambda text: re.sub(rf'\n{key} = ".*"', "", text).replace("[gateway]", f"[gateway]\n{other}"))
        answer = refused(cluster, "up")
        assert f"gateway.{key}" in answer and f"127.0.0.1:{port} is in use by another process" in answer
        done = cluster.command("up", str(cluster.config), "--json")
        assert done.returncode == PERMANENT and json.loads(done.stdout)["code"] == "address_in_use", done


def test_a_port_between_machines_that_is_taken_is_permanent(directory):
    with taken() as port:
        network = f'host = "127.0.0.1"\nport = {port}\nkey = "{directory}/key"'
        cluster = Cluster(directory, cluster=network, devices=("cpu:0", "cpu:1"))
        subprocess.run([CLUSTER, "keygen", directory / "key"], capture_output=True, check=True)
        assert str(port) in refused(cluster, "up")


def test_an_error_found_by_a_single_process_is_permanent_as_well(directory):
    """A gateway that cannot listen is not restarted, and the cluster that waits for it ends."""
    cluster = configured(directory, lambda text: re.sub(r'\nzmq = ".*"', '\nzmq = "ipc:///nowhere/door.sock"', text))
    done = cluster.command("up", str(cluster.config), "--json")
    last = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == PERMANENT == last["status"], done
    assert last["reason"].startswith("gateway: exit status 78: ") and "/nowhere/door.sock" in last["reason"]


@pytest.mark.parametrize("role", ["gateway", "head", "agent", "shard", "worker"])
def test_every_role_ends_for_good_without_a_configuration(directory, role):
    done = subprocess.run([CLUSTER, role, "--config", directory / "nodes.toml", "--epoch", "1", "--index", "0"], capture_output=True, text=True, timeout=30)
    assert done.returncode == PERMANENT and str(directory) in done.stdout + done.stderr, done


def test_a_second_cluster_in_a_directory_is_permanent(directory, shared):
    answer = refused(shared, "up")
    assert answer.startswith("error: test is already running (root, pid ")
    other = directory / "other.toml"
    other.write_text(shared.config.read_text().replace('name = "test"', "").replace("[[nodes]]\n", '[[nodes]]\nwaits = false\n'))
    answer = refused(shared, "up", config=other)
    assert answer.startswith(f"error: another cluster is already running in {shared.directory}/run: test (") and "pid " in answer
    assert "waits" not in answer and "other.toml:" not in answer


def test_an_invalid_join_address_is_permanent(directory):
    done = subprocess.run([CLUSTER, "join", "tcp://127.0.0.1:1", "--node", "b", "--key", directory / "key"], capture_output=True, text=True, timeout=30)
    assert done.returncode == PERMANENT and "has no key" in done.stderr, done


def test_an_invalid_command_line_has_its_own_status():
    assert subprocess.run([CLUSTER, "up"], capture_output=True, timeout=30).returncode == USAGE
