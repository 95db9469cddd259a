"""Serves an unmodified TorchServe handler as a worker.

An archive (made by `torch-model-archiver`), or a directory of its layout, names its handler, weights, requirements.txt and
model-config.yaml. Otherwise the handler is a class with `initialize(context)` and `handle(data, context)`. It may also be a function
`handle(data, context)`, which is called with None at first. Handlers can import from `ts`: BaseHandler, PredictionException,
send_intermediate_predict_response, and the modules for large models (torchserve_large.py).

    python3 -m baton_worker.torchserve handler.py [--model-dir DIR] [--serialized-file FILE]
                                                  [--model-yaml-config FILE]
    python3 -m baton_worker.torchserve NAME.mar [--handler FILE.py[:FUNCTION]]
                                                [--install-requirements[=SECONDS]]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import io
import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import requirements, torch_handlers, torchserve_large, torchserve_utils
from .archive import Archive, is_archive, open_archive
from .handler import Context, Handler, Request, RequestError, Response
from .needs import give_up, is_there, words_for
from .start import load_module, start
from .torchserve_envelope import ENVIRONMENT as ENVELOPE
from .torchserve_envelope import enveloped
from .torchserve_metrics import Dimension, MetricTypes, ModelMetrics


FORM = "multipart/form-data"  # made by the gateway for a request with several inputs
METRICS_CONFIG = "TS_METRICS_CONFIG"  # TorchServe's metrics.yaml, by TorchServe's own variable
INPUT_PARAMETER = "torchserve_input"  # the single input's name, if it is not "body"


class PredictionException(Exception):
    """Counterpart of ts.utils.util: the client's error message and status."""

    def __init__(self, message: str, error_code: int = 500):
        super().__init__(message)
        self.message = message
        self.error_code = error_code


class RequestProcessor:
    """Counterpart of ts.context: one request of a batch."""

    def __init__(self, request: Request):
        self.request = request
        self.headers = {name: value for name, value in request.headers}
        if request.content_type:
            self.headers.setdefault("Content-Type", request.content_type)
        self.status = 200
        self.phrase: Optional[str] = None
        self.response_headers: Dict[str, str] = {}

    def get_request_property(self, key: str) -> Optional[str]:
        return self.headers.get(key)

    def get_request_properties(self) -> Dict[str, str]:
        return self.headers

    def report_status(self, code: int, reason_phrase: Optional[str] = None) -> None:
        self.status, self.phrase = code, reason_phrase

    def get_response_status_code(self) -> int:
        return self.status

    def get_response_status_phrase(self) -> Optional[str]:
        return self.phrase

    def add_response_property(self, key: str, value: str) -> None:
        self.response_headers[key] = value

    def get_response_headers(self) -> Dict[str, str]:
        return self.response_headers

    def get_response_header(self, key: str) -> Optional[str]:
        return self.response_headers.get(key)


class TorchContext:
    """ts.context.Context."""

    def __init__(self, context: Context, options: argparse.Namespace):
        self.model_name = context.model
        self.manifest = options.manifest or {
            "model": {
                "modelName": context.model,
                "modelVersion": context.version,
                "handler": options.handler,
                **({"serializedFile": options.serialized_file} if options.serialized_file else {}),
            }
        }
        self.model_yaml_config = read_yaml(options.model_yaml_config)
        self.system_properties = {
            "model_dir": options.model_dir,
            "gpu_id": context.gpu_id,
            "batch_size": context.batch_size,
            "server_name": "baton",
            "server_version": "0.1",
            "limit_max_image_pixels": True,
        }
        self.metrics = ModelMetrics(context)
        self.stopping_criteria: Any = None
        self.header_key_sequence_id = os.environ.get("TS_REQUEST_SEQUENCE_ID", "ts_request_sequence_id")
        self.header_key_sequence_start = os.environ.get("TS_REQUEST_SEQUENCE_START", "ts_request_sequence_start")
        self.header_key_sequence_end = os.environ.get("TS_REQUEST_SEQUENCE_END", "ts_request_sequence_end")
        add_configured(self.metrics, read_yaml(os.environ.get(METRICS_CONFIG)))
        self.request_ids: Dict[int, str] = {}
        self.request_processor: List[RequestProcessor] = []

    def begin(self, requests: Sequence[Request]) -> None:
        self.request_ids = {i: r.id or str(r.number) for i, r in enumerate(requests)}
        self.request_processor = [RequestProcessor(r) for r in requests]

    def get_request_id(self, idx: int = 0) -> Optional[str]:
        return self.request_ids.get(idx)

    def get_request_header(self, idx: int, key: str) -> Optional[str]:
        return self.request_processor[idx].get_request_property(key)

    def get_all_request_header(self, idx: int) -> Dict[str, str]:
        return self.request_processor[idx].get_request_properties()

    def set_response_content_type(self, idx: int, value: str) -> None:
        self.set_response_header(idx, "content-type", value)

    def get_response_content_type(self, idx: int) -> Optional[str]:
        return self.get_response_headers(idx).get("content-type")

    def get_response_headers(self, idx: int) -> Dict[str, str]:
        return self.request_processor[idx].get_response_headers()

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        self.request_processor[idx].add_response_property(key, value)

    def get_response_status(self, idx: int) -> Tuple[int, Optional[str]]:
        one = self.request_processor[idx]
        return one.get_response_status_code(), one.get_response_status_phrase()

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        self.request_processor[idx].report_status(code, reason_phrase=phrase)

    def set_all_response_status(self, code: int = 200, phrase: str = "") -> None:
        for one in self.request_processor:
            one.report_status(code, reason_phrase=phrase)

    def get_sequence_id(self, idx: int) -> Optional[str]:
        """From the client's header; requests of one sequence are not kept on one worker."""
        return self.get_request_header(idx, self.header_key_sequence_id)

    def response(self, idx: int, value: Any) -> Response:
        """Raises TypeError for a value without a JSON form."""
        headers = dict(self.get_response_headers(idx))
        content_type = headers.pop("content-type", "")
        if isinstance(value, (bytes, bytearray)):
            body = bytes(value)
        elif isinstance(value, str):
            body = value.encode()
        elif is_torch_tensor(value):
            body = saved(value)
        else:
            body = json.dumps(value, indent=2).encode()
            content_type = content_type or "application/json"
        status = self.request_processor[idx].status
        return Response(body, content_type, headers=list(headers.items()), status=status)


def send_intermediate_predict_response(
    ret: Sequence[Any], req_id_map: Dict[int, str], message: str, code: int, context: TorchContext
) -> None:
    """Counterpart of ts.handler_utils.utils: sends a piece for each request of the batch, at once."""
    for idx in req_id_map:
        context.request_processor[idx].request.send(context.response(idx, ret[idx]))


def is_torch_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def saved(tensor: Any) -> bytes:
    """The bytes of torch.save, which a client of TorchServe loads."""
    file = io.BytesIO()
    sys.modules["torch"].save(tensor, file)
    return file.getvalue()


def add_configured(metrics: ModelMetrics, config: Dict[str, Any]) -> None:
    """Adds the model metrics of a metrics.yaml; handlers find them by get_metric. Raises ValueError."""
    for kind, all_of_kind in (config.get("model_metrics") or {}).items():
        for one in all_of_kind or ():
            try:
                metrics.add_metric_to_cache(one["name"], one["unit"], one["dimensions"], MetricTypes(kind))
            except (KeyError, TypeError, ValueError) as wrong:
                raise ValueError(f"{os.environ.get(METRICS_CONFIG)}: a metric needs name, unit and dimensions: {one}") from wrong


def read_yaml(path: Optional[str]) -> Dict[str, Any]:
    if not path:
        return {}
    try:
        import yaml  # needed only with such a file
    except ImportError as wrong:
        raise ValueError(f"{path} cannot be read: {words_for('yaml')}") from wrong
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file) or {}


def provide_ts() -> bool:
    """Provides the modules that handlers import. In an installed TorchServe only the parts that talk to its frontend are replaced. True:
    it is installed."""
    is_installed = is_torchserve_installed()
    contents = {
        "ts.handler_utils.utils": {"send_intermediate_predict_response": send_intermediate_predict_response},
        "ts.protocol.otf_message_handler": {"send_intermediate_predict_response": send_intermediate_predict_response},
        "ts.utils.util": {"PredictionException": PredictionException},
        "ts.context": {"Context": TorchContext, "RequestProcessor": RequestProcessor},
        "ts.metrics.dimension": {"Dimension": Dimension},
        "ts.metrics.metric_type_enum": {"MetricTypes": MetricTypes},
    }
    if not is_installed:
        for more in (torchserve_large.modules(), torchserve_utils.modules()):
            for name, members in more.items():
                contents.setdefault(name, {}).update(members)
    for name, members in contents.items():
        if is_installed:
            module = importlib.import_module(name)
        else:
            module = _made_module(name)
        for key, value in members.items():
            setattr(module, key, value)
    if not is_installed:
        provide_handlers()
    return is_installed


def provide_handlers() -> None:
    """ts.torch_handler.image_classifier and similar modules, which import torchvision on first use."""
    for name in torch_handlers.NAMES:

        def load(wanted: str, name: str = name) -> Any:
            if not wanted[:1].isupper():  # no class: others look through all modules for names of theirs
                raise AttributeError(wanted)
            return getattr(own_handler(name), wanted)

        _made_module(f"ts.torch_handler.{name}").__getattr__ = load  # type: ignore[method-assign]


def own_handler(name: str) -> ModuleType:
    """Raises ValueError if its packages are not installed."""
    lacking = [module for module in torch_handlers.NEEDS if not is_there(module)]
    if lacking:
        raise ValueError(f"the handler {name}: {words_for(*lacking)}")
    return importlib.import_module(f"{torch_handlers.__name__}.{name}")


def is_torchserve_installed() -> bool:
    try:
        return importlib.util.find_spec("ts") is not None
    except ValueError:
        return False  # the existing module was made here


def _made_module(name: str) -> ModuleType:
    parent: Optional[ModuleType] = None
    at = ""
    for part in name.split("."):
        at = f"{at}.{part}" if at else part
        module = sys.modules.get(at)
        if module is None:
            module = sys.modules[at] = ModuleType(at)
            module.__path__ = []  # makes it a package
        if parent is not None:
            setattr(parent, part, module)
        parent = module
    assert parent is not None
    return parent


class TorchServeHandler(Handler):
    """Connects a TorchServe handler with the worker's loop."""

    def __init__(self, module: ModuleType, options: argparse.Namespace):
        self._options = options
        self._entry, self._begin = entry_of(module, options.entry)
        of_archive = ((options.manifest or {}).get("model") or {}).get("envelope")  # takes precedence over the server's
        if of_archive or os.environ.get(ENVELOPE):
            self._entry = enveloped(of_archive or os.environ[ENVELOPE], self._entry)

    def initialize(self, context: Context) -> None:
        self._context = TorchContext(context, self._options)
        self._begin(self._context)

    def handle(self, requests: List[Request]) -> Any:
        rows = [row_or_refusal(r) for r in requests]
        good = [i for i, row in enumerate(rows) if not isinstance(row, RequestError)]
        if not good:
            return rows
        for i, answer in zip(good, self._answers([requests[i] for i in good], [rows[i] for i in good])):
            rows[i] = answer
        return rows

    def _answers(self, requests: List[Request], rows: List[Any]) -> List[Any]:
        self._context.begin(requests)
        try:
            made = self._entry(rows, self._context)
        except PredictionException as wrong:
            return [refusal_of(wrong)] * len(requests)
        if not isinstance(made, list) or len(made) != len(requests):
            raise ValueError("number of batch response mismatched")
        return [value if isinstance(value, RequestError) else self._context.response(i, value) for i, value in enumerate(made)]


def entry_of(module: ModuleType, name: str = "") -> Tuple[Callable[..., Any], Callable[[Any], Any]]:
    """`name`: of the function, if given. Raises ValueError if the file has neither."""
    function = getattr(module, name or "handle", None)
    if name and not inspect.isfunction(function):
        raise ValueError(f"{module.__file__} has no function {name}")
    if inspect.isfunction(function):
        return function, lambda context: function(None, context)
    found = [
        c
        for _, c in inspect.getmembers(module, inspect.isclass)
        if c.__module__ == module.__name__ and callable(getattr(c, "handle", None))
    ]
    if len(found) != 1:
        raise ValueError(f"{module.__file__} has {len(found)} classes with `handle`, and no such function")
    service = found[0]()
    return service.handle, getattr(service, "initialize", lambda context: None)


def refusal_of(wrong: PredictionException) -> Response:
    """The error in the form of TorchServe's frontend."""
    error_body = {"code": wrong.error_code, "type": "InternalServerException", "message": wrong.message}
    return Response(json.dumps(error_body).encode(), "application/json", status=wrong.error_code)


def row_or_refusal(request: Request) -> Any:
    """A client's invalid request does not fail the batch."""
    try:
        return row_of(request)
    except RequestError as wrong:
        return wrong


def row_of(request: Request) -> Dict[str, Any]:
    """A request in TorchServe's form: its inputs by their names."""
    if request.inputs:
        raise RequestError("this model takes a body, not tensors")
    media = request.content_type
    if media.startswith(FORM):
        return {name: value_of(kind, value) for name, kind, value in fields_of(media, request.body)}
    return {request.parameters.get(INPUT_PARAMETER, "body"): value_of(media, request.body)}


def value_of(media: str, value: bytes) -> Any:
    """JSON and text are decoded, unless TS_DECODE_INPUT_REQUEST is "false"; anything else is unchanged."""
    try:
        if os.environ.get("TS_DECODE_INPUT_REQUEST", "true") != "true":
            return bytearray(value)
        if media.split(";")[0].strip() == "application/json":
            return json.loads(value)
        if media.startswith("text"):
            return value.decode()
    except ValueError:
        pass  # TorchServe passes undecodable data on
    return bytearray(value)


def fields_of(media: str, body: bytes) -> List[Tuple[str, str, bytes]]:
    """-> the name, content type and value of each field, as the gateway writes them. Raises RequestError."""
    mark = b"--" + media.partition("boundary=")[2].encode()
    fields = []
    for part in (b"\r\n" + body).split(b"\r\n" + mark)[1:-1]:
        head, _, value = part[2:].partition(b"\r\n\r\n")
        given = dict(line.split(": ", 1) for line in head.decode(errors="replace").split("\r\n") if ": " in line)
        name = given.get("Content-Disposition", "").partition('name="')[2][:-1]
        for code, mean in (("%22", '"'), ("%0D", "\r"), ("%0A", "\n")):
            name = name.replace(code, mean)
        fields.append((name, given.get("Content-Type", ""), value))
    if not fields:
        raise RequestError("the form has no field")
    return fields


def options_of(words: Sequence[str]) -> argparse.Namespace:
    """Raises ValueError."""
    parser = argparse.ArgumentParser(prog="baton_worker.torchserve")
    parser.add_argument("handler")
    parser.add_argument("--model-dir", default=None)
    parser.add_argument("--serialized-file", default="")
    parser.add_argument("--model-yaml-config", default=None)
    parser.add_argument("--handler", dest="handler_of_archive", default="")
    parser.add_argument("--install-requirements", metavar="SECONDS", type=float, nargs="?", const=requirements.SECONDS, default=None)
    try:
        return parser.parse_args(list(words))
    except SystemExit as wrong:
        raise ValueError("the options of baton_worker.torchserve") from wrong


def prepare(words: Sequence[str]) -> None:
    """Provides an archive's files and required packages before the worker starts. If packages are installed, this process restarts with
    that Python. Raises what `make` raises."""
    options = options_of(words)
    if is_archive(options.handler):
        requirements.enter(open_archive(options.handler), options.install_requirements)


def make(context: Context) -> Handler:
    options = options_of(context.options)
    options.has_torchserve = provide_ts()
    options.manifest, options.entry = None, ""
    if is_archive(options.handler):
        module = use_archive(open_archive(options.handler), options)
    else:
        module = load_module(options.handler)
    options.model_dir = options.model_dir or str(Path(options.handler).resolve().parent)
    return TorchServeHandler(module, options)


def use_archive(archive: Archive, options: argparse.Namespace) -> ModuleType:
    """The module of its handler; sets `options` from the archive. Raises ValueError."""
    options.manifest = archive.manifest
    options.model_dir = str(archive.directory)
    config = archive.file_of("configFile")
    options.model_yaml_config = options.model_yaml_config or (config and str(config))
    given = options.handler_of_archive or archive.manifest["model"].get("handler") or ""
    name, _, options.entry = str(given).partition(":")
    file = name if name.endswith(".py") else f"{name}.py"
    if name and (archive.directory / file).is_file():
        options.handler = str(archive.inside(file))
        return load_module(options.handler)
    if not options.has_torchserve:
        if name in torch_handlers.NAMES:
            return own_handler(name)
        raise ValueError(
            f"the archive has no {file}, and of TorchServe's own handlers {', '.join(torch_handlers.NAMES)} are here: "
            "with pip install torchserve the others are"
        )
    return importlib.import_module(f"ts.torch_handler.{name}")


if __name__ == "__main__":
    from baton_worker.torchserve import make as make_here  # the classes that handlers import, not __main__'s

    try:
        prepare(sys.argv[1:])
    except Exception as wrong:
        give_up(f"{type(wrong).__name__}: {wrong}")
    start(make_here, sys.argv[1:])
