"""Runs the levels of ./check and sums their cases. Quiet while all is well; shows a failing step's output."""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import fuzz.run as fuzzing
import support.child_process as child_process
import support.deadline_scale as deadline_scale
import system.clients.own_venv as own_venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
# The next value is multiplied by the factor of this machine (support/deadline_scale.py).
SILENCE_SECONDS_MAX = 1800  # of a build or an installation, which has no other deadline; the slowest file takes two minutes
STEP_SECONDS_MAX = 1800
PYTEST_SECONDS_MAX = 3600  # each half of the system tests takes 17 minutes beside the other
SIM_PARTS_MAX = 8  # processes, one a core
NOT_IN_DEV = {"unit_torch"}  # unit tests that another preset builds: ./check gpu
SANITIZED_SEEDS = 40  # of each scenario: a sanitizer takes ten times as long


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.broken = []  # names of what failed
        self.lock = threading.Lock()  # clients are installed beside the build

    def add(self, name, passed, failed, skipped=0):
        with self.lock:
            self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped
            if failed:
                self.broken.append(name)


TALLY = Tally()


def run(command, env=None, deadline=STEP_SECONDS_MAX):
    """-> (exit status, output)"""
    return child_process.run(command, ROOT, env, deadline=deadline_scale.scaled(deadline))


def run_while_active(command, env=None):
    """The same without a limit of the whole time: the command must only write a line now and then."""
    return child_process.run(command, ROOT, env, silence=deadline_scale.scaled(SILENCE_SECONDS_MAX))


def show(command):
    """A command for a terminal, which the user may end -> exit status"""
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def line(name, text, seconds, good):
    print(f"  {'ok  ' if good else 'FAIL'} {name:<34} {text:<42} {seconds:6.1f} s", flush=True)


def step(name, command, runs=run):
    """A step that counts as one case."""
    begin = time.monotonic()
    status, out = runs(command)
    TALLY.add(name, status == 0, status != 0)
    line(name, "", time.monotonic() - begin, status == 0)
    if status:
        print(out[-8000:])
    return status == 0


def build(preset, *targets):
    setup = f"set -euo pipefail; . scripts/setup.sh; build {preset} {' '.join(targets)}"
    return step(f"build {preset}", ["bash", "-c", setup], run_while_active)


def doctest(preset, select, extra=(), env=None, parts=1):
    """`parts`: parallel processes; each runs its share of every case."""
    listing = json.loads(run(["ctest", "--test-dir", f"build/{preset}", "--show-only=json-v1"])[1])
    for test in listing["tests"]:
        if not select(test["name"]):
            continue
        begin = time.monotonic()
        share = lambda part: ["--part", str(part), "--parts", str(parts)] if parts > 1 else []
        with concurrent.futures.ThreadPoolExecutor(parts) as side_by_side:
            ended = list(side_by_side.map(lambda part, words=test["command"]: run([*words, *extra, *share(part)], env=env), range(parts)))
        counts = [cases(status, out) for status, out in ended]
        passed, failed = min(c[0] for c in counts), max(c[1] for c in counts)
        TALLY.add(f"{test['name']} ({preset})", passed, failed)
        line(f"{test['name']} ({preset})", f"{passed} passed, {failed} failed", time.monotonic() - begin, not failed)
        for (_, out), count in zip(ended, counts):
            if count[1]:
                print(out[-8000:])


def cases(status, out):
    """(passed, failed)"""
    found = re.search(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed", out)
    passed, failed = (int(found[2]), int(found[3])) if found else (0, 0)
    return passed, failed or (1 if status else 0)  # died, or a sanitizer spoke


def venv():
    """Real clients that we did not write, for the system tests."""
    stamp, wanted = VENV / "stamp", (ROOT / "tests/system/requirements.txt").read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return own_venvs()
    ok = step("python clients (pip)", ["bash", "-c", f"python3 -m venv {VENV} && {VENV}/bin/pip install -q --disable-pip-version-check "
                                       "-r tests/system/requirements.txt"], run_while_active)
    if ok:
        stamp.write_text(wanted)
    return ok and own_venvs()


def make_own_venv(client):
    """-> whether a client whose requirements conflict with those of the others has its venv"""
    return own_venv.is_made(client) or step(f"python client {client} (pip)", [sys.executable, own_venv.__file__, client], run_while_active)


def own_venvs():
    return all(make_own_venv(client) for client in own_venv.requirements())


def pytest(name, *paths, env=None):
    pytest_side_by_side({name: paths}, env)


def pytest_side_by_side(suites, env=None):
    """`suites`: {name: paths}. Each runs in a process of its own."""
    env = {**(env or {}), "PYTHONPATH": os.pathsep.join([str(ROOT / "tests/support"), *filter(None, [(env or {}).get("PYTHONPATH")])])}

    def ended(paths):
        begin = time.monotonic()
        command = [f"{VENV}/bin/python", "-m", "pytest", "-q", "--color=no", "-p", "scaled_deadlines", "-p", "no:cacheprovider", *paths]
        return *run(command, env, PYTEST_SECONDS_MAX), time.monotonic() - begin

    with concurrent.futures.ThreadPoolExecutor(len(suites)) as side_by_side:
        for name, (status, out, seconds) in zip(suites, side_by_side.map(ended, suites.values())):
            count_tests(name, status, out, seconds)


def count_tests(name, status, out, seconds):
    totals = out.rstrip().rpartition("\n")[2]  # the last line alone: what tests print may look like it
    count = lambda word: int((re.findall(rf"(\d+) {word}", totals) or ["0"])[-1])
    passed, failed, skipped = count("passed"), count("failed") + count("error"), count("skipped")
    if status and not failed:
        failed = 1
    TALLY.add(name, passed, failed, skipped)
    line(name, f"{passed} passed, {failed} failed, {skipped} skipped", seconds, not failed)
    if failed:
        print(out[-16000:])


def style(only=None):
    """`only`: files whose format counts; the rest is quick enough for all."""
    step("tidy", [sys.executable, "tests/tidy.py"])
    step("prose", [sys.executable, "tests/prose.py"])
    files = run(["git", "ls-files", "-co", "--exclude-standard", "--", "*.hpp", "*.cpp"])[1].split()
    files = [f for f in files if (ROOT / f).is_file() and (only is None or f in only)]
    if files:
        step("format", ["clang-format-14", "--dry-run", "--Werror", *files])


def unit(preset="dev", env=None):
    doctest(preset, lambda n: n.startswith("unit_"), env=env)


def changed_files():
    """Files that differ from the last commit, including new ones."""
    return set(run(["git", "diff", "HEAD", "--name-only"])[1].split()) | set(run(["git", "ls-files", "-o", "--exclude-standard"])[1].split())


def unit_tests_of(files):
    """-> the unit test executables of these files: runtime/text/x.cpp and tests/unit/text/x_test.cpp belong to unit_text."""
    rooms = {p.name for p in (ROOT / "tests/unit").iterdir() if p.is_dir()}
    folders = {part for file in files if not file.startswith("tests/") or file.startswith("tests/unit/") for part in file.split("/")[:-1]}
    return {f"unit_{room}" for room in rooms & folders} - NOT_IN_DEV


def quick(rooms):
    """The inner loop: style, then the unit tests of what changed since the last commit, or of the named rooms."""
    changed = changed_files()
    style(changed)
    wanted = {f"unit_{room}" for room in rooms} or unit_tests_of(changed)
    unknown = [room for room in rooms if not (ROOT / "tests/unit" / room).is_dir() or f"unit_{room}" in NOT_IN_DEV]
    if unknown:
        print(f"the dev build has no unit_{unknown[0]}")
        TALLY.add(f"unit_{unknown[0]}", 0, 1)
    elif wanted and build("dev", *sorted(wanted)):
        doctest("dev", lambda name: name in wanted)


def gpu():
    """The GPU engine on top of torch."""
    setup = "set -euo pipefail; . scripts/setup.sh; fetch_torch; build gpu engine_torch unit_torch unit_gpu engine_plain"
    if step("build gpu (torch, nvcc)", ["bash", "-c", setup], run_while_active):
        doctest("gpu", lambda n: n in ("unit_torch", "unit_gpu"))
        if venv() and build("dev", "cluster", "tiny_model"):
            pytest("engine package", "tests/packages/test_engine_package.py",
                   env={"BATON_BUILD": str(ROOT / "build/dev"), "BATON_ENGINE_BUILD": str(ROOT / "build/gpu")})
            pytest("engines, served", "tests/system/cluster/commands/test_engines.py",
                   env={"BATON_BUILD": str(ROOT / "build/dev"), "BATON_ENGINES": str(ROOT / "build/gpu/cluster/engines")})
            if step("python sdk: wire code", [sys.executable, "sdk/python/generate_wire.py"]):
                worker_cases("torch")


# A framework -> the tests of workers that need it
WORKERS_WITH = {
    "torch": ("sdk/python/tests/test_torchscript.py", "sdk/python/tests/test_large_models.py",
              "tests/system/cluster/workers/test_torch_worker.py", "tests/system/cluster/workers/test_worker_groups.py"),
    "tensorflow": ("sdk/python/tests/test_tensorflow.py", "tests/system/cluster/workers/test_tensorflow_worker.py"),
}

# The clients of tests/system/clients/optional -> their tests
LARGE_CLIENTS = {"aider": "tests/system/doors/openai/test_aider.py", "claude_code": "tests/system/doors/test_claude_code.py"}


def worker_cases(framework):
    pytest(f"workers with {framework}", *WORKERS_WITH[framework],
           env={"PYTHONPATH": str(ROOT / "sdk/python"), "BATON_BUILD": str(ROOT / "build/dev")})


def frameworks():
    """Workers with torch and TensorFlow, on the CPU, and clients that are large. Elsewhere these cases are skipped: they take 4 GB."""
    if venv() and build("dev", "cluster", "tiny_model", "gateway_fixture") and step("python sdk: wire code", [sys.executable, "sdk/python/generate_wire.py"]):
        for framework in WORKERS_WITH:
            if step(f"install {framework}", ["bash", "-c", f"set -euo pipefail; . scripts/setup.sh; fetch_{framework}_for_workers"], run_while_active):
                worker_cases(framework)
        for client, test in LARGE_CLIENTS.items():
            if make_own_venv(client):
                pytest(f"client {client}", test, env={"BATON_BUILD": str(ROOT / "build/dev")})


def skip(name, why):
    TALLY.add(name, 0, 0, skipped=1)
    print(f"  skip {name:<34} {why}", flush=True)


def kernels():
    """The GPU engine's kernels, compiled: one case. Host tests check their results, from the same source. Takes what other steps leave of the
    processors: it runs beside tests, which mostly wait."""
    setup = "set -euo pipefail; . scripts/setup.sh; "
    status, output = run_while_active(["bash", "-c", setup + "fetch_nvcc; fetch_flashinfer"])
    if status:  # these are 166 MB that nothing else here needs
        skip("kernels (nvcc)", (output.strip().splitlines() or ["nvcc cannot be had"])[-1])
    else:
        # Linux shares processors among sessions first (autogroup), and `nice` counts within one.
        yields = "renice -n 19 $$ >/dev/null; (echo 19 >/proc/self/autogroup) 2>/dev/null || true; "
        step("kernels (nvcc)", ["bash", "-c", yields + setup + "build_kernels"], run_while_active)


def sim(preset="dev", extra=(), env=None):
    doctest(preset, lambda n: n.startswith("sim"), extra, env, parts=1 if extra else min(SIM_PARTS_MAX, os.cpu_count()))


def planted(extra=()):
    """Each planted bug counts as one case, which passes if it is caught."""
    begin = time.monotonic()
    status, out = child_process.run([sys.executable, "tests/sim/planted.py", *extra], ROOT)  # it bounds each build and each run
    found = re.search(r"^(\d+) passed, (\d+) failed$", out, re.M)
    passed, failed = (int(found[1]), int(found[2])) if found else (0, 1)
    TALLY.add("planted bugs", passed, failed)
    line("planted bugs", f"{passed} caught, {failed} not", time.monotonic() - begin, not failed and not status)
    print(out[-16000:], end="")


def system_suites():
    """Two halves of about the same length. Most tests wait for processes more than they compute: alone they use 40 % of two cores."""
    first = ["tests/system/cluster/nodes", "tests/system/cluster/faults"]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "tests/system").rglob("test_*.py")}
    return {"system: nodes, faults": first, "system: the others": sorted(folders - set(first))}


def system(clients, preset="dev"):
    """`clients`: the future result of venv()."""
    if clients.result() and step("python sdk: wire code", [sys.executable, "sdk/python/generate_wire.py"]):
        env = {"BATON_BUILD": str(ROOT / "build" / preset)}
        pytest_side_by_side(system_suites(), env)
        pytest("bench tools", "tests/bench/unit", env=env)
        pytest("tables of docs", "tests/docs", env=env)
        pytest("tools", "tests/tools", env=env)
        pytest("packages", "tests/packages", env=env)
        pytest("python sdk", "sdk/python/tests", env={**env, "PYTHONPATH": str(ROOT / "sdk/python")})


def fuzz(arguments):
    parser = argparse.ArgumentParser(prog="./check fuzz")
    parser.add_argument("--seconds", type=int, default=60, help="of each target (default 60)")
    parser.add_argument("--only", choices=sorted(fuzzing.TARGETS), help="one target")
    asked = parser.parse_args(arguments)
    names = [asked.only] if asked.only else sorted(fuzzing.TARGETS)
    if not build("fuzz", *(f"fuzz_{name}" for name in names)):
        return
    for name in names:
        begin = time.monotonic()
        good, text, shown = fuzzing.fuzz(name, asked.seconds)
        TALLY.add(f"fuzz {name}", good, not good)
        line(f"fuzz {name}", text, time.monotonic() - begin, good)
        print(shown, end="")


def clang_tidy(arguments):
    step("clang-tidy", [sys.executable, "tests/clang_tidy.py", *arguments], run_while_active)


SANITIZERS = {
    "asan": {"ASAN_OPTIONS": "detect_stack_use_after_return=1", "UBSAN_OPTIONS": "print_stacktrace=1"},
    "tsan": {"TSAN_OPTIONS": f"suppressions={ROOT}/tests/support/tsan.supp:ignore_noninstrumented_modules=1:halt_on_error=0:exitcode=66"},
}


def sanitized(preset):
    """The unit tests and some seeds of the simulation, in a build of their own."""
    env = SANITIZERS[preset]
    if build(preset):
        unit(preset, env)
        sim(preset, ("--seeds", str(SANITIZED_SEEDS)), env)


def dev_levels(level, extra):
    """The levels of the dev build. Clients are installed while it is built: they wait for the network more than for a processor."""
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        clients = beside.submit(venv) if level in ("default", "all", "system") else None
        if not build("dev"):
            return
        if level in ("default", "all", "unit"):
            unit()
            skip("unit_torch", "no torch in this build: ./check gpu")
            compiled = beside.submit(kernels)
        if level in ("default", "all", "sim"):
            sim(extra=extra)
        if clients:
            system(clients)
        if level in ("default", "all", "unit"):
            compiled.result()
        if level in ("all", "clang-tidy"):
            clang_tidy(extra)
        if level in ("all", "planted"):
            planted(extra)


# tests/bench/NAME.py -> the targets that it needs from a release build
MEASURES = {"faults": ("cluster", "cluster_poisoned"), "growth": ("benches",), "scale": ("scale_bench",), "first_minute": ("cluster",)}


def main(arguments):
    level = arguments[0] if arguments else "default"
    if level == "bench":
        with contextlib.redirect_stdout(sys.stderr):  # what the benches print may be read by a program
            venv()
        return show([sys.executable, "tests/bench/run.py", *arguments[1:]])
    if level in MEASURES:
        with contextlib.redirect_stdout(sys.stderr):
            if "--build-dir" not in arguments and not {"-h", "--help"} & set(arguments) and not build("release", *MEASURES[level]):
                return 1
            if level == "faults" and not (venv() and step("python sdk: wire code", [sys.executable, "sdk/python/generate_wire.py"])):
                return 1  # its clients are the SDK's as well
        python = f"{VENV}/bin/python" if level == "faults" else sys.executable
        return show([python, f"tests/bench/{level}.py", *arguments[1:]])
    if level not in ("default", "all", "unit", "sim", "system", "planted", "fuzz", "gpu", "frameworks", "quick", "clang-tidy", *SANITIZERS):
        print(f"unknown level '{level}'; see ./check --help")
        return 2
    scale = deadline_scale.measured(os.environ)
    if scale > 1:
        print(f"  deadlines of tests are {scale:.1f} times as long: this machine is slow or busy", flush=True)
    if level in ("default", "all"):
        style()
    if level == "quick":
        quick(arguments[1:])
    elif level == "fuzz":
        fuzz(arguments[1:])
    elif level == "gpu":
        gpu()
    elif level == "frameworks":
        frameworks()
    elif level in SANITIZERS:
        sanitized(level)
    else:
        dev_levels(level, arguments[1:])
    if level == "all":
        frameworks()
        for preset in SANITIZERS:
            sanitized(preset)
        fuzz([])
    if TALLY.skipped:
        print(f"{TALLY.skipped} skipped")
    if TALLY.broken:
        print(f"failed: {', '.join(TALLY.broken)}")
    print(f"{TALLY.passed} passed, {TALLY.failed} failed")
    return 1 if TALLY.failed or not TALLY.passed else 0


if __name__ == "__main__":
    child_process.end_all_on_signals()
    sys.exit(main(sys.argv[1:]))
