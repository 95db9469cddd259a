"""Model files that are damaged, or that change while a cluster serves them. The cluster names the reason and sends no wrong text, and no
process dies. Unit tests and fuzz targets cover the reader byte by byte; these tests use real processes and files."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import struct
import tempfile
import time

import pytest
from harness import MODEL, ROOT, Cluster, running
from streams import Stream

UP_SECONDS_MAX = 20  # a hang; it takes a fraction of a second
PROMPTS = ["Write a short story about a fox.", "Write a short story about the sea."]
DIRECTORY = ROOT / "tests/data/model/checkpoint"


# -- Refused before anything starts --

def first_tensor(data):
    """-> the offsets of the parts in the first row of a GGUF file's tensor table"""
    at = 8
    tensors, entries = struct.unpack_from("<QQ", data, at)
    at += 16
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def text(at):
        return at + 8 + struct.unpack_from("<Q", data, at)[0]

    for _ in range(entries):
        at = text(at)
        kind, at = struct.unpack_from("<I", data, at)[0], at + 4
        count = 1
        if kind == 9:
            kind, count = struct.unpack_from("<IQ", data, at)
            at += 12
        for _ in range(count if kind == 8 else 0):
            at = text(at)
        at += 0 if kind == 8 else sizes[kind] * count
    assert tensors > 0
    name = at
    dimensions = text(name)
    count = struct.unpack_from("<I", data, dimensions)[0]
    shape = dimensions + 4
    kind = shape + 8 * count
    return {"name": name + 8, "dimensions": dimensions, "shape": shape, "type": kind, "offset": kind + 4}


WHOLE = MODEL.read_bytes() if MODEL.exists() else b""
PLACES = first_tensor(WHOLE) if WHOLE else {}


def flipped(at, bit=0):
    data = bytearray(WHOLE)
    data[at] ^= 1 << bit
    return bytes(data)


def with_number(at, form, change):
    data = bytearray(WHOLE)
    struct.pack_into(form, data, at, change(struct.unpack_from(form, data, at)[0]))
    return bytes(data)


DAMAGED = {  # the bytes, and a part of the reason
    "nothing": (lambda: b"", "the file ends inside"),
    "one_byte": (lambda: WHOLE[:1], "the file ends inside"),
    "cut_in_the_magic_number": (lambda: WHOLE[:3], "the file ends inside"),
    "cut_in_the_counts": (lambda: WHOLE[:20], "the file ends inside"),
    "cut_in_the_vocabulary": (lambda: WHOLE[:200_000], "the file ends inside"),
    "cut_in_the_tensor_table": (lambda: WHOLE[:PLACES["type"] + 2], "the file ends inside"),
    "cut_before_the_tensors": (lambda: WHOLE[:PLACES["offset"] + 8], "the file ends inside"),
    "cut_in_a_tensor": (lambda: WHOLE[:50_000_000], "beyond the end of the file"),
    "cut_by_one_byte": (lambda: WHOLE[:-1], "beyond the end of the file"),
    "bit_in_the_magic_number": (lambda: flipped(0), "not a GGUF file"),
    "bit_in_the_version": (lambda: flipped(4, 5), "GGUF version"),
    "bit_in_the_tensor_count": (lambda: flipped(8), "tensor"),
    "bit_in_the_top_of_the_tensor_count": (lambda: flipped(15, 7), "tensor"),
    "bit_in_the_entry_count": (lambda: flipped(16), "unknown type"),
    "bit_in_a_tensors_name": (lambda: flipped(PLACES["name"]), "tensor"),
    "bit_in_a_tensors_dimensions": (lambda: flipped(PLACES["dimensions"], 4), "dimensions"),
    "bit_in_a_tensors_type": (lambda: flipped(PLACES["type"], 6), "type"),
    "bit_in_a_tensors_offset": (lambda: flipped(PLACES["offset"], 1), "not a multiple of"),
    "a_tensor_over_another": (lambda: with_number(PLACES["offset"], "<Q", lambda n: n + 4096), "overlap"),
    "a_tensor_beyond_the_end": (lambda: with_number(PLACES["offset"], "<Q", lambda n: 1 << 60), "beyond the end of the file"),
    "a_tensor_of_another_shape": (lambda: with_number(PLACES["shape"], "<Q", lambda n: n // 2), "expected [576, 49152], found [288, 49152]"),
    "a_tensor_that_overflows": (lambda: with_number(PLACES["shape"], "<Q", lambda n: 1 << 62), "tensor"),
}


@pytest.fixture
def short_path(tmp_path_factory):
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:  # sockets live in it
        yield pathlib.Path(directory)


def refused(directory, path):
    """-> the message of `cluster up` about the file"""
    c = Cluster(directory, path=path)
    done = c.command("up", str(c.config), timeout=UP_SECONDS_MAX)
    assert done.returncode > 0, done
    assert not list((directory / "run").glob("*.pid"))
    return done.stderr


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused_by_what_is_wrong(short_path, name):
    make, reason = DAMAGED[name]
    path = short_path / "damaged.gguf"
    path.write_bytes(make())
    answer = refused(short_path, path)
    assert "damaged.gguf" in answer or "tensor" in answer, answer
    assert reason in answer, answer


def test_what_is_no_model_file_is_named(short_path):
    (short_path / "empty").mkdir()
    assert "empty" in refused(short_path, short_path / "empty")
    assert "gone.gguf" in refused(short_path, short_path / "gone.gguf")
    os.mkfifo(short_path / "pipe.gguf")
    assert "not a regular file" in refused(short_path, short_path / "pipe.gguf")
    assert "model.gguf" in refused(short_path, "https://127.0.0.1/model.gguf")  # nothing is fetched


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_named(short_path):
    path = short_path / "secret.gguf"
    path.write_bytes(b"GGUF")
    path.chmod(0)
    assert "secret.gguf: Permission denied" in refused(short_path, path)


@pytest.mark.parametrize("part, damage, reason", [
    ("model.safetensors", lambda b: b[:4], "model.safetensors"),
    ("model.safetensors", lambda b: b[:-1], "model.safetensors"),
    ("model.safetensors", lambda b: b"\xff" * 8 + b[8:], "model.safetensors"),
    ("config.json", lambda b: b[:20], "config.json"),
    ("config.json", lambda b: b.replace(b'"num_hidden_layers"', b'"num_hidden_layert"'), "num_hidden_layers"),
])
def test_a_damaged_directory_is_refused_by_the_file(short_path, part, damage, reason):
    model = shutil.copytree(DIRECTORY, short_path / "model")
    (model / part).write_bytes(damage((model / part).read_bytes()))
    assert reason in refused(short_path, model)


# -- Changed while it is served --

@contextlib.contextmanager
def served():
    """A cluster on a copy of the model, and its undisturbed text."""
    with tempfile.TemporaryDirectory(prefix="baton-model-") as directory:
        path = pathlib.Path(directory) / "model.gguf"
        shutil.copy(MODEL, path)
        with running(path=path, cluster="shutdown_timeout = 0.1") as cluster:
            yield cluster, path


@pytest.fixture(scope="module")
def undisturbed(shared):
    return [Stream(shared, p, max_tokens=64).check().text for p in PROMPTS]


def truncate(path):
    os.truncate(path, 4096)


def empty(path):
    os.truncate(path, 0)


def replace(path):
    """Replaces it by a file of the same shape whose last tensors differ."""
    other = path.with_suffix(".new")
    other.write_bytes(WHOLE[:-1_000_000] + bytes(b ^ 0x11 for b in WHOLE[-1_000_000:]))
    other.rename(path)


def overwrite(path):
    """Changes the file in place, inside the last tensor, which the fingerprint does not cover."""
    at = len(WHOLE) - 2000
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(bytes(b ^ 0x11 for b in WHOLE[at:at + 1000]))


def remove(path):
    path.unlink()


CHANGES = {f.__name__: f for f in (truncate, empty, replace, overwrite, remove)}


def children_of(pid):
    out = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                out.append(int(stat.parent.name))
    return out


def kill_for_good(cluster, shard):
    """Ends first the standby copy and then the shard, so that the next process reads the file."""
    pid = cluster.pid(shard)
    for copy in children_of(pid):
        os.kill(copy, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)


def begun(cluster, **fields):
    streams = [Stream(cluster, p, **fields) for p in PROMPTS]
    for s in streams:
        assert s.begun.wait(60)
    return streams


def wait_for(what, seconds=30):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_streams_go_on_whatever_becomes_of_the_file(undisturbed, change):
    with served() as (cluster, path):
        streams = begun(cluster, max_tokens=64)
        pids = {p["name"]: p["pid"] for p in cluster.status()["processes"]}
        CHANGES[change](path)
        assert [s.check().text for s in streams] == undisturbed
        again = [Stream(cluster, p, max_tokens=64) for p in PROMPTS]  # nothing of it is read lazily
        assert [s.check().text for s in again] == undisturbed
        assert cluster.post("/tokenize", {"prompt": "Every word, 語 and 🦊, is in the head's memory."})[0] == 200
        assert {p["name"]: p["pid"] for p in cluster.status()["processes"]} == pids  # nobody died, of SIGBUS or else


@pytest.mark.parametrize("change", CHANGES)
def test_a_shard_that_waits_as_a_copy_goes_on_with_the_same_weights(undisturbed, change):
    with served() as (cluster, path):
        streams = begun(cluster, max_tokens=64)
        CHANGES[change](path)
        cluster.kill("shard-0")
        assert [s.check().text for s in streams] == undisturbed


@pytest.mark.parametrize("change, victim", [
    ("truncate", "shard-0"), ("empty", "head"), ("replace", "shard-1"), ("replace", "head"), ("overwrite", "shard-1"), ("remove", "shard-1")])
def test_a_process_that_must_read_a_changed_file_is_refused_by_name(undisturbed, change, victim):
    with served() as (cluster, path):
        streams = begun(cluster, max_tokens=400, ignore_eos=True)
        CHANGES[change](path)
        if victim == "head":
            cluster.kill("head")
        else:
            kill_for_good(cluster, victim)
        reply = wait_for(lambda: next((p for p in cluster.status()["processes"] if p["name"] == victim and p["phase"] == "failed"), None))
        assert "model.gguf" in reply["reason"], reply
        status, health = cluster.health()
        assert status == 503 and victim in json.dumps(health), health
        for s, text in zip(streams, undisturbed):
            assert text.startswith(s.text[:len(text)]) or s.text.startswith(text), "another model's text"


def test_a_file_that_only_looks_new_is_what_it_was(undisturbed):
    """Writes the same bytes and time again, as a restored backup does."""
    with served() as (cluster, path):
        at = path.stat()
        path.write_bytes(WHOLE)
        os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))
        pid = cluster.pid("shard-1")
        kill_for_good(cluster, "shard-1")
        wait_for(lambda: cluster.pid("shard-1") not in (0, pid))
        cluster.wait_ready()
        assert [Stream(cluster, p, max_tokens=64).check().text for p in PROMPTS] == undisturbed
