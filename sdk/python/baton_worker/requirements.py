"""Checks the packages of an archive's requirementsFile in this Python and, if enabled, installs them for this model alone.

The packages go into a virtual environment beside the model's files, which also sees this Python's packages. It is removed with the model.
The worker then restarts with its interpreter. pip keeps the operator's settings (PIP_INDEX_URL, PIP_NO_INDEX, PIP_FIND_LINKS, pip.conf),
so a directory of wheels works without a network.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from .archive import Archive, ArchiveError, locked

STAMP = ".installed"
FILES_MAX = 16  # included with -r
TEXT_MAX = 1 << 20
REASON_MAX = 2000  # characters of pip's output
SECONDS = 600.0
PR_SET_PDEATHSIG = 1
ADVICE = (
    "install_py_dep_per_model = true in [model_store] (of a worker's command: --install-requirements) installs them for this model alone, "
    "or pip install -r that file into the Python of `cluster up`"
)


class RequirementsError(ValueError):
    """The packages are missing, or cannot be installed."""


class Wanted(NamedTuple):
    lacking: List[str]  # as text
    unknown: List[str]  # lines that only pip can check


def look(file: Path) -> Wanted:
    """Raises RequirementsError; OSError."""
    found = Wanted([], [])
    parse = _parser()
    for line in _lines(file, [file]):
        text = re.split(r"\s--", line)[0].strip()  # --hash and similar options are for pip
        if text.startswith("-"):
            found.unknown.append(line)
            continue
        try:
            requirement = parse(text)
        except ValueError:
            found.unknown.append(line)
            continue
        _judge(requirement, found)
    return found


def _judge(requirement: Any, found: Wanted) -> None:
    if requirement.marker is not None and not requirement.marker.evaluate():
        return
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        found.lacking.append(str(requirement))
        return
    if requirement.url or requirement.extras:
        found.unknown.append(str(requirement))
    elif not requirement.specifier.contains(version, prereleases=True):
        found.lacking.append(f"{requirement} ({version} is there)")


class _Name(NamedTuple):
    """A requirement as far as it is understood without `packaging`: checks only that the name is installed."""

    name: str
    marker: None = None
    url: None = None
    extras: Tuple[str, ...] = ("",)  # pip checks the version

    def __str__(self) -> str:
        return self.name


def _parser() -> Callable[[str], Any]:
    try:
        from packaging.requirements import Requirement
    except ImportError:
        try:
            from pip._vendor.packaging.requirements import Requirement
        except ImportError:
            return _name_of
    return Requirement  # type: ignore[no-any-return]


def _name_of(line: str) -> _Name:
    name = re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:[\[(<>=!~;@].*)?", line)
    if name is None:
        raise ValueError(line)
    return _Name(name[1])


def _lines(file: Path, seen: List[Path]) -> List[str]:
    """Lines without comments; files included with -r are expanded in place."""
    if file.stat().st_size > TEXT_MAX:
        raise RequirementsError(f"{file.name} is larger than {TEXT_MAX} bytes")
    all_lines: List[str] = []
    for line in file.read_text(encoding="utf-8", errors="replace").replace("\\\n", " ").splitlines():
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        further = re.fullmatch(r"(?:-r|--requirement)[\s=]*(\S+)", line)
        if further:
            other = (file.parent / further[1]).resolve()
            if other in seen:
                continue
            seen.append(other)
            if len(seen) > FILES_MAX or not other.is_file():
                raise RequirementsError(f"{file.name} names {further[1]}, which is {'one file too many' if other.is_file() else 'not there'}")
            all_lines += _lines(other, seen)
        elif line:
            all_lines.append(line)
    return all_lines


def provide(archive: Archive, install_seconds: Optional[float]) -> Optional[Path]:
    """The interpreter that has the packages: None means this one. `install_seconds`: time limit for pip; None installs nothing. Raises
    RequirementsError, ArchiveError, OSError."""
    file = archive.file_of("requirementsFile")
    if file is None:
        return None
    name = file.name
    wanted = look(file)
    if install_seconds is None:
        if wanted.lacking:
            raise RequirementsError(f"its {name} asks for {', '.join(wanted.lacking)}, which {sys.executable} has not: {ADVICE}")
        for line in wanted.unknown:
            _say(f"whether {line!r} of {name} is met is not known here")
        return None
    place = _place()
    if Path(sys.prefix).resolve() == place.resolve() or not (wanted.lacking or wanted.unknown):
        return None
    with locked(place.with_suffix("")):
        return _installed(place, file, archive.directory, install_seconds)


def _place() -> Path:
    files = os.environ.get("BATON_WORKER_FILES")
    if not files:
        files = os.environ["BATON_WORKER_FILES"] = str(Path(tempfile.mkdtemp(prefix="baton-")) / "files")
    return Path(f"{files}.venv")


def _installed(place: Path, file: Path, directory: Path, seconds: float) -> Path:
    python = place / "bin" / "python3"
    stamp = hashlib.sha256("\n".join([sys.version, sys.prefix, *_lines(file, [file])]).encode()).hexdigest()
    try:
        if (place / STAMP).read_text(encoding="utf-8") == stamp:
            return python
    except OSError:
        pass
    shutil.rmtree(place, ignore_errors=True)
    try:
        _make_environment(place)
        _run_pip(python, file, directory, seconds)
        (place / STAMP).write_text(stamp, encoding="utf-8")
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return python


def _make_environment(place: Path) -> None:
    try:
        import venv
    except ImportError as wrong:
        raise RequirementsError(f"{sys.executable} makes no virtual environment ({wrong}): apt install python3-venv") from wrong
    is_own = sys.prefix == sys.base_prefix
    own_config = Path(sys.prefix, "pyvenv.cfg")
    sees_system = is_own or "include-system-site-packages = true" in own_config.read_text(encoding="utf-8")
    venv.EnvBuilder(system_site_packages=sees_system, symlinks=True, with_pip=False).create(place)
    if is_own:
        return
    # An environment created from within another does not see that one's packages.
    inner = Path(sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)}))
    outer = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    lines = [f"import site; site.addsitedir({path!r})\n" for path in outer]
    (inner / "baton_outer.pth").write_text("".join(lines), encoding="utf-8")


def _run_pip(python: Path, file: Path, directory: Path, seconds: float) -> None:
    has_pip = subprocess.run([python, "-c", "import pip"], capture_output=True, check=False).returncode == 0
    if not has_pip:
        errors = _run([str(python), "-m", "ensurepip"], directory, seconds)
        if errors is not None:
            raise RequirementsError(f"{sys.executable} has no pip: apt install python3-venv or python3-pip ({errors})")
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-color", "-r", str(file)]
    errors = _run(command, directory, seconds)
    if errors is not None:
        raise RequirementsError(f"pip cannot install its {file.name}: {errors}")


def _run(command: Sequence[str], directory: Path, seconds: float) -> Optional[str]:
    """Runs a command with its output in the worker's log. None: success; else the reason of the failure."""
    parent = os.getpid()

    def go_with_parent() -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    output: List[str] = []
    is_late = threading.Event()
    with subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", preexec_fn=go_with_parent) as process:

        def end() -> None:
            is_late.set()
            process.kill()

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                _say(line.rstrip())
                output = [*output[-63:], line.strip()]
        finally:
            timer.cancel()
            process.kill()
    if is_late.is_set():
        return f"not within {seconds:g} s"
    if process.returncode == 0:
        return None
    errors = [line for line in output if line.startswith("ERROR:")] or output[-1:] or [f"exit status {process.returncode}"]
    return " ".join(errors)[:REASON_MAX]


def _say(line: str) -> None:
    print(f"baton_worker info {line}", file=sys.stderr, flush=True)


def enter(archive: Archive, install_seconds: Optional[float]) -> None:
    """Restarts this process with the interpreter that has the packages, unless it is that one."""
    python = provide(archive, install_seconds)
    if python is not None:
        os.execv(python, [str(python), *sys.orig_argv[1:]])


__all__ = ["ArchiveError", "RequirementsError", "enter", "look", "provide"]
