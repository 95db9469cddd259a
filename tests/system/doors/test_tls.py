"""HTTPS: real clients over TLS, bytes that are not TLS, slow and hostile handshakes, and certificates that change while streams run."""
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time

import httpx
import openai
import pytest
from websockets.sync.client import connect as websocket

from raw import chat, connect, exchange, read_all, read_reply, request

CHAT = "/v1/chat/completions"


def make_certificate(directory, name, common_name="127.0.0.1"):
    """A self-signed certificate and its key."""
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    f"/CN={name}", "-addext", f"subjectAltName=IP:{common_name},DNS:localhost", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    return certificate, key


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("certificates")
    return {name: make_certificate(directory, name) for name in ("first", "second")}


@pytest.fixture
def tls(start, made, tmp_path):
    """A gateway with the first certificate, in files of its own; `tls.trust` trusts both."""
    certificate, key = tmp_path / "tls.pem", tmp_path / "tls.key"

    def use(name):
        shutil.copy(made[name][0], certificate)
        shutil.copy(made[name][1], key)

    use("first")

    def go(*flags):
        g = start("--tls-certificate", str(certificate), "--tls-key", str(key), *flags)
        assert g.is_ready and g.url.startswith("https://")
        g.certificate, g.key, g.use = certificate, key, use
        g.trust = ssl.create_default_context(cafile=made["first"][0])
        g.trust.load_verify_locations(made["second"][0])
        return g

    return go


def secured(g, context=None):
    return (context or g.trust).wrap_socket(connect(g), server_hostname="127.0.0.1")


def subject(s):
    return dict(pair[0] for pair in s.getpeercert()["subject"])["commonName"]


# -- Real clients --

def test_curl(tls):
    g = tls()
    line = ["curl", "-sS", "--fail", "--cacert", str(g.certificate)]
    output = subprocess.run([*line, g.url + "/health"], capture_output=True, text=True, timeout=30)
    assert output.returncode == 0 and json.loads(output.stdout)["phase"] == "ready", output
    output = subprocess.run([*line, "-N", g.url + CHAT, "-d", json.dumps(chat("tokens=20", stream=True))], capture_output=True, text=True, timeout=30)
    assert output.returncode == 0 and output.stdout.endswith("data: [DONE]\n\n")
    output = subprocess.run([*line, "-v", "--http2", g.url + "/health"], capture_output=True, text=True, timeout=30)
    assert "server accepted http/1.1" in output.stderr or "server accepted to use http/1.1" in output.stderr, output.stderr
    stranger = subprocess.run(["curl", "-sS", g.url + "/health"], capture_output=True, text=True, timeout=30)
    assert stranger.returncode == 60  # a certificate that nobody vouches for


def test_the_openai_client(tls, keys_file):
    g = tls("--keys", str(keys_file))
    c = openai.OpenAI(base_url=g.url + "/v1", api_key="k", max_retries=0, http_client=httpx.Client(verify=g.trust))
    stream = c.chat.completions.create(model="fake", messages=[{"role": "user", "content": "tokens=500 bytes=100"}], stream=True, max_tokens=500)
    text = "".join(e.choices[0].delta.content or "" for e in stream)
    assert len(text) == 50_000
    whole = c.chat.completions.create(model="fake", messages=[{"role": "user", "content": "x" * 100_000 + " tokens=5"}])
    assert whole.usage.completion_tokens == 5


def test_websocket(tls):
    g = tls()
    with websocket(g.url.replace("https", "wss") + "/v1/stream", ssl=g.trust) as ws:
        for i in range(20):
            ws.send(json.dumps({"type": "start", "id": str(i), "prompt": f"tokens=50 pace_ms=1 {'x' * 5000 * i}"}))
        ended = {}
        while len(ended) < 20:
            m = json.loads(ws.recv(timeout=30))
            assert m["type"] != "error", m
            if m["type"] == "done":
                ended[m["id"]] = m["usage"]["completion_tokens"]
        assert set(ended.values()) == {16}
        assert ws.ping().wait(20)
    with websocket(g.url.replace("https", "wss") + "/v1/stream", ssl=g.trust) as ws:
        for _ in range(3):
            ws.send("no json")
        with pytest.raises(Exception) as e:
            while True:
                ws.recv(timeout=20)
        assert e.value.rcvd.code == 1008  # the close frame comes through, too


def test_large_bodies_pipelining_and_goodbye(tls):
    g = tls()
    with secured(g) as s:
        s.sendall(request("POST", "/tokenize", {"prompt": "a" * 1_000_000}) + request("GET", "/health") * 200)
        first, rest = read_reply(s)
        assert first.json()["count"] == 1_000_000
        for _ in range(200):
            reply, rest = read_reply(s, rest)
            assert reply.status == 200
        s.sendall(request("GET", "/health", version="1.0"))
        assert read_all(s).startswith(b"HTTP/1.0 200")  # with a proper end of TLS, otherwise this would raise


def test_many_streams_at_once(tls):
    g = tls()
    ends = []

    def one(i):
        with httpx.Client(verify=g.trust, timeout=60) as c:
            text = c.post(g.url + CHAT, json=chat(f"tokens=100 bytes={i * 20 + 1}", stream=True)).text
            ends.append(text.endswith("data: [DONE]\n\n"))

    threads = [threading.Thread(target=one, args=(i,)) for i in range(32)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert ends == [True] * 32


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_hangs_up_is_cancelled_at_once(tls, stream):
    g = tls()
    with secured(g) as s:
        s.sendall(request("POST", CHAT, chat("tokens=100000 pace_ms=5", stream=stream)))
        ticket = g.wait_for("reserve")["ticket"]
        if stream:
            s.recv(100)
    g.cancelled(ticket)


def test_a_slow_reader_is_cut(tls):
    g = tls("--stream-buffer", "8192", "--send-buffer", "4096", "--write-timeout-ms", "60000")
    slow = connect(g)
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow = g.trust.wrap_socket(slow, server_hostname="127.0.0.1")
    slow.sendall(request("POST", CHAT, chat("tokens=1000000 bytes=1000 pace_ms=1", stream=True)))
    ticket = g.wait_for("reserve")["ticket"]
    assert g.cancelled(ticket)["why"]
    with secured(g) as s:
        s.sendall(request("GET", "/health"))
        assert read_reply(s)[0].status == 200


# -- Invalid TLS --

@pytest.mark.parametrize("data", [request("GET", "/health"), request("POST", CHAT, chat()), request("OPTIONS", "/"), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
def test_plain_http_gets_an_error_that_names_https(tls, data):
    g = tls()
    reply = exchange(g, data)
    assert reply.status == 400 and "https://" in reply.json()["error"]["message"]


@pytest.mark.parametrize("version,is_taken", [(ssl.TLSVersion.TLSv1, False), (ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True),
                                              (ssl.TLSVersion.TLSv1_3, True)])
def test_versions(tls, version, is_taken):
    g = tls()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    if not is_taken:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            secured(g, context)
        return
    with secured(g, context) as s:
        s.sendall(request("GET", "/health"))
        assert read_reply(s)[0].status == 200


@pytest.mark.parametrize("cipher", ["AES128-SHA", "AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA", "NULL"])
def test_ciphers_without_forward_secrecy_or_authentication_are_refused(tls, cipher):
    g = tls()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(cipher + ":@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        secured(g, context)


@pytest.mark.parametrize("offered,chosen", [(["h2", "http/1.1"], "http/1.1"), (["http/1.1"], "http/1.1"), ([], None), (["h2"], "refused")])
def test_alpn(tls, offered, chosen):
    g = tls()
    if offered:
        g.trust.set_alpn_protocols(offered)
    if chosen == "refused":
        with pytest.raises((ssl.SSLError, ConnectionError)):
            secured(g)
        return
    with secured(g) as s:
        assert s.selected_alpn_protocol() == chosen


def test_renegotiation_is_refused(tls):
    g = tls()
    client = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{g.port}", "-tls1_2", "-CAfile", str(g.certificate)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    client.stdin.write("R\n")
    client.stdin.flush()
    out, _ = client.communicate(timeout=30)
    assert "no renegotiation" in out, out[-2000:]


HOSTILE = {
    "garbage": b"\x16\x03\x01\x02\x00" + b"garbage" * 100,
    "no_tls": b"\x00\xff" * 500,
    "sslv2": b"\x80\x2e\x01\x00\x02" + b"\x00" * 50,
    "huge_record": b"\x16\x03\x01\xff\xff" + b"\x01" * 70_000,
    "hello_that_lies": b"\x16\x03\x01\x00\x04\x01\xff\xff\xff" + b"\x00" * 100,
    "application_data_first": b"\x17\x03\x03\x00\x10" + b"x" * 16,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_handshakes_do_not_affect_others(tls, name):
    g = tls("--handshake-timeout-ms", "1000")
    with secured(g) as bystander:
        for _ in range(20):
            with connect(g) as s:
                try:
                    s.sendall(HOSTILE[name])
                    s.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # cut already
                assert not read_all(s).startswith(b"HTTP")
        bystander.sendall(request("GET", "/health"))
        assert read_reply(bystander)[0].status == 200


# -- Slow handshakes --

def hello(context):
    """The first bytes of a real TLS client."""
    to, answer = ssl.MemoryBIO(), ssl.MemoryBIO()
    s = context.wrap_bio(answer, to, server_hostname="127.0.0.1")
    try:
        s.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return to.read()


@pytest.mark.parametrize("how", ["silent", "drips", "stops_halfway"])
def test_a_slow_handshake_is_cut_however_it_is_slow(tls, how):
    g = tls("--handshake-timeout-ms", "500")
    started = time.perf_counter()
    s = connect(g)
    if how == "stops_halfway":
        s.sendall(hello(g.trust))
    if how == "drips":
        s.settimeout(0.02)
        for byte in hello(g.trust)[:-1]:
            try:
                s.sendall(bytes([byte]))
                if s.recv(1) == b"":
                    break
            except socket.timeout:
                pass
            except OSError:
                break
        else:
            pytest.fail("it was never cut")
        s.close()
    else:
        read_all(s)
    assert time.perf_counter() - started >= 0.45  # not at once either: it has its time


def test_connections_are_bounded_before_their_handshake(tls):
    g = tls("--connections", "4", "--handshake-timeout-ms", "60000", "--admin", "127.0.0.1:0")
    silent = [connect(g) for _ in range(4)]
    deadline = time.monotonic() + 20
    while "baton_http_connections 4" not in (text := httpx.get(g.admin + "/metrics").text) and "baton_http_connections 5" not in text:
        assert time.monotonic() < deadline, text
    beyond = connect(g)
    assert read_all(beyond) == b""  # closed, without a word that it would not understand
    assert httpx.get(g.admin + "/health").status_code == 200  # the operator's door has room of its own
    silent.pop().close()
    while True:
        try:
            with secured(g) as s:
                s.sendall(request("GET", "/health"))
                assert read_reply(s)[0].status == 200
                return
        except (ssl.SSLError, OSError):
            assert time.monotonic() < deadline


# -- Certificates --

def test_a_certificate_is_exchanged_while_streams_run(tls):
    g = tls()
    old = secured(g)
    old.sendall(request("POST", CHAT, chat("tokens=40 pace_ms=20", stream=True)))
    assert subject(old) == "first"
    g.use("second")
    assert g.reload() == ""
    with secured(g) as new:
        assert subject(new) == "second"
        new.sendall(request("GET", "/health"))
        assert read_reply(new)[0].status == 200
    data = b""
    while not data.endswith(b"0\r\n\r\n"):
        data += old.recv(65536)
    assert b"data: [DONE]" in data
    old.sendall(request("GET", "/health"))  # and the connection goes on
    assert read_reply(old)[0].status == 200
    old.close()


@pytest.mark.parametrize("bad", ["no_certificate", "no_key", "other_key", "gone"])
def test_a_bad_certificate_is_reported_and_keeps_the_old_one(tls, made, bad):
    g = tls()
    if bad == "no_certificate":
        g.certificate.write_text("-----BEGIN CERTIFICATE-----\nnone\n")
    elif bad == "no_key":
        g.key.write_text("")
    elif bad == "other_key":
        shutil.copy(made["second"][1], g.key)
    else:
        g.key.unlink()
    assert str(g.key if "key" in bad or bad == "gone" else g.certificate) in g.reload()
    with secured(g) as s:
        assert subject(s) == "first"
    g.use("second")
    assert g.reload() == ""
    with secured(g) as s:
        assert subject(s) == "second"


def test_errors_at_the_start_are_named(start, made, tmp_path):
    certificate, key = made["first"]
    for flags, word in ((("--tls-certificate", str(key), "--tls-key", str(key)), "tls_certificate"),
                        (("--tls-certificate", str(certificate), "--tls-key", str(made["second"][1])), "tls_key"),
                        (("--tls-certificate", str(tmp_path / "none"), "--tls-key", str(key)), "none")):
        g = start(*flags)
        assert (g.is_ready, g.failure) == (False, "bad_config") and word in g.message
