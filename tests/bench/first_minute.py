"""./check first_minute: the time from a package to the first token, of a download, and of a switch of models.

Real processes, beside llama-server and curl in interleaved rounds. Prints a table for people, or with --json one object a line, as
./check bench does. Exit status 1 if a bar is missed. --write puts the table into docs/develop/first-minute.md, which explains the rows.

Usage:

    ./check first_minute [--quick] [--json] [--write] [--only PART[,PART]] [--model-large FILE] [--packages DIR] [--rounds N] [--build-dir DIR] [--no-peer]
"""
import argparse
import contextlib
import dataclasses
import datetime
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import peer_llama
import report
import servers
from sections import download, first_token, installed, switch
from settings import Settings, ToolFailed, say

ROOT = servers.ROOT
DOCUMENT = ROOT / "docs/develop/first-minute.md"
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PARTS = {"sizes": installed.sizes, "wheel": installed.wheel, "run": first_token.run, "switch": switch.rows, "download": download.speed,
         "resume": download.resume}
NEED_PEER = {"run"}
ROUNDS = 5


@dataclasses.dataclass
class FirstMinute(Settings):
    model_large: pathlib.Path = None  # GGUF of about 0.5 GB; None: its rows are skipped
    packages: pathlib.Path = None  # a folder with the .deb and the wheel; what it lacks is made of the build
    scratch: pathlib.Path = None

    def undisturbed(self, measure):
        return measure() if self.is_quick else super().undisturbed(measure)


def arguments():
    parser = argparse.ArgumentParser(prog="./check first_minute", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round: shows that all works, proves no speed")
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--write", action="store_true", help="rewrite the results in docs/develop/first-minute.md")
    parser.add_argument("--only", default="", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--model", type=pathlib.Path, default=MODEL, help="the small GGUF file, default SmolLM2-135M-Instruct")
    parser.add_argument("--model-large", type=pathlib.Path, default=None, help="a GGUF file of about 0.5 GB; without it its rows are skipped")
    parser.add_argument("--packages", type=pathlib.Path, default=ROOT / "dist", help="folder of the .deb and the wheel, default dist; what is missing there is made of the build")
    parser.add_argument("--rounds", type=int, default=0, help=f"of every part, by default {ROUNDS}")
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build" / "release", help="of a release build")
    parser.add_argument("--no-peer", action="store_true", help="do not fetch and build llama.cpp")
    options = parser.parse_args()
    options.parts = options.only.split(",") if options.only else list(PARTS)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if options.rounds < 0:
        parser.error("--rounds is 1 or more")
    if options.write and (options.quick or options.only or not options.model_large):
        parser.error("--write wants all of it: --model-large, and neither --quick nor --only")
    for file in filter(None, (options.model, options.model_large)):
        if not file.is_file():
            parser.error(f"{file}: no such file")
    return options


def prepare(options, scratch):
    settings = FirstMinute(model=options.model.resolve(), build=options.build_dir.resolve(), threads=len(os.sched_getaffinity(0)),
                           is_quick=options.quick, rounds=options.rounds or (1 if options.quick else ROUNDS), packages=options.packages, scratch=scratch,
                           model_large=options.model_large and options.model_large.resolve())
    if not os.access(settings.cluster, os.X_OK):
        raise ToolFailed(f"{settings.cluster} is not built")
    if NEED_PEER & set(options.parts):
        try:
            if options.no_peer:
                raise peer_llama.PeerMissing("left out by --no-peer")
            settings.peer_bin = peer_llama.ensure(say=say)
        except peer_llama.PeerMissing as error:
            settings.peer_reason = f"llama.cpp: {error}"
            say(settings.peer_reason)
    return settings


def rows_of(name, settings):
    begin = time.monotonic()
    try:
        made = PARTS[name](settings)
    except (servers.ServerFailed, ToolFailed, OSError, subprocess.SubprocessError) as error:
        made = [report.missing(name, f"{type(error).__name__}: {error}")]
    return [*made, report.judged(f"seconds.{name}", time.monotonic() - begin, "s")]


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are stopped on the way out
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="baton-bench-") as scratch:
        try:
            settings = prepare(options, pathlib.Path(scratch))
        except ToolFailed as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        rows = [row for name in options.parts for row in rows_of(name, settings)]
    rows = settings.machine_rows() + rows
    print("\n".join(row.as_json() for row in rows) if options.json else report.render(rows, report.as_text))
    if options.write:
        now = datetime.datetime.now(datetime.timezone.utc)
        report.write_results(DOCUMENT, f"{now:%Y-%m-%d}, {report.commit()}, {options.model.name} and {options.model_large.name}.", rows)
    failed = [row.row for row in rows if not row.ok]
    say(f"{len(rows)} rows, {len(failed)} not ok{': ' + ', '.join(failed[:8]) if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
