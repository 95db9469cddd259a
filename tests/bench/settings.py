"""Settings for every section of the benches: the model, the sizes of a run, the paths of the binaries. Built by run.py."""
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import machine
import report

BUSY_CORES_MAX = 0.2  # others using more than this share of a core while something is measured spoil it
DISTURBED_CORES = 0.06  # others and the host together: more spoils a round
DISTURBED_MAX = 3  # times that a round is measured again
WATCH_SECONDS_MIN = 0.5  # the kernel counts in hundredths of a second: less says nothing

@dataclasses.dataclass
class Settings:
    model: pathlib.Path  # GGUF
    build: pathlib.Path  # of a release build
    threads: int
    is_quick: bool
    rounds: int = 1  # of the section that is measured
    peer_bin: pathlib.Path = None  # of llama.cpp; None: it could not be had
    peer_reason: str = ""
    devices: list = dataclasses.field(default_factory=list)  # of two shards; none: a core each
    is_tensor: bool = False  # these are ranks of one stage
    disturbed: int = 0  # measurements that were thrown away
    neighbours: list = dataclasses.field(default_factory=list)  # (what ran, cores used by others, cores stolen by the host)

    @property
    def cluster(self):
        return self.build / "cluster" / "cluster"

    def _bench(self, name):
        return self.build / "tests" / "bench" / name

    @property
    def engine_bench(self):
        return self._bench("engine_bench")

    @property
    def tiny_model(self):
        return self.build / "tests" / "support" / "tiny_model"

    @property
    def collective_bench(self):
        return self._bench("collective_bench")

    @property
    def perplexity_bench(self):
        return self._bench("perplexity_bench")

    @property
    def tokenizer_bench(self):
        return self._bench("tokenizer_bench")

    @property
    def masks_bench(self):
        return self._bench("masks_bench")

    @property
    def doors_bench(self):
        return self._bench("doors_bench")

    @property
    def bus_bench(self):
        return self._bench("bus_bench")

    def machine_rows(self):
        """The machine, and the other load on it during the measurements."""
        made = [report.Row("machine.cpu", machine.cpu_model(), "text"), report.Row("machine.cores", os.cpu_count(), "cores"),
                report.Row("machine.memory", machine.memory_gib(), "GiB"), report.Row("machine.threads_measured", self.threads, "threads")]
        if self.neighbours:
            what, busiest, _ = max(self.neighbours, key=lambda n: n[1])
            row = report.judged("machine.used_by_others", busiest, "cores", BUSY_CORES_MAX, lower_is_better=True,
                                low=min(n[1] for n in self.neighbours), high=busiest, rounds=len(self.neighbours))
            row.reason = "" if row.ok else f"worst during: {what}"
            stolen = [n[2] for n in self.neighbours]
            made += [row, report.judged("machine.stolen_by_host", max(stolen), "cores", low=min(stolen), high=max(stolen), rounds=len(stolen)),
                     report.Row("machine.disturbed_rounds", self.disturbed, "measured again")]
        return made

    def watch(self, what, server_pid=None):
        return Watch(self, what, server_pid)

    def undisturbed(self, measure):
        """Runs `measure()`, and repeats it a few times while others or the host used the cores. The last result counts."""
        for _ in range(DISTURBED_MAX):
            first = len(self.neighbours)
            result = measure()
            taken = max((used + stolen for _, used, stolen in self.neighbours[first:]), default=0.0)
            if taken < DISTURBED_CORES:
                break
            self.disturbed += 1
            say(f"{taken:.2f} cores were taken by others meanwhile: measured again")
            del self.neighbours[first:]
        else:
            return measure()
        return result


class Watch:
    """Notes who else used the machine while a measurement ran."""

    def __init__(self, settings, what, server_pid):
        self._settings, self._what, self._pid = settings, what, server_pid

    def __enter__(self):
        self._neighbours = machine.Neighbours(self._pid)

    def __exit__(self, *_):
        if self._neighbours.seconds() >= WATCH_SECONDS_MIN:
            self._settings.neighbours.append((self._what, *self._neighbours.cores()))


class ToolFailed(Exception):
    """A bench binary is missing or failed; the text says why."""


def say(text):
    print(f"==> {text}", file=sys.stderr, flush=True)


def run_tool(command, seconds, with_stderr=False):
    """-> standard output, followed by standard error if requested. Raises ToolFailed."""
    name = pathlib.Path(command[0]).name
    try:
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors="replace", timeout=seconds, check=False)
    except FileNotFoundError as error:
        raise ToolFailed(f"{name} is not built") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolFailed(f"{name}: {error}") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["no output"]
        raise ToolFailed(f"{name} ended with status {done.returncode}: {last[0]}")
    return done.stdout + done.stderr if with_stderr else done.stdout


def json_lines(text):
    """The lines that are JSON objects."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
