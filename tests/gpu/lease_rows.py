"""The measurements of a lease, in order of value: first whether results on a GPU are right, then how fast it is. The page docs/develop/gpu.md maps
the rows to its own."""
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import load as loads
import servers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROMPT = "The sea"
TEXT_TOKENS = 48
LINES = "max_model_len = 4096\nthreads_per_shard = 8\nnum_speculative_tokens = 0"
REFUSED_SECONDS = 15
MPS_FOLDER = "mps"


@dataclasses.dataclass
class Row:
    name: str
    seconds: int  # on an H100
    needs: tuple
    do: object
    text: str


ROWS = []


def row(name, seconds, *needs):
    """Decorates the function that measures the row. Its docstring describes the row."""

    def add(function):
        ROWS.append(Row(name, seconds, needs, function, (function.__doc__ or "").splitlines()[0]))
        return function

    return add


def chosen(only):
    names = [n for n in only.split(",") if n]
    return [r for r in ROWS if not names or r.name in names]


class Sayer:
    """Lines of one row, each with the seconds since the one before."""

    def __init__(self, name):
        self._name, self._since = name, time.monotonic()

    def __call__(self, what, value, unit, **more):
        now = time.monotonic()
        seconds, self._since = now - self._since, now
        value = round(value, 4) if isinstance(value, float) else value
        print(json.dumps({"row": f"{self._name}: {what}" if what else self._name, "value": value, "unit": unit, "seconds": round(seconds, 1), **more}), flush=True)


def do(name, place):
    wanted = next(r for r in ROWS if r.name == name)
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are stopped on the way out
    place.given = dict(os.environ)  # of the machine's own Python
    os.environ.update(place.environment())
    try:
        wanted.do(place, Sayer(name))
    except Exception as error:  # the other rows must still be measured
        print(json.dumps({"row": name, "error": f"{type(error).__name__}: {error}"[:600], "seconds": round(time.monotonic() - begun, 1)}), flush=True)
    return 0


class Served(servers.Cluster):
    """A cluster of a model on these devices. `lines`: of the model's table."""

    def __init__(self, place, model, devices, ranks=1, lines=LINES, kv="4GiB", waits=True):
        super().__init__(place.cluster, model, devices, waits=waits, enable_prefix_caching=False, max_num_seqs=256, max_num_queued_reqs=512, ranks=ranks)
        more = f'{lines}\nkv_cache_bytes = "{"64MiB" if place.is_tiny else kv}"\n'
        if not place.is_tiny:
            more += "max_num_batched_tokens = 2048\nprefill_chunk = 1024\n"
        self.config.write_text(self.config.read_text().replace("\n[gateway]", f"{more}\n[gateway]"))

    def ready_seconds(self):
        return time.monotonic() - self.begun

    def post(self, path, body, seconds=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        finally:
            connection.close()
        if answer.status != 200:
            raise servers.ServerFailed(f"{path}: {answer.status} {text[:300]}")
        return json.loads(text)

    def text(self, prompt=PROMPT, **fields):
        body = {"model": "bench", "prompt": prompt, "max_tokens": TEXT_TOKENS, "temperature": 0, "ignore_eos": True, **fields}
        return self.post("/v1/completions", body)["choices"][0]["text"]

    def load(self, place, streams, requests, max_tokens, prompt_tokens=68):
        if place.is_tiny:
            streams, requests, max_tokens = min(streams, 4), min(requests, 4), 16
        return loads.measure(loads.Load(self.url, streams, requests, max_tokens=max_tokens, prompt_characters=prompt_tokens, model="bench"))


def say_load(say, what, report):
    """-> tokens/s once all decode"""
    if report["faults"]:
        raise servers.ServerFailed(f"{what}: {report['faults'][0]}")
    rate = report["steady_tok_s"] or report["tok_s"]
    figures = {k: round(report[k], 2) for k in ("tok_s", "ttft_p50_ms", "ttft_p99_ms", "itl_p50_ms", "itl_p99_ms") if report[k] is not None}
    say(what, rate, "tokens/s", **figures, good=report["good"])
    return rate


def gap_after(stream, struck):
    """The longest pause of the stream that ended after the kill, in seconds; None: the stream had ended."""
    later = [t for t in stream.stamps if t > struck]
    times = [max([t for t in stream.stamps if t <= struck], default=max(struck, stream.begun)), *later]
    return max((b - a for a, b in zip(times, times[1:])), default=None) if later else None


def say_kill(say, place, server, name=""):
    """kill -9 of a shard under 8 streams: the longest pause, and the number of unchanged texts."""
    tokens = 16 if place.is_tiny else 200
    wanted = loads.Load(server.url, 8, 8, max_tokens=tokens, prompt_characters=100, model="bench", warmup=0, timeout=60)
    before, _ = loads.drive(wanted)
    pids = server.shard_pids()
    pid, seen, struck = pids[name or sorted(pids)[0]], 0, None

    def on_text(_):
        nonlocal seen, struck
        seen += 1
        if struck is None and seen >= sum(len(s.stamps) for s in before) // 3:
            struck = time.monotonic()
            os.kill(pid, signal.SIGKILL)

    after, _ = loads.drive(wanted, on_text)
    faults = [f for s in after for f in loads.faults_of(s, tokens)]
    gaps = [g for s in after if (g := gap_after(s, struck or s.ended)) is not None]
    say("kill -9 of a shard, longest wait", 1e3 * max(gaps, default=0), "ms", streams=len(after), same_texts=sum(a.text == b.text for a, b in zip(before, after)),
        faults=sorted(set(faults))[:3])
    server.wait_ready_again()
    say("ready again", 1, "of 1")


@row("machine", 2, "device")
def machine(place, say):
    """what the machine is: driver, device, torch, NCCL"""
    say("", place.facts["driver"] or place.device, "", torch=place.facts["torch"], torch_nccl=place.facts["torch_nccl"], transformers=place.facts["transformers"],
        cores=os.cpu_count())


@row("serve 1b", 45, "device", "cluster", "engine", "1b")
def serve_small(place, say):
    """the 1B shape: ready, its text twice, 1 and 64 streams, kill -9 under streams"""
    model = place.model("1b")
    with Served(place, model, [place.device]) as server:
        say("ready", server.ready_seconds(), "s")
        texts = [server.text(), server.text()]
        place.keep("1b text", texts[0])
        say("the same text twice", int(texts[0] == texts[1] != ""), "of 1", text=texts[0][:60])
        place.keep("1b rate", say_load(say, "1 stream", server.load(place, 1, 2, 256)))
        say_load(say, "64 streams", server.load(place, 64, 64, 128))
        say_kill(say, place, server)


def serve_ranks(place, say):
    with Served(place, place.model("1b"), [place.device] * 2, ranks=2) as server:
        say("ready", server.ready_seconds(), "s")
        text, alone = server.text(), place.kept("1b text")
        say("the text of one rank", None if alone is None else int(text == alone), "of 1", text=text[:60])
        rate = say_load(say, "1 stream", server.load(place, 1, 1, 64))
        say("a step", 1e3 / rate, "ms")
        say_kill(say, place, server, sorted(server.shard_pids())[-1])


@contextlib.contextmanager
def preloaded(place):
    """torch's own RPATH comes before LD_LIBRARY_PATH: another NCCL has to be there first."""
    given = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", **({"LD_PRELOAD": str(place.nccl)} if place.nccl else {})}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@row("nccl", 20, "gpu", "torch", "shared-nccl")
def nccl(place, say):
    """two processes sum floats on one device by the NCCL of the archive, without an engine"""
    with preloaded(place):
        done = subprocess.run([sys.executable, HERE / "nccl_pair.py"], capture_output=True, text=True, check=False)
    outcome = json.loads((done.stdout.strip().splitlines() or ["{}"])[-1])
    if done.returncode:
        raise RuntimeError(outcome.get("error") or done.stderr.strip()[-300:])
    say("a sum", outcome["us"], "us", version=outcome["version"], is_right=int(outcome["sums"] == [3.0]))


@row("two ranks", 60, "device", "cluster", "engine", "shared-nccl", "1b")
def two_ranks(place, say):
    """two ranks on one device with the NCCL of the archive: the text of one rank, its speed, kill -9 of one"""
    with preloaded(place):
        serve_ranks(place, say)


@row("two ranks refused", 30, "gpu", "cluster", "engine", "old-nccl", "1b")
def two_ranks_refused(place, say):
    """the same with torch's NCCL, which refuses: `up` ends with the reason; else the attempts in 15 s, and a request's error"""
    with Served(place, place.model("1b"), [place.device] * 2, ranks=2, waits=False) as server:
        try:  # `up` asks the library first, and ends
            server.process.wait(REFUSED_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        else:
            say("up ends", server.process.returncode, "status", said=server.log_end()[:300])
            return
        status = server.status()
        reasons = sorted({p["reason"] for p in status["processes"] if p.get("reason")})
        found = re.findall(r'"recoveries": (\d+)', json.dumps(status))
        say("openings", max(map(int, found), default=0), "in 15 s", phase=status["phase"], reasons=reasons[:2])
        try:
            outcome = server.text()[:60]
        except (servers.ServerFailed, OSError) as error:
            outcome = str(error)[:200]
        say("a request is told", outcome, "")


@row("texts", 75, "device", "cluster", "engine", "smollm2")
def texts(place, say):
    """SmolLM2 on the CPU and on the device, whole, with a CPU stage, quantised, with our own attention: greedy texts that begin alike"""
    small = "max_model_len = 1024"
    own = [] if not place.is_cuda else [("fp8", [place.device], 'quantization = "fp8"', {}), ("int4, groups of 32", [place.device], 'quantization = "int4"\nquantization_group_size = 32', {}),
                                        ("own attention", [place.device], "", {"BATON_GPU_ATTENTION": "own"})]
    ways = [("CPU", ["cpu"], "", {}), ("device", [place.device], "", {}), ("device and CPU", [place.device, "cpu"], "", {}), ("device twice", [place.device] * 2, "", {}), *own]
    oracle = None
    for what, devices, lines, more in ways:
        os.environ.update(more)
        try:
            with Served(place, place.smollm2(), devices, lines=f"{small}\n{lines}", kv="256MiB") as server:
                text = server.text()
                vector = server.post("/v1/embeddings", {"model": "bench", "input": PROMPT})["data"][0]["embedding"]
        except (servers.ServerFailed, OSError) as error:
            say(what, None, "characters", error=str(error)[:300])
            continue
        finally:
            for name in more:
                del os.environ[name]
        if oracle is None:
            oracle = text, vector
        same = next((i for i, (a, b) in enumerate(zip(text, oracle[0])) if a != b), min(len(text), len(oracle[0])))
        say(what, same, "characters alike", of=len(oracle[0]), cosine=round(cosine(vector, oracle[1]), 5), text=text[:80])


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / ((sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5 or 1)


@row("unit_torch", 120, "gpu", "engine", "unit")
def unit_torch(place, say):
    """all cases of unit_torch that are named "on cuda:0" """
    say_cases(say, [place.build / "tests/unit/torch/unit_torch", "-tc=*cuda:0*"])


def say_cases(say, command):
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, errors="replace", check=False)
    passed, failed, names = cases_of(done.stdout)
    say("", passed, "cases passed", failed=failed, status=done.returncode, which=names[:5], said=done.stderr.strip()[-200:])


def cases_of(text):
    """-> (passed, failed, names of cases with an error) of doctest's output. A case that runs a child has the child's summary before."""
    found = re.findall(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed", text)
    parts = re.split(r"^=+\n", text, flags=re.M)
    names = {name for part in parts if re.search(r"\bERROR:", part) for name in re.findall(r"^TEST CASE:\s*(.*)$", part, re.M)}
    return int(found[-1][1]) if found else 0, int(found[-1][2]) if found else 1, sorted(names)


def serve_large(place, say, name, lines=""):
    with Served(place, place.model("8b"), [place.device], lines=f"{LINES}\n{lines}", kv="24GiB") as server:
        say("ready", server.ready_seconds(), "s")
        place.keep(f"{name} rate", say_load(say, "1 stream", server.load(place, 1, 2, 256, 128)))
        place.keep(f"{name} rates", say_load(say, "256 streams", server.load(place, 256, 256, 512, 128)))
        if not lines:
            say_kill(say, place, server)


@row("serve 8b", 75, "device", "cluster", "engine", "8b")
def serve_8b(place, say):
    """the 8B shape in the model's type: ready, 1 and 256 streams, times to the first token, kill -9"""
    serve_large(place, say, "8b")


@row("serve 8b fp8", 60, "gpu", "cluster", "engine", "8b")
def serve_8b_fp8(place, say):
    """the same with FP8; its time to the first token was seven times that of BF16"""
    serve_large(place, say, "8b fp8", 'quantization = "fp8"')


def say_bench(place, say, *words):
    """gpu.py of this tree, with its rows as they are; its probe of the device is of the same minutes."""
    shape = "tiny" if place.is_tiny else "8b"
    where = ["--device", place.device, "--build-dir", place.build, "--python", place.facts["python"] or "/bin/false", "--shape", shape]
    if not place.is_cuda:
        where += ["--engine", place.device.partition("/")[0], "--device", place.device.partition("/")[2]]
    command = [sys.executable, ROOT / "tests/bench/gpu.py", *where, *words]
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, check=False,
                          env={**os.environ, "TMPDIR": "/dev/shm" if os.path.isdir("/dev/shm") else str(place.work)})
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for line in lines:
        say(line.pop("row"), line.pop("value"), line.pop("unit"), **line)
    if not lines:
        raise RuntimeError(done.stderr.strip()[-300:] or f"gpu.py ended with status {done.returncode}")


@row("bench", 60, "device", "engine", "bench")
def bench(place, say):
    """in process: decoding and prefill beside copy bandwidth and matrix products of the same run (bars 0.80 and 0.65)"""
    say_bench(place, say)


@row("bench fp8", 60, "gpu", "engine", "bench")
def bench_fp8(place, say):
    """the same with FP8 (bar 0.65)"""
    say_bench(place, say, "--quantization", "fp8")


@row("host", 20, "gpu", "engine", "bench")
def host(place, say):
    """what the host takes to begin a step of 1 and of 256 sequences (bar 150 us)"""
    say_bench(place, say, "--only", "host")
    say_bench(place, say, "--only", "host", "--batch", "256")


@row("attention", 60, "gpu", "engine", "bench")
def attention(place, say):
    """paged decode attention, 64 x 4096, of copy bandwidth (bar 0.75)"""
    say_bench(place, say, "--only", "attention")


@row("two stages", 60, "device", "cluster", "engine", "8b")
def two_stages(place, say):
    """two shards as a pipeline on one device, of one process (bar 0.9)"""
    with Served(place, place.model("8b"), [place.device] * 2, kv="24GiB") as server:
        say("ready", server.ready_seconds(), "s")
        for what, kept, load in (("1 stream", "8b rate", (1, 2, 256, 128)), ("256 streams", "8b rates", (256, 256, 512, 128))):
            rate, whole = say_load(say, what, server.load(place, *load)), place.kept(kept)
            say(f"{what}, of one process", None if whole is None else rate / whole, "of 1")


@contextlib.contextmanager
def mps(place):
    """The daemon by which processes share a device at once."""
    folder = place.work / MPS_FOLDER
    folder.mkdir(exist_ok=True)
    given = {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    os.environ.update(given)
    subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True, timeout=20)
    try:
        yield
    finally:
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, timeout=20, check=False)
        for name in given:
            del os.environ[name]


@row("two ranks with MPS", 60, "gpu", "cluster", "engine", "shared-nccl", "mps", "1b")
def two_ranks_mps(place, say):
    """two ranks on one device that need not take turns"""
    with mps(place), preloaded(place):
        serve_ranks(place, say)


def say_transformers(place, say, what, *words):
    command = [place.facts["python"], ROOT / "tests/bench/gpu_transformers.py", "--model", place.model("8b"), "--device", place.device, *words]
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, check=False, env=place.given)
    if done.returncode:
        raise RuntimeError(f"{what}: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
    say(what, json.loads(done.stdout.strip().splitlines()[-1])["value"], "tokens/s")


@row("transformers", 150, "gpu", "transformers", "8b")
def transformers(place, say):
    """transformers on the same weights: static cache with 1 sequence, continuous batching with 256 (bars 1.5 and 3 of ours)"""
    say_transformers(place, say, "batch 1", "--batch", "1", "--prompt", "128", "--steps", "512")
    say_transformers(place, say, "batch 256, continuous", "--continuous", "--batch", "256", "--prompt", "128", "--steps", "512")


@row("sanitizer", 240, "gpu", "engine", "unit", "sanitizer")
def sanitizer(place, say):
    """memory errors of kernels: compute-sanitizer around unit_torch's cases on cuda:0"""
    say_cases(say, [place.tool("compute-sanitizer"), place.build / "tests/unit/torch/unit_torch", "-tc=*cuda:0*", "-tce=*traps*"])
