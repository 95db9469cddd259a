"""A whole cluster behind keys and TLS. Its own commands make them, they are exchanged while it serves, and no socket is open to strangers."""
import contextlib
import json
import os
import pathlib
import ssl
import stat
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import pytest
from browser import browser, find_chromium
from harness import CLUSTER, Cluster, free_port, running
from page_words import Visitor

QUESTION = {"model": "smollm2", "messages": [{"role": "user", "content": "Count to a hundred."}], "temperature": 0}
NOTICED_SECONDS_MAX = 30  # a hang, not a pace


def keygen(*words):
    return subprocess.run([CLUSTER, "keygen", *map(str, words)], capture_output=True, text=True, timeout=30)


def make_certificate(directory, name, days=90):
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", str(days), "-subj",
                    f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    return certificate, key


class Guarded(Cluster):
    """`url` is the operator's address, which the harness uses; `https` is the clients'."""

    def __init__(self, directory):
        directory = pathlib.Path(directory)
        self.keys, self.pem, self.pem_key = directory / "keys.toml", directory / "tls.pem", directory / "tls.key"
        self.user = keygen("--api", "alice", self.keys).stdout.strip()
        self.root = keygen("--api", "ops", "--admin", self.keys).stdout.strip()
        self.use_certificate("first")
        self.admin_port = free_port()
        super().__init__(directory, gateway=f'api_keys = "{self.keys}"\nadmin = "127.0.0.1:{self.admin_port}"\n'
                         f'tls_certificate = "{self.pem}"\ntls_key = "{self.pem_key}"')
        self.https = self.url.replace("http", "https")
        self.url = f"http://127.0.0.1:{self.admin_port}"

    def use_certificate(self, name):
        with tempfile.TemporaryDirectory() as made:
            for source, target in zip(make_certificate(pathlib.Path(made), name), (self.pem, self.pem_key)):
                pending = target.with_suffix(".next")
                pending.write_bytes(source.read_bytes())
                pending.rename(target)

    def trust(self):
        context = ssl.create_default_context()
        context.load_verify_locations(self.pem)
        return context

    def ask(self, path, key="", body=None, timeout=60):
        """-> the open answer, over TLS"""
        request = urllib.request.Request(self.https + path, json.dumps(body).encode() if body else None,
                                         {"Authorization": f"Bearer {key}"} if key else {})
        return urllib.request.urlopen(request, timeout=timeout, context=self.trust())

    def status_of(self, path, key="", body=None):
        try:
            with self.ask(path, key, body) as answer:
                answer.read()
                return answer.status
        except urllib.error.HTTPError as e:
            return e.code

    def reason(self, name="gateway"):
        return next(p["reason"] for p in self.status()["processes"] if p["name"] == name)


def until(what):
    deadline = time.monotonic() + NOTICED_SECONDS_MAX
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture(scope="module")
def guarded():
    with running(Guarded) as cluster:
        yield cluster


def test_keygen_shows_a_key_once_and_keeps_none(tmp_path):
    file = tmp_path / "keys.toml"
    done = keygen("--api", "alice", file)
    key = done.stdout.strip()
    assert done.returncode == 0 and done.stdout == key + "\n" and len(key) == 6 + 64
    assert key not in file.read_text() and stat.S_IMODE(file.stat().st_mode) == 0o600
    again = keygen("--api", "alice", file)
    assert again.returncode == 1 and again.stdout == "" and "alice" in again.stderr
    loose = keygen("--api", "bob")
    assert loose.returncode == 0 and "[[keys]]" in loose.stderr and 'name = "bob"' in loose.stderr
    for wrong in (["--api", "a b"], ["--admin"], ["--api", "", file, "--admin"]):
        assert keygen(*wrong).returncode != 0


def test_up_refuses_bad_files_before_anything_starts(tmp_path):
    certificate, key = make_certificate(tmp_path, "x")
    (tmp_path / "bad.toml").write_text("[[keys]]\nname = 'a'\n")
    for gateway, word in ((f'api_keys = "{tmp_path}/none.toml"', "none.toml"), (f'api_keys = "{tmp_path}/bad.toml"', "sha256"),
                          (f'tls_certificate = "{certificate}"\ntls_key = "{certificate}"', "tls_key"), ('api_keys = ["secret"]', "keygen --api")):
        cluster = Cluster(tmp_path, gateway=gateway)
        done = cluster.command("up", str(cluster.config))
        assert done.returncode == 78 and word in done.stderr, done
        assert cluster.command("doctor", str(cluster.config)).returncode == 1


@pytest.mark.parametrize(("days", "warning"), [(90, ""), (5, "ends in 4 days")], ids=["long", "short"])
def test_doctor_says_when_the_certificate_ends(days, warning):
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        certificate, key = make_certificate(pathlib.Path(directory), "x", days)
        cluster = Cluster(directory, gateway=f'tls_certificate = "{certificate}"\ntls_key = "{key}"')
        done = cluster.command("doctor", str(cluster.config))
        assert done.returncode == 0, done
        assert (warning in done.stdout) if warning else ("certificate" not in done.stdout), done.stdout


def test_doctor_says_that_keys_cross_the_network_in_clear():
    with tempfile.TemporaryDirectory(prefix="baton-") as directory:
        keys = pathlib.Path(directory) / "keys.toml"
        assert keygen("--api", "alice", keys).returncode == 0
        cluster = Cluster(directory, gateway=f'api_keys = "{keys}"')
        assert "in clear" not in cluster.command("doctor", str(cluster.config)).stdout
        cluster.config.write_text(cluster.config.read_text().replace("127.0.0.1", "0.0.0.0"))
        done = cluster.command("doctor", str(cluster.config))
        assert done.returncode == 0 and "API keys cross the network to 0.0.0.0:" in done.stdout, done


def test_up_refuses_strangers_from_elsewhere_without_keys(tmp_path):
    cluster = Cluster(tmp_path)
    cluster.config.write_text(cluster.config.read_text().replace("127.0.0.1", "0.0.0.0"))
    done = cluster.command("up", str(cluster.config))
    assert done.returncode == 78 and "allow_unauthenticated" in done.stderr, done


def test_access_by_role(guarded):
    for path, by_anonymous, by_user, by_admin in (("/health", 200, 200, 200), ("/v1/models", 401, 200, 200), ("/metrics", 401, 403, 200),
                                               ("/cluster", 401, 403, 200), ("/load", 401, 403, 200), ("/", 200, 200, 200)):  # the page asks for the key itself
        assert [guarded.status_of(path, k) for k in ("", guarded.user, guarded.root)] == [by_anonymous, by_user, by_admin], path
    with urllib.request.urlopen(guarded.url + "/cluster", timeout=10) as answer:
        assert json.load(answer)["phase"] == "ready"
    assert guarded.post("/v1/chat/completions", QUESTION)[0] == 401  # the operator's door gives no answers away


def test_the_terminal_says_how_to_ask(guarded):
    shown = guarded.output.read_text()
    assert guarded.https in shown and "Authorization: Bearer" in shown and f"web page at {guarded.url}" in shown


def test_chat_with_a_key(guarded):
    words = ["chat", "--endpoint", guarded.door, "--temperature", "0", "--max-tokens", "8", "Say hello."]

    def chat(*more, **environment):
        return subprocess.run([CLUSTER, *words, *more], capture_output=True, text=True, timeout=60, env={**os.environ, **environment})

    refused = chat()
    assert refused.returncode == 1 and "unauthorized" in refused.stderr
    assert chat("--api-key", "baton_wrong").returncode == 1
    by_option, by_environment = chat("--api-key", guarded.user), chat(BATON_API_KEY=guarded.user)
    assert by_option.returncode == by_environment.returncode == 0 and by_option.stdout == by_environment.stdout != ""


def sockets(pid):
    """Inodes of the sockets that a process has open."""
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target.startswith("socket:["):
                found.add(target[8:-1])
    return found


def test_no_process_listens_where_strangers_get_in(guarded):
    """Checked with the kernel's list of sockets: TCP has the two API ports, and everything else is a file with private access."""
    pids = {**guarded.pids(), "root": guarded.process.pid}
    tcp = {}
    for name in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A":
                tcp[words[9]] = words[1]
    unix = {}
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "00010000":  # listens
            unix[words[6]] = words[7] if len(words) > 7 else ""
    mine = {name: sockets(pid) for name, pid in pids.items()}
    assert {tcp[i] for m in mine.values() for i in m if i in tcp} == {f"0100007F:{p:04X}" for p in (guarded.http_port, guarded.admin_port)}
    files = {name: [unix[i] for i in m if i in unix] for name, m in mine.items()}
    assert all(files[name] for name in files), files  # every process is on the bus
    for path in (p for some in files.values() for p in some):
        assert path.startswith(str(guarded.directory)), path
        assert stat.S_IMODE(os.stat(path).st_mode) & 0o077 == 0 or stat.S_IMODE(os.stat(pathlib.Path(path).parent).st_mode) & 0o077 == 0, path
    for i in {i for m in mine.values() for i in m if i in tcp}:
        port = int(tcp[i].split(":")[1], 16)
        if port == guarded.http_port:
            assert guarded.status_of("/v1/models") == 401


def test_keys_and_certificate_follow_their_files_while_a_stream_runs(guarded):
    text, broken = [], []

    def follow():
        try:
            with guarded.ask("/v1/chat/completions", guarded.user, {**QUESTION, "stream": True, "max_tokens": 700}, timeout=120) as answer:
                text.extend(answer.read().decode().splitlines())
        except Exception as e:  # noqa: BLE001
            broken.append(e)

    before = guarded.pids()
    stream = threading.Thread(target=follow)
    stream.start()
    until(lambda: guarded.metric("baton_requests_open") >= 1)
    good = guarded.keys.read_text()
    new = keygen("--api", "bob", guarded.keys).stdout.strip()
    until(lambda: guarded.status_of("/v1/models", new) == 200)
    guarded.keys.write_text("[[keys]\n")
    until(lambda: "keys.toml" in guarded.reason())
    assert guarded.status_of("/v1/models", new) == 200  # the keys from before
    old = guarded.trust()
    guarded.use_certificate("second")
    until(lambda: is_served(guarded))
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(guarded.https + "/health", timeout=10, context=old)
    guarded.keys.write_text(good)
    until(lambda: guarded.reason() == "")
    assert guarded.status_of("/v1/models", new) == 401
    stream.join(120)
    assert not broken and text[-2] == "data: [DONE]", (broken, text[-5:])
    assert guarded.pids() == before


def is_served(guarded):
    with contextlib.suppress(urllib.error.URLError):
        return guarded.status_of("/health") == 200
    return False


@pytest.mark.skipif(not find_chromium(), reason="no chromium")
def test_the_page_at_the_operators_address_asks_for_a_key_to_chat(guarded):
    with browser() as page:
        visitor = Visitor(page, guarded.url).open(temperature=0, max_tokens=20)
        is_asked = "document.getElementById('key-bar').offsetParent !== null"
        assert not page.value(is_asked)
        lines = page.until(lambda: "BATON_API_KEY" in page.text("#api-lines") and page.text("#api-lines"))
        assert '-H "Authorization: Bearer $BATON_API_KEY"' in lines and "BATON_API_KEY" in page.text("#api-about")
        page.click("#api-tab-python")
        assert 'api_key=os.environ["BATON_API_KEY"]' in page.text("#api-lines")
        page.click("#prompts button")
        assert not page.text("#welcome")
        page.until(lambda: page.value(is_asked) and visitor.note == "waiting for an API key")
        page.press("Escape")
        page.until(lambda: "stopped" in visitor.note)
        page.press("n", "KeyN", alt=True)
        visitor.ask("Say hello.")
        page.until(lambda: page.value(is_asked) and visitor.note == "waiting for an API key")
        for key in ("wrong", guarded.user):
            page.value(f"document.getElementById('key').value = '{key}', document.getElementById('key-bar').requestSubmit()")
            page.until(lambda: page.value(is_asked) if key == "wrong" else visitor.kept[1] == "done")
        assert visitor.wait_end()
        page.press("n", "KeyN", alt=True)
        assert guarded.user not in page.text("#welcome")
        kept = page.value("JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), document.cookie])")
        assert "Say hello." in kept and guarded.user not in kept and not page.value(is_asked)
