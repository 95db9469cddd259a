"""python3 -m baton_worker HANDLER.py[:CLASS] [OPTION ...]; started by `cluster up` (nodes.toml, [[workers]]).

Serves the file's one subclass of Handler, or the named class.
"""

from __future__ import annotations

import inspect
import sys

from .handler import Context, Handler
from .start import load_module, start


def load(which: str) -> Handler:
    """Raises what the file raises; ValueError if it does not have exactly one handler."""
    path, _, name = which.partition(":")
    module = load_module(path)
    found = {
        n: c
        for n, c in inspect.getmembers(module, inspect.isclass)
        if issubclass(c, Handler) and c.__module__ == module.__name__
    }
    if name:
        found = {n: c for n, c in found.items() if n == name}
    if len(found) != 1:
        raise ValueError(f"{path} has {len(found)} handlers{f' named {name}' if name else ''}, not one")
    return next(iter(found.values()))()


def make(context: Context) -> Handler:
    if not context.options:
        raise ValueError("HANDLER.py is missing")
    which, *context.options = context.options
    return load(which)


if __name__ == "__main__":
    start(make, sys.argv[1:])
