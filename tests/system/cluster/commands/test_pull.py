"""`cluster pull`, `models` and `rm`, and model references in other commands. The hub is our own; huggingface_hub is the oracle."""
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from harness import CLUSTER, MODEL, ROOT, Cluster
from model_hub import COMMIT, HEADER_RANGE, I8, Hub, Repository, gguf
from terminal import Terminal

PART = 16 << 20
GGUF = gguf(random.Random(1).randbytes(300_000))


@pytest.fixture
def hub():
    hub = Hub()
    hub.repositories["org/gguf"] = Repository({"README.md": b"# A model\n", "a-Q8_0.gguf": GGUF + b"8", "a-Q4_K_M.gguf": GGUF, "a-IQ2_XS.gguf": b"GGUF2",
                                               "mmproj-F16.gguf": b"GGUFmm", "b-F16-00001-of-00002.gguf": b"GGUF", "sub/c-Q5_K_M.gguf": GGUF + b"5"})
    yield hub
    hub.close()


@pytest.fixture
def home(hub, tmp_path):
    with tempfile.TemporaryDirectory(prefix="baton-") as runtime:  # a short path, as sockets need
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "XDG_", "OLLAMA")) and "proxy" not in k.lower()}
        yield {**kept, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": runtime, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf"), "no_proxy": "*"}


def command(home, *words, **more):
    return subprocess.run([CLUSTER, *map(str, words)], capture_output=True, text=True, timeout=120, env=home, cwd=ROOT, stdin=subprocess.DEVNULL, **more)


def pulled(home, *words):
    done = command(home, "pull", *words)
    assert done.returncode == 0, done
    return pathlib.Path(done.stdout.rstrip("\n"))


def refused(home, *words):
    done = command(home, *words)
    assert done.returncode != 0 and done.stdout == "", done
    return done.stderr


def cache_of(home):
    return pathlib.Path(home["HF_HOME"]) / "hub"


def tree(folder):
    """-> {path: target of a link, or content}, without locks and the mark for backup tools."""
    found = {p.relative_to(folder).as_posix(): os.readlink(p) if p.is_symlink() else p.read_bytes() for p in folder.rglob("*") if p.is_symlink() or p.is_file()}
    return {path: content for path, content in found.items() if not path.startswith((".locks/", "CACHEDIR.TAG"))}


def huggingface_hub(home, code, cache=None):
    """Runs Python code with `cache` and all of huggingface_hub -> stdout"""
    done = subprocess.run([sys.executable, "-c", "from huggingface_hub import *\n" + code], capture_output=True, text=True, timeout=120,
                          env={**home, "HF_HUB_CACHE": str(cache or cache_of(home)), "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"})
    assert done.returncode == 0, done
    return done.stdout.strip()


def leftovers(home):
    return [p.name for p in cache_of(home).rglob("*") if "baton" in p.name]


def test_the_best_file_is_chosen_with_a_reason(home, hub):
    done = command(home, "pull", "hf:org/gguf")
    assert done.returncode == 0, done
    path = pathlib.Path(done.stdout.rstrip("\n"))
    assert path == cache_of(home) / f"models--org--gguf/snapshots/{COMMIT}/a-Q4_K_M.gguf" and path.read_bytes() == GGUF
    assert "a-Q4_K_M.gguf: of IQ2_XS, Q4_K_M, Q5_K_M, Q8_0 the nearest to Q4_K_M" in done.stderr
    assert "b-F16-00001-of-00002.gguf: 1 of its 2 parts" in done.stderr and "mmproj-F16.gguf" in done.stderr
    assert leftovers(home) == []
    before = len(hub.seen("cdn"))
    assert pulled(home, "org/gguf") == path and len(hub.seen("cdn")) == before  # what is there is not downloaded again


SHORT, LONG = "smollm2:135m", "hf:bartowski/SmolLM2-135M-Instruct-GGUF:Q4_K_M"


@pytest.fixture
def known(hub):
    hub.repositories["bartowski/SmolLM2-135M-Instruct-GGUF"] = Repository({"SmolLM2-135M-Instruct-Q4_K_M.gguf": GGUF, "SmolLM2-135M-Instruct-Q8_0.gguf": GGUF})


def test_a_short_name_is_a_model_of_the_hub(home, known):
    assert f"{SHORT}: {LONG}" in refused(home, "run", SHORT, "--print-config")
    done = command(home, "pull", "SmolLM2")
    assert done.returncode == 0 and done.stdout.endswith("SmolLM2-135M-Instruct-Q4_K_M.gguf\n") and f"SmolLM2: {LONG}" in done.stderr, done
    assert done.stdout.strip() in command(home, "run", "smollm2", "--print-config").stdout
    listed = {m["name"]: m for m in json.loads(command(home, "models", "--known", "--json").stdout)}
    assert listed[SHORT] == {"name": SHORT, "reference": LONG, "downloaded": True} and not listed["qwen2.5:0.5b"]["downloaded"]
    assert re.search(rf"^{SHORT} +yes +{LONG}$", command(home, "models", "--known").stdout, re.M)
    assert command(home, "rm", SHORT).returncode == 0
    assert "not downloaded" in refused(home, "rm", SHORT)


def test_a_path_with_a_short_name_wins(home, known, tmp_path):
    pulled(home, "smollm2")
    (tmp_path / "smollm2").write_bytes(GGUF)
    for words in (["run", "smollm2", "--print-config"],):
        done = subprocess.run([CLUSTER, *words], capture_output=True, text=True, timeout=60, env=home, cwd=tmp_path, stdin=subprocess.DEVNULL)
        assert f'path = "{tmp_path}/smollm2"' in done.stdout and f"smollm2: the path here; the known model of that name is {LONG}" in done.stderr, done


@pytest.mark.parametrize("words, message", [
    (["run", "smolm2"], "smolm2: no such file or directory, and no known model (`cluster models --known`); did you mean 'smollm2'?"),
    (["up", "smolm2"], "did you mean 'smollm2'?"),
    (["pull", "qwen2.5:0.6b"], "did you mean 'qwen2.5:0.5b'?"),
    (["run", "nowhere.gguf"], "nowhere.gguf: no such file or directory"),
])
def test_a_near_name_is_suggested(home, hub, words, message):
    assert message in refused(home, *words)
    assert hub.requests == []


def listed(**sizes):
    return [{"type": "file", "path": f"a-{name}.gguf", "size": size, "oid": "0" * 40, "lfs": {"oid": "a" * 64, "size": size}} for name, size in sizes.items()]


def test_the_best_file_that_fits_into_memory_is_chosen(home, hub):
    hub.tree_of = [*listed(Q4_K_M=10 ** 15), hub.repositories["org/gguf"].entry("a-Q8_0.gguf")]
    done = command(home, "pull", "hf:org/gguf")
    assert done.stdout.endswith("/a-Q8_0.gguf\n"), done
    assert "a-Q8_0.gguf: of Q4_K_M, Q8_0 the nearest to Q4_K_M that fits into memory: a-Q4_K_M.gguf has 1000 TB" in done.stderr


def test_what_does_not_fit_into_memory_is_refused_by_name_and_number(home, hub):
    hub.tree_of = listed(Q4_K_M=3 * 10 ** 15, Q4_0=2 * 10 ** 15, Q4_0_4_4=10)
    message = refused(home, "pull", "hf:org/gguf")
    assert re.search(r"the smallest of its files that run here, a-Q4_0\.gguf, has 2000 TB; [0-9.]+ [MG]B of memory are available", message), message
    assert hub.seen("cdn") == []


def test_the_cache_is_the_one_that_huggingface_hub_writes(home, hub, tmp_path):
    pulled(home, "hf:org/gguf:q8_0")
    pulled(home, "hf:org/gguf:sub/c-Q5_K_M.gguf")
    other = tmp_path / "other"
    huggingface_hub(home, "for f in ('a-Q8_0.gguf', 'sub/c-Q5_K_M.gguf'): hf_hub_download('org/gguf', f)", other)
    assert tree(cache_of(home)) == tree(other)


def test_huggingface_hub_finds_what_was_pulled(home, hub):
    path = pulled(home, "hf:org/gguf")
    before = len(hub.seen("cdn"))
    assert huggingface_hub(home, "print(hf_hub_download('org/gguf', 'a-Q4_K_M.gguf', local_files_only=True))") == str(path)
    assert huggingface_hub(home, "print([(r.repo_id, r.size_on_disk) for r in scan_cache_dir().repos], scan_cache_dir().warnings)") == \
        f"[('org/gguf', {len(GGUF)})] []"
    assert len(hub.seen("cdn")) == before


def test_what_huggingface_hub_downloaded_is_found(home, hub):
    huggingface_hub(home, "snapshot_download('org/gguf', allow_patterns=['a-Q8_0.gguf'])")
    before = len(hub.requests)
    listed = json.loads(command(home, "models", "--json").stdout)
    assert [(m["name"], m["source"], m["format"], m["bytes"]) for m in listed] == [("hf:org/gguf:Q8_0", "huggingface", "gguf", len(GGUF) + 1)]
    assert "hf:org/gguf:Q8_0" in command(home, "models").stdout == command(home, "list").stdout
    assert len(hub.requests) == before
    pulled(home, "hf:org/gguf:Q8_0")
    assert len(hub.seen("cdn")) == 1  # huggingface_hub's own


@pytest.mark.parametrize("variables", [{"HF_HOME": "$DISK/hf"}, {"HF_HOME": "~/${SUB}hf"}, {"HF_HUB_CACHE": "${DISK}/$SUB/cache"}, {"HF_HUB_CACHE": "~/a$NOT_SET"}, {"XDG_CACHE_HOME": "$DISK/xdg"}])
def test_paths_of_the_environment_are_expanded_as_huggingface_hub_does(home, hub, tmp_path, variables):
    own = {**home, "DISK": str(tmp_path / "disk"), "SUB": "s", **variables}
    if "HF_HOME" not in variables:
        own.pop("HF_HOME")
    oracle = subprocess.run([sys.executable, "-c", "import huggingface_hub.constants as c; print(c.HF_HUB_CACHE)"], capture_output=True, text=True, env=own, timeout=60, check=True)
    assert str(pulled(own, "hf:org/gguf")).startswith(oracle.stdout.strip() + "/models--org--gguf/"), oracle


def test_safetensors_are_a_directory(home, hub):
    hub.repositories["org/st"] = Repository({"README.md": b"x", "config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"weights", "pytorch_model.bin": b"no",
                                             "onnx/model.onnx": b"no"})
    hub.page_size = 2  # the list has several pages
    path = pulled(home, "hf:org/st")
    assert sorted(p.name for p in path.iterdir()) == ["config.json", "model.safetensors", "tokenizer.json"]
    assert huggingface_hub(home, "print(snapshot_download('org/st', local_files_only=True))") == str(path)
    assert [m["name"] for m in json.loads(command(home, "models", "--json").stdout)] == ["hf:org/st"]


def test_a_token_is_for_the_hub_alone(home, hub):
    repository = hub.repositories["org/gguf"]
    repository.token, repository.gated = "hf_secret", True
    assert "gated" in (shown := refused(home, "pull", "hf:org/gguf")) and "HF_TOKEN" in shown
    assert "the token that was sent may not read it" in refused({**home, "HF_TOKEN": "hf_wrong"}, "pull", "hf:org/gguf")
    repository.gated = False
    assert "401" in refused(home, "pull", "hf:org/gguf") and "403" in refused({**home, "HF_TOKEN": "hf_wrong"}, "pull", "hf:org/gguf")
    token = pathlib.Path(home["HF_HOME"]) / "token"
    token.parent.mkdir(exist_ok=True)
    token.write_text("hf_secret\n")
    pulled(home, "hf:org/gguf")
    assert all("Authorization" not in headers for *_, headers in hub.seen("cdn")) and hub.seen("cdn")
    assert all(headers["Authorization"] == "Bearer hf_secret" for *_, headers in hub.requests[-3:] if headers["Host"] in hub.url)


@pytest.mark.parametrize("words, message", [
    (["hf:org/none"], "there is no such repository"),
    (["hf:org/gguf@v9"], "no such revision"),
    (["hf:org/gguf:F16"], "b-F16-00001-of-00002.gguf: 1 of its 2 parts are there"),
    (["hf:org/gguf:Q2_K"], "no GGUF file is Q2_K: there are IQ2_XS, Q4_K_M, Q5_K_M, Q8_0"),
    (["hf:gpt2"], "hf:ORG/REPO"),
    (["/models/a.gguf"], "it is a path"),
])
def test_a_reference_that_leads_nowhere_is_refused(home, hub, words, message):
    assert message in refused(home, "pull", *words)
    assert not cache_of(home).exists()


def test_a_hub_that_is_busy_is_asked_again_when_it_wishes(home, hub):
    hub.next_answers = [("/revision/", 429, {"Retry_After": 1}), ("/resolve/", 503, {}), ("signed", 500, {})]
    begin = time.perf_counter()
    pulled(home, "hf:org/gguf")
    assert time.perf_counter() - begin >= 1
    hub.next_answers = [("/revision/", 429, {"Retry_After": 3600})]
    assert "Retry-After: 3600" in refused(home, "pull", "hf:org/gguf:Q8_0")


def test_a_cut_answer_is_continued_where_it_ended(home, hub):
    hub.faults.cut_after = [100_000, 70_000, 10]
    assert pulled(home, "hf:org/gguf").read_bytes() == GGUF
    asked = [headers.get("Range") for *_, headers in hub.seen("cdn")]
    assert asked[0] == f"bytes=0-{len(GGUF) - 1}" and asked[1] == f"bytes=100000-{len(GGUF) - 1}" and len(asked) == 4


def test_a_server_that_stalls_is_left(home, hub):
    hub.faults.stall_after = [100_000]
    begin = time.monotonic()
    assert pulled({**home, "HF_HUB_DOWNLOAD_TIMEOUT": "1"}, "hf:org/gguf").read_bytes() == GGUF
    assert time.monotonic() - begin < 30


def test_a_server_that_stays_dead_ends_the_download(home, hub):
    hub.faults.cut_after = [0] * 100
    assert "a-Q4_K_M.gguf" in refused(home, "pull", "hf:org/gguf")
    hub.faults.cut_after = []
    assert pulled(home, "hf:org/gguf").read_bytes() == GGUF


def test_bytes_with_another_digest_are_not_kept(home, hub):
    hub.faults.corrupt = True
    message = refused(home, "pull", "hf:org/gguf")
    assert "SHA-256" in message and leftovers(home) == []
    assert not list(cache_of(home).rglob("*.gguf")) and not list(cache_of(home).rglob("blobs/*"))
    hub.faults.corrupt = False
    assert pulled(home, "hf:org/gguf").read_bytes() == GGUF


def large(hub, megabytes):
    content = gguf(random.Random(2).randbytes((megabytes << 20) + 4321))
    hub.repositories["org/large"] = Repository({"large-Q4_0.gguf": content})
    return content


def test_four_parts_are_in_flight(home, hub):
    content = large(hub, 70)
    assert pulled(home, "hf:org/large").read_bytes() == content
    ranges = [re.fullmatch(r"bytes=(\d+)-(\d+)", headers["Range"]) for *_, headers in hub.seen("cdn")]
    assert sorted(int(r[1]) for r in ranges) == [i * PART for i in range(5)]


def test_a_server_without_ranges_sends_it_whole(home, hub):
    content = large(hub, 20)
    hub.faults.without_ranges = True
    assert pulled(home, "hf:org/large").read_bytes() == content
    hub.faults.cut_after = [50_000]
    assert pulled(home, "hf:org/gguf").read_bytes() == GGUF


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_download_is_taken_up(home, hub, number):
    content = large(hub, 60)
    hub.faults.bytes_per_second = 4 << 20
    process = subprocess.Popen([CLUSTER, "pull", "hf:org/large"], env=home, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    until = time.monotonic() + 60
    while hub.bytes_sent < 24 << 20:
        assert process.poll() is None and time.monotonic() < until, process.stdout.read()
        time.sleep(0.02)
    process.send_signal(number)
    process.wait(30)
    time.sleep(0.2)  # the server may still be writing into its sockets
    first, hub.bytes_sent, hub.faults.bytes_per_second = hub.bytes_sent, 0, 0
    assert pulled(home, "hf:org/large").read_bytes() == content
    assert hub.bytes_sent <= len(content) - first + PART
    assert leftovers(home) == []


def test_two_downloads_of_a_file_are_one(home, hub):
    content = large(hub, 20)
    hub.faults.bytes_per_second = 8 << 20
    both = [subprocess.Popen([CLUSTER, "pull", "hf:org/large"], env=home, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert {p.communicate(timeout=60)[0] for p in both} == {f"{cache_of(home)}/models--org--large/snapshots/{COMMIT}/large-Q4_0.gguf\n"}
    assert hub.bytes_sent == len(content)


def test_a_disk_without_room_is_noticed_before(home, hub):
    hub.tree_of = [{"type": "file", "path": "a-Q4_0.gguf", "size": 10 ** 17, "oid": "0" * 40, "lfs": {"oid": "a" * 64, "size": 10 ** 17}}]
    message = refused(home, "pull", "hf:org/gguf:Q4_0")
    assert "the disk has" in message and str(10 ** 17) in message
    assert "it may be too large for this machine" in message
    assert hub.seen("cdn") == []


ON_A_SMALL_DISK = """
mkdir -p "$HF_HOME"; mount -t tmpfs -o size=40m tmpfs "$HF_HOME"
(until ls "$HF_HOME"/hub/*/blobs/*.baton-incomplete; do sleep 0.1; done; head -c 30000000 /dev/zero >"$HF_HOME/other") >/dev/null 2>&1 &
if "$0" pull hf:org/large; then echo "there was room"; exit 1; fi
wait; rm "$HF_HOME/other"
sha256sum "$("$0" pull hf:org/large)"
"""


def can_mount():
    """Not as a user, nor in a chroot whose root is no mount."""
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="no mounts of its own can be made here")
def test_a_disk_that_others_fill_ends_the_download_and_the_next_goes_on(home, hub):
    content = large(hub, 32)
    hub.faults.bytes_per_second = 2 << 20
    done = subprocess.run(["unshare", "--mount", "sh", "-c", ON_A_SMALL_DISK, CLUSTER], capture_output=True, text=True, timeout=120, env=home, cwd=ROOT,
                          stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done
    assert "org/large/large-Q4_0.gguf: the download cannot be written: No space left on device" in done.stderr
    assert done.stdout.split()[0] == hashlib.sha256(content).hexdigest()
    assert hub.bytes_sent < 2 * len(content)  # some of the first was of use


@pytest.mark.parametrize("content, message", [
    (gguf(architecture="mamba"), "architecture 'mamba': this build runs llama"),
    (gguf(architecture="mamba", padding=300_000), "architecture 'mamba'"),  # for a header that is longer than the first request
    (gguf(kind=I8), "tensor 'blk.0.ffn_up.weight' is I8: this build reads"),
    (b"<html>a page of a proxy</html>" * 10, "not a GGUF file"),
])
def test_what_would_not_run_is_not_downloaded(home, hub, content, message):
    hub.repositories["org/gguf"] = Repository({"a-Q4_K_M.gguf": content})
    for words in (["pull", "hf:org/gguf"], ["pull", "hf:org/gguf:Q4_K_M"], ["pull", f"{hub.cdn}/a-Q4_K_M.gguf"], ["run", "hf:org/gguf", "--pull"]):
        shown = refused(home, *words)
        assert message in shown and "is not downloaded" in shown, shown
    ranges = {headers.get("Range") for *_, headers in hub.seen("cdn") if headers.get("Range")}
    assert len(hub.checks()) == 4 and all(re.fullmatch(rf"bytes={256 << 10}-\d+", r) for r in ranges) and leftovers(home) == []


def test_a_model_in_several_parts_is_downloaded_listed_and_removed_as_one(home, hub):
    names = [f"q/a-Q4_K_M-0000{i + 1}-of-00002.gguf" for i in range(2)]
    contents = [gguf(random.Random(i).randbytes(100_000), part=(i, 2)) for i in range(2)]
    hub.repositories["org/parts"] = Repository({**dict(zip(names, contents)), "a-Q8_0.gguf": GGUF})
    first = pulled(home, "hf:org/parts")
    assert first.name == "a-Q4_K_M-00001-of-00002.gguf" and len(hub.checks()) == 2
    assert [(first.parent / pathlib.Path(name).name).read_bytes() for name in names] == contents
    shown = json.loads(command(home, "models", "--json").stdout)
    assert [(m["name"], m["bytes"]) for m in shown] == [("hf:org/parts:Q4_K_M", sum(map(len, contents)))]
    assert json.loads(command(home, "model", "inspect", first, "--json").stdout)["model"]["layers"] == 1
    assert command(home, "rm", "hf:org/parts:Q4_K_M").returncode == 0 and not first.exists()
    assert json.loads(command(home, "models", "--json").stdout) == []
    assert pulled(home, f"{hub.cdn}/{names[0]}").read_bytes() == contents[0]


def test_a_part_that_does_not_belong_is_not_downloaded(home, hub):
    names = [f"a-Q4_K_M-0000{i + 1}-of-00002.gguf" for i in range(2)]
    hub.repositories["org/parts"] = Repository(dict(zip(names, [gguf(part=(0, 2)), gguf(part=(1, 3))])))
    shown = refused(home, "pull", "hf:org/parts")
    assert f"{names[1]}: part 2 of 2 is needed, and this is part 2 of 3" in shown and "is not downloaded" in shown
    hub.repositories["org/parts"] = Repository(dict(zip(names, [gguf(part=(0, 2)), gguf(part=(1, 2), kind=I8)])))
    assert "'blk.0.ffn_up.weight' is I8" in refused(home, "pull", "hf:org/parts")
    assert leftovers(home) == []


def test_a_long_header_is_read_in_steps(home, hub):
    content = gguf(random.Random(3).randbytes(1000), padding=2_000_000)
    hub.repositories["org/gguf"] = Repository({"a-Q4_K_M.gguf": content})
    assert pulled(home, "hf:org/gguf").read_bytes() == content
    ranges = [headers["Range"] for server, method, _, headers in hub.requests if server == "cdn" and method == "GET"]
    assert ranges[:3] == [HEADER_RANGE, f"bytes={1 << 18}-{(1 << 20) - 1}", f"bytes={1 << 20}-{(1 << 22) - 1}"], ranges


def test_a_hub_cannot_write_elsewhere(home, hub):
    for path in ("../../escaped.gguf", "/tmp/escaped.gguf", "a/../../b.gguf"):
        hub.tree_of = [{"type": "file", "path": path, "size": 3, "oid": "0" * 40}]
        assert "a file with the name" in refused(home, "pull", "hf:org/gguf")
    hub.tree_of, hub.page_size, hub.next_page_host = None, 2, "http://127.0.0.2:1"
    assert "at another host" in refused(home, "pull", "hf:org/gguf")
    assert not cache_of(home).exists()


def test_nothing_is_asked_in_offline_mode(home, hub):
    path = pulled(home, "hf:org/gguf")
    before = len(hub.requests)
    offline = {**home, "HF_HUB_OFFLINE": "1"}
    assert "offline" in refused(offline, "pull", "hf:org/gguf")
    assert str(path) in command(offline, "run", "hf:org/gguf", "--print-config").stdout
    assert "not downloaded" in refused(offline, "run", "hf:org/gguf:Q8_0", "--print-config")
    assert "offline" in refused(offline, "run", "hf:org/gguf:Q8_0", "--pull", "--print-config")
    assert len(hub.requests) == before


def test_a_file_at_a_url(home, hub):
    url = f"{hub.cdn}/a-Q4_K_M.gguf"
    path = pulled(home, url)
    assert path.read_bytes() == GGUF and path.name == "a-Q4_K_M.gguf"
    assert str(path) in command(home, "run", url, "--print-config").stdout
    assert [m["source"] for m in json.loads(command(home, "models", "--json").stdout)] == ["url"]
    assert command(home, "rm", url).returncode == 0 and not path.exists()


def test_nothing_is_downloaded_without_being_asked(home, hub, tmp_path):
    assert "`cluster pull hf:org/gguf`" in refused(home, "run", "hf:org/gguf", "--print-config")
    assert "`cluster pull hf:org/gguf`" in refused(home, "up", "hf:org/gguf")
    assert "there is no such path" in refused(home, "up", "org/gguf")
    (tmp_path / "nodes.toml").write_text('[model]\nname = "a"\npath = "hf:org/gguf"\n[[nodes]]\nname = "n"\ndevices = ["cpu:0"]\n')
    assert "model.path: hf:org/gguf is not downloaded: `cluster pull hf:org/gguf`" in refused(home, "plan", tmp_path / "nodes.toml")
    assert hub.requests == []
    config = command(home, "run", "hf:org/gguf", "--pull", "--print-config").stdout
    assert 'name = "a-Q4_K_M"' in config and f"snapshots/{COMMIT}/a-Q4_K_M.gguf" in config


def test_a_model_is_pulled_served_and_removed(home, hub, tmp_path):
    hub.repositories["org/smol"] = Repository({"smol-Q4_1.gguf": MODEL.read_bytes()})
    done = command(home, "run", "hf:org/smol", "Name the capital of France.", "--pull", "--temperature", "0", "--max-tokens", "12")
    assert done.returncode == 0 and "Paris" in done.stdout, done
    cluster = Cluster(tempfile.mkdtemp(prefix="baton-", dir=home["XDG_RUNTIME_DIR"]), path="hf:org/smol:Q4_1")
    with open(cluster.output, "wb") as out:
        cluster.process = subprocess.Popen([CLUSTER, "up", cluster.config], env=home, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)
    try:
        cluster.wait_ready()
        for name in ("hf:org/smol", "hf:org/smol:Q4_1", f"hf:org/smol@{COMMIT}"):
            assert "the running cluster test serves it" in refused(home, "rm", name)
        hub.repositories["org/smol"] = Repository({"smol-Q4_1.gguf": gguf(b"of another commit")}, commit="b" * 40)
        assert "the running cluster test serves org/smol of the commit" in refused(home, "pull", "hf:org/smol")
    finally:
        command(home, "down", cluster.config, "--patience", "5")
        cluster.process.wait(60)
    path = pulled(home, "hf:org/smol")
    assert path.read_bytes() == gguf(b"of another commit")
    done = command(home, "rm", f"hf:org/smol@{COMMIT}")
    assert done.returncode == 0 and "removed 1 files" in done.stdout, done
    assert path.exists() and command(home, "rm", "hf:org/smol").returncode == 0
    assert not (cache_of(home) / "models--org--smol").exists()
    assert "not downloaded" in refused(home, "rm", "hf:org/smol")


def ollama_store(folder, content, name="registry.ollama.ai/library/smol/135m", **layers):
    """Writes a model as Ollama keeps it -> the blob"""
    digest = hashlib.sha256(content).hexdigest()
    blob, manifest = folder / "blobs" / f"sha256-{digest}", folder / "manifests" / name
    for file in (blob, manifest):
        file.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    kinds = {"model": f"sha256:{digest}", **layers}
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": [{"mediaType": f"application/vnd.ollama.image.{k}", "digest": d} for k, d in kinds.items()]}))
    return blob


def test_a_model_of_ollama_is_listed_and_served_and_stays(home, tmp_path):
    store = tmp_path / ".ollama" / "models"
    blob = ollama_store(store, MODEL.read_bytes(), params="sha256:ab")
    before = tree(store)
    (store / "manifests").chmod(0o555)
    listed = json.loads(command(home, "models", "--json").stdout)
    assert [(m["name"], m["source"], m["path"]) for m in listed] == [("ollama:smol:135m", "ollama", str(blob))]
    assert "ollama" in command(home, "models").stdout
    done = command(home, "run", "ollama:smol:135m", "Name the capital of France.", "--temperature", "0", "--max-tokens", "12")
    assert done.returncode == 0 and "Paris" in done.stdout and "system message and parameters of it are not used" in done.stderr, done
    shown = command(home, "run", "ollama:smol:135m", "--print-config").stdout
    assert f'path = "{blob}"' in shown and 'name = "smol-135m"' in shown
    assert "`ollama rm smol:135m`" in refused(home, "rm", "ollama:smol:135m")
    assert "belongs to Ollama" in refused(home, "rm", blob)
    assert "`ollama pull smol:135m`" in refused(home, "pull", "ollama:smol:135m")
    (store / "manifests").chmod(0o755)
    assert tree(store) == before


@pytest.mark.parametrize("name, message", [("ollama:nothing", "Ollama has no such model in"), ("ollama:../x", "ollama:NAME[:TAG]"), ("ollama:tuned:latest", "adapter (LoRA)")])
def test_a_model_that_ollama_cannot_give_is_refused(home, tmp_path, name, message):
    ollama_store(tmp_path / "elsewhere", b"GGUF", "registry.ollama.ai/library/tuned/latest", adapter="sha256:ab")
    assert message in refused({**home, "OLLAMA_MODELS": str(tmp_path / "elsewhere")}, "run", name, "--pull")


def test_a_model_of_lm_studio_is_listed_and_served_by_its_path(home, tmp_path):
    files = [tmp_path / ".lmstudio/models/org/repo/a.gguf", tmp_path / ".cache/lm-studio/models/org/repo/b.gguf"]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_bytes(GGUF)
    listed = json.loads(command(home, "models", "--json").stdout)
    assert {(m["name"], m["source"]) for m in listed} == {(str(file), "lmstudio") for file in files}
    assert f'path = "{files[0]}"' in command(home, "run", files[0], "--print-config").stdout
    assert "belongs to LM Studio" in refused(home, "rm", files[0]) and files[0].exists()


def test_a_terminal_is_asked(home, hub):
    no = Terminal(home, "run", "hf:org/gguf", "--print-config")
    no.until(r"Download 3\d\d kB now\? \[y/N\]")
    no.type("n\n")
    assert no.end() != 0 and hub.seen("cdn") == []
    yes = Terminal(home, "run", "hf:org/gguf", "--print-config")
    yes.until(r"Download 3\d\d kB now\? \[y/N\]")
    yes.type("y\n")
    yes.until(r"a-Q4_K_M\.gguf\"")
    assert yes.end() == 0
