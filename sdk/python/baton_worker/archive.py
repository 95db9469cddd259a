"""TorchServe archives (a zip as .mar is, or a tar with gzip) and directories of the same layout: their files and their manifest.

An archive is unpacked once for all workers of a model, into the directory that `cluster up` has given them. The first worker unpacks it,
the others wait. An archive with files outside that directory, or over the limits, is not unpacked at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Any, Dict, Iterator, Optional

MANIFEST = "MAR-INF/MANIFEST.json"
STAMP = "MAR-INF/.unpacked"  # identifies the unpacked file
ENTRIES_MAX = 1 << 16
UNPACKED_MAX = 256 << 30  # bytes; the disk may have room for less
RATIO_MAX = 200  # unpacked to packed size: weights are hardly compressible
RATIO_FREE = 64 << 20  # bytes, below which the ratio is not checked
MANIFEST_MAX = 1 << 20
COPY_BYTES = 1 << 20
GZIP = b"\x1f\x8b"  # RFC 1952
SUFFIXES = (".mar", ".tar.gz", ".tgz", ".tar", ".zip")


class ArchiveError(ValueError):
    """The file is no archive, or one that must not be unpacked."""


class Archive:
    """The files of a model, and its manifest."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.manifest = read_manifest(directory)

    def file_of(self, key: str) -> Optional[Path]:
        """A file that the manifest names; None if it names none. Raises ArchiveError if it is missing."""
        name = self.manifest["model"].get(key)
        return self.inside(name) if name else None

    def inside(self, name: str) -> Path:
        root = self.directory.resolve()
        path = (root / name).resolve()
        if root not in path.parents or not path.is_file():
            raise ArchiveError(f"{name} is no file of the archive")
        return path


def is_archive(path: str) -> bool:
    """False: it is a handler's file."""
    if Path(path).is_dir() or path.endswith(SUFFIXES) or zipfile.is_zipfile(path):
        return True
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read(len(GZIP)) == GZIP
    return False


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
    """Locks out the model's other workers; the lock of a worker that dies is released."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(f"{place}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def stamp_of(file: Path) -> str:
    about = file.stat()
    return f"{file}\n{about.st_size}\n{about.st_mtime_ns}\n"


def unpack(file: Path, place: Path) -> Path:
    """Returns `place`, with the archive's files. Files that another worker has already unpacked are used as they are, even if the archive
    has been removed since."""
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
    """A zip, or a tar with or without gzip, recognised by its bytes."""
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                check(archive, Room(file, directory))
                for info in archive.infolist():
                    unpack_one(archive, info, directory)
        else:
            unpack_tar(file, directory)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, FileExistsError, NotADirectoryError, NotImplementedError, RuntimeError, EOFError) as wrong:
        raise ArchiveError(f"{file.name} is no archive that can be read: {wrong}") from wrong
    lift(directory)


class Room:
    """How much an archive may hold."""

    def __init__(self, file: Path, directory: Path):
        self.packed = file.stat().st_size
        self.most = min(UNPACKED_MAX, shutil.disk_usage(directory).free)
        self.files = self.held = 0

    def take(self, size: int) -> None:
        """Counts one more file. Raises ArchiveError."""
        self.files, self.held = self.files + 1, self.held + size
        if self.files > ENTRIES_MAX:
            raise ArchiveError(f"the archive has more than {ENTRIES_MAX} files")
        if self.held > self.most:
            raise ArchiveError(f"the archive holds {self.held} bytes, there is room for {self.most}")
        if self.held > max(RATIO_FREE, self.packed * RATIO_MAX):
            raise ArchiveError(f"the archive holds {self.held} bytes in {self.packed}: more than {RATIO_MAX} times as many")


def check(archive: zipfile.ZipFile, room: Room) -> None:
    """Checks the sizes in its directory; unpack_one enforces them per file."""
    for info in archive.infolist():
        room.take(info.file_size)
        check_name(info.filename)
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise ArchiveError(f"the archive has a link, or what is no file: {info.filename!r}")


def check_name(name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise ArchiveError(f"the archive has a file outside of it: {name!r}")


def unpack_one(archive: zipfile.ZipFile, info: zipfile.ZipInfo, directory: Path) -> None:
    target = directory / info.filename
    if info.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return
    with archive.open(info) as source:
        write_file(source, target, info.filename, info.file_size)


def unpack_tar(file: Path, directory: Path) -> None:
    """Reads from front to back, because a gzip tar has no directory."""
    with open(file, "rb") as start:
        is_packed = start.read(len(GZIP)) == GZIP
    room = Room(file, directory)
    with tarfile.open(file, "r|gz" if is_packed else "r|") as archive:
        for member in archive:
            room.take(member.size)
            check_name(member.name)
            target = directory / member.name
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            source = archive.extractfile(member) if member.isreg() else None
            if source is None:
                raise ArchiveError(f"the archive has a link, or what is no file: {member.name!r}")
            with source:
                write_file(source, target, member.name, member.size)


def write_file(source: IO[bytes], target: Path, name: str, size: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    left = size
    with open(target, "xb") as out:
        while piece := source.read(min(COPY_BYTES, left + 1)):
            left -= len(piece)
            if left < 0:
                raise ArchiveError(f"{name} is larger than the archive says")
            out.write(piece)
    if left > 0:
        raise ArchiveError(f"{name} is smaller than the archive says")


def lift(directory: Path) -> None:
    """Moves the contents of a single top directory up, as in archives of `torch-model-archiver --archive-format tgz`."""
    if (directory / MANIFEST).is_file():
        return
    inner = [path.parent.parent for path in directory.glob(f"*/{MANIFEST}")]
    if len(inner) != 1:
        raise ArchiveError(f"the archive has no {MANIFEST}")
    beside = sorted(path.name for path in directory.iterdir() if path != inner[0])
    if beside:
        raise ArchiveError(f"the archive has {beside[0]} beside the directory {inner[0].name}, which has its {MANIFEST}")
    outer = directory.with_name(directory.name + ".outer")
    shutil.rmtree(outer, ignore_errors=True)
    directory.rename(outer)
    (outer / inner[0].name).rename(directory)
    directory.chmod(0o700)
    outer.rmdir()
