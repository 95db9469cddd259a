"""Starts and stops the servers under measurement, ours and the peer's. Called by run.py; asks them nothing but their state.

Each is a context manager: on leaving it, also by a failure, the server and all its processes are gone.
"""
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
READY_SECONDS_MAX = 60
STOP_SECONDS_MAX = 20
PEER_POSITIONS_PER_STREAM = 1024  # prompt and answer of a bench request have fewer than 512

NODES_TOML = '''# written by tests/bench
[cluster]
name = "bench"
run_dir = "{directory}/run"
shutdown_timeout = 2

[model]
name = "bench"
path = "{model}"
pipeline_parallel_size = {stages}
tensor_parallel_size = {ranks}
max_num_seqs = {slots}
max_num_queued_reqs = {queue}
enable_prefix_caching = {caching}

[gateway]
http = "127.0.0.1:{port}"
zmq = "{door}"

[[nodes]]
name = "a"
devices = {devices}
'''


class ServerFailed(Exception):
    """The server did not come up or did not answer; the text says why."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """The base of both kinds: a process, its log, and a /health that returns 200 when it can serve."""

    def __init__(self, name, waits=True):
        self.name = name
        self._waits = waits  # for /health, before it is handed out
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="baton-bench-"))
        self.process = None
        self.begun = 0.0  # when it was executed

    def command(self):
        raise NotImplementedError

    def __enter__(self):
        try:
            self.begun = time.monotonic()
            self._execute()
            if self._waits:
                self._wait_ready()
        except BaseException as error:
            self.stop()
            if isinstance(error, OSError):
                raise ServerFailed(f"{self.name}: {error}") from error
            raise
        return self

    def _execute(self):
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen([str(c) for c in self.command()], stdout=log, stderr=subprocess.STDOUT,
                                            stdin=subprocess.DEVNULL, cwd=ROOT)

    def __exit__(self, *_):
        self.stop()

    def _wait_ready(self):
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise ServerFailed(f"{self.name} ended with status {self.process.returncode}: {self.log_end()}")
            if self.is_healthy():
                return
            time.sleep(0.02)
        raise ServerFailed(f"{self.name} was not ready after {READY_SECONDS_MAX} s: {self.log_end()}")

    def get(self, path):
        """-> (status, text); 0 if there was no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def is_healthy(self):
        return self.get("/health")[0] == 200

    def log_end(self):
        try:
            text = (self.directory / "log").read_text(errors="replace")
        except OSError:
            text = ""
        return " | ".join(text.strip().splitlines()[-3:]) or "no output"

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class LlamaServer(Server):
    """llama.cpp's server. -np equals the streams: with more slots than streams it splits its batches."""

    def __init__(self, binary, model, threads, streams, positions=PEER_POSITIONS_PER_STREAM, waits=True):
        super().__init__("llama-server", waits)
        self._command = [binary, "-m", model, "-t", threads, "-tb", threads, "-np", streams,
                         "-c", positions * streams, "--host", "127.0.0.1", "--port", self.port]

    def command(self):
        return self._command


class Cluster(Server):
    """Ours: `cluster up` of a generated nodes.toml. `devices`: one for each shard, ["cpu:0", "cpu:1"]; `ranks` of them share a stage; `more`: of nodes.toml.

    `has_door`: for the SDKs, at `door`.
    """

    def __init__(self, binary, model, devices, waits=True, enable_prefix_caching=True, max_num_seqs=64, max_num_queued_reqs=128, ranks=1,
                 more="", has_door=False):
        super().__init__("cluster up", waits)
        self.door = f"ipc://{self.directory}/door.sock" if has_door else ""
        self._binary = binary
        self.config = self.directory / "nodes.toml"
        self.config.write_text(NODES_TOML.format(directory=self.directory, model=pathlib.Path(model).resolve(), stages=len(devices) // ranks,
                                                 ranks=ranks,
                                                 door=self.door, port=self.port, devices=json.dumps(devices),
                                                 caching=json.dumps(enable_prefix_caching), slots=max_num_seqs,
                                                 queue=max_num_queued_reqs) + more)

    def command(self):
        return [self._binary, "up", self.config]

    def status(self):
        """`cluster status --json`; also of a cluster that is not ready."""
        done = subprocess.run([self._binary, "status", self.config, "--json"], capture_output=True, text=True, timeout=15, check=False)
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise ServerFailed(f"cluster status: {done.stderr.strip() or done.stdout.strip()}") from error

    def metrics(self):
        return self.get("/metrics")[1]

    def shard_pids(self):
        return {p["name"]: p["pid"] for p in self.status()["processes"] if p["name"].startswith("shard-") and p["pid"] > 1}

    def command_done(self, *words, seconds_max):
        """`cluster WORDS nodes.toml`, which must succeed."""
        done = subprocess.run([self._binary, *words, self.config], capture_output=True, text=True, timeout=seconds_max, check=False)
        if done.returncode:
            raise ServerFailed(f"cluster {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")

    def replace_root(self):
        """kill -9 of `cluster up`, and a new one that adopts its processes."""
        self.process.kill()
        self.process.wait()
        self._execute()

    def wait_ready_again(self):
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline:
            if self.is_healthy() and self.status()["phase"] == "ready":
                return
            time.sleep(0.1)
        stands = {p["name"]: f"{p['phase']} {p['reason']}".strip() for p in self.status()["processes"] if p["phase"] != "ready"}
        raise ServerFailed(f"the cluster was not ready again after {READY_SECONDS_MAX} s: {stands or self.status()['phase']}")

    def stop(self):
        if self.process is not None:  # down also ends what a dead root left behind
            try:
                subprocess.run([self._binary, "down", self.config, "--patience", str(STOP_SECONDS_MAX)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, timeout=2 * STOP_SECONDS_MAX, check=False)
            except (subprocess.TimeoutExpired, OSError):
                pass
        super().stop()


def shard_devices(settings):
    """-> (devices of two shards, devices of one process with the same resources): the requested ones, else cores."""
    return (settings.devices, settings.devices[:1]) if settings.devices else core_devices(settings.threads)


def core_devices(threads):
    """`threads` cores that this process may use, as (a device per core, one device of them all)."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    first = cores[0] if cores == list(range(cores[0], cores[0] + len(cores))) else 0
    last = first + threads - 1
    return [f"cpu:{c}" for c in range(first, last + 1)], [f"cpu:{first}-{last}" if threads > 1 else f"cpu:{first}"]
