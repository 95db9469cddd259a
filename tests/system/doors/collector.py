"""A collector of OpenTelemetry: takes what a gateway exports to POST /v1/traces, and reads it with the official protobuf definitions."""
import contextlib
import http.server
import threading
import time

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import base64
import json


def hex_ids_to_base64(node):
    """OTLP's JSON has ids in hex; protobuf's own mapping, which json_format reads, has bytes in base64."""
    if isinstance(node, list):
        return [hex_ids_to_base64(n) for n in node]
    if not isinstance(node, dict):
        return node
    return {k: base64.b64encode(bytes.fromhex(v)).decode() if k in ("traceId", "spanId", "parentSpanId") else hex_ids_to_base64(v)
            for k, v in node.items()}


def value_of(any_value):
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(v) for v in any_value.array_value.values]
    return getattr(any_value, kind)


def attributes_of(thing):
    return {a.key: value_of(a.value) for a in thing.attributes}


class Span:
    def __init__(self, proto, resource):
        self.proto, self.resource = proto, resource
        self.name, self.trace, self.id = proto.name, proto.trace_id.hex(), proto.span_id.hex()
        self.parent = proto.parent_span_id.hex() or None
        self.attributes = attributes_of(proto)
        self.events = [(e.name, attributes_of(e).get("baton.reason", "")) for e in proto.events]
        self.error = proto.status.message if proto.status.code == proto.status.STATUS_CODE_ERROR else None
        self.is_server = proto.kind == proto.SPAN_KIND_SERVER
        self.begin, self.end = proto.start_time_unix_nano, proto.end_time_unix_nano

    def __repr__(self):
        return f"<{self.name} {self.attributes} {self.events} {self.error}>"


class Collector:
    """`answer` (handler -> None) answers a POST; absent: with success."""

    def __init__(self, answer=None, port=0):
        self.spans, self.bodies, self.wrong = [], [], []
        self.news = threading.Condition()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                try:
                    collector.take(self.path, self.headers, body)
                except Exception as e:  # noqa: BLE001 - the test reads it
                    collector.wrong.append(repr(e))
                (answer or Handler.well)(self)

            def well(self, body=b"{}", status=200):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path, headers, body):
        assert path == "/v1/traces" and headers["Content-Type"] == "application/json"
        request = json_format.Parse(json.dumps(hex_ids_to_base64(json.loads(body))), ExportTraceServiceRequest())  # unknown fields fail
        with self.news:
            self.bodies.append(body)
            for of_resource in request.resource_spans:
                for of_scope in of_resource.scope_spans:
                    assert of_scope.scope.name == "baton"
                    self.spans += [Span(s, attributes_of(of_resource.resource)) for s in of_scope.spans]
            self.news.notify_all()

    def wait(self, is_wanted, count=1, seconds=30):
        """The spans that `is_wanted` selects, once there are `count` of them."""
        deadline = time.monotonic() + seconds
        with self.news:
            while len(found := [s for s in self.spans if is_wanted(s)]) < count:
                assert self.news.wait(max(0, deadline - time.monotonic())) or time.monotonic() < deadline, (self.spans, self.wrong)
        assert not self.wrong, self.wrong
        return found

    def servers(self, count=1, **attributes):
        """Spans of the server with these attributes (dots as __)."""
        wanted = {k.replace("__", "."): v for k, v in attributes.items()}
        return self.wait(lambda s: s.is_server and all(s.attributes.get(k) == v for k, v in wanted.items()), count)

    def below(self, span):
        return {s.name: s for s in self.wait(lambda s: s.parent == span.id, 0)}

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def collecting(answer=None):
    c = Collector(answer)
    try:
        yield c
    finally:
        c.stop()
