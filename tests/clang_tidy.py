"""clang-tidy over the product's sources, with the checks of .clang-tidy. Called by tests/check.py (`./check clang-tidy`).
It reads the units of the build `dev` (cmake/Baton.cmake), which parses a header once for all files of a unit. Prints each offence
once; exit status 1 if there is one."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIDY = "clang-tidy-14"
ROOMS = ("schema", "runtime", "actors", "gateway", "cluster", "sdk")  # tests/ doubles the time
UNREADABLE = {"runtime/cpu/kernels/isa.cpp"}  # clang 14 lacks the names of some processor features
SECONDS_MAX = 900  # of one unit on a busy machine; most take less than a minute
OFFENCE = re.compile(r"^(.+?):(\d+):\d+: (?:warning|error): .*\[[\w.,-]+\]$")


def members(unit):
    """-> the files that a unit includes, named from the root"""
    return re.findall(r'^#include "(.+)"$', unit.read_text(), re.M)


def sources_of(file, root):
    """-> the sources that a file of the compile database stands for, named from the root; none if it is generated"""
    path = pathlib.Path(file)
    if path.parent.name == "units" and path.is_relative_to(root / "build"):
        return members(path)
    if path.suffix != ".cpp" or path.is_relative_to(root / "build"):
        return []
    return [path.relative_to(root).as_posix()]


def flags_of(command, file):
    """-> the flags of a compiler's command without its warnings, launcher and output"""
    words = shlex.split(command)
    compiler = next(i for i, word in enumerate(words) if re.search(r"(g\+\+|c\+\+|clang\+\+)[\d.-]*$", word))
    flags, words = [], iter(words[compiler + 1 :])
    for word in words:
        if word == "-o":
            next(words)
        elif word not in ("-c", file) and not word.startswith("-W"):
            flags.append(word)
    return [*flags, "-Wno-everything"]


def chosen(entries, only, root):
    """-> [(file, folder, flags)] of the product, those that contain a file of `only` if it names any; the largest first"""
    rows = []
    for entry in entries:
        sources = [s for s in sources_of(entry["file"], root) if s.startswith(tuple(f"{room}/" for room in ROOMS)) and "/tests/" not in s]
        if sources and not UNREADABLE & set(sources) and (not only or only & set(sources)):
            size = sum((root / s).stat().st_size for s in sources)
            rows.append((size, entry["file"], entry["directory"], flags_of(entry["command"], entry["file"])))
    return [row[1:] for row in sorted(rows, reverse=True)]


def offences_in(text, root):
    """-> what clang-tidy found, as {offence: with the source's lines}; the place named from the root"""
    found, current = {}, None
    for line in text.splitlines():
        if OFFENCE.match(line):
            current = line.removeprefix(f"{root}/")
            found[current] = current
        elif current and line.strip():
            found[current] += "\n" + line
    return found


def tidied(row):
    """-> (offences, other trouble, seconds)"""
    file, folder, flags = row
    begin = time.monotonic()
    try:
        done = subprocess.run([TIDY, "--quiet", file, "--", *flags], cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return {}, f"{file}: no end after {SECONDS_MAX} s", time.monotonic() - begin
    found = offences_in(done.stdout, ROOT)
    trouble = f"{file}: {done.stderr[-2000:]}" if done.returncode and not found else ""
    return found, trouble, time.monotonic() - begin


def main(arguments):
    parser = argparse.ArgumentParser(prog="./check clang-tidy")
    parser.add_argument("files", nargs="*", help="sources, named from the root: only what is compiled with them (default: all)")
    parser.add_argument("-p", default=str(ROOT / "build/dev"), metavar="DIR", help="a build folder (default build/dev)")
    parser.add_argument("-j", type=int, default=os.cpu_count(), metavar="N", help="processes, up to 1 GB each")
    asked = parser.parse_args(arguments)
    rows = chosen(json.loads((pathlib.Path(asked.p) / "compile_commands.json").read_text()), set(asked.files), ROOT)
    if not rows:
        print(f"nothing compiles {' '.join(asked.files)}")
        return 1
    all_found, troubles = {}, []
    with concurrent.futures.ThreadPoolExecutor(asked.j) as side_by_side:
        for row, (found, trouble, seconds) in zip(rows, side_by_side.map(tidied, rows)):
            print(f"{pathlib.Path(row[0]).name} {seconds:.1f} s", flush=True)  # a long silence would end it (check.py)
            all_found.update(found)
            troubles += [trouble] if trouble else []
    print("\n".join([*all_found.values(), *troubles]))
    print(f"clang-tidy: {len(rows)} units, {len(all_found) + len(troubles)} offences")
    return 1 if all_found or troubles else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
