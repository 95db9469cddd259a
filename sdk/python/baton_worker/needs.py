"""The packages that a worker's Python must have, checked before anything fails without them. Imports none of them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, NoReturn, Sequence

EXIT_PERMANENT = 78  # EX_CONFIG: a restart cannot help


class Package(NamedTuple):
    project: str  # name on PyPI
    debian: str  # "": Debian has no package
    extra: str  # in sdk/python's pyproject.toml; "": part of the SDK


PACKAGES: Dict[str, Package] = {
    "zmq": Package("pyzmq", "python3-zmq", ""),
    "flatbuffers": Package("flatbuffers", "python3-flatbuffers", ""),
    "numpy": Package("numpy", "python3-numpy", "numpy"),
    "yaml": Package("PyYAML", "python3-yaml", "yaml"),
    "onnxruntime": Package("onnxruntime", "", "onnx"),
    "torch": Package("torch", "python3-torch", "torch"),
    "torchvision": Package("torchvision", "python3-torchvision", "vision"),
    "PIL": Package("Pillow", "python3-pil", "vision"),
    "tensorflow": Package("tensorflow-cpu", "", "tensorflow"),
}
WIRE = Path(__file__).resolve().parent.parent / "baton_client" / "wire" / "__init__.py"
WIRE_WORDS = "the SDK's wire code is not generated: python3 sdk/python/generate_wire.py (apt install flatbuffers-compiler), or pip install sdk/python"
ALWAYS = ("flatbuffers", "zmq")
WANTED: Dict[str, Sequence[str]] = {
    "torchserve": ("yaml",),
    "triton": ("numpy",),
    "onnx": ("numpy", "onnxruntime"),
    "torchscript": ("numpy", "torch"),
    "tensorflow": ("numpy", "tensorflow"),
}

SOMETIMES = ("torchserve",)  # entry points whose modules only some handlers need


def is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # partly installed, or hidden by None in sys.modules
        return False


def words_for(*modules: str) -> str:
    """Names the missing packages, the Python, and the command that installs them."""
    all_of_them = [PACKAGES[module] for module in modules]
    names, debian = " ".join(p.project for p in all_of_them), " ".join(p.debian for p in all_of_them if p.debian)
    extras = ",".join(dict.fromkeys(p.extra for p in all_of_them if p.extra))
    are = "is" if len(modules) == 1 else "are"
    otherwise = f", or Debian's {debian} where this is its python3" if debian else ""
    wheel = f"'sdk/python[{extras}]'" if extras else "sdk/python"
    return f"{names} {are} not installed for {sys.executable}: pip install {wheel} into its venv{otherwise} (docs/apis/workers/python.md, A Python for workers)"


def give_up(why: str) -> NoReturn:
    """The supervisor shows the log's last line as the reason, without its first two words."""
    print(f"baton_worker error {' '.join(why.split())}", file=sys.stderr, flush=True)
    sys.exit(EXIT_PERMANENT)


def _is_worker() -> bool:
    """Whether this is `python3 -m baton_worker...`. True while Python looks for the module, and later in __main__."""
    if sys.argv[:1] == ["-m"]:
        return any(word.partition(".")[0] == "baton_worker" for word in getattr(sys, "orig_argv", ["baton_worker"]))
    started = getattr(sys.modules.get("__main__"), "__spec__", None)
    return started is not None and started.name.partition(".")[0] == "baton_worker"


def _refuse(why: str, module: str) -> NoReturn:
    if _is_worker():
        give_up(why)
    raise ModuleNotFoundError(why, name=module)


def need(*modules: str) -> None:
    """Ends a worker's process permanently if modules are missing. Raises ModuleNotFoundError in any other process."""
    lacking = [module for module in modules if not is_there(module)]
    if lacking:
        _refuse(words_for(*lacking), lacking[0])


def is_asked() -> bool:
    """Whether this is `python3 -m baton_worker.check`, which imports nothing else."""
    return sys.argv[:1] == ["-m"] and "baton_worker.check" in getattr(sys, "orig_argv", [])


def need_sdk() -> None:
    need(*ALWAYS)
    if not WIRE.is_file():
        _refuse(WIRE_WORDS, "baton_client.wire")


def missing(entries: Sequence[str]) -> List[str]:
    """One line per kind of missing package that would end the entry points' processes."""
    wanted = dict.fromkeys([*ALWAYS, *(module for entry in entries for module in WANTED.get(entry, ()))])
    lacking = [module for module in wanted if not is_there(module)]
    return [*([words_for(*lacking)] if lacking else []), *([] if WIRE.is_file() else [WIRE_WORDS])]
