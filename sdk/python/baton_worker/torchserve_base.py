"""Our version of ts.torch_handler.base_handler's BaseHandler: eager and TorchScript models on torch where it is installed."""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any, Dict, Optional

from .handler import Unusable

log = logging.getLogger("baton_worker")

PROFILES = "/tmp/pytorch_profiler"  # where TorchServe puts them


def import_torch() -> Any:
    try:
        import torch
    except ImportError as wrong:
        raise Unusable("BaseHandler loads models by torch, which is not installed here: pip install torch, or override initialize") from wrong
    return torch


class BaseHandler:
    # A handler with its own __init__ that calls no other still has these.
    model: Any = None
    mapping: Optional[Dict[str, str]] = None
    device: Any = None
    context: Any = None
    manifest: Any = None
    map_location: Optional[str] = None
    model_pt_path: Optional[str] = None
    initialized = False
    explain = False
    target = 0

    def __init__(self) -> None:
        self.model_yaml_config: Dict[str, Any] = {}
        self.profiler_args: Dict[str, Any] = {}

    def initialize(self, context: Any) -> None:
        torch = import_torch()
        self.model_yaml_config = context.model_yaml_config
        self.manifest = context.manifest
        gpu, directory = context.system_properties.get("gpu_id"), Path(context.system_properties["model_dir"])
        self.map_location = "cuda" if torch.cuda.is_available() and gpu is not None else "cpu"
        if gpu is not None and self.map_location == "cpu":
            log.warning("torch finds no GPU: the model is computed on the CPU, not on GPU %s", gpu)
        self.device = torch.device(f"cuda:{gpu}" if self.map_location == "cuda" else "cpu")
        about = self.manifest["model"]
        weights = directory / about["serializedFile"] if about.get("serializedFile") else None
        self.model_pt_path = str(weights) if weights else None
        if about.get("modelFile"):
            self.model = self._load_pickled_model(str(directory), about["modelFile"], self.model_pt_path)
            self.model.to(self.device)
            self.model.eval()
        elif weights and weights.suffix == ".pt":
            self.model = self._load_torchscript_model(str(weights))
            self.model.eval()
        elif weights and weights.suffix == ".onnx":
            self.model = self._load_onnx_model(str(weights))
        elif weights and weights.suffix in (".so", ".pt2"):
            self.model = self._load_compiled_model(torch, weights)
        else:
            raise Unusable(
                f"no model that BaseHandler loads: {weights.name if weights else 'no serializedFile'} without a modelFile; .pt files are "
                "TorchScript, .onnx files ONNX's, .so and .pt2 files what torch has compiled"
            )
        self._compile(torch)
        self.mapping = load_label_mapping(directory / "index_to_name.json")
        self.initialized = True

    def _load_torchscript_model(self, model_pt_path: str) -> Any:
        return import_torch().jit.load(model_pt_path, map_location=self.device)

    def _load_onnx_model(self, model_pt_path: str) -> Any:
        """An onnxruntime session, which the handler's own `inference` runs."""
        try:
            import onnxruntime
        except ImportError as wrong:
            raise Unusable("a model of ONNX needs onnxruntime, which is not installed here: pip install onnxruntime") from wrong
        wanted = (["CUDAExecutionProvider"] if self.map_location == "cuda" else []) + ["CPUExecutionProvider"]
        there = onnxruntime.get_available_providers()
        return onnxruntime.InferenceSession(model_pt_path, providers=[one for one in wanted if one in there])

    def _load_compiled_model(self, torch: Any, weights: Path) -> Any:
        """A library or a package of torch.export and AOTInductor."""
        if weights.suffix == ".pt2":
            return torch._inductor.aoti_load_package(str(weights))
        given = self.model_yaml_config.get("pt2")
        export = given.get("export") if isinstance(given, dict) else None
        if not isinstance(export, dict) or not export.get("aot_compile"):
            raise Unusable(f"{weights.name} is a library that torch has compiled only where model-config.yaml says pt2: export: aot_compile: true")
        return torch._export.aot_load(str(weights), self.map_location)

    def _load_pickled_model(self, model_dir: str, model_file: str, model_pt_path: Optional[str]) -> Any:
        """The single class of the file, with the weights of the state dictionary."""
        torch = import_torch()
        if not (Path(model_dir) / model_file).is_file():
            raise Unusable(f"the archive has no {model_file}, its modelFile")
        if model_dir not in sys.path:
            sys.path.insert(0, model_dir)
        module = importlib.import_module(model_file.split(".")[0])
        found = [c for _, c in inspect.getmembers(module, inspect.isclass) if c.__module__ == module.__name__]
        if len(found) != 1:
            raise Unusable(f"{model_file} has {len(found)} classes, not one")
        model = found[0]()
        if model_pt_path:
            model.load_state_dict(torch.load(model_pt_path, map_location=self.device))
        return model

    def _compile(self, torch: Any) -> None:
        """Applies `pt2`: a backend's name, options of torch.compile, or `compile: {enable: true, ...}`. If compilation fails, the model
        runs uncompiled."""
        given = self.model_yaml_config.get("pt2")
        if given is None:
            return
        if isinstance(given, str):
            options = {"backend": given}
        elif not isinstance(given, dict):
            raise Unusable("pt2 of model-config.yaml is neither a backend's name nor a map of options")
        elif "export" in given:
            return  # already compiled
        elif "compile" in given:
            options = dict(given["compile"])
            if not options.pop("enable", False):
                return
        else:
            options = dict(given)
        backend = options.get("backend")
        if backend is not None and backend not in torch.compiler.list_backends(exclude_tags=()):
            log.warning("pt2: torch.compile has no backend %s here, the model is not compiled", backend)
            return
        try:
            self.model = torch.compile(self.model, **options)
            log.info("pt2: the model is compiled with %s", options or "torch's defaults")
        except Exception as wrong:
            log.warning("pt2: the model is not compiled: %s", wrong)

    def preprocess(self, data: Any) -> Any:
        return [row.get("data") or row.get("body") for row in data]

    def inference(self, data: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(data, "to"):
            return self.model(data, *args, **kwargs)
        with import_torch().inference_mode():
            return self.model(data.to(self.device) if self.device is not None else data, *args, **kwargs)

    def postprocess(self, data: Any) -> Any:
        return data.tolist() if hasattr(data, "tolist") else data

    def get_device(self) -> Any:
        return self.device

    def handle(self, data: Any, context: Any) -> Any:
        self.context = context
        if os.environ.get("ENABLE_TORCH_PROFILER"):
            return self._infer_with_profiler(data)[0]
        made = self.preprocess(data)
        return self.explain_handle(made, data) if self._is_explain() else self.postprocess(self.inference(made))

    def _is_explain(self) -> bool:
        """The request was sent to /explanations; the server marks it with a header."""
        header = getattr(self.context, "get_request_header", lambda idx, key: None)
        is_asked = header(0, "explain") == "True"
        self.explain = self.explain or is_asked
        return is_asked

    def explain_handle(self, data_preprocess: Any, raw_data: Any) -> Any:
        """The result of the handler's own `get_insights` for the first request."""
        row = raw_data[0]
        is_named = isinstance(row, dict)
        given = (row.get("data") or row.get("body")) if is_named else None
        insights = getattr(self, "get_insights", None)
        if insights is None:
            raise ValueError("this handler has no get_insights, and so no explanations")
        return insights(data_preprocess, given, (row.get("target") or 0) if is_named else 0)

    def _infer_with_profiler(self, data: Any) -> Any:
        """-> (the answers, the profiler). Writes a trace of each batch where `profiler_args` says, else below /tmp/pytorch_profiler."""
        torch = import_torch()
        activity = torch.profiler.ProfilerActivity
        arguments = dict(self.profiler_args) or {"activities": [activity.CPU, activity.CUDA], "record_shapes": True}
        model = (self.manifest or self.context.manifest)["model"].get("modelName", "")
        arguments.setdefault("on_trace_ready", torch.profiler.tensorboard_trace_handler(os.path.join(PROFILES, model)))
        begun = time.monotonic()
        with torch.profiler.profile(**arguments) as profile:
            asked, is_explain = data, self._is_explain()
            for name in ("preprocess", *(("explain",) if is_explain else ("inference", "postprocess"))):
                with torch.profiler.record_function(name):
                    data = self.explain_handle(data, asked) if name == "explain" else getattr(self, name)(data)
        log.info("profiled in %.3f s:\n%s", time.monotonic() - begun, profile.key_averages().table(sort_by="cpu_time_total", row_limit=10))
        return data, profile


def load_label_mapping(file: Path) -> Optional[Dict[str, str]]:
    """Class numbers to names; None if there is no such file. Raises Unusable."""
    if not file.is_file():
        return None
    mapping = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(mapping, dict):
        raise Unusable(f"{file.name} is no map of classes to names")
    if isinstance(mapping.get("object_type_names"), list):  # the format of older archives
        return {str(i): name for i, name in enumerate(mapping["object_type_names"])}
    names = {key: value[-1] if isinstance(value, list) and value else value for key, value in mapping.items()}
    wrong = [key for key, name in names.items() if not isinstance(name, str)]
    if wrong:
        raise Unusable(f"{file.name}: the name of class {wrong[0]} is no text")
    return names
