"""The lease script without a GPU: the archive, rows skipped by name, time limits, and its serving rows on a device of plain loops."""
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import time
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BATON_BUILD", ROOT / "build/dev")).resolve()
SERVED_SECONDS_MAX = 600  # it takes 30
SCRIPT = ROOT / "tests/gpu/lease.sh"
SYSTEM = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
sys.path.insert(0, str(ROOT / "tests/gpu"))
sys.path.insert(0, str(ROOT / "tests/bench"))

import fatbin  # noqa: E402
import lease  # noqa: E402
import lease_pack  # noqa: E402
import lease_rows  # noqa: E402


def leased(*words, python=SYSTEM, script=SCRIPT, seconds=120):
    """By the system's Python: -> (status, lines of its output, errors)"""
    path = os.pathsep.join([str(pathlib.Path(python).parent), os.environ["PATH"]])
    done = subprocess.run(["bash", script, *map(str, words)], capture_output=True, text=True, timeout=seconds, env={**os.environ, "PATH": path})
    return done.returncode, done.stdout.splitlines(), done.stderr


def rows_of(lines):
    return [json.loads(line) for line in lines]


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a GPU")
def test_without_a_gpu_every_row_is_skipped_and_says_why(tmp_path):
    status, lines, err = leased("run", "--seconds", 20, "--build-dir", tmp_path)
    rows = rows_of(lines)
    assert status == 0, err
    assert [r["row"] for r in rows] == [r.name for r in lease_rows.ROWS] + ["seconds"]
    assert {r["skipped"] for r in rows[:-1]} == {"no NVIDIA driver here"} and rows[-1]["value"] < 20


def test_the_rows_are_listed_and_named_on_the_page():
    status, lines, _ = leased("rows")
    assert status == 0 and len(lines) == len(lease_rows.ROWS)
    page = (ROOT / "docs/develop/gpu.md").read_text()
    assert [r.name for r in lease_rows.ROWS if f"`{r.name}`" not in page] == []


@pytest.mark.parametrize("words, why", [
    (["run"], "run needs --seconds N"), (["run", "--seconds", "0"], "run needs --seconds N"), (["run", "--seconds", "9", "--only", "nothing"], "no row nothing"),
    (["run", "--seconds", "9", "--from", "/nowhere"], "there is no /nowhere/lease.tar.xz"), (["lend"], "invalid choice"),
    (["pack", "--build-dir", "/nowhere", "--out", "{tmp}"], "cluster: there is no /nowhere/cluster/cluster")])
def test_impossible_rows_are_reported(words, why, tmp_path):
    status, lines, err = leased(*(w.format(tmp=tmp_path / "out") for w in words))
    assert status != 0 and not lines and why in err


def place_for(tmp_path, begun, **lacks):
    return types.SimpleNamespace(begun=begun, lacks=lambda row: lacks.get(row.name, ""), build=tmp_path, is_tiny=False)


def row_of(name, seconds):
    return lease_rows.Row(name, seconds, (), None, "")


def test_it_never_runs_over(tmp_path, capfd):
    """A row that hangs with a child of its own, one that fails, one that has no time left any more, one that lacks something."""
    scripts = {"quick": "print('{\"row\": \"quick\", \"value\": 1}', flush=True)", "bad": "raise SystemExit(3)", "late": "",
               "hangs": f"import signal, subprocess, time\nsignal.signal(15, signal.SIG_IGN)\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid))\ntime.sleep(600)"}
    begun = lease.time.monotonic()
    rows = [row_of("quick", 10), row_of("absent", 1), row_of("bad", 10), row_of("hangs", 2), row_of("late", 60)]
    limit = 55
    lease.run_rows(rows, place_for(tmp_path, begun, absent="no such thing"), limit, lambda row, _: [sys.executable, "-c", scripts[row.name]])
    assert lease.time.monotonic() - begun < limit
    printed = rows_of(capfd.readouterr().out.splitlines())
    assert [r["row"] for r in printed] == ["quick", "absent", "bad", "hangs", "late"]
    assert printed[1]["skipped"] == "no such thing" and printed[2]["error"] == "ended with status 3"
    assert printed[3]["error"] == "not over after 4 s" and printed[4]["skipped"].startswith("it takes 60 s, ")
    child = (tmp_path / "pid").read_text()
    while not has_ended(child) and lease.time.monotonic() - begun < limit:
        lease.time.sleep(0.05)  # the kernel takes a moment to end a killed process
    assert has_ended(child)


def has_ended(pid):
    """It is gone, or a zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("left, given", [(100, 20), (15, 15), (10, 10), (9.9, None), (-1, None)])
def test_how_long_a_row_may_take(left, given):
    assert lease.seconds_of(row_of("a", 10), left) == given
    assert lease.seconds_of(row_of("a", 10), left, is_tiny=True) == (given and left)


def test_which_libraries_are_carried():
    listing = '''\tlinux-vdso.so.1 (0x00007ffc)
\tlibzmq.so.5 => /lib/x86_64-linux-gnu/libzmq.so.5 (0x00007f)
\tlibstdc++.so.6 => /lib/x86_64-linux-gnu/libstdc++.so.6 (0x00007f)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)
\tlibcrypto.so.3 => /lib/x86_64-linux-gnu/libcrypto.so.3 (0x00007f)
\tlibtorch_cuda.so => /opt/site-packages/torch/lib/libtorch_cuda.so (0x00007f)
\tlibcudart.so.13 => /usr/local/cuda/lib64/libcudart.so.13 (0x00007f)
\tlibcublas.so.13 => /lib/x86_64-linux-gnu/libcublas.so.13 (0x00007f)
\tlibnccl.so.2 => not found
'''
    assert [name for name, path in lease_pack.ldd_of(listing).items() if lease_pack.is_carried(name, path)] == ["libzmq.so.5", "libcrypto.so.3"]


def fat_binary(*entries):
    """As nvcc lays it out: (kind, architecture, payload) each behind its header."""
    body = b"".join(struct.pack("<HHIQ12xI32x", kind, 0x101, 64, len(payload), architecture) + payload for kind, architecture, payload in entries)
    return struct.pack("<IHHQ", fatbin.MAGIC, 1, 16, len(body)) + body


def test_code_for_other_processors_is_zeroed():
    one, two = fat_binary((2, 80, b"a" * 24), (2, 90, b"b" * 16), (1, 90, b"ptx" * 8)), fat_binary((2, 90, b"c" * 8), (2, 100, b"d" * 8))
    before, used = b"host" * 4, one + bytes(8) + two
    data = bytearray(before + used + b"link" * 2 + b"end.")
    places = {".nv_fatbin": (len(before), len(used)), "__nv_relfatbin": (len(before) + len(used), 8)}
    assert fatbin.keep_only(data, places, {90}) == 24
    assert data.startswith(before) and data.endswith(bytes(8) + b"end.") and len(data) == len(before) + len(used) + 12
    assert b"b" * 16 in data and b"c" * 8 in data and not any(gone in data for gone in (b"aaaa", b"ptx", b"dddd"))
    assert [(k, a, n) for k, a, _, n in fatbin.entries(data, *places[".nv_fatbin"])] == [(2, 80, 24), (2, 90, 16), (1, 90, 24), (2, 90, 8), (2, 100, 8)]
    assert fatbin.keep_only(data, places, {75}) == 0


@pytest.mark.skipif(not (BUILD / "cluster/cluster").exists(), reason="cluster is not built")
def test_the_archive_is_whole_and_small_enough(tmp_path):
    """The archive of this build; with the engine only if there is one."""
    out = tmp_path / "out"
    status, lines, err = leased("pack", "--build-dir", BUILD, "--gpu-dir", tmp_path / "none", "--out", out, seconds=600)
    report = json.loads("\n".join(lines))
    assert status == 0 and [m.partition(":")[0] for m in report["missing"]] == ["engine", "bench", "unit"], err
    parts = sorted(out.glob("*.part*"))
    assert report["bytes"] <= lease_pack.ARCHIVE_BYTES_MAX and all(p.stat().st_size <= lease_pack.PART_BYTES for p in parts)
    assert b"".join(p.read_bytes() for p in parts) == (ROOT / "models" / lease_pack.MODEL_FILE).read_bytes()
    with tarfile.open(out / "lease.tar.xz") as archive:
        names = archive.getnames()
        archive.extractall(tmp_path / "there")
    assert {"build/packed/cluster/cluster", "tests/gpu/lease.sh", "tests/gpu/lease.py", "tests/bench/gpu.py", "tests/bench/load.py", "tests/bench/servers.py"} <= set(names)
    assert any(n.startswith("build/packed/lib/libzmq.so") for n in names) and not any("/lib/libc.so" in n or "/lib/libstdc++" in n for n in names)
    there = tmp_path / "there/build/packed"
    done = subprocess.run([there / "cluster/cluster", "--version"], capture_output=True, text=True, timeout=60, env={"LD_LIBRARY_PATH": str(there / "lib")})
    assert done.returncode == 0, done.stderr
    status, lines, err = leased("run", "--seconds", 20, "--only", "machine", "--device", "plain", script=tmp_path / "there/tests/gpu/lease.sh")
    assert status == 0 and rows_of(lines)[0]["value"] == "plain", err


@pytest.mark.skipif(not (BUILD / "cluster/engines/engine_plain.so").exists(), reason="the engine of plain loops is not built")
def test_its_rows_of_serving_are_served(tmp_path):
    """The same functions as on a GPU, with tiny models: what a lease would find out too late."""
    status, lines, err = leased("run", "--seconds", SERVED_SECONDS_MAX, "--device", "plain/plain", "--tiny", "--build-dir", BUILD, "--only",
                               "machine,serve 1b,two ranks,two ranks refused,serve 8b,two stages", seconds=SERVED_SECONDS_MAX + 30)
    rows = {r["row"]: r for r in rows_of(lines)}
    assert status == 0 and not [r for r in rows.values() if "error" in r], (lines, err)
    assert rows["serve 1b: the same text twice"]["value"] == rows["two ranks: the text of one rank"]["value"] == 1
    for name in ("serve 1b", "two ranks", "serve 8b"):
        assert rows[f"{name}: kill -9 of a shard, longest wait"]["faults"] == [] and rows[f"{name}: 1 stream"]["value"] > 0
        assert rows[f"{name}: kill -9 of a shard, longest wait"]["same_texts"] == rows[f"{name}: kill -9 of a shard, longest wait"]["streams"] == 8
    assert rows["two stages: 1 stream, of one process"]["value"] > 0
    assert rows["two ranks refused"]["skipped"] == "of a GPU alone"
    assert rows["seconds"]["value"] < SERVED_SECONDS_MAX
    assert all(isinstance(r.get("seconds", 0), (int, float)) for r in rows.values())


def test_processes_left_by_a_row_are_ended_and_no_others():
    """Another process of the same program goes on, whatever its folder."""
    others = subprocess.Popen(["sleep", "300"])
    left = subprocess.Popen(["sleep", "300"], start_new_session=True, env={**os.environ, lease.MARK: lease.MARKED})
    deadline = time.monotonic() + 20
    while lease.MARKED.encode() not in pathlib.Path(f"/proc/{left.pid}/environ").read_bytes():  # the kernel is still at it when Popen returns
        assert time.monotonic() < deadline
    try:
        lease.sweep()
        assert left.wait(30) == -signal.SIGKILL
        assert others.poll() is None
    finally:
        for process in (others, left):
            process.kill()
            process.wait()


def test_the_summary_of_a_case_that_runs_a_child_is_not_the_one_of_the_run():
    line = "=" * 79
    text = f"""{line}
a_test.cpp:1:
TEST CASE:  a message alone

a_test.cpp:3: MESSAGE: skipped
{line}
a_test.cpp:9:
TEST CASE:  a real failure

a_test.cpp:12: ERROR: CHECK( 1 == 2 ) is NOT correct!
{line}
[doctest] test cases:  1 |  1 passed | 0 failed | 20 skipped
{line}
[doctest] test cases: 12 | 11 passed | 1 failed | 3 skipped
"""
    assert lease_rows.cases_of(text) == (11, 1, ["a real failure"])
    assert lease_rows.cases_of("") == (0, 1, [])
