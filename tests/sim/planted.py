"""Checks that the simulation finds bugs. Applies each planted bug (planted/NN-name.patch) to a copy of this tree, builds `sim` there and runs
seeds until a promise breaks. It is a failure if a bug does not apply, does not build or is not found.
  `planted.py [--only NN] [--seeds N]`    The first line of a patch names the guarantee that it breaks."""
import argparse
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support.child_process as child_process  # noqa: E402
import support.deadline_scale as deadline_scale  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PATCHES = ROOT / "tests/sim/planted"
COPY = ROOT / "build/planted"
FIRST_SEEDS = 8  # of each scenario first: most bugs appear at once
SILENCE_SECONDS_MAX = 1800  # of a build, which has no other deadline
RUN_SECONDS_MAX, APPLY_SECONDS_MAX = 600, 60


def run(command, **deadlines):
    """-> (exit status, output)"""
    # The copy lies inside this repository but is not part of it: git must not find this one.
    scaled = {name: deadline_scale.scaled(seconds) for name, seconds in deadlines.items()}
    return child_process.run(command, COPY, {"GIT_CEILING_DIRECTORIES": str(COPY.parent)}, **scaled)


def copy_tree():
    """Copies all files that git tracks or would add. An unchanged file keeps its time, so that little is rebuilt."""
    listing = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    wanted = {name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()}
    for old in (p for p in COPY.rglob("*") if p.is_file() and "build" not in p.relative_to(COPY).parts[:1]):
        if old.relative_to(COPY).as_posix() not in wanted:
            old.unlink()
    for name in wanted:
        source, target = ROOT / name, COPY / name
        content = source.read_bytes()
        if not target.exists() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(source.stat().st_mode)


def build():
    return run(["bash", "-c", "set -euo pipefail; . scripts/setup.sh; build dev sim"], silence=SILENCE_SECONDS_MAX)


def apply(patch, *options):
    # Line numbers may have moved, and one line of context is enough.
    return run(["git", "apply", "-C1", "--recount", *options, str(patch)], deadline=APPLY_SECONDS_MAX)


def simulate(first, seeds):
    return run(["build/dev/tests/sim/sim", "--first", str(first), "--seeds", str(seeds), "--abort-after=1", "--no-colors"],
               deadline=RUN_SECONDS_MAX)


def ranges(seeds):
    """-> (first, count) for each scenario: a few seeds, then the others"""
    return [(first, count) for first, count in ((1, min(FIRST_SEEDS, seeds)), (1 + FIRST_SEEDS, seeds - FIRST_SEEDS)) if count > 0]


def what_broke(status, out):
    """-> (seed, scenario, promise)"""
    seed = re.findall(r"(?:seed|\bn) := (\d+)", out)
    scenario = re.findall(r"^TEST CASE:\s*(.*)$", out, re.M)
    invariant = re.search(r"broken invariant: (.*)", out)
    failed = re.search(r"(?:ERROR|FATAL ERROR): (.*)", out)
    broken = re.search(r"(?:promise|failure) := (.*)$", out, re.M)
    promise = (invariant or broken or failed)
    text = promise[1] if promise else ("it does not end" if status == child_process.ENDED_BY_DEADLINE else out.strip()[-80:])
    return (seed[-1] if seed else "?"), (scenario[-1] if scenario else "?"), text


def hunt(patch, seeds):
    """-> (caught, text of the table's row)"""
    begin = time.monotonic()
    status, out = apply(patch)
    if status:
        return False, f"does not apply: {out.strip()[:200]}"
    try:
        status, out = build()
        if status:
            return False, f"does not build:\n{out[-3000:]}"
        built = time.monotonic()
        for first, count in ranges(seeds):
            status, out = simulate(first, count)
            if status:
                seed, scenario, promise = what_broke(status, out)
                spent = f"{built - begin:5.1f} s + {time.monotonic() - built:5.1f} s"
                return True, f"seed {seed:>4}  {spent}  {scenario[:60]:<60}  {promise[:110]}"
        return False, f"not caught by {seeds} seeds of each scenario ({time.monotonic() - built:.1f} s)"
    finally:
        apply(patch, "--reverse")


def main(arguments):
    options = argparse.ArgumentParser()
    options.add_argument("--only", default="", help="the number or name of one, or several with commas")
    options.add_argument("--seeds", type=int, default=200, help="of each scenario; a bug that takes more than a thousand is not caught")
    chosen = options.parse_args(arguments)
    wanted = [w for w in chosen.only.split(",") if w]
    patches = [p for p in sorted(PATCHES.glob("*.patch")) if not wanted or any(w == p.name.split("-")[0] or w in p.name for w in wanted)]
    COPY.mkdir(parents=True, exist_ok=True)
    copy_tree()
    status, out = build()
    if status:
        print(out[-3000:])
        return 1
    for first, count in ranges(chosen.seeds):  # a test that fails without the bug would catch every bug
        status, out = simulate(first, count)
        if status:
            print(f"without a planted bug: {out[-3000:]}")
            return 1
    missed = 0
    for patch in patches:
        caught, text = hunt(patch, chosen.seeds)
        missed += not caught
        print(f"{'ok  ' if caught else 'FAIL'} {patch.stem:<32} {text}", flush=True)
    print(f"{len(patches) - missed} passed, {missed} failed")
    return 1 if missed or not patches else 0


if __name__ == "__main__":
    child_process.end_all_on_signals()
    sys.exit(main(sys.argv[1:]))
