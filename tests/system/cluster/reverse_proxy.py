"""A reverse proxy in front of one gateway, for tests: it may rewrite the Host header, and serve the gateway below a path."""
import contextlib
import socket
import socketserver
import threading

HEAD_BYTES_MAX = 64 << 10


def read_head(sock):
    """-> (the request's line and headers, what follows them), or None."""
    got = b""
    while b"\r\n\r\n" not in got:
        more = sock.recv(16 << 10)
        if not more or len(got) > HEAD_BYTES_MAX:
            return None
        got += more
    head, _, rest = got.partition(b"\r\n\r\n")
    return head.decode("latin-1").split("\r\n"), rest


def pump(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(64 << 10):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def rewritten(lines, path, host):
    """One request per connection, unless it becomes a WebSocket."""
    method, target, version = lines[0].split(" ")
    if not target.startswith(path):
        return None
    headers = [h for h in lines[1:] if host is None or not h.lower().startswith("host:")]
    if host is not None:
        headers.append(f"Host: {host}")
    if not any(h.lower().startswith("upgrade:") for h in headers):
        headers = [h for h in headers if not h.lower().startswith("connection:")] + ["Connection: close"]
    return "\r\n".join([f"{method} /{target[len(path):]} {version}", *headers, "", ""]).encode("latin-1")


@contextlib.contextmanager
def reverse_proxy(gateway_port, path="/", host=None):
    """-> its port. `host`: sent in place of the client's Host header, as a proxy does that is not set up to keep it."""
    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            found = read_head(self.request)
            head = found and rewritten(found[0], path, host)
            if not head:
                return
            with socket.create_connection(("127.0.0.1", gateway_port)) as gateway:
                gateway.sendall(head + found[1])
                back = threading.Thread(target=pump, args=(gateway, self.request), daemon=True)
                back.start()
                pump(self.request, gateway)
                back.join()

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

        def handle_error(self, *_):
            pass  # a client or the gateway has left

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
