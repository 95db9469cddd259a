"""Downloads an archive into a model store.

A URL is allowed if one of the patterns matches all of it, ignoring case, as in TorchServe's allowed_urls. Redirect targets must be allowed
too. The file appears in the store complete or not at all, and replaces none. Proxies and certificates come from the environment
(https_proxy, no_proxy, SSL_CERT_FILE). The last printed line begins with
"fetched"; "refused" (no pattern matches); "exists" (the store has a file of that name); "failed".

    python3 -m baton_worker.fetch --allowed=PATTERN ... --store DIR --file NAME --seconds N URL
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import re
import shutil
import signal
import stat
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import IO, Any, Optional, Sequence, Tuple

BYTES_MAX = 256 << 30  # as for unpacked archives; the disk may have room for less
DISK_KEPT = 64 << 20  # bytes that stay free
IDLE_SECONDS = 30.0  # without a byte
REDIRECTS_MAX = 5
COPY_BYTES = 1 << 20
TEMPORARY = ".baton-download-"  # names that begin with a dot are not archives


class Refused(Exception):
    """No pattern allows the URL."""


class Exists(Exception):
    """The store has a file of that name."""


class Failed(Exception):
    """The download failed."""


def is_allowed(url: str, patterns: Sequence[str]) -> bool:
    """Raises Failed if a pattern is no regular expression."""
    for pattern in patterns:
        try:
            if re.fullmatch(pattern, url, re.IGNORECASE):
                return True
        except re.error as wrong:
            raise Failed(f"allowed_urls has {pattern!r}, which is no regular expression: {wrong}") from wrong
    return False


def check_allowed(url: str, patterns: Sequence[str]) -> None:
    if not is_allowed(url, patterns):
        raise Refused(f"Given URL {url} does not match any allowed URL(s)")


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to allowed URLs, and to no local file."""

    max_redirections = REDIRECTS_MAX

    def __init__(self, patterns: Sequence[str]):
        self.patterns = patterns

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if urllib.parse.urlsplit(newurl).scheme.lower() not in ("http", "https"):
            raise Refused(f"Given URL {req.full_url} leads to {newurl}, which is no URL of HTTP")
        check_allowed(newurl, self.patterns)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_url(url: str, patterns: Sequence[str]) -> Tuple[IO[bytes], Optional[int]]:
    """-> its bytes, and their number if it is known."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme.lower() == "file":
        if parts.netloc not in ("", "localhost"):
            raise Failed("a URL of a file names no machine: file:///PATH")
        path = Path(urllib.parse.unquote(parts.path))
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise Failed(f"{path} is no file")
        return open(path, "rb"), about.st_size
    opener = urllib.request.build_opener(Redirects(patterns))
    answer = opener.open(url, timeout=IDLE_SECONDS)
    length = answer.headers.get("Content-Length")
    return answer, int(length) if length and length.isdigit() else None


def copy(source: IO[bytes], size: Optional[int], out: IO[bytes], room: int) -> None:
    if size is not None and size > room:
        raise Failed(f"it has {size} bytes, there is room for {room}")
    got = 0
    while piece := source.read(COPY_BYTES):
        got += len(piece)
        if got > room:
            raise Failed(f"it has more than {room} bytes, for which there is room")
        out.write(piece)
    if size is not None and got < size:
        raise Failed(f"{got} of {size} bytes came")


def fetch(url: str, patterns: Sequence[str], store: Path, file: str) -> None:
    """Raises Refused, Exists, Failed."""
    check_allowed(url, patterns)
    target = store / file
    if target.exists() or target.is_symlink():
        raise Exists(f"Model file already exists {file}")
    try:
        room = min(BYTES_MAX, max(0, shutil.disk_usage(store).free - DISK_KEPT))
        with tempfile.NamedTemporaryFile(dir=store, prefix=TEMPORARY) as part:
            source, size = open_url(url, patterns)
            with contextlib.closing(source):
                copy(source, size, part, room)
            part.flush()
            os.fsync(part.fileno())
            os.chmod(part.name, 0o644)
            os.link(part.name, target)  # never replaces a file, not even one created concurrently
    except FileExistsError as wrong:
        raise Exists(f"Model file already exists {file}") from wrong
    except urllib.error.URLError as wrong:
        raise Failed(str(wrong.reason) if not isinstance(wrong, urllib.error.HTTPError) else f"HTTP {wrong.code} {wrong.reason}") from wrong
    except (OSError, http.client.HTTPException, ValueError) as wrong:
        raise Failed(f"{type(wrong).__name__}: {wrong}") from wrong


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="baton_worker.fetch")
    parser.add_argument("--allowed", action="append", default=[])
    parser.add_argument("--store", required=True, type=Path)
    parser.add_argument("--file", required=True)
    parser.add_argument("--seconds", required=True, type=int)
    parser.add_argument("url")
    options = parser.parse_args(list(words))
    failed = f"failed Failed to download archive from: {options.url}: "

    def end(*_: Any) -> None:
        raise Failed(f"not within {options.seconds} s")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(options.seconds)
    try:
        fetch(options.url, options.allowed, options.store, options.file)
    except Refused as wrong:
        return say(1, f"refused {wrong}")
    except Exists as wrong:
        return say(1, f"exists {wrong}")
    except Failed as wrong:
        return say(1, f"{failed}{wrong}")
    return say(0, f"fetched {options.file}")


def say(status: int, line: str) -> int:
    print(" ".join(line.split()), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
