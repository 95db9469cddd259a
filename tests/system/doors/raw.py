"""HTTP by hand over a socket, for bytes that no client sends."""

import json
import socket


def connect(gateway, seconds=20):
    s = socket.create_connection((gateway.host, gateway.port), timeout=seconds)
    return s


def request(method, path, body=b"", headers=(), host="localhost", version="1.1"):
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/{version}"]
    if host:
        lines.append(f"Host: {host}")
    names = {h.split(":")[0].lower() for h in headers}
    if body and "content-length" not in names and "transfer-encoding" not in names:
        lines.append(f"Content-Length: {len(body)}")
    lines.extend(headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def read_all(s):
    out = b""
    try:
        while chunk := s.recv(65536):
            out += chunk
    except ConnectionResetError:
        pass
    return out


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


def read_reply(s, buffered=b"", is_head=False):
    """One reply, and the bytes after it."""
    data = buffered
    while b"\r\n\r\n" not in data:
        chunk = s.recv(65536)
        if not chunk:
            return None, data
        data += chunk
    head, rest = data.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    headers = {k.lower(): v for k, v in (l.split(": ", 1) for l in lines[1:])}
    status = int(lines[0].split(" ")[1])
    length = 0 if is_head else int(headers.get("content-length", 0))
    while len(rest) < length:
        rest += s.recv(65536)
    return Reply(status, headers, rest[:length]), rest[length:]


def exchange(gateway, data):
    with connect(gateway) as s:
        s.sendall(data)
        reply, _ = read_reply(s)
        return reply


def chat(content="tokens=5", **fields):
    return {"model": "fake", "messages": [{"role": "user", "content": content}], **fields}
