"""The rows of a leased GPU machine, within the seconds of the lease: docs/develop/gpu.md. Called by lease.sh.

Each row is a separate process, with everything it starts in its group, and is ended when its time is over. A row without enough time, or
with missing requirements, reports that in its line. Lines: {"row", "value", "unit", "seconds"}, or "error" or "skipped" with the
reason."""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/bench"))
sys.path.insert(0, str(HERE))

import lease_place  # noqa: E402
import lease_rows  # noqa: E402

CLEANING_SECONDS = 3  # kept back for the end
GRACE_SECONDS = 1  # of a row that has to end
MARK, MARKED = "BATON_LEASE", f"{os.getpid()}.{time.time_ns()}"  # in the environment of whatever a row starts
LATE_FACTOR = 2  # a row may take so many times what it says, if there is time


def say(row, **more):
    print(json.dumps({"row": row, **more}), flush=True)


def seconds_of(row, left, is_tiny=False):
    """The row's time limit; None: it is not started. Tiny rows do not belong to a lease: they may use all remaining time, on a slow
    machine."""
    return min(left if is_tiny else LATE_FACTOR * row.seconds, left) if left >= row.seconds else None


def sweep():
    """Ends leftovers of rows: every process with the mark of this run in its environment. Other clusters of the same build continue."""
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and f"{MARK}={MARKED}".encode() in pathlib.Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                os.kill(int(name), signal.SIGKILL)
        except OSError:
            pass  # it has ended, or is somebody else's


def end_group(process):
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE_SECONDS)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def run_row(row, command, seconds):
    """-> whether it ended by itself, which means that its lines are complete."""
    begun = time.monotonic()
    process = subprocess.Popen(command, start_new_session=True, env={**os.environ, MARK: MARKED})
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        end_group(process)
        say(row.name, error=f"not over after {seconds:.0f} s", seconds=round(time.monotonic() - begun, 1))
        return False
    except BaseException:
        end_group(process)
        raise
    end_group(process)  # what it has left
    if status:
        say(row.name, error=f"ended with status {status}", seconds=round(time.monotonic() - begun, 1))
    return status == 0


def run_rows(rows, place, seconds, command_of, clean=lambda: None):
    """Runs the rows in order of value until the time is over."""
    deadline = place.begun + seconds - CLEANING_SECONDS
    for row in rows:
        if why := place.lacks(row):
            say(row.name, skipped=why)
            continue
        left = deadline - time.monotonic()
        limit = seconds_of(row, left, place.is_tiny)
        if limit is None:
            say(row.name, skipped=f"it takes {row.seconds} s, {max(0, left):.0f} s are left")
            continue
        run_row(row, command_of(row, limit), limit)
        clean()


def begin_models(place, rows):
    """Writes the models for later rows while the first rows run."""
    shapes = [s for s in lease_place.SHAPES if any(s in row.needs and not place.lacks(row) for row in rows)]
    if not shapes:
        return None
    return subprocess.Popen([sys.executable, HERE / "lease.py", "write", *shapes, *place.words()],
                            start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run(options):
    place = lease_place.Place(options)
    rows = lease_rows.chosen(options.only)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    writer = begin_models(place, rows)
    command_of = lambda row, limit: [sys.executable, HERE / "lease.py", "row", row.name, *place.words(), "--seconds", str(limit)]
    try:
        run_rows(rows, place, options.seconds, command_of, sweep)
    finally:
        if writer is not None:
            end_group(writer)
        sweep()
        shutil.rmtree(place.work, ignore_errors=True)
        place.remove_models()
    say("seconds", value=round(time.monotonic() - place.begun, 1), unit="s")
    return 0


def unpacked(options):
    """The lease.py of the archive, with everything beside it that `run` needs. None: this is that file, or there is a build."""
    if options.build_dir or (ROOT / lease_place.PACKED).is_dir():
        return None
    archive = options.source / "lease.tar.xz"
    if not archive.is_file():
        sys.exit(f"error: there is no {archive}: lease.sh pack makes it, --from DIR says where it lies, --build-dir DIR takes a build")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lease-"))
    subprocess.run(["tar", "-xJf", archive, "-C", folder], check=True)
    return folder


def main():
    begun = time.monotonic()
    parser = argparse.ArgumentParser(prog="lease.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("pack", "run", "rows", "row", "write"))
    parser.add_argument("names", nargs="*", help=argparse.SUPPRESS)  # of `row` and `write`, which `run` starts
    parser.add_argument("--seconds", type=float, help="run: all of it is over by then")
    parser.add_argument("--only", default="", help="run: these rows")
    parser.add_argument("--from", dest="source", type=pathlib.Path, default=ROOT / "build/lease", help="run: where pack's files lie")
    parser.add_argument("--device", default="cuda:0", help="run: another one shows that the script works")
    parser.add_argument("--tiny", action="store_true", help="run: small models and loads, the same")
    parser.add_argument("--build-dir", type=pathlib.Path, help="a build in place of the archive; pack: where `cluster` lies (default: build/release, built)")
    parser.add_argument("--gpu-dir", type=pathlib.Path, default=ROOT / "build/gpu", help="pack: where the engine lies")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/lease", help="pack: where to")
    parser.add_argument("--nccl", type=pathlib.Path, help="pack: libnccl.so.2 of 2.30 or later (default: PyPI's)")
    parser.add_argument("--architectures", default="90", help="pack: of the GPUs that NCCL is cut to, 80,90")
    parser.add_argument("--work", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--begun", type=float, default=begun, help=argparse.SUPPRESS)  # on the clock of this machine
    options = parser.parse_args()
    if options.do == "rows":
        for row in lease_rows.ROWS:
            print(f"{row.name:<24} {row.seconds:>4} s  {row.text}")
        return 0
    if options.do == "pack":
        import lease_pack
        return lease_pack.pack(options)
    if options.do == "write":
        return lease_place.write_models(options)
    if options.do == "row":
        return lease_rows.do(options.names[0], lease_place.Place(options))
    if not options.seconds or options.seconds <= 0:
        parser.error("run needs --seconds N, more than 0")
    if unknown := set(filter(None, options.only.split(","))) - {row.name for row in lease_rows.ROWS}:
        parser.error(f"no row {', '.join(sorted(unknown))}; lease.sh rows has them")
    if (folder := unpacked(options)) is not None:
        try:
            words = [sys.executable, folder / "tests/gpu/lease.py", *sys.argv[1:], "--from", options.source.resolve(), "--begun", str(begun)]
            return subprocess.run(words, check=False).returncode
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
