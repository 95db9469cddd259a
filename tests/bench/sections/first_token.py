"""From the execution of `cluster run MODEL PROMPT` to the first byte of its answer, beside llama-server. Called by first_minute.py.

The model's file is in the page cache. llama-server is asked the same question every few milliseconds from its execution on, as in the
section `start`. Its clock stops at the first piece of text.
"""
import contextlib
import os
import select
import subprocess
import tempfile
import time

import report
import servers
from sections import start
from settings import say

PROMPT = "Why is the sky blue?"
MAX_TOKENS = 8
SECONDS_MAX = 120
SMALL_BAR_SECONDS, LARGE_BAR_SECONDS = 0.6, 1.5
PEER_BAR = 1.2


@contextlib.contextmanager
def own_place(path=os.defpath):
    """-> an environment that has only PATH of this one, without a running cluster"""
    with tempfile.TemporaryDirectory(prefix="baton-") as folder:  # a short path, as sockets need
        yield {"PATH": path, "HOME": folder, "XDG_RUNTIME_DIR": folder, "LANG": "C.UTF-8", "no_proxy": "*"}


def seconds_to_first_byte(command, environment, begun=None):
    """Seconds until the first byte of its standard output. The command must succeed. `begun`: an earlier start of the clock. Raises ServerFailed."""
    begun = begun or time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, env=environment) as process:
            try:
                readable = select.select([process.stdout], [], [], SECONDS_MAX)[0]
                seconds = time.monotonic() - begun
                text = (process.stdout.read1(1) + process.communicate(timeout=SECONDS_MAX)[0]).strip() if readable else b""
            except subprocess.TimeoutExpired:
                text = b""
            finally:
                process.kill()
        if not text or process.returncode:
            errors.seek(0)
            raise servers.ServerFailed(f"{os.path.basename(command[0])} ended with status {process.returncode} and {len(text)} bytes: {errors.read().strip()[-200:]}")
    return seconds


def run_command(cluster, model):
    return [cluster, "run", model, PROMPT, "--max-tokens", MAX_TOKENS, "--temperature", 0, "--port", servers.free_port()]


def of_baton(settings, model):
    with own_place() as environment, settings.watch(f"cluster run {model.name}"):
        return seconds_to_first_byte(run_command(settings.cluster, model), environment)


def of_llama(settings, model):
    with settings.watch(f"llama-server {model.name}"):
        with servers.LlamaServer(settings.peer_bin / "llama-server", model, settings.threads, 1, waits=False) as server:
            return start.first_token(server, fields={"messages": [{"role": "user", "content": PROMPT}]})[0]


def rows_of_model(settings, name, model, bar):
    sides = {"baton": of_baton, **({"llama": of_llama} if settings.peer_bin else {})}
    results, failures = {side: [] for side in sides}, {} if settings.peer_bin else {"llama": settings.peer_reason}
    for measure in sides.values():  # brings the file into the page cache
        with contextlib.suppress(servers.ServerFailed):
            measure(settings, model)
    for round_index in range(settings.rounds):
        say(f"run: round {round_index + 1} of {settings.rounds}, {model.name}")
        for side in sorted(sides, reverse=round_index % 2 == 1):
            try:
                results[side].append(settings.undisturbed(lambda side=side: sides[side](settings, model)))
            except servers.ServerFailed as error:
                results[side].append(None)
                failures[side] = str(error)
    return judge(name, results, failures, bar)


def judge(name, results, failures, bar):
    """`results`: {side: seconds or None, by round}"""
    rows = [report.median_row(f"run.{name}.first_token", results["baton"], "s", bar, lower_is_better=True)]
    if "baton" in failures:
        rows.append(report.missing(f"run.{name}.baton", failures["baton"]))
    if "llama" in failures:
        return [*rows, report.missing(f"run.{name}.baton/llama", failures["llama"], "x", PEER_BAR, lower_is_better=True)]
    return [*rows, report.median_row(f"run.{name}.llama", results["llama"], "s"),
            report.ratio_row(f"run.{name}.baton/llama", results["baton"], results["llama"], PEER_BAR, lower_is_better=True)]


def run(settings):
    rows = rows_of_model(settings, "small", settings.model, SMALL_BAR_SECONDS)
    if settings.model_large is None:
        return [*rows, report.skipped("run.large.first_token", "no --model-large FILE")]
    return rows + rows_of_model(settings, "large", settings.model_large, LARGE_BAR_SECONDS)
