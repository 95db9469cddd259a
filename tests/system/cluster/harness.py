"""A real cluster of processes for the tests: `cluster up` on free ports, stopped with `cluster down` whatever happens."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("BATON_BUILD", ROOT / "build/dev")).resolve()
CLUSTER = BUILD / "cluster/cluster"
MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
START_SECONDS_MAX = 60


PORTS = range(20000, 32000)  # below the ephemeral ports, so that no outgoing connection takes one before it is bound
_next_port = PORTS.start + os.getpid() * 7919 % len(PORTS)  # far from the ports of a parallel run, whose pid is close


def is_free(address, port):
    with socket.socket() as s, contextlib.suppress(OSError):
        s.bind((address, port))
        return True
    return False


def free_ports(count, hosts=("127.0.0.1",)):
    """The first of `count` consecutive ports. A port is not reused until all have been used: its owner may not have bound it yet, or may
    restart."""
    global _next_port
    for _ in range(len(PORTS)):
        first = _next_port if _next_port + count <= PORTS.stop else PORTS.start
        if all(is_free(host, port) for host in hosts for port in range(first, first + count)):
            _next_port = first + count
            return first
        _next_port = first + 1
    raise RuntimeError(f"no {count} free ports in a row")


def free_port():
    return free_ports(1)


class Cluster:
    def __init__(self, directory, model="", gateway="", cluster="", devices=("cpu:0", "cpu:1"), path=MODEL, kv_cache="256MiB", nodes="",
                 binary=CLUSTER, tensor=1, stages=None, models=""):
        """`devices`, and one of each table of `nodes`: a stage for every `tensor` of them that does not wait, or as many as said. `models`:
        tables in place of the one of the default model."""
        self.binary = binary
        self.directory = pathlib.Path(directory)
        self.http_port = free_port()
        self.url = f"http://127.0.0.1:{self.http_port}"
        self.door = f"ipc://{self.directory}/door.sock"
        self.config = self.directory / "test.toml"
        self.config.write_text(f'''
[cluster]
name = "test"
run_dir = "{self.directory}/run"
{cluster}
{models or self.table_of(path, stages or (len(devices) + nodes.count("[[nodes]]") - nodes.count("waits = true")) // tensor, tensor, kv_cache, model)}
[gateway]
http = "127.0.0.1:{self.http_port}"
zmq = "{self.door}"
{gateway}
[[nodes]]
name = "a"
devices = {json.dumps(list(devices))}
{nodes}
''')
        self.process = None
        self.output = self.directory / "up.out"

    @staticmethod
    def table_of(path, stages, tensor, kv_cache, more):
        return f"""[model]
name = "smollm2"
path = "{path}"
pipeline_parallel_size = {stages}
tensor_parallel_size = {tensor}
kv_cache_bytes = "{kv_cache}"
{more}"""

    def start(self, wait=True):
        with open(self.output, "ab") as out:
            self.process = subprocess.Popen([self.binary, "up", self.config], stdout=out, stderr=subprocess.STDOUT, cwd=ROOT)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds=START_SECONDS_MAX):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"cluster up ended with {self.process.returncode}:\n{self.output.read_text()}")
            if self.health()[0] == 200:
                return
            time.sleep(0.02)
        raise AssertionError(f"not ready after {seconds} s: {self.health()}\n{self.logs()}")

    def health(self):
        try:
            with urllib.request.urlopen(self.url + "/health", timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)
        except OSError as e:
            return 0, str(e)

    def post(self, route, body, timeout=60):
        """-> (status, headers, parsed body)"""
        request = urllib.request.Request(self.url + route, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.headers, json.load(answer)
        except urllib.error.HTTPError as e:
            return e.code, e.headers, json.load(e)

    def metric(self, name):
        """The sum of its samples. Reports of the head reach the gateway a few times a second."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + " ", name + "{") if "{" not in name else name))

    def command(self, *words, timeout=60):
        return subprocess.run([self.binary, *words], capture_output=True, text=True, timeout=timeout, cwd=ROOT)

    def status(self):
        done = self.command("status", str(self.config), "--json")
        assert done.stdout, (done.returncode, done.stderr, self.process.poll(), self.output.read_text()[-2000:])
        return json.loads(done.stdout)

    def pids(self):
        return {p["name"]: p["pid"] for p in self.status()["processes"]}

    def wait_standing(self, *formers, seconds=30):
        """Waits until all processes are ready and each of `formers` (name, pid) has been replaced."""
        deadline = time.monotonic() + seconds
        former = dict(formers)
        while True:
            asked = self.command("status", str(self.config), "--json")
            listed = json.loads(asked.stdout)["processes"] if asked.stdout else []
            if listed and all(p["phase"] == "ready" and former.get(p["name"]) != p["pid"] for p in listed):
                return
            assert time.monotonic() < deadline, f"{asked}\n{self.logs()}"
            time.sleep(0.05)

    def pid(self, name):
        return next(p["pid"] for p in self.status()["processes"] if p["name"] == name)

    def kill(self, name, number=signal.SIGKILL):
        os.kill(self.pid(name), number)

    def log(self, name):
        return (self.directory / "run" / f"{name}.log").read_text()

    def logs(self):
        """The ends of its processes' logs, from all its machines."""
        return "\n".join(f"--- {p.relative_to(self.directory)}\n{p.read_text()[-2000:]}" for p in sorted(self.directory.glob("**/*.log")))

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
        self.command("down", str(self.config), "--patience", "1")
        if self.process and self.process.poll() is None:
            self.process.kill()
        return self.process.returncode if self.process else None


@contextlib.contextmanager
def running(kind=Cluster, **options):
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:  # short: sockets live in it
        cluster = kind(directory, **options)
        try:
            yield cluster.start()
        finally:
            cluster.stop()
