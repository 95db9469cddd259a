"""./check growth: the effect of more nodes and shards, also while streams run.

Real processes, the default model. Prints a table for people, or with --json one object a line, as ./check bench does. Exit status 1 if a
bar is missed. --write puts the table into docs/develop/growth.md, which explains how to read it.

Usage:

    ./check growth [--quick] [--json] [--write] [--only PART[,PART]] [--rounds N] [--build-dir DIR]
"""
import argparse
import contextlib
import datetime
import pathlib
import signal
import sys

import report
import servers
from sections import network, nodes, prediction, tensor
from settings import Settings, ToolFailed, say

ROOT = servers.ROOT
DOCUMENT = ROOT / "docs/develop/growth.md"
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PARTS = {"join": nodes.join, "sums": tensor.sums, "tensor": tensor.tensor, "large": tensor.large, "curve": network.curve, "start": network.start, "plan": prediction.plan}
ROUNDS = 3


def arguments():
    parser = argparse.ArgumentParser(prog="./check growth", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="little of each: shows that all works, proves nothing")
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--write", action="store_true", help="rewrite the results in docs/develop/growth.md")
    parser.add_argument("--only", default="", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=0, help=f"of all parts but join, by default {ROUNDS}")
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build" / "release", help="of a release build")
    options = parser.parse_args()
    options.parts = options.only.split(",") if options.only else list(PARTS)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if options.rounds < 0:
        parser.error("--rounds is 1 or more")
    if options.write and (options.quick or options.only):
        parser.error("--write wants all of it: neither --quick nor --only")
    return options


def rows_of(name, settings):
    try:
        return PARTS[name](settings)
    except (servers.ServerFailed, ToolFailed, OSError) as error:
        return [report.missing(f"growth.{name}", str(error))]


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are stopped on the way out
    options = arguments()
    settings = Settings(model=MODEL, build=options.build_dir, threads=2, is_quick=options.quick,
                        rounds=options.rounds or (1 if options.quick else ROUNDS))
    rows = [row for name in options.parts for row in rows_of(name, settings)]
    rows = settings.machine_rows() + rows
    print("\n".join(row.as_json() for row in rows) if options.json else report.render(rows, report.as_text))
    if options.write:
        report.write_results(DOCUMENT, f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}, {report.commit()}.", rows)
    failed = [row.row for row in rows if not row.ok]
    say(f"{len(rows)} rows, {len(failed)} not ok{': ' + ', '.join(failed[:8]) if failed else ''}")
    return 1 if failed else 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
