"""Archives of TorchServe's (.mar, a zip) and directories of the same layout: where their files are, and what their manifest says.

An archive is unpacked once for all workers of a model: the first that comes does it, into the directory that `cluster up` has
given them, and the others wait for it. What does not belong into that directory, or is more than an archive may hold, is not
unpacked at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any, Dict, Iterator, Optional

MANIFEST = "MAR-INF/MANIFEST.json"
STAMP = "MAR-INF/.unpacked"  # of the file that it was
ENTRIES_MAX = 1 << 16
UNPACKED_MAX = 256 << 30  # bytes; the disk may have room for less
RATIO_MAX = 200  # of what it holds to what it is: weights are hardly compressible
RATIO_FREE = 64 << 20  # bytes, of which nobody asks how they were packed
MANIFEST_MAX = 1 << 20
COPY_BYTES = 1 << 20


class ArchiveError(ValueError):
    """It is none, or one that is not to be unpacked."""


class Archive:
    """The files of a model, and its manifest."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.manifest = read_manifest(directory)

    def file_of(self, key: str) -> Optional[Path]:
        """A file that the manifest names; None if it names none. Raises ArchiveError: it is not there."""
        name = self.manifest["model"].get(key)
        return self.inside(name) if name else None

    def inside(self, name: str) -> Path:
        root = self.directory.resolve()
        path = (root / name).resolve()
        if root not in path.parents or not path.is_file():
            raise ArchiveError(f"{name} is no file of the archive")
        return path


def is_archive(path: str) -> bool:
    """Else it is a handler's file."""
    return Path(path).is_dir() or zipfile.is_zipfile(path) or path.endswith(".mar")


def open_archive(path: str) -> Archive:
    """Raises ArchiveError; OSError."""
    file = Path(path).resolve()
    if file.is_dir():
        return Archive(file)
    place = os.environ.get("BATON_WORKER_FILES")
    if not place:
        return Archive(unpack(file, Path(tempfile.mkdtemp(prefix="baton-")) / "files"))
    with locked(Path(place)):
        return Archive(unpack(file, Path(place)))


def read_manifest(directory: Path) -> Dict[str, Any]:
    file = directory / MANIFEST
    try:
        if file.stat().st_size > MANIFEST_MAX:
            raise ArchiveError(f"{MANIFEST} is too large")
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as wrong:
        raise ArchiveError(f"{MANIFEST} cannot be read: {wrong}") from wrong
    if not isinstance(manifest, dict) or not isinstance(manifest.get("model"), dict):
        raise ArchiveError(f'{MANIFEST} has no "model"')
    return manifest


@contextlib.contextmanager
def locked(place: Path) -> Iterator[None]:
    """Of all workers of a model one at a time; whoever dies lets go of it."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(f"{place}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def stamp_of(file: Path) -> str:
    about = file.stat()
    return f"{file}\n{about.st_size}\n{about.st_mtime_ns}\n"


def unpack(file: Path, place: Path) -> Path:
    """`place`, with all that is in the archive. What another worker has unpacked of the same file is taken as it is, also when
    the archive has gone meanwhile."""
    there = place / STAMP
    with contextlib.suppress(OSError):
        done = there.read_text(encoding="utf-8")
        if not file.exists() or done == stamp_of(file):
            return place
    if not file.is_file():
        raise ArchiveError(f"{file} is no file")
    part = place.with_name(place.name + ".part")
    for old in (place, part):
        shutil.rmtree(old, ignore_errors=True)
    stamp = stamp_of(file)
    try:
        part.mkdir(mode=0o700, parents=True)
        unpack_into(file, part)
        (part / STAMP).write_text(stamp, encoding="utf-8")
        part.rename(place)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return place


def unpack_into(file: Path, directory: Path) -> None:
    try:
        with zipfile.ZipFile(file) as archive:
            check(archive, file.stat().st_size, shutil.disk_usage(directory).free)
            for info in archive.infolist():
                unpack_one(archive, info, directory)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as wrong:
        raise ArchiveError(f"{file.name} is no archive that can be read: {wrong}") from wrong


def check(archive: zipfile.ZipFile, packed: int, free: int) -> None:
    """By what its directory says; unpack_one holds each file to it."""
    all_files = archive.infolist()
    if MANIFEST not in archive.namelist():
        raise ArchiveError(f"the archive has no {MANIFEST}")
    if len(all_files) > ENTRIES_MAX:
        raise ArchiveError(f"the archive has more than {ENTRIES_MAX} files")
    size = sum(i.file_size for i in all_files)
    if size > min(UNPACKED_MAX, free):
        raise ArchiveError(f"the archive holds {size} bytes, there is room for {min(UNPACKED_MAX, free)}")
    if size > max(RATIO_FREE, packed * RATIO_MAX):
        raise ArchiveError(f"the archive holds {size} bytes in {packed}: more than {RATIO_MAX} times as many")
    for info in all_files:
        path = PurePosixPath(info.filename)
        if path.is_absolute() or ".." in path.parts or "\\" in info.filename or "\0" in info.filename:
            raise ArchiveError(f"the archive has a file outside of it: {info.filename!r}")
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise ArchiveError(f"the archive has a link, or what is no file: {info.filename!r}")


def unpack_one(archive: zipfile.ZipFile, info: zipfile.ZipInfo, directory: Path) -> None:
    target = directory / info.filename
    if info.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    left = info.file_size
    with archive.open(info) as source, open(target, "xb") as out:
        while piece := source.read(min(COPY_BYTES, left + 1)):
            left -= len(piece)
            if left < 0:
                raise ArchiveError(f"{info.filename} is larger than the archive says")
            out.write(piece)
    if left > 0:
        raise ArchiveError(f"{info.filename} is smaller than the archive says")
