"""The systemd units and the image of examples/, run as written: the unit's command with its environment, its user and its restart rules.
The image's steps run on the tree that .dockerignore leaves. Replaced are paths, addresses and, for the compiler's work, the existing
build."""
import contextlib
import json
import os
import pathlib
import pwd
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

import pytest
from harness import BUILD, CLUSTER, MODEL, ROOT, Cluster, free_port
from machines import FAR, Machines, wait_for

EXAMPLES = ROOT / "examples"
UNIT_RUNTIME = pathlib.Path("/run/baton")
SERVICE_USER = "nobody"  # in place of the unit's, which a package or an operator would make
is_root = pytest.mark.skipif(os.getuid() != 0, reason="a service with a user of its own is started by root")


class Unit:
    """One [Service], started again by its own rules as systemd does (systemd.service(5))."""

    def __init__(self, name, change=lambda text: text):
        text = (EXAMPLES / name).read_text()
        self.settings = {}
        for line in change(text).splitlines():
            if "=" in line and not line.startswith("#"):
                key, _, value = line.partition("=")
                self.settings.setdefault(key, []).append(value)
        self.process = None

    def one(self, key):
        (value,) = self.settings[key]
        return value

    def restarts(self, status):
        """Whether it is started again after such an end (negative: of a signal)."""
        if str(status) in self.settings.get("RestartPreventExitStatus", [""])[0].split():
            return False
        clean = status in (0, -signal.SIGHUP, -signal.SIGINT, -signal.SIGTERM, -signal.SIGPIPE)
        return {"always": True, "on-failure": not clean}[self.one("Restart")]

    def environment(self, home, runtime):
        set_here = dict(word.split("=", 1) for value in self.settings.get("Environment", []) for word in shlex.split(value))
        return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME": str(home),
                **{key: value.replace(str(UNIT_RUNTIME), str(runtime)) for key, value in set_here.items()}}

    def start(self, directory, binary, runtime=UNIT_RUNTIME, user=None, words=lambda w: w):
        command = words(shlex.split(self.one("ExecStart")))
        assert command[0] == "/usr/local/bin/cluster"
        as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
        with open(directory / "journal", "ab") as out:
            self.process = subprocess.Popen([binary, *command[1:]], stdout=out, stderr=subprocess.STDOUT, cwd=directory, start_new_session=True,
                                            env=self.environment(directory, runtime), **as_user)
        return self.process


@pytest.fixture
def service():
    """A directory of the service's user, with the binary, the model and the folder that RuntimeDirectory= would make."""
    user = pwd.getpwnam(SERVICE_USER)
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="baton-")))
        directory.chmod(0o755)
        for file in (CLUSTER, MODEL):
            place_file(file, directory / pathlib.Path(file).name)
        (directory / "doors").mkdir()
        for door in (BUILD / "cluster/doors").glob("*.so"):
            place_file(door, directory / "doors" / door.name)
        state = directory / "state"
        state.mkdir()
        shutil.chown(state, user.pw_uid, user.pw_gid)
        try:
            UNIT_RUNTIME.mkdir()
        except FileExistsError:
            pytest.skip(f"{UNIT_RUNTIME} is there: a service of that name may run")
        stack.callback(shutil.rmtree, UNIT_RUNTIME, ignore_errors=True)
        shutil.chown(UNIT_RUNTIME, user.pw_uid, user.pw_gid)
        stack.enter_context(umask(0o022))
        yield directory, state, user


@contextlib.contextmanager
def umask(mask):
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def place_file(source, target):
    try:
        os.link(os.path.realpath(source), target)
    except OSError:
        shutil.copy(source, target)


def end(pids):
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def config_of(directory, name, model, gateway=""):
    config = directory / f"{name}.toml"
    port = free_port()
    config.write_text(f'[model]\nname = "smollm2"\npath = "{model}"\nkv_cache_bytes = "256MiB"\n[gateway]\nhttp = "127.0.0.1:{port}"\nzmq = ""\n{gateway}\n')
    return config, port


def admin(binary, *words, user=None):
    """As from a root shell: no XDG_RUNTIME_DIR, and another working directory."""
    as_user = {"user": user, "group": user, "extra_groups": []} if user else {}
    return subprocess.run([binary, *map(str, words)], capture_output=True, text=True, timeout=60, cwd="/", env={"PATH": "/usr/bin:/bin", "HOME": "/root"}, **as_user)


def ready(unit, state, binary, config):
    """-> {name: pid} of its processes, as an administrator sees them"""
    assert unit.process.poll() is None, (state / "journal").read_text()
    done = admin(binary, "status", config, "--json")
    return done.returncode == 0 and {p["name"]: p["pid"] for p in json.loads(done.stdout)["processes"]}


@is_root
def test_the_unit_serves_is_found_by_an_administrator_and_taken_over_after_a_kill(service):
    directory, state, user = service
    binary = directory / "cluster"
    name = f"unit-{os.getpid()}"
    config, _ = config_of(directory, name, directory / MODEL.name)
    unit = Unit("baton.service")
    assert unit.one("User") == "baton" and unit.one("RuntimeDirectory") == "baton" and unit.one("KillMode") == "process"

    def start():
        return unit.start(state, binary, user=user, words=lambda w: [str(config) if x == "/etc/baton/nodes.toml" else x for x in w])

    try:
        start()
        before = wait_for(lambda: ready(unit, state, binary, config), 60)
        assert (UNIT_RUNTIME / "baton" / name).stat().st_uid == user.pw_uid
        assert admin(binary, "status", name).returncode == 0
        stranger = admin(binary, "status", config, user=65533)
        assert stranger.returncode == 1 and f"belongs to user {SERVICE_USER}: ask as that user or as root" in stranger.stderr, stranger
        assert admin(binary, "status", name, user=65533).returncode == 3
        unit.process.kill()
        assert unit.restarts(unit.process.wait(10))
        start()
        after = wait_for(lambda: ready(unit, state, binary, config), 60)
        assert after == before  # adopted
        for owner in {path.stat().st_uid for path in (UNIT_RUNTIME / "baton" / name).rglob("*")}:
            assert owner == user.pw_uid  # root asked as the service's user
        unit.process.send_signal(signal.SIGTERM)
        status = unit.process.wait(int(unit.one("TimeoutStopSec")))
        assert status == 0 and not unit.restarts(status), (state / "journal").read_text()
        start()
        wait_for(lambda: ready(unit, state, binary, config), 60)
        assert admin(binary, "down", name).stdout == "stopped\n"
        assert unit.process.wait(20) == 0
        lost = admin(binary, "status", config)
        assert lost.returncode == 3 and str(UNIT_RUNTIME / "baton" / name) in lost.stderr, lost
    finally:
        admin(binary, "down", config, "--patience", "1")
        if unit.process and unit.process.poll() is None:
            unit.process.kill()


@is_root
def test_a_unit_that_cannot_serve_is_not_started_for_ever(service):
    directory, state, user = service
    unit = Unit("baton.service")
    config, _ = config_of(directory, "broken", "/nowhere/model.gguf")
    unit.start(state, directory / "cluster", user=user, words=lambda w: [*w[:-1], str(config)])
    status = unit.process.wait(30)
    assert status == 78 and not unit.restarts(status), (state / "journal").read_text()


def test_units_start_again_what_may_succeed():
    up, node = Unit("baton.service"), Unit("baton-node.service")
    assert [up.restarts(s) for s in (0, -signal.SIGTERM, 1, 4, 5, -signal.SIGKILL, 78)] == [False, False, True, True, True, True, False]
    assert [node.restarts(s) for s in (0, 1, 5, -signal.SIGKILL, 78)] == [True, True, True, True, False]


def test_the_unit_of_a_node_joins_and_its_shards_outlive_it():
    """Its key is in nodes.toml; the root's machine is another address of this one."""
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        home = pathlib.Path(directory) / "far"
        home.mkdir()
        unit = Unit("baton-node.service")
        far = unit.environment(home, home)
        keygen = re.search(r"^#\s+sudo -u baton (cluster keygen)$", (EXAMPLES / "baton-node.service").read_text(), re.M)[1]
        made = subprocess.run([CLUSTER, *keygen.split()[1:]], capture_output=True, text=True, check=True, env=far)
        assert "public_key = " in made.stdout
        both = Machines(directory)
        text = both.near.config.read_text()
        both.near.config.write_text(text.replace(f'host = "{FAR}"\n', f'host = "{FAR}"\n{made.stdout.splitlines()[-1]}\n'))

        def start():
            def with_join_address(words):
                assert words[1] == "join" and words[2].startswith("tcp://")
                return [*words[:2], f"tcp://127.0.0.1:{both.port + 2}#{both.public_key}", *words[3:]]

            return unit.start(home, CLUSTER, runtime=home, words=with_join_address)

        def stopped():
            unit.process.kill()
            return unit.process.wait(10)

        try:
            both.up()
            both.invitation()
            start()
            both.near.wait_ready()
            before = both.near.pids()
            assert unit.restarts(stopped())
            start()
            both.near.wait_standing(("agent-b", before["agent-b"]))
            after = both.near.pids()
            assert {n for n in after if after[n] != before[n]} == {"agent-b"}
            found = subprocess.run([CLUSTER, "status", f"{home}/baton/test/"], capture_output=True, text=True, env=far, timeout=30)
            assert found.returncode == 0, found
        finally:
            both.near.stop()
            end([] if unit.process is None or unit.process.poll() is not None else [unit.process.pid])
            for note in home.rglob("*.pid"):
                pid = int(note.read_text().split()[0])
                with contextlib.suppress(OSError):
                    if "baton" in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                        end([pid])


# -- The image --


def ignored(path, rules):
    """By the rules of .dockerignore that are used here: names from the root, and **/ at any depth."""
    parts = pathlib.PurePosixPath(path).parts
    for rule in rules:
        anywhere = rule.startswith("**/")
        pattern = re.compile(re.escape(rule.removeprefix("**/")).replace(r"\*", "[^/]*"))
        for depth, part in enumerate(parts):
            if (anywhere or depth == 0) and pattern.fullmatch(part):
                return True
    return False


def rules_of(name):
    return [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]


def sources():
    """All files of the tree, without the leftovers of a build or a checkout."""
    skipped = {"build", "dist", "models", ".venv", ".git", "run"}
    for folder, below, files in os.walk(ROOT):
        below[:] = [d for d in below if d != "__pycache__" and not d.endswith(".egg-info") and (folder != str(ROOT) or d not in skipped)]
        for file in files:
            if not file.endswith(".pyc") and (folder != str(ROOT) or not file.startswith("build-")):
                yield (pathlib.Path(folder) / file).relative_to(ROOT)


def stages():
    """-> for each FROM: the steps behind it, (instruction, text)"""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", (EXAMPLES / "Containerfile").read_text(), flags=re.M))
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            found.append([])
        found[-1].append((instruction, rest.strip()))
    return found


def test_docker_and_podman_leave_out_the_same():
    assert rules_of(".dockerignore") == rules_of(".containerignore")
    assert not any(rule.startswith("!") or "?" in rule for rule in rules_of(".dockerignore"))  # ignored() knows none


CMAKE = '''#!{python}
import os, pathlib, shutil, subprocess, sys
words = sys.argv[1:]
if words[0] != "--build":
    sys.exit(subprocess.run(["{cmake}", *words]).returncode)
done = subprocess.run(["{cmake}", *words, "--", "-n"], capture_output=True, text=True)  # a dry run has every step
if done.returncode == 0:  # the result is that of the tested build
    shutil.copytree("{build}/cluster/doors", pathlib.Path(words[1], "cluster/doors"), dirs_exist_ok=True)
    shutil.copy("{build}/cluster/cluster", pathlib.Path(words[1], "cluster/cluster"))
print(done.stdout[-2000:], done.stderr[-2000:])
sys.exit(done.returncode)
'''


@pytest.fixture(scope="module")
def image():
    """-> (what the first stage leaves in /out, the folder of its sources)"""
    build, _ = stages()
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        tree, src, out, tools = (pathlib.Path(directory) / name for name in ("tree", "src", "out", "bin"))
        for path in sources():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, tree / path)
        for junk, text in (("build/release/CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n"), ("build/release/build.ninja", ""),
                           ("build-release.log", ""), ("models/m.gguf", ""), (".venv/bin/python3", ""), (".git/HEAD", ""), ("run/x.pid", ""),
                           ("sdk/python/__pycache__/a.pyc", ""), ("sdk/python/b.pyc", "")):
            (tree / junk).parent.mkdir(parents=True, exist_ok=True)
            (tree / junk).write_text(text)
        tools.mkdir()
        shim = tools / "cmake"
        shim.write_text(CMAKE.format(python=sys.executable, cmake=shutil.which("cmake"), build=BUILD))
        shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
        cwd = pathlib.Path(directory)
        for instruction, text in build:
            if instruction == "COPY":
                assert text == ". /src"
                rules = rules_of(".dockerignore")
                shutil.copytree(tree, src, ignore=lambda at, names: [n for n in names if ignored(pathlib.Path(at, n).relative_to(tree), rules)])
            elif instruction == "WORKDIR":
                assert text == "/src"
                cwd = src
            elif instruction == "RUN":
                command = re.sub(r"(?<=\s)/out\b", str(out), text)
                done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=cwd, timeout=300,
                                      env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
                assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
            else:
                assert instruction == "FROM", instruction
        yield out, src


def test_the_image_is_built_of_the_sources_alone(image):
    out, src = image
    sent = {p.relative_to(src) for p in src.rglob("*") if p.is_file()}
    assert set(sources()) <= sent
    own = {p for p in sent if p.parts[0] != "build"}
    assert not any(ignored(p, rules_of(".dockerignore")) for p in own)
    assert f"CMAKE_HOME_DIRECTORY:INTERNAL={src}" in (src / "build/release/CMakeCache.txt").read_text()
    assert {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()} == {"cluster", "doors/door_grpc.so"}


def test_the_image_installs_packages_that_there_are():
    (_, packages), = [step for step in stages()[1] if step[0] == "RUN"]
    words = re.search(r"--no-install-recommends\s+(.*?)\s*&&", packages)[1].split()
    assert len(words) > 5
    done = subprocess.run(["apt-get", "install", "-s", "-qq", "--no-install-recommends", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_image_runs_its_command(image):
    out, _ = image
    last = dict(stages()[1])
    assert last["COPY"] == "--from=build /out/ /usr/local/bin/" and last["STOPSIGNAL"] == "SIGTERM"
    (entry,) = json.loads(last["ENTRYPOINT"])
    with tempfile.TemporaryDirectory(prefix="baton-") as home:
        env = {"PATH": f"{out}:/usr/bin:/bin", "HOME": home}
        answer = subprocess.run([entry, *json.loads(last["CMD"])], capture_output=True, text=True, env=env, cwd=home, timeout=30)
        assert answer.returncode == 0 and "cluster up nodes.toml" in answer.stdout
        config, port = config_of(pathlib.Path(home), "nodes", MODEL, f'kserve_grpc = "127.0.0.1:{free_port()}"')
        config.write_text(f'[cluster]\nrun_dir = "{home}/run"\n' + config.read_text())
        with open(f"{home}/out", "wb") as log:
            process = subprocess.Popen([entry, "up", str(config)], stdout=log, stderr=subprocess.STDOUT, env=env, cwd=home)
        try:
            def is_ready():
                assert process.poll() is None, pathlib.Path(home, "out").read_text()
                return subprocess.run([entry, "status", str(config)], capture_output=True, env=env, timeout=30).returncode == 0

            wait_for(is_ready, 60)
            process.send_signal(getattr(signal, last["STOPSIGNAL"]))
            assert process.wait(40) == 0, pathlib.Path(home, "out").read_text()
        finally:
            if process.poll() is None:
                process.kill()
            subprocess.run([entry, "down", str(config), "--patience", "1"], capture_output=True, env=env, timeout=60)
