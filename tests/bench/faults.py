"""./check faults: faults in a running cluster, as its clients see them.

Real processes, the default model, two stages, 16 streams. Each injection comes at a random moment (from a printed seed). All streams
judge it: one end each, and the text of the undisturbed run. Prints a table for people, or with --json one object a line: row,
value, unit, bar, ok, min, max, rounds. Exit status 1 if a bar is missed. --write puts the table into docs/operate/reliability.md. All
rows take an hour and a half; --resume continues an interrupted run.

    ./check faults [--injections N] [--all | --only ROW[,ROW]] [--json] [--write] [--resume] [--build-dir DIR]
"""
import argparse
import contextlib
import datetime
import math
import os
import pathlib
import random
import select
import signal
import statistics
import sys
import threading
import time

import fault_client
import machine
import report
import servers
from sections import overload as overloading
from sections import resumed
from sections import soak as soaking
from sections.tally import Tally, back, gap, of_texts
from settings import DISTURBED_CORES, say

ROOT = servers.ROOT
DOCUMENT = ROOT / "docs/operate/reliability.md"
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
STREAMS = 16
TOKENS = 64
RECOVERED_SECONDS_MAX = 30
# A process that has worked is restarted at once. So many restarts of one kind are within every supervisor's intensity.
INJECTIONS_PER_CLUSTER = 4
SETTLED_SECONDS = 2.5  # a process that has served so long counts as recovered
# A gap that begins this long after the death of a shard with kept memory is the machine's stutter. Its step of 30 ms sometimes takes 100,
# whatever died.
AFTERMATH_SECONDS = 0.5
CALM_SECONDS_MIN = 0.25  # from the blow on, at least: the kernel counts in hundredths of a second
MORE_INJECTIONS = 2  # times the requested number, if the host takes the processor in some of them
DEADLY = ("rhizomes", "whooping")  # words for tests/system/cluster/cluster_poisoned.cpp: for the first stage, for the last
DEATHS_MAX = 2  # in company, then alone
STOPPED_SECONDS = (0.2, 4.0)  # a stopped process is woken after so long: before it is detected, while it is replaced, or long after that
CLOSING_SECONDS = 1.0
SILENT_SECONDS = 0.5  # "no stream notices" counts only longer silences of a stream


def process_pid(server, name):
    return next(p["pid"] for p in server.status()["processes"] if p["name"] == name)


def shards(server):
    return sorted(server.shard_pids().items())


def inject(server, dice, texts, strike, tally, comes_back, aftermath=math.inf):
    """Runs all streams with the fault at a random moment, and judges them. Their gaps count only if the host took no processor time meanwhile.

    -> when new requests were served again
    """
    clients = fault_client.started(server.port, STREAMS, TOKENS, comes_back, server.door)
    for client in clients:
        client.begun.wait(60)
    time.sleep(dice.random() * 0.8)
    with machine.StolenTime() as stolen:
        struck = time.monotonic()
        strike()
        back = fault_client.healthy_again(server.port, struck, RECOVERED_SECONDS_MAX)
        for client in clients:
            client.join(RECOVERED_SECONDS_MAX + 60)
    step = statistics.median([b - a for c in clients for a, b in zip(c.stamps, c.stamps[1:])] or [0])
    gaps = [gap for client in clients if (gap := client.gap_after(struck, aftermath)) is not None]
    tally.injections += 1
    for client, text in zip(clients, texts):
        tally.add(client, text)
    if stolen.cores_after(struck, max([back, CALM_SECONDS_MIN, *gaps])) > DISTURBED_CORES:
        tally.disturbed += 1
    else:
        tally.back.append(back)
        tally.gaps += [max(0.0, gap - step) for gap in gaps]
    return struck + back


def undisturbed(server):
    clients = fault_client.started(server.port, STREAMS, TOKENS)
    for client in clients:
        client.join(120)
    if broken := [f for c in clients for f in c.faults()]:
        raise servers.ServerFailed(f"undisturbed: {broken[0]}")
    return [c.text for c in clients]


def blows(settings, strike_of, count, comes_back=False, per_cluster=INJECTIONS_PER_CLUSTER, binary=None, after=None, aftermath=math.inf,
          has_door=False):
    """`strike_of(server, dice, index)` gives what to do. Fresh clusters now and then: supervisors have a limit.

    `after(server)` looks at what it has left. `has_door`: some clients come by WebSocket or SDK.
    """
    tally, dice, texts = Tally(), random.Random(settings.seed), None
    while tally.injections - tally.disturbed < count and tally.injections < MORE_INJECTIONS * count:
        with servers.Cluster(binary or settings.cluster, MODEL, settings.devices, has_door=has_door) as server:
            texts = texts or undisturbed(server)
            for _ in range(min(per_cluster, count + tally.disturbed - tally.injections)):
                say(f"injection {tally.injections + 1}, of {count} that the host leaves alone {tally.injections - tally.disturbed}")
                recovered = inject(server, dice, texts, strike_of(server, dice, tally.injections), tally, comes_back, aftermath)
                if after:
                    after(server)
                if per_cluster > 1:
                    server.wait_ready_again()
                    time.sleep(max(0.0, recovered + SETTLED_SECONDS - time.monotonic()))
    return tally


def shard_signal(number):
    def strike_of(server, _, index):
        listed = shards(server)
        pid = listed[index % len(listed)][1]
        return lambda: fault_client.send_signal(pid, number)
    return strike_of


def process_signal(name, number=signal.SIGKILL):
    def strike_of(server, *_):
        pid = process_pid(server, name)
        return lambda: fault_client.send_signal(pid, number)
    return strike_of


def kill_stage(settings):
    tally = blows(settings, shard_signal(signal.SIGKILL), settings.injections, aftermath=AFTERMATH_SECONDS)
    return [gap("kill_stage", tally, 50, 0.05), gap("kill_stage", tally, 99, 0.15), *of_texts("kill_stage", tally)]


def kill_stage_memory_gone(settings):
    """A crash: its memory is not trusted, so its KV is computed again."""
    tally = blows(settings, shard_signal(signal.SIGSEGV), settings.injections)
    return [gap("kill_stage_memory_gone", tally, 50, None), gap("kill_stage_memory_gone", tally, 99, 1.0 + settings.prefill_seconds),
            *of_texts("kill_stage_memory_gone", tally)]


class Sleeper:
    """A stopped process that a thread wakes after a while, if it still exists. It uses the process's pidfd, so that no other process is
    woken."""

    def __init__(self, pid, seconds):
        self._fd = os.pidfd_open(pid)
        signal.pidfd_send_signal(self._fd, signal.SIGSTOP)
        self.has_woken = False
        self._thread = threading.Thread(target=self._wake, args=(seconds,), daemon=True)
        self._thread.start()

    def _wake(self, seconds):
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._fd, signal.SIGCONT)
            self.has_woken = True

    def lives(self):
        """Once it was to wake up: whether it is a process still."""
        self._thread.join()
        over, _, _ = select.select([self._fd], [], [], 0)
        os.close(self._fd)
        return not over


def stop_stage(settings):
    """The shard is detected by its silence: the gap includes the detection and the recovery. It is woken after a random time. The process
    that detects it ends it before it is restarted, so two never coexist. Messages that it sends on waking count only before it is
    detected; otherwise they are ignored. A mistake would show in the texts."""
    sleepers, doubles, woken = [], 0, 0

    def strike_of(server, dice, index):
        listed = shards(server)
        pid, seconds = listed[index % len(listed)][1], dice.uniform(*STOPPED_SECONDS)
        return lambda: sleepers.append((pid, Sleeper(pid, seconds)))

    def after(server):
        nonlocal doubles, woken
        pid, sleeper = sleepers[-1]
        lives = sleeper.lives()
        woken += sleeper.has_woken and lives
        doubles += lives and pid not in server.shard_pids().values()

    tally = blows(settings, strike_of, settings.injections, after=after)
    return [gap("stop_stage", tally, 50, None), gap("stop_stage", tally, 99, 2.0),
            report.judged("stop_stage.woken_unfound", woken, "shards", rounds=tally.injections),
            report.judged("stop_stage.beside_their_next_life", doubles, "shards", 1, lower_is_better=True, rounds=tally.injections),
            *of_texts("stop_stage", tally)]


def kill_gateway(settings):
    """Half of the clients come over HTTP, with Last-Event-ID; a quarter by WebSocket, with `resume`; a quarter are the SDK, which does so itself."""
    tally = blows(settings, process_signal("gateway"), settings.injections, comes_back=True, has_door=True)
    return [back("kill_gateway", tally, 0.5), report.judged("kill_gateway.returns", tally.returns, "times", rounds=tally.injections),
            *of_texts("kill_gateway", tally)]


def kill_head(settings):
    tally = blows(settings, process_signal("head"), settings.injections)
    return [back("kill_head", tally, 1.0), gap("kill_head", tally, 99, None), *of_texts("kill_head", tally)]


def kill_agent(settings):
    """Its shards continue, and the next agent adopts them."""
    tally = blows(settings, process_signal("agent-a"), settings.injections, per_cluster=2)
    return [gap("kill_agent", tally, 99, SILENT_SECONDS), *of_texts("kill_agent", tally)]


def kill_root(settings):
    """And the next one, at once, which adopts what it left."""
    tally = blows(settings, lambda server, *_: server.replace_root, settings.injections, per_cluster=2)
    return [gap("kill_root", tally, 99, SILENT_SECONDS), *of_texts("kill_root", tally)]


def poison(settings):
    """One request more, which ends every shard that computes it, until it is found out. The binary has that bug, and no other has."""
    culprits, deaths, before = [], [], {}

    def restarts(server):
        return {p["name"]: p["restarts"] for p in server.status()["processes"]}

    def strike_of(server, _, index):
        before.update(restarts(server))
        culprits.append(fault_client.Client(server.port, 0, TOKENS, comes_back=False, subject=DEADLY[index % len(DEADLY)]))
        return culprits[-1].start

    def after(server):
        culprits[-1].join(RECOVERED_SECONDS_MAX)
        deaths.append(sum(restarts(server).values()) - sum(before.values()))

    tally = blows(settings, strike_of, settings.injections, per_cluster=len(DEADLY), binary=settings.poisoned, after=after)
    found = sum("quarantined" in c.error and not c.text for c in culprits) / len(culprits)
    return [report.judged("poison.quarantined", found, "share", 1, rounds=tally.injections),
            report.judged("poison.deaths", max(deaths), "shards", DEATHS_MAX + 1, lower_is_better=True, low=min(deaths), high=max(deaths),
                          rounds=tally.injections),
            gap("poison", tally, 99, None), *of_texts("poison", tally)]


def overload(settings):
    """Ten times as many clients as slots, which retry when the response allows it. Before and after come phases with as many clients as
    slots."""
    with servers.Cluster(settings.cluster, MODEL, settings.devices, max_num_seqs=STREAMS, max_num_queued_reqs=STREAMS) as server:
        undisturbed(server)
        before = overloading.Phase(server, STREAMS, TOKENS, settings.overload_seconds / 2)
        flood = overloading.Phase(server, 10 * STREAMS, TOKENS, settings.overload_seconds)
        after = overloading.Phase(server, STREAMS, TOKENS, settings.overload_seconds / 2)
    return overloading.rows(before, flood, after)


def disconnects(settings):
    """Clients that leave in the middle, over HTTP and WebSocket: every process gets the resources back."""
    count = 10 * settings.injections
    with servers.Cluster(settings.cluster, MODEL, settings.devices) as server:
        undisturbed(server)
        fault_client.abrupt(server.port, STREAMS)  # of both kinds, so that everything that is made only once exists
        _at_rest(server)
        before = fault_client.held_at_rest(server.process.pid)
        for _ in range(count // STREAMS + 1):
            fault_client.abrupt(server.port, STREAMS)
        load = _at_rest(server)
        after = fault_client.held_at_rest(server.process.pid)
    leaks = {"blocks": load["kv_blocks_used"], **{what: after[what] - before[what] for what in before}}
    return [report.judged(f"disconnects.{what}_left", max(0, left), "bytes" if what == "shared_bytes" else what, 1, lower_is_better=True, rounds=count)
            for what, left in leaks.items()]


def _at_rest(server):
    """No request runs, and closed connections are gone."""
    deadline = time.monotonic() + RECOVERED_SECONDS_MAX
    while (load := server.status()["load"])["running"] + load["kv_blocks_used"] > 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(CLOSING_SECONDS)
    return load


def soak(settings):
    """All kinds of faults for half an hour; runs only by name."""
    tally = Tally()
    with servers.Cluster(settings.cluster, MODEL, settings.devices) as server:
        samples, interval = soaking.run(settings, server, undisturbed(server), TOKENS, tally)
    return soaking.rows(tally, samples, interval)


# Rows that a busy machine disturbs come first, together.
ROWS = {f.__name__: f for f in (kill_stage, kill_stage_memory_gone, stop_stage, overload, disconnects, kill_gateway, kill_head, kill_agent, kill_root,
                                poison, soak)}
BY_NAME_ALONE = {"soak"}


def arguments():
    parser = argparse.ArgumentParser(prog="./check faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--injections", type=int, default=100, help="of each row")
    parser.add_argument("--only", default="", help=f"of {', '.join(ROWS)}; without this all but {', '.join(BY_NAME_ALONE)}")
    parser.add_argument("--all", action="store_true", help="all rows, with " + ", ".join(BY_NAME_ALONE))
    parser.add_argument("--seed", type=int, default=0, help="of the moments; 0: drawn")
    parser.add_argument("--overload-seconds", type=float, default=60, dest="overload_seconds")
    parser.add_argument("--soak-seconds", type=float, default=1800, dest="soak_seconds")
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--write", action="store_true", help="rewrite the results in docs/operate/reliability.md")
    parser.add_argument("--resume", action="store_true", help="rows that were made of this product, with as many injections, are printed again, not made")
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build" / "release", help="of a release build")
    options = parser.parse_args()
    if options.all and options.only:
        parser.error("--all and --only exclude one another")
    options.names = options.only.split(",") if options.only else [name for name in ROWS if options.all or name not in BY_NAME_ALONE]
    if unknown := set(options.names) - set(ROWS):
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    options.seed = options.seed or random.randrange(1, 1 << 30)
    options.cluster = options.build_dir / "cluster" / "cluster"
    options.poisoned = options.build_dir / "tests" / "system" / "cluster" / "cluster_poisoned"
    options.devices, _ = servers.core_devices(2)
    options.prefill_seconds = 1.0  # of what 16 streams had computed, about 2,500 rows
    return options


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = arguments()
    say(f"seed {options.seed}")
    product = resumed.product()
    book = resumed.Book(options.build_dir / "faults.jsonl", product,
                        {"injections": options.injections, "overload_seconds": options.overload_seconds, "soak_seconds": options.soak_seconds})
    rows = []
    for name in options.names:
        made = book.find(name) if options.resume else None
        if made:
            say(f"{name}: of an earlier run")
        else:
            begin = time.monotonic()
            try:
                made = ROWS[name](options)
            except (servers.ServerFailed, OSError, StopIteration) as error:
                made = [report.missing(name, f"{type(error).__name__}: {error}")]
            say(f"{name}: {time.monotonic() - begin:.0f} s")
            book.keep(name, made)
        # Printed at once: all rows take an hour, and a user may stop them.
        print("\n".join(row.as_json() for row in made) if options.json else report.render(made, report.as_text), flush=True)
        rows += made
    if options.write:
        heading = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}, {options.injections} injections on {product or 'changes that are not committed'}, seed {options.seed}."
        report.write_results(DOCUMENT, heading, rows)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
