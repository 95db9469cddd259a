"""Shared by the entry points: from a command line to a serving worker."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import logging
import os
import sys
import time
from pathlib import Path
from types import CodeType, ModuleType
from typing import Callable, List

from .group import Follower, Leader
from .handler import Context, Handler, Unusable
from .link import Link
from .needs import give_up
from .serve import serve


class Fresh(importlib.machinery.SourceFileLoader):
    """Compiles the current source. Python reuses bytecode if the size and the second of the source match (PEP 552): a model replaced
    quickly would stay as it was."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def load_module(path: str, package: str = "") -> ModuleType:
    """Raises what the file raises; ValueError if there is none. Writes no bytecode, so its imports from that directory are fresh as well.
    `package`: its parent, for relative imports."""
    file = Path(path).resolve()
    if not file.is_file():
        raise ValueError(f"{file} is no file")
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(file.parent))
    name = f"{package}.{file.stem}" if package else file.stem
    if package:
        parent = ModuleType(package)
        parent.__path__ = [str(file.parent)]
        sys.modules[package] = parent
    spec = importlib.util.spec_from_file_location(name, file, loader=Fresh(name, str(file)))
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR, "off": logging.CRITICAL + 1}


def start(make: Callable[[Context], Handler], options: List[str]) -> None:
    """Serves the handler of `make` until SIGTERM. An exception of `make` is permanent; after one of `initialize` the supervisor retries,
    unless it is Unusable."""
    begun = time.monotonic()
    logging.basicConfig(level=LEVELS.get(os.environ.get("BATON_LOG_LEVEL", ""), logging.INFO), format="%(asctime)s %(levelname)s %(message)s")
    leader, follower = Leader.of_environment(), Follower.of_environment()
    try:
        context = Context.of_environment(options)
        door = "" if follower else os.environ["BATON_WORKER_DOOR"]
        node, epoch = (int(os.environ[f"BATON_WORKER_{key}"]) for key in ("NODE", "EPOCH"))
    except KeyError as missing:
        give_up(f"{missing} is not set: `cluster up` starts workers, with nodes.toml's [[workers]]")
    try:
        handler = make(context)
    except Exception as wrong:
        logging.exception("the handler cannot be loaded")
        give_up(f"{type(wrong).__name__}: {wrong}")
    try:
        handler.initialize(context)
    except Unusable as wrong:
        give_up(str(wrong))
    if follower:
        follower.serve(handler)
        return
    if leader:
        leader.wait_ready()
    load_seconds = time.monotonic() - begun
    keeps_packets = leader is not None and leader.hands_on
    serve(handler, Link(door, node, epoch, context.name, context.metrics, load_seconds, keeps_packets), leader)
