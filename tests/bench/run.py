"""./check bench: Baton against llama.cpp, raw ZeroMQ and the hardware, in interleaved rounds.

Prints a table for people. With --json it prints one object a line: row, value, unit, bar, ok, min, max, rounds (and the reason if
a row could not be measured). Exit status 1 if a bar is missed. --write puts the tables into docs/develop/benchmarks.md, which explains
how to read them.

Usage:

    ./check bench [--quick] [--json] [--write] [--only SECTION[,SECTION]] [--model FILE] [--rounds N] [--threads N]
    ./check bench --only pipeline,kill --devices cuda:0,cuda:0 [--tensor] [--build-dir build/gpu] ...
"""
import argparse
import datetime
import os
import pathlib
import signal
import subprocess
import sys
import time

import chart
import peer_llama
import report
import servers
from sections import bus, doors, engine, interference, json_schemas, kill, masks, perplexity, pipeline, prefix, speculation, start, tokenizer
from settings import Settings, ToolFailed, say

ROOT = servers.ROOT
DOCUMENT = ROOT / "docs/develop/benchmarks.md"
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
# Name -> (its rows, rounds by default). All of them together take less than SECONDS_MAX: what is measured was shortened for it, not
# the number of rounds.
SECTIONS = {"engine": (engine.rows, 5), "types": (engine.type_rows, 3), "perplexity": (perplexity.rows, 1), "tokenizer": (tokenizer.rows, 3),
            "served": (engine.served_rows, 2), "interference": (interference.rows, 1), "door": (engine.door_rows, 3),
            "pipeline": (pipeline.rows, 2), "prefix": (prefix.rows, 2), "speculation": (speculation.rows, 2), "masks": (masks.rows, 3), "start": (start.rows, 5),
            "kill": (kill.rows, 2), "bus": (bus.rows, 1), "doors": (doors.rows, 3), "schemas": (json_schemas.rows, 1)}
ONLY_BY_NAME = {"schemas"}  # it would not fit beneath SECONDS_MAX
BY_DEFAULT = [name for name in SECTIONS if name not in ONLY_BY_NAME]
NEED_PEER = {"engine", "types", "perplexity", "served", "interference"}
TAKE_DEVICES = {"pipeline", "kill"}
SECONDS_MAX = 900


def arguments():
    parser = argparse.ArgumentParser(prog="./check bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--quick", action="store_true", help="one short round: shows that all works, proves no speed")
    parser.add_argument("--write", action="store_true", help="rewrite the results in docs/develop/benchmarks.md")
    parser.add_argument("--only", default="", help=f"of {', '.join(SECTIONS)}; by default all but {', '.join(ONLY_BY_NAME)}")
    parser.add_argument("--model", type=pathlib.Path, default=MODEL, help="GGUF file for both sides")
    parser.add_argument("--rounds", type=int, default=0, help="of every section; by default from 1 to 5, as the section needs")
    parser.add_argument("--threads", type=int, default=2, help="compute threads of both sides, default 2")
    parser.add_argument("--devices", default="", help="of two shards, cuda:0,cuda:0, in place of a core each: for pipeline and kill")
    parser.add_argument("--tensor", action="store_true", help="with --devices: the two are ranks of one stage, for kill")
    parser.add_argument("--build-dir", type=pathlib.Path, default=None, help="use this build, do not build")
    parser.add_argument("--no-peer", action="store_true", help="do not fetch and build llama.cpp")
    options = parser.parse_args()
    options.sections = options.only.split(",") if options.only else BY_DEFAULT
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    options.devices = options.devices.split(",") if options.devices else []
    if options.devices and (len(options.devices) != 2 or not set(options.sections) <= TAKE_DEVICES):
        parser.error(f"--devices names two, and is for --only {','.join(sorted(TAKE_DEVICES))}")
    if options.tensor and (options.sections != ["kill"] or not options.devices):
        parser.error("--tensor is for --only kill, with --devices")
    cores = len(os.sched_getaffinity(0))
    if options.rounds < 0 or not 2 <= options.threads <= cores:
        parser.error(f"--rounds is 1 or more; --threads is 2 (two stages have one each) to {cores}, the cores of this machine")
    if options.write and options.quick:
        parser.error("--quick proves no speed: not to be written down")
    if options.write and options.devices:
        parser.error("--devices: rows of other devices, not of docs/develop/benchmarks.md's tables")
    if not options.model.is_file() and not (options.devices and (options.model / "config.json").is_file()):
        parser.error(f"{options.model}: no such file")
    return options


def build_release():
    done = subprocess.run(["bash", "-c", "set -euo pipefail; . scripts/setup.sh; build release benches"], cwd=ROOT, stdout=sys.stderr, check=False)
    if done.returncode:
        raise ToolFailed("the release build failed")


def prepare(options):
    settings = Settings(model=options.model.resolve(), build=options.build_dir or ROOT / "build" / "release", threads=options.threads,
                        is_quick=options.quick, devices=options.devices, is_tensor=options.tensor)
    if options.build_dir is None:
        build_release()
    if NEED_PEER & set(options.sections):
        try:
            if options.no_peer:
                raise peer_llama.PeerMissing("left out by --no-peer")
            settings.peer_bin = peer_llama.ensure(say=say)
        except peer_llama.PeerMissing as error:
            settings.peer_reason = f"llama.cpp: {error}"
            say(settings.peer_reason)
    return settings


def guarded(settings, options, name):
    """The rows of a section, and its seconds. An unexpected failure is a row too."""
    measure, rounds = SECTIONS[name]
    settings.rounds = options.rounds or (1 if options.quick else rounds)
    begin = time.monotonic()
    try:
        made = measure(settings)
    except Exception as error:  # the other sections must still be measured
        made = [report.missing(name, f"{type(error).__name__}: {error}")]
    return [*made, report.judged(f"seconds.{name}", time.monotonic() - begin, "s")]


def seconds_row(seconds, options):
    """Time of all measurements, without the builds."""
    is_whole = options.sections == BY_DEFAULT and not options.rounds and not options.quick
    return report.judged("seconds", seconds, "s", SECONDS_MAX if is_whole else None, lower_is_better=True)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are stopped on the way out
    options = arguments()
    try:
        settings = prepare(options)
    except (ToolFailed, subprocess.TimeoutExpired) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    begin = time.monotonic()
    bandwidth = engine.bandwidth(settings)
    rows = [row for name in options.sections for row in guarded(settings, options, name)]
    rows = settings.machine_rows() + engine.bandwidth_rows(bandwidth, engine.bandwidth(settings)) + rows
    rows.append(seconds_row(time.monotonic() - begin, options))
    print("\n".join(row.as_json() for row in rows) if options.json else report.render(rows, report.as_text))
    if options.write:
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        heading = f"{now}, {report.commit()}, {settings.model.name}, llama.cpp {peer_llama.COMMIT}."
        report.write_results(DOCUMENT, heading, rows)
        chart.write(DOCUMENT)
    failed = [row.row for row in rows if not row.ok]
    say(f"{len(rows)} rows, {len(failed)} not ok{': ' + ', '.join(failed[:8]) if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
