"""./check scale: how far one head and one root scale, with the real code over simulated shards.

It runs the scheduler, supervisor, pipeline and membership code. Prints a table for people, or with --json one object a line, as
./check bench does. Exit status 1 if a bar is missed. --write puts the table into docs/develop/scale.md, which explains how to read it.

Usage:

    ./check scale [--quick] [--json] [--write] [--rounds N] [--only SECTION] [--build-dir DIR]
"""
import argparse
import contextlib
import datetime
import os
import pathlib
import signal
import sys

import machine
import report
from settings import ToolFailed, json_lines, run_tool, say

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCUMENT = ROOT / "docs/develop/scale.md"
SECTIONS = ("scheduler", "supervisor", "world")
SECTION_SECONDS_MAX = 900


def arguments():
    parser = argparse.ArgumentParser(prog="./check scale", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, one round: shows that all works, proves nothing")
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--write", action="store_true", help="rewrite the results in docs/develop/scale.md")
    parser.add_argument("--rounds", type=int, default=3, help="of each figure; the largest simulated cluster has one")
    parser.add_argument("--only", choices=SECTIONS, help="one section")
    parser.add_argument("--build-dir", type=pathlib.Path, default=ROOT / "build" / "release", help="of a release build")
    options = parser.parse_args()
    if not 1 <= options.rounds <= 100:
        parser.error("--rounds is 1 to 100")
    if options.write and (options.quick or options.only):
        parser.error("--write wants all of it: neither --quick nor --only")
    return options


def measured(options, section):
    say(f"scale: {section}")
    tool = options.build_dir / "tests" / "bench" / "scale_bench"
    how = ("--quick", "--rounds", "1") if options.quick else ("--rounds", str(options.rounds))
    try:
        output = run_tool([tool, "--json", "--only", section, *how], SECTION_SECONDS_MAX)
    except ToolFailed as error:
        return [report.missing(f"scale.{section}", str(error))]
    return [report.row_from_tool(fields, "scale") for fields in json_lines(output)] or [report.missing(f"scale.{section}", "no rows")]


def machine_rows():
    return [report.Row("machine.cpu", machine.cpu_model(), "text"), report.Row("machine.cores", os.cpu_count(), "cores")]


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = arguments()
    rows = machine_rows()
    for section in (options.only,) if options.only else SECTIONS:
        rows += measured(options, section)
    print("\n".join(row.as_json() for row in rows) if options.json else report.render(rows, report.as_text))
    if options.write:
        report.write_results(DOCUMENT, f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}, {report.commit()}.", rows)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
