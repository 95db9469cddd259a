"""Goal: each package has what it promises, needs nothing that it does not name or carry, and serves. Method: all three are made of the build
that is tested, and taken apart. They are started without the environment of this machine. tests/packages/chroot.py does it on a machine without a compiler."""
import base64
import contextlib
import hashlib
import http.client
import os
import pathlib
import re
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

import libraries
import pytest
from conftest import said

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
BYTES_MAX = 25_000_000
EMPTY = ["env", "-i"]  # no PATH, no HOME, no LD_LIBRARY_PATH
ANSWER = ["run", str(MODEL), "Why is the sky blue?", "--max-tokens", "4", "--temperature", "0"]


def the_one(out, pattern):
    found, = out.glob(pattern)
    return found


@pytest.fixture(scope="session")
def deb(out):
    return the_one(out, "baton_*_amd64.deb")


@pytest.fixture(scope="session")
def unpacked_deb(deb, tmp_path_factory):
    folder = tmp_path_factory.mktemp("deb")
    said("dpkg-deb", "-R", deb, folder)
    return folder


@pytest.fixture(scope="session")
def prefix(out, tmp_path_factory):
    """-> the archive, unpacked"""
    folder = tmp_path_factory.mktemp("tar")
    with tarfile.open(the_one(out, "baton-*-linux-x86_64.tar.xz")) as tar:
        tar.extractall(folder)
    found, = folder.iterdir()
    return found


@pytest.fixture(scope="session")
def wheel(out):
    return the_one(out, "baton_server-*-py3-none-manylinux_2_36_x86_64.whl")


@pytest.fixture(scope="session")
def venv(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("venv")
    said(sys.executable, "-m", "venv", folder)
    said(folder / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-index", wheel)
    return folder


def dynamic(file):
    return said("readelf", "-dW", file)


def elf_files(folder):
    return [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink() and file.read_bytes()[:4] == b"\x7fELF"]


def assert_stripped_of_this_machine(file):
    assert ".debug_info" not in said("readelf", "-SW", file)
    assert str(ROOT).encode() not in file.read_bytes(), f"{file} names a folder of the machine that built it"


def test_the_deb_names_what_it_needs(deb):
    assert deb.stat().st_size <= BYTES_MAX
    fields = dict(re.findall(r"^(\S+): (.+)$", said("dpkg-deb", "-f", deb), re.M))
    needed = {one.split(" ")[0] for one in fields["Depends"].split(", ")}
    assert {"libc6", "libcaf-core0.17", "libcurl4", "libgrpc++1.51", "libzmq5", "libssl3", "libedit2"} <= needed
    assert fields["Package"] == "baton" and fields["Architecture"] == "amd64" and deb.name == f"baton_{fields['Version']}_amd64.deb"


def test_the_deb_has_its_files_where_debian_looks(unpacked_deb):
    files = {file.relative_to(unpacked_deb / "usr").as_posix() for file in (unpacked_deb / "usr").rglob("*") if not file.is_dir()}
    assert {"bin/cluster", "bin/baton", "lib/baton/doors/door_grpc.so", "lib/systemd/system/baton.service", "lib/systemd/system/baton-node.service",
            "lib/sysusers.d/baton.conf", "share/man/man1/cluster.1.gz", "share/man/man1/baton.1.gz", "share/bash-completion/completions/cluster",
            "share/bash-completion/completions/baton", "share/zsh/vendor-completions/_cluster", "share/doc/baton/LICENSE", "share/doc/baton/NOTICE",
            "share/doc/baton/copyright", "share/doc/baton/changelog.gz", "share/doc/baton/examples/quickstart.toml"} <= files
    assert {file.relative_to(unpacked_deb).parts[0] for file in unpacked_deb.rglob("*")} == {"usr", "DEBIAN"}
    assert [name for name in files if re.search(r"\.so\.\d", name)] == []  # Debian's own are used
    assert (unpacked_deb / "usr/bin/baton").readlink() == pathlib.Path("cluster")
    for script in ("postinst", "postrm"):
        said("sh", "-n", unpacked_deb / "DEBIAN" / script)


def test_the_programs_of_the_deb_are_stripped_and_find_libraries_by_the_loader(unpacked_deb):
    programs = elf_files(unpacked_deb)
    assert {file.name for file in programs} == {"cluster", "door_grpc.so"}
    for file in programs:
        assert_stripped_of_this_machine(file)
        assert "RPATH" not in dynamic(file) and "RUNPATH" not in dynamic(file)


def test_units_of_the_deb_start_its_program(unpacked_deb):
    for unit in ("baton.service", "baton-node.service"):
        text = (unpacked_deb / "usr/lib/systemd/system" / unit).read_text()
        assert re.search(r"^ExecStart=/usr/bin/cluster ", text, re.M) and "/usr/local" not in text
        user = re.search(r"^User=(.+)$", text, re.M)[1]
        assert f"u {user} " in (unpacked_deb / "usr/lib/sysusers.d/baton.conf").read_text()
        assert re.search(r"^StateDirectory=(.+)$", text, re.M)[1] == re.search(r"^WorkingDirectory=/var/lib/(.+)$", text, re.M)[1]


def test_names_of_the_archive_stay_in_its_folder(out):
    with tarfile.open(the_one(out, "*.tar.xz")) as tar:
        entries = tar.getmembers()
    folder = entries[0].name
    assert entries[0].isdir() and all(entry.name == folder or entry.name.startswith(f"{folder}/") for entry in entries)
    assert all(entry.uid == 0 and entry.uname == "root" and not entry.mode & 0o022 for entry in entries)
    assert all("/" not in entry.linkname for entry in entries)


def carried_and_missing(programs, folder):
    """-> (libraries that are found in the folder, those that are found nowhere or elsewhere), for programs without an environment"""
    inside, outside = set(), set()
    for program in programs:
        for name, path in re.findall(r"^\s*(\S+) => (\S+)", said(*EMPTY, "/usr/bin/ldd", program), re.M):
            if not libraries.OF_GLIBC.match(name):
                (inside if pathlib.Path(os.path.normpath(path)).is_relative_to(folder) else outside).add(name)
    return inside, outside


def assert_carries_what_it_needs(program, folder):
    door = folder / "doors/door_grpc.so"
    inside, outside = carried_and_missing([program, door], folder)
    assert outside == set()
    assert inside == {file.name for file in folder.glob("*.so*")}, "a library that nothing needs"
    assert "(RPATH)" in dynamic(program) and "[$ORIGIN/../lib/baton]" in dynamic(program)
    assert "(RPATH)" in dynamic(door) and "[$ORIGIN/..]" in dynamic(door)
    for file in (program, door):
        assert_stripped_of_this_machine(file)
    for file in elf_files(folder):
        assert not re.search(r"R(UN)?PATH.*\[/", dynamic(file)), file


def test_the_archive_carries_what_it_needs(prefix):
    assert_carries_what_it_needs(prefix / "bin/cluster", prefix / "lib/baton")


def test_each_carried_library_has_its_licence(prefix, wheel):
    licences = {file.name for file in (prefix / "share/doc/baton/licenses").iterdir()}
    assert {"libcaf-core0.17", "libstdc++6", "libgrpc29", "libicu72", "libcurl4"} <= licences and len(licences) > 40
    assert (prefix / "share/doc/baton/LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.rpartition("/")[2] for name in names if "/licenses/libraries/" in name} == licences
    assert any(name.endswith("/licenses/NOTICE") for name in names)


def test_the_empty_table_of_icu_serves_libxml2(prefix):
    """In a process that has nothing but the carried libraries."""
    program = "import ctypes\nx = ctypes.CDLL('libxml2.so.2')\nx.xmlReadMemory.restype = ctypes.c_void_p\n" \
              "text = b'<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>\\xe4</a>'\nassert x.xmlReadMemory(text, len(text), None, None, 0)\n" \
              "print([line.split()[-1] for line in open('/proc/self/maps') if 'libicudata' in line][0])"
    loaded = said("/usr/bin/python3", "-c", program, env={"LD_LIBRARY_PATH": str(prefix / "lib/baton")})
    assert pathlib.Path(loaded.strip()).is_relative_to(prefix)


def test_the_archive_answers_from_another_folder_through_a_link(prefix, tmp_path):
    moved = tmp_path / "a b" / "elsewhere"
    moved.parent.mkdir()
    said("cp", "-a", prefix, moved)
    link = tmp_path / "baton"
    link.symlink_to(moved / "bin/baton")
    assert said(*EMPTY, link, "--version").startswith("0.")
    assert said(*EMPTY, link, *ANSWER).strip()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def test_the_archive_finds_its_library_for_grpc(prefix):
    with tempfile.TemporaryDirectory(prefix="baton-") as folder:  # a run directory's path is short
        serve_grpc(prefix / "bin/cluster", pathlib.Path(folder))


@contextlib.contextmanager
def serving(cluster, config):
    """Runs `cluster up` without an environment -> what it printed until it was ready."""
    with subprocess.Popen([*EMPTY, cluster, "up", config], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as up:
        try:
            shown = []
            for line in up.stdout:
                shown.append(line)
                if line.startswith("ready"):
                    break
            assert up.poll() is None, shown
            yield "".join(shown)
        finally:
            up.terminate()
            up.stdout.read()


def serve_grpc(cluster, folder):
    http_port, grpc_port = free_port(), free_port()
    config = folder / "nodes.toml"
    config.write_text(f'[cluster]\nrun_dir = "{folder}/run"\n[model]\nname = "m"\npath = "{MODEL}"\nkv_cache_bytes = "256MiB"\n[gateway]\n'
                      f'http = "127.0.0.1:{http_port}"\nzmq = ""\nkserve_grpc = "127.0.0.1:{grpc_port}"\n')
    with serving(cluster, config):
        with socket.create_connection(("127.0.0.1", grpc_port), timeout=10) as grpc:
            grpc.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            assert grpc.recv(9)[3] == 4  # the server's own SETTINGS
        asked = http.client.HTTPConnection("127.0.0.1", http_port, timeout=10)
        asked.request("GET", "/health")
        assert asked.getresponse().status == 200


def test_the_wheel_has_a_true_record(wheel):
    assert wheel.stat().st_size <= BYTES_MAX
    with zipfile.ZipFile(wheel) as whole:
        record, = (name for name in whole.namelist() if name.endswith(".dist-info/RECORD"))
        rows = [row.rsplit(",", 2) for row in whole.read(record).decode().splitlines()]
        assert [name for name, _, _ in rows] == whole.namelist()
        for name, digest, size in rows[:-1]:
            data = whole.read(name)
            assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=") and int(size) == len(data)
        assert rows[-1] == [record, "", ""]
        assert {name for name in whole.namelist() if whole.getinfo(name).external_attr >> 16 & 0o111} == {"baton_server/bin/cluster"}


def test_the_wheel_has_the_whole_sdk(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {file.relative_to(ROOT / "sdk/python").as_posix() for package in ("baton_client", "baton_worker")
               for file in (ROOT / "sdk/python" / package).rglob("*.py")}
    assert "baton_client/wire/tables.py" in sources and sources <= names


def test_the_wheel_installs_without_an_index_and_carries_what_it_needs(venv):
    package, = venv.glob("lib/python*/site-packages/baton_server")
    assert_carries_what_it_needs(package / "bin/cluster", package / "lib/baton")
    said(venv / "bin/pip", "check")
    assert said(venv / "bin/baton", "--version") == said(venv / "bin/cluster", "--version") == said(venv / "bin/python", "-m", "baton_server", "--version")


def test_the_wheel_has_the_manual_and_completion_of_both_names(venv):
    for name in ("cluster", "baton"):
        assert (venv / f"share/man/man1/{name}.1").read_bytes() == (ROOT / "docs/reference/cluster.1").read_bytes()
        script = f'. "$1/share/bash-completion/completions/{name}"; COMP_WORDS=({name} rota); COMP_CWORD=1; _cluster; echo "${{COMPREPLY[*]}}"; complete -p {name}'
        assert said("bash", "-c", script, "bash", venv).startswith("rotate-key\ncomplete ")
    assert (venv / "share/zsh/site-functions/_cluster").read_text().startswith("#compdef cluster baton\n")


def test_the_wheel_answers_without_an_environment(venv):
    begin = time.monotonic()
    assert said(*EMPTY, venv / "bin/cluster", *ANSWER).strip()
    print(f"first answer of the installed wheel: {time.monotonic() - begin:.1f} s")


def test_the_commands_of_the_wheel_start_workers_with_its_own_python(venv, tmp_path):
    """nodes.toml names `python3`: in PATH it is that of the environment."""
    program = "import os, baton_server\nos.execv = lambda path, words: print(os.environ['PATH'], path, *words)\nimport sys\nsys.argv = ['/x/baton', 'up', 'a b']\nbaton_server.main()"
    shown = said(venv / "bin/python", "-c", program, env={"PATH": "/usr/bin"}, cwd=tmp_path)
    package, = venv.glob("lib/python*/site-packages/baton_server")
    assert shown == f"{venv}/bin{os.pathsep}/usr/bin {package}/bin/cluster baton up a b\n"
