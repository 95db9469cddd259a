"""Downloads of archives into a model store: only from allowed URLs, complete or not at all."""
import contextlib
import http.server
import os
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from baton_worker import fetch

SDK = Path(__file__).resolve().parents[1]
BYTES = bytes(range(256)) * 5000
ANY = "file://.*|http(s)?://.*"


class Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.partition("?")[0]
        if path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", self.path[len("/to/"):])
            self.end_headers()
        elif path == "/loop":
            self.send_response(302)
            self.send_header("Location", "/loop")
            self.end_headers()
        elif path.endswith(".mar"):
            self.send_response(200)
            if "chunked" not in path:
                self.send_header("Content-Length", str(len(BYTES) + (9 if "short" in path else 0)))
            self.end_headers()
            self.wfile.write(BYTES)
        else:
            self.send_error(404)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(context=None):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"{'https' if context else 'http'}://localhost:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def server():
    with serving() as url:
        yield url


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def run(store, url, *patterns, seconds=30, file="m.mar", **env):
    """As the root runs it. -> its last line"""
    words = [sys.executable, "-m", "baton_worker.fetch", *(f"--allowed={p}" for p in patterns or [ANY])]
    words += ["--store", str(store), "--file", file, "--seconds", str(seconds), "--", url]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(SDK), **env}, capture_output=True, text=True, timeout=60, check=False)
    assert not [name for name in os.listdir(store) if name.startswith(".")]
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr


def test_it_comes_whole_and_replaces_nothing(server, store):
    assert run(store, f"{server}/a/m.mar?signature=x=y") == "fetched m.mar"
    assert (store / "m.mar").read_bytes() == BYTES
    assert run(store, f"{server}/other.mar") == "exists Model file already exists m.mar"
    assert run(store, f"{server}/chunked.mar", file="c.mar") == "fetched c.mar"
    assert (store / "c.mar").read_bytes() == BYTES


@pytest.mark.parametrize("patterns, path, is_allowed", [
    (["http://localhost:.*"], "/m.mar", True), (["HTTP://LOCALHOST:.*"], "/m.mar", True), (["https://.*", "http://local.*/m.mar"], "/m.mar", True),
    (["http://localhost"], "/m.mar", False), (["https://.*"], "/m.mar", False), (["/m.mar"], "/m.mar", False),
])
def test_a_pattern_matches_the_whole_url_in_any_case(server, store, patterns, path, is_allowed):
    answer = run(store, server + path, *patterns)
    assert answer == ("fetched m.mar" if is_allowed else f"refused Given URL {server}{path} does not match any allowed URL(s)")


def test_a_redirection_leads_to_what_is_allowed_alone(server, store):
    assert run(store, f"{server}/to/{server}/m.mar") == "fetched m.mar"
    assert "refused Given URL" in run(store, f"{server}/to/{server}/x.mar", f"{server}/to/.*", file="x.mar")
    (store.parent / "secret").write_text("s")
    assert "is not allowed" in run(store, f"{server}/to/file://{store.parent}/secret", file="y.mar")
    assert "no URL of HTTP" in run(store, f"{server}/to/ftp://localhost/m.mar", "http.*|ftp.*", file="y.mar")
    assert run(store, f"{server}/loop", file="z.mar").startswith("failed Failed to download archive from:")
    assert sorted(os.listdir(store)) == ["m.mar"]


def test_a_file_of_this_machine_is_copied(store, tmp_path):
    (tmp_path / "a b.mar").write_bytes(BYTES)
    assert run(store, f"file://{tmp_path}/a%20b.mar") == "fetched m.mar"
    assert (store / "m.mar").read_bytes() == BYTES
    assert "is no file" in run(store, f"file://{tmp_path}", file="n.mar")
    assert "names no machine" in run(store, "file://host/m.mar", file="n.mar")


def test_a_failed_download_reports_the_reason(server, store):
    assert run(store, f"{server}/gone") == f"failed Failed to download archive from: {server}/gone: HTTP 404 Not Found"
    assert "bytes" in run(store, f"{server}/short.mar")
    assert "refused" in run(store, "http://localhost:1/m.mar")
    assert "no regular expression" in run(store, f"{server}/m.mar", "(")
    assert "FileNotFoundError" in run(store, "file:///none/m.mar")
    assert "failed" in run(store, "http://[bad/m.mar")
    assert os.listdir(store) == []


def test_it_ends_in_time(store):
    with contextlib.closing(__import__("socket").create_server(("127.0.0.1", 0))) as silent:
        answer = run(store, f"http://127.0.0.1:{silent.getsockname()[1]}/m.mar", seconds=1)
    assert answer.endswith(": not within 1 s")


def test_there_must_be_room(server, store, monkeypatch):
    monkeypatch.setattr(fetch, "BYTES_MAX", 1000)
    for path, words in (("/m.mar", "it has 1280000 bytes"), ("/chunked.mar", "more than 1000 bytes")):
        with pytest.raises(fetch.Failed, match=words):
            fetch.fetch(server + path, [ANY], store, "m.mar")
    assert os.listdir(store) == []


def test_tls_is_checked_by_the_systems_certificates(store, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost", "-keyout", tmp_path / "key", "-out", tmp_path / "cert"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with serving(context) as url:
        assert "CERTIFICATE_VERIFY_FAILED" in run(store, f"{url}/m.mar")
        assert run(store, f"{url}/m.mar", SSL_CERT_FILE=str(tmp_path / "cert")) == "fetched m.mar"
