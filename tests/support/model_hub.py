"""A hub with the API of huggingface.co on loopback. Bytes of files in LFS are at a second server, as at a CDN, and both can be made to fail."""
import contextlib
import hashlib
import http.server
import json
import math
import re
import struct
import sys
import threading
import time
import urllib.parse

COMMIT = "1234567890abcdef1234567890abcdef12345678"
CHUNK = 1 << 16


def git_sha1(content):
    digest = hashlib.sha1(b"blob %d\0" % len(content))
    digest.update(content)
    return digest.hexdigest()


F32, I8 = 0, 24  # ggml_type
HEADER_RANGE = f"bytes=0-{(256 << 10) - 1}"  # that the check before a download asks for first


def gguf(behind=b"", architecture="llama", kind=F32, padding=0, part=None):
    """The smallest model whose header is valid, with `behind` after its tensors. `kind`: of one matrix. `padding`: bytes of a key that makes the header longer.
    `part`: (number from 0, count): only every count-th tensor, and the keys of llama-gguf-split."""
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()  # noqa: E731
    number = lambda key, value: text(f"{architecture}.{key}") + struct.pack("<II", 4, value)  # noqa: E731
    keys = [text("general.architecture") + struct.pack("<I", 8) + text(architecture),
            text("general.description") + struct.pack("<I", 8) + text("x" * padding),
            text(f"{architecture}.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5),
            *(number(*pair) for pair in {"block_count": 1, "context_length": 64, "embedding_length": 32, "feed_forward_length": 64, "attention.head_count": 2}.items())]
    layer = {"attn_norm": [32], "attn_q": [32, 32], "attn_k": [32, 32], "attn_v": [32, 32], "attn_output": [32, 32], "ffn_norm": [32], "ffn_gate": [32, 64],
             "ffn_up": [32, 64], "ffn_down": [64, 32]}
    shapes = {"token_embd.weight": [32, 8], "output_norm.weight": [32], **{f"blk.0.{role}.weight": shape for role, shape in layer.items()}}
    if part:
        split = [text(f"split.{key}") + struct.pack("<II", 4, value) for key, value in (("no", part[0]), ("count", part[1]), ("tensors.count", len(shapes)))]
        keys = (keys if part[0] == 0 else []) + split
        shapes = dict(list(shapes.items())[part[0]::part[1]])
    tensors, data = [], b""
    for name, shape in shapes.items():
        own = kind if "ffn_up" in name else F32
        tensors.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, own, len(data)))
        size = math.prod(shape) * 4 if own == F32 else math.prod(shape)
        data += bytes(-(-size // 32) * 32)
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys) + b"".join(tensors)
    return header + bytes(-len(header) % 32) + data + behind


class Repository:
    def __init__(self, files, lfs=(".gguf", ".safetensors"), commit=COMMIT):
        self.files, self.commit, self.revisions = files, commit, {"main": commit}
        self.lfs = {path for path in files if path.endswith(lfs)}
        self.token = None  # that is wanted
        self.gated = False
        self.git_oids = {path: git_sha1(content) for path, content in files.items()}
        self.etags = {path: hashlib.sha256(content).hexdigest() if path in self.lfs else self.git_oids[path] for path, content in files.items()}

    def etag(self, path):
        return self.etags[path]

    def entry(self, path):
        size = len(self.files[path])
        lfs = {"lfs": {"oid": self.etag(path), "size": size, "pointerSize": 134}} if path in self.lfs else {}
        return {"type": "file", "oid": self.git_oids[path], "size": size, "path": path, **lfs}


class Faults:
    """Failures of the server with the bytes."""

    def __init__(self):
        self.cut_after = []  # for each next answer: bytes until the connection is closed
        self.stall_after = []  # the same, but it stays open
        self.without_ranges = False
        self.bytes_per_second = 0  # of each connection; 0: as fast as possible
        self.corrupt = False


class Hub:
    def __init__(self):
        self.repositories = {}
        self.requests = []  # (server, method, path, headers)
        self.next_answers = []  # (pattern of the path, status, headers): each is used once
        self.page_size = 1000
        self.tree_of = None  # what is listed in place of the files
        self.next_page_host = None
        self.faults = Faults()
        self.bytes_sent = 0
        self.lock = threading.Lock()
        self.servers = [Server(("127.0.0.1", 0), handler(self, name)) for name in ("hub", "cdn")]
        for server in self.servers:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self.url, self.cdn = (f"http://127.0.0.1:{server.server_port}" for server in self.servers)

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def seen(self, server, method="GET"):
        """Requests, without the checks of headers."""
        return [r for r in self.requests if r[0] == server and r[1] == method and not is_check(r[3])]

    def checks(self):
        return [r for r in self.requests if r[0] == "cdn" and is_check(r[3])]


def is_check(headers):
    return headers.get("Range") == HEADER_RANGE


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that is killed
            super().handle_error(*_)


def handler(hub, name):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self.answer(False)

        def do_GET(self):
            self.answer(True)

        def send(self, status, body=b"", **headers):
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), str(value))
            if "Content_Length" not in headers:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def answer(self, _):
            with hub.lock:
                hub.requests.append((name, self.command, self.path, dict(self.headers)))
                planned = next((a for a in hub.next_answers if re.search(a[0], self.path)), None)
                if planned and is_check(self.headers):
                    planned = None
                if planned:
                    hub.next_answers.remove(planned)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                if planned:
                    return self.send(planned[1], **planned[2])
                return self.hub_answer() if name == "hub" else self.cdn_answer()

        def hub_answer(self):
            url = urllib.parse.urlsplit(self.path)
            path = urllib.parse.unquote(url.path)
            found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(revision|tree)/(.+)", path) or re.fullmatch(r"/([^/]+/[^/]+)/(resolve)/(.+)", path)
            if not found or found[1] not in hub.repositories:
                return self.send(401, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
            repository = hub.repositories[found[1]]
            if repository.token and self.headers.get("Authorization") != f"Bearer {repository.token}":
                return self.send(403 if self.headers.get("Authorization") else 401, **({"X_Error_Code": "GatedRepo"} if repository.gated else {}))
            revision, _, file = found[3].partition("/") if found[2] == "resolve" else (found[3], "", "")
            commit = repository.revisions.get(revision, revision if revision == repository.commit else None)
            if not commit:
                return self.send(404, X_Error_Code="RevisionNotFound", X_Error_Message=f"Invalid rev id: {revision}")
            return {"revision": self.revision, "tree": self.tree, "resolve": self.resolve}[found[2]](repository, url, file)

        def revision(self, repository, *_):
            self.send(200, json.dumps({"id": "org/name", "sha": repository.commit, "siblings": [{"rfilename": p} for p in repository.files]}).encode())

        def tree(self, repository, url, _):
            entries = hub.tree_of or [{"type": "directory", "path": "sub", "oid": "0" * 40, "size": 0}, *map(repository.entry, repository.files)]
            first = int(urllib.parse.parse_qs(url.query).get("cursor", ["0"])[0])
            last = first + hub.page_size
            link = {"Link": f'<{hub.next_page_host or hub.url}{url.path}?recursive=1&cursor={last}>; rel="next"'} if last < len(entries) else {}
            self.send(200, json.dumps(entries[first:last]).encode(), **link)

        def resolve(self, repository, _, file):
            if file not in repository.files:
                return self.send(404, X_Error_Code="EntryNotFound")
            facts = {"X_Repo_Commit": repository.commit, "ETag": f'"{repository.etag(file)}"'}
            if file not in repository.lfs:
                return self.content(repository.files[file], **facts)
            where = {"Location": f"{hub.cdn}/{repository.etag(file)}?signed=1", "X_Linked_ETag": facts["ETag"], "X_Linked_Size": len(repository.files[file])}
            return self.send(302, **{**facts, **where})

        def cdn_answer(self):
            digest = urllib.parse.urlsplit(self.path).path[1:]
            contents = [r.files[p] for r in hub.repositories.values() for p in r.lfs if digest in (r.etag(p), p)]
            if not contents:
                return self.send(404)
            content = contents[0]
            if hub.faults.corrupt:
                content = content[:-1] + bytes([content[-1] ^ 1])
            return self.content(content, ETag='"of-the-cdn"', Accept_Ranges="bytes")

        def content(self, content, **headers):
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            first, last = 0, len(content) - 1
            if asked and not hub.faults.without_ranges:
                first, last = int(asked[1]), min(int(asked[2] or last), last)
                headers["Content_Range"] = f"bytes {first}-{last}/{len(content)}"
            self.send_response(206 if "Content_Range" in headers else 200)
            for key, value in {**headers, "Content_Length": last + 1 - first}.items():
                self.send_header(key.replace("_", "-"), str(value))
            self.end_headers()
            if self.command == "GET":
                self.body(memoryview(content)[first:last + 1])

        def body(self, content):
            has_faults = name == "cdn" and not is_check(self.headers)
            with hub.lock:
                cut = hub.faults.cut_after.pop(0) if hub.faults.cut_after and has_faults else None
                stall = hub.faults.stall_after.pop(0) if hub.faults.stall_after and has_faults else None
            bound = min(len(content), *[n for n in (cut, stall) if n is not None], len(content))
            for at in range(0, bound, CHUNK):
                part = content[at:min(at + CHUNK, bound)]
                self.wfile.write(part)
                with hub.lock:
                    hub.bytes_sent += 0 if is_check(self.headers) else len(part)
                if hub.faults.bytes_per_second:
                    time.sleep(len(part) / hub.faults.bytes_per_second)
            if stall is not None:
                time.sleep(4)
            if bound < len(content):
                self.close_connection = True

    return Handler
