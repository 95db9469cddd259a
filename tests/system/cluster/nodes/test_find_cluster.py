"""A cluster is found by its name wherever its run directory is, and a process by its name. Clients see which cluster answers."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile

import pytest
from harness import CLUSTER, Cluster


def with_name(directory, name, **options):
    cluster = Cluster(directory, **options)
    cluster.config.write_text(cluster.config.read_text().replace('name = "test"', f'name = "{name}"'))
    return cluster


@pytest.fixture(scope="module")
def own():
    """Has its own run directory and name, because clusters of other tests run at the same time."""
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        cluster = with_name(directory, f"own-{os.getpid()}")
        cluster.name = f"own-{os.getpid()}"
        try:
            yield cluster.start()
        finally:
            cluster.stop()


def test_a_cluster_with_a_run_directory_of_its_own_is_found_by_name(own):
    for which in (own.name, f"{own.directory}/run/", str(own.config)):
        done = own.command("status", which, "--json")
        assert done.returncode == 0, done
        assert json.loads(done.stdout)["url"] == own.url
    lost = own.command("status", "nobody-" + own.name)
    assert lost.returncode == 3 and lost.stderr.startswith(f"there is no file and no running cluster 'nobody-{own.name}': looked in "), lost
    assert "/run/baton/baton" in lost.stderr


def names_of(pids):
    return {name: pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for name, pid in pids.items()}


def test_processes_are_called_what_they_are(own):
    pids = own.pids()
    assert names_of(pids) == {name: f"baton-{name}" for name in pids}
    shown = subprocess.run(["ps", "-o", "args=", "-p", str(pids["shard-0"])], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("baton-shard-0 shard --config ")
    assert names_of({"root": own.process.pid}) == {"root": "cluster"}


def test_a_restarted_process_keeps_its_name(own):
    before = own.pids()
    for name in ("shard-1", "gateway"):  # one from a copy that has the weights, one from the file
        os.kill(before[name], signal.SIGKILL)
        own.wait_standing((name, before[name]))
    own.wait_ready()
    after = own.pids()
    assert after["shard-1"] != before["shard-1"] and names_of(after) == {name: f"baton-{name}" for name in after}


def test_chat_says_to_whom_it_talks(own):
    done = own.command("chat", "--cluster", own.name, "--max-tokens", "2", "Hello.")
    assert done.returncode == 0 and done.stderr == f"smollm2 (cluster {own.name}, {own.door})\n", done
    done = own.command("chat", "--endpoint", own.door, "--max-tokens", "2", "Hello.")
    assert done.returncode == 0 and done.stderr == f"smollm2 ({own.door})\n", done


def test_one_of_several_clusters_must_be_named(own):
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        other = with_name(directory, "second-" + own.name, devices=("cpu:0",))
        try:
            other.start()
            for words in (["chat", "Hello."], ["status"], ["down"]):
                done = own.command(*words)
                assert done.returncode == 2 and " clusters are running: name one of " in done.stderr, done
                assert own.name in done.stderr and "second-" + own.name in done.stderr
            alike = with_name(directory, own.name)
            alike.config.write_text(alike.config.read_text().replace(f"{directory}/run", f"{directory}/run2"))
            alike.start()
            done = own.command("status", own.name)
            assert done.returncode == 2 and f"{own.directory}/run/" in done.stderr and f"{directory}/run2/" in done.stderr, done
            assert own.command("down", f"{directory}/run2/").returncode == 0
            assert own.command("status", own.name).returncode == 0
        finally:
            other.stop()
            subprocess.run([CLUSTER, "down", f"{directory}/run2/", "--patience", "1"], capture_output=True, timeout=60)


def doctor(cluster, config=None):
    done = cluster.command("doctor", str(config or cluster.config), "--json")
    rows = {row["check"]: row for row in json.loads(done.stdout)}
    assert all(row["found"] for row in rows.values()) and "see the message" not in done.stdout
    assert (done.returncode == 0) == all(row["ok"] for row in rows.values()), done
    return rows


def test_the_doctor_sees_what_listens_where_a_cluster_would(own):
    row = doctor(own)["run directory"]
    assert row["ok"] and row["found"].startswith(f"{own.name} is running in {own.directory}/run (")
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        other = with_name(directory, "other")
        assert doctor(other)["addresses"] == {"check": "addresses", "ok": True, "found": f"free: 127.0.0.1:{other.http_port}", "fix": ""}
        text = other.config.read_text()
        other.config.write_text(text.replace(str(other.http_port), str(own.http_port)))
        row = doctor(other)["addresses"]
        assert not row["ok"] and row["found"] == f"gateway.http: 127.0.0.1:{own.http_port} is in use by another process" and row["fix"]
        other.config.write_text(text.replace(f"{directory}/run", f"{own.directory}/run"))
        row = doctor(other)["run directory"]
        assert not row["ok"] and f"another cluster is already running in {own.directory}/run: {own.name} (" in row["found"]
        other.config.write_text(text + "\nnobody = 1\n")
        row = doctor(other)[str(other.config)]
        assert not row["ok"] and "nobody" in row["found"] and row["fix"] == ""


def test_another_configuration_with_the_same_directory_ends_no_process(own):
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        other = pathlib.Path(directory) / "other.toml"
        other.write_text(own.config.read_text().replace(f'name = "{own.name}"', 'name = "other"'))
        for command in ("status", "down"):
            done = own.command(command, str(other))
            assert done.returncode == 3 and done.stderr == f"other is not running: in {own.directory}/run another cluster runs, {own.name}\n", done
    assert own.health()[0] == 200


def test_a_cluster_without_its_root_is_distinguished_from_another_configuration(own):
    own.process.kill()
    own.process.wait()
    text = own.config.read_text()
    own.config.write_text(text.replace("256MiB", "320MiB"))
    done = own.command("up", str(own.config))
    assert done.returncode == 78 and not done.stdout, done
    assert re.match(rf"error: {own.name} runs without its root \(.*\), with another configuration than .*\[model\]", done.stderr), done
    own.config.write_text(text)
    own.start()
    own.wait_standing()


def test_down_by_name_ends_it_and_it_is_found_no_more(own):
    assert own.command("down", own.name).returncode == 0
    assert own.process.wait(20) == 0
    done = own.command("status", own.name)
    assert done.returncode == 3 and f"no running cluster '{own.name}': looked in " in done.stderr, done
