"""Our versions of the imports from ts.utils.util and ts.handler_utils, except the base classes."""

from __future__ import annotations

import enum
import functools
import importlib
import inspect
import logging
import re
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from .torchserve_base import load_label_mapping as read_label_mapping

log = logging.getLogger("baton_worker")

CLEANUP_REGEX = re.compile(r"<.*?>|&(?:[a-z0-9]+|#[0-9]{1,6}|#x[0-9a-f]{1,6});")


class PT2Backend(str, enum.Enum):
    """Backends of torch.compile that TorchServe allows."""

    EAGER = "eager"
    AOT_EAGER = "aot_eager"
    INDUCTOR = "inductor"
    NVFUSER = "nvfuser"
    AOT_NVFUSER = "aot_nvfuser"
    AOT_CUDAGRAPHS = "aot_cudagraphs"
    OFI = "ofi"
    FX2TRT = "fx2trt"
    ONNXRT = "onnxrt"
    IPEX = "ipex"
    TORCHXLA_TRACE_ONCE = "torchxla_trace_once"
    OPENVINO = "openvino"
    TENSORRT = "tensorrt"
    HPU_BACKEND = "hpu_backend"


def check_valid_pt2_backend(backend: str) -> bool:
    is_known = backend in [one.value for one in PT2Backend]
    if not is_known:
        log.warning("%s is not a supported backend", backend)
    return is_known


def list_classes_from_module(module: Any, parent_class: Optional[type] = None) -> List[type]:
    """The classes that the module defines, not those that it imports."""
    found = [c for _, c in inspect.getmembers(module, inspect.isclass) if c.__module__ == module.__name__]
    return [c for c in found if parent_class is None or issubclass(c, parent_class)]


def load_label_mapping(mapping_file_path: Any) -> Optional[Dict[str, str]]:
    mapping = read_label_mapping(Path(mapping_file_path))
    if mapping is None:
        log.warning("%s is missing: answers have numbers of classes, not names", mapping_file_path)
    return mapping


def map_class_to_label(
    probs: List[Any], mapping: Optional[Mapping[str, str]] = None, lbl_classes: Optional[Sequence[Sequence[Any]]] = None
) -> List[Dict[str, Any]]:
    """A dictionary for each row of probabilities, by the names of classes, or by their numbers."""
    if not isinstance(probs, list):
        raise ValueError("the probabilities are no list: tensor.tolist() makes one")
    if mapping is not None and not isinstance(mapping, Mapping):
        raise ValueError("the mapping of classes to names is no dictionary")
    rows = lbl_classes if lbl_classes is not None else [range(len(row)) for row in probs]
    return [{mapping[str(c)] if mapping is not None else str(c): p for c, p in zip(classes, row)} for classes, row in zip(rows, probs)]


def get_yaml_config(yaml_file_path: Any) -> Any:
    from .torchserve import read_yaml  # imports this module

    return read_yaml(str(yaml_file_path))


def import_class(class_name: str, module_prefix: Optional[str] = None) -> Any:
    """`package.module.Class`, below `module_prefix` if given. Raises ImportError."""
    module, _, name = (class_name or "").rpartition(".")
    whole = ".".join(part for part in (module_prefix, module) if part)
    if not name or not whole:
        raise ImportError(f"{class_name!r} names no class of a module")
    found = getattr(importlib.import_module(whole), name, None)
    if found is None:
        raise ImportError(f"{whole} has no class {name}")
    return found


def timed(step: Callable[..., Any]) -> Callable[..., Any]:
    """Records a handler's step as the metric ts_handler_<step> (ms) if model-config.yaml has `handler: {profile: true}`."""

    @functools.wraps(step)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        context = getattr(self, "context", None)
        config = getattr(context, "model_yaml_config", None) or {}
        given = config.get("handler")
        if not isinstance(given, dict) or not given.get("profile"):
            return step(self, *args, **kwargs)
        begun = time.monotonic()
        made = step(self, *args, **kwargs)
        _finish_gpu()
        context.metrics.add_time(f"ts_handler_{step.__name__}", (time.monotonic() - begun) * 1000)
        return made

    return run


def _finish_gpu() -> None:
    """Waits for the step's work on a GPU, which is part of its time."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()


def modules() -> Dict[str, Dict[str, Any]]:
    """The modules by the names that handlers import."""
    return {
        "ts.utils.util": {
            "CLEANUP_REGEX": CLEANUP_REGEX,
            "PT2Backend": PT2Backend,
            "check_valid_pt2_backend": check_valid_pt2_backend,
            "get_yaml_config": get_yaml_config,
            "list_classes_from_module": list_classes_from_module,
            "load_label_mapping": load_label_mapping,
            "map_class_to_label": map_class_to_label,
        },
        "ts.handler_utils.utils": {"import_class": import_class},
        "ts.handler_utils.timer": {"timed": timed},
    }
