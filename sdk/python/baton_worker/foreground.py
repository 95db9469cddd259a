"""Runs a handler in this terminal, without a cluster: loads it, sends it one request, and prints its answer.

ENTRY is the module after `python3 -m` in nodes.toml: baton_worker, baton_worker.torchserve, baton_worker.triton and so on. breakpoint() in
the handler stops here. So does `python3 -m pdb -m baton_worker.foreground ...` at its breakpoints. --inputs reads a request in KServe's
JSON: `{"inputs": [{"name", "datatype", "shape", "data"}], "outputs": [{"name"}], "parameters": {}}`.

    python3 -m baton_worker.foreground [--text TEXT | --body FILE | --inputs FILE.json] [--pdb] ENTRY HANDLER [OPTION ...]
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import pdb
import signal
import struct
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from baton_client import inference
from baton_client.inference import Infer, Inferred
from baton_client.tensors import NUMPY_NAMES, Tensor, pack_elements, unpack_elements

from . import needs
from .handler import Context, Handler, gpu_of_environment
from .link import Batch
from .serve import run_batch

ENTRIES = ("baton_worker", *(f"baton_worker.{name}" for name in needs.WANTED))
BATCH_MAX = 4096
_CODES = {"BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q", "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q", "FP16": "e", "FP32": "f", "FP64": "d"}


class Terminal:
    """Replaces the link: prints the handler's answers."""

    def __init__(self) -> None:
        self.has_failed = False

    def put(self, batch: Batch, given: Any) -> None:
        request, piece = given
        self.has_failed |= piece.failure is not None
        sys.stdout.flush()
        for line in _lines(piece):
            sys.stdout.buffer.write(f"{request}: ".encode() * (len(batch.items) > 1) + line + b"\n")
        sys.stdout.buffer.flush()

    def is_cancelled(self, batch: Batch, request: int) -> bool:
        return False


def _lines(piece: Inferred) -> Iterator[bytes]:
    if piece.failure is not None:
        yield f"{piece.failure.name}: {piece.failure.message}".encode()
        return
    if piece.status and piece.status != 200:
        yield f"status {piece.status}".encode()
    if piece.outputs:
        answer: Dict[str, Any] = {"outputs": [_shown(t) for t in piece.outputs]}
        if piece.parameters:
            answer["parameters"] = dict(piece.parameters)
        yield json.dumps(answer).encode()
    if piece.body:
        yield piece.body


def _shown(tensor: Tensor) -> Dict[str, Any]:
    shown: Dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": [int(n) for n in tensor.shape]}
    if tensor.datatype == "BYTES":
        shown["data"] = [element.decode(errors="backslashreplace") for element in unpack_elements(tensor.data)]
    elif tensor.datatype in _CODES:
        code = _CODES[tensor.datatype]
        shown["data"] = list(struct.unpack(f"<{len(tensor.data) // struct.calcsize(code)}{code}", tensor.data))
    else:
        shown["bytes"] = len(tensor.data)
    return shown


def _flat(values: Any) -> List[Any]:
    return [one for value in values for one in _flat(value)] if isinstance(values, list) else [values]


def _tensor(given: Dict[str, Any]) -> Tensor:
    """Raises KeyError, TypeError, ValueError, struct.error."""
    name, datatype, shape, values = given["name"], given["datatype"], list(given["shape"]), _flat(given["data"])
    count = 1
    for size in shape:
        count *= size
    if count != len(values):
        raise ValueError(f"input '{name}' has {len(values)} values, and its shape {count}")
    if datatype == "BYTES":
        return Tensor(name, datatype, shape, pack_elements(values))
    if datatype not in NUMPY_NAMES:
        raise ValueError(f"input '{name}': {datatype} has no JSON")
    return Tensor(name, datatype, shape, struct.pack(f"<{count}{_CODES[datatype]}", *values))


def asked_of(options: argparse.Namespace) -> Dict[str, Any]:
    """The fields of Infer. Raises ValueError."""
    if options.inputs is None:
        body = Path(options.body).read_bytes() if options.body is not None else (options.text or "").encode()
        return {"body": body, "content_type": options.content_type or ("application/octet-stream" if options.body is not None else "text/plain")}
    try:
        given = json.loads(Path(options.inputs).read_text(encoding="utf-8"))
        return {
            "inputs": [_tensor(one) for one in given["inputs"]],
            "outputs": [one["name"] for one in given.get("outputs", [])],
            "parameters_json": inference.json_of(given.get("parameters")),
            "request_id": given.get("id", ""),
        }
    except (KeyError, TypeError, AttributeError, struct.error, ValueError) as wrong:
        raise ValueError(f"{options.inputs} is no request of tensors: {type(wrong).__name__}: {wrong}") from wrong


def _options(words: List[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="baton_worker.foreground", description="A handler in this terminal, without a cluster.")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--text", help="the request's body")
    what.add_argument("--body", metavar="FILE", help="the request's body, of a file")
    what.add_argument("--inputs", metavar="FILE", help="the request's tensors, in KServe's JSON")
    parser.add_argument("--content-type", default="", help="of the body")
    parser.add_argument("--batch", type=int, default=1, help="so many times the request, as one batch")
    parser.add_argument("--door", default=os.environ.get("BATON_DOOR", ""), help="a running gateway's ZeroMQ door, for calls of other models")
    parser.add_argument("--model", default="foreground", help="the name that the handler hears")
    parser.add_argument("--pdb", action="store_true", help="stop where the handler raises")
    parser.add_argument("entry", metavar="ENTRY", choices=ENTRIES)
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="HANDLER [OPTION ...]")
    options = parser.parse_args(words)
    if not 0 < options.batch <= BATCH_MAX:
        parser.error(f"--batch is 1 to {BATCH_MAX}")
    return options


def _stopping(handler: Handler) -> None:
    """Opens the debugger where `handle` raises, in the handler's frames; the exception is then handled as usual."""
    handle = handler.handle

    def watched(requests: Any) -> Any:
        try:
            return handle(requests)
        except Exception:
            pdb.post_mortem(sys.exc_info()[2])
            raise

    handler.handle = watched  # type: ignore[method-assign]


def main(words: Optional[List[str]] = None) -> int:
    """0: all requests were answered; 1: something failed; 2: the request is invalid."""
    options = _options(sys.argv[1:] if words is None else words)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        asked = asked_of(options)
    except (OSError, ValueError) as wrong:
        print(f"baton_worker.foreground: {wrong}", file=sys.stderr)
        return 2
    module = importlib.import_module("baton_worker.__main__" if options.entry == "baton_worker" else options.entry)
    if options.entry == "baton_worker.torchserve":
        try:
            module.prepare(options.words)
        except (OSError, ValueError) as wrong:
            print(f"baton_worker.foreground: {wrong}", file=sys.stderr)
            return 2
    context = Context(options.model, "1", f"worker-{options.model}-0", options.batch, options.door, options=options.words, gpu_id=gpu_of_environment())
    handler: Handler = module.make(context)
    handler.initialize(context)
    if options.pdb:
        _stopping(handler)
    terminal = Terminal()
    inference.inferred = lambda request, piece: (request, piece)  # type: ignore[assignment]  # printed, so not packed
    batch = Batch(0, [Infer(request=number + 1, model=options.model, **asked) for number in range(options.batch)])
    run_batch(handler, terminal, batch)  # type: ignore[arg-type]
    handler.finalize()
    return 1 if terminal.has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
