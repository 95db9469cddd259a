"""Runs the nodes.toml of docs/operate/machines.md unchanged, but with free ports. 127.0.0.2 counts as the other machine."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import urllib.request

import pytest
from harness import CLUSTER, ROOT, START_SECONDS_MAX, free_port, free_ports
from machines import FAR, PORTS

PAGE = (ROOT / "docs/operate/machines.md").read_text()
SECTION = PAGE[PAGE.index("\n## Several machines\n"):PAGE.index("\n## Drain and add\n")]
HERE_THERE, FAR_THERE = "10.0.0.1", "10.0.0.2"


def page_toml():
    return re.search(r"```toml\n(.*?)```", SECTION, re.DOTALL).group(1)


class Machine:
    """A separate home and run directory."""

    def __init__(self, directory):
        self.directory = directory
        (directory / "home").mkdir(parents=True)
        (directory / "run").mkdir()
        self.environment = {**os.environ, "HOME": str(directory / "home"), "XDG_RUNTIME_DIR": str(directory / "run")}
        self.environment.pop("XDG_CONFIG_HOME", None)
        self.output = directory / "out"

    def run(self, *words, timeout=60):
        return subprocess.run([CLUSTER, *words], env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=timeout)

    def begin(self, *words):
        with open(self.output, "ab") as out:
            return subprocess.Popen([CLUSTER, *words], env=self.environment, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)


@pytest.fixture
def page():
    """The page's file with this machine's addresses, and both machines."""
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:  # short: sockets live in it
        yield machines_in(pathlib.Path(directory))


def machines_in(directory):
    http, base = free_port(), free_ports(PORTS, ("127.0.0.1", FAR))
    text = page_toml().replace(HERE_THERE, "127.0.0.1").replace(FAR_THERE, FAR)
    text = text.replace('[cluster]\n', f'[cluster]\nport = {base}\n') + f'\n[gateway]\nhttp = "127.0.0.1:{http}"\nzmq = ""\n'
    near, far = Machine(directory / "a"), Machine(directory / "b")
    near.config, near.url = directory / "nodes.toml", f"http://127.0.0.1:{http}"
    near.config.write_text(text)
    return near, far


def end(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return process.returncode


def wait_for(process, output, found, seconds):
    deadline = time.monotonic() + seconds
    while not (got := found()):
        assert process.poll() is None and time.monotonic() < deadline, output.read_text()
        time.sleep(0.05)
    return got


def is_ready(url):
    try:
        with urllib.request.urlopen(url + "/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def test_the_file_of_the_page_comes_up_with_the_line_that_it_prints(page):
    near, far = page
    assert near.run("keygen").returncode == 0
    up = near.begin("up", str(near.config))
    join = None
    try:
        line = wait_for(up, near.output, lambda: re.search(r"cluster join '(\S+)' --node b --token (\S+)\n", near.output.read_text()), 20)
        join = far.begin("join", line.group(1), "--node", "b", "--token", line.group(2))
        wait_for(up, near.output, lambda: is_ready(near.url), START_SECONDS_MAX)
        body = json.dumps({"model": "smollm2", "prompt": "The river", "max_tokens": 4}).encode()
        with urllib.request.urlopen(urllib.request.Request(near.url + "/v1/completions", body, {"Content-Type": "application/json"}), timeout=60) as answer:
            assert json.load(answer)["usage"]["completion_tokens"] == 4
    finally:
        ended = end(up)
        if join:
            end(join)
    assert ended == 0, near.output.read_text()


CANNOT = [
    ("pipeline_parallel_size = 2", "", "model.pipeline_parallel_size is 1 but the nodes have 2 devices"),
    ("pipeline_parallel_size = 2", "pipeline_parallel_size = 2\ntensor_parallel_size = 2", "are 4 shards, but the nodes have 2 devices"),
    ('devices = ["cpu"]', f'devices = {json.dumps(["cpu"] * 16)}', "model.pipeline_parallel_size is 32: 32 stages for 30 layers: every stage needs one"),
    ('devices = ["cpu"]', f'devices = {json.dumps(["cpu"] * 10)}', "9 heads cannot be cut for 10 ranks"),
    ("pipeline_parallel_size = 2", "pipeline_parallel_size = 2\nmax_model_len = 100000", "is beyond the context"),
    ("pipeline_parallel_size = 2", 'pipeline_parallel_size = 2\nkv_cache_bytes = "1MiB"', "fewer than one sequence"),
    ("pipeline_parallel_size = 2", 'pipeline_parallel_size = 2\ndtype = "float16"', "model.dtype"),
    ("SmolLM2-135M-Instruct.Q4_1.gguf", "nothing.gguf", "nothing.gguf"),
    ("[model]\n", '[model_repository]\npath = "/nowhere/at/all"\n\n[model]\n', 'model_repository.path = "/nowhere/at/all": there is no such directory'),
    ("[model]\n", '[model_store]\npath = "/nowhere/at/all"\n\n[model]\n', 'model_store.path = "/nowhere/at/all": there is no such directory'),
]


@pytest.mark.parametrize(("original", "instead", "why"), CANNOT, ids=[why for *_, why in CANNOT])
def test_errors_in_the_files_are_reported_before_waiting_for_machines(page, original, instead, why):
    near, _ = page
    text = near.config.read_text()
    assert original in text
    text = text.replace(original, instead)
    if "stages for" in why:
        text = text.replace("pipeline_parallel_size = 2", "pipeline_parallel_size = 32")
    if "heads" in why:
        text = text.replace("pipeline_parallel_size = 2", "pipeline_parallel_size = 2\ntensor_parallel_size = 10")
    near.config.write_text(text)
    assert near.run("keygen").returncode == 0
    for command in ("plan", "up"):
        done = near.run(command, str(near.config))
        assert done.returncode == 78 and why in done.stderr and "has not joined" not in done.stdout, (command, done)


def test_a_plan_takes_a_machine_that_has_not_joined_to_have_the_cores_that_its_node_names(page):
    near, _ = page
    near.config.write_text(near.config.read_text().replace(f'host = "{FAR}"\ndevices = ["cpu"]', f'host = "{FAR}"\ndevices = ["cpu:200"]'))
    done = near.run("plan", str(near.config))
    assert done.returncode == 0 and "node b has not joined" in done.stderr, done
