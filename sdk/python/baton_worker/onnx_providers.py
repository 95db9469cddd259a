"""The execution providers of onnxruntime that a config.pbtxt requests, and which of them the package has.

The order is that of Triton's backend. GPU accelerators precede CUDA's own provider; CPU accelerators precede the CPU's. A provider that
the package lacks is skipped with a log line. One that Triton does not know is rejected.
"""

from __future__ import annotations

import logging
from typing import Any, Collection, Dict, List, Optional, Tuple

from .tensor_model import Parameters

_log = logging.getLogger("baton_worker")

CUDA, CPU, TENSORRT, OPENVINO = (f"{name}ExecutionProvider" for name in ("CUDA", "CPU", "Tensorrt", "OpenVINO"))
# The package that provides each of them.
_PACKAGES = {CUDA: "onnxruntime-gpu", TENSORRT: "onnxruntime-gpu, with TensorRT's libraries", OPENVINO: "onnxruntime-openvino"}

Provider = Tuple[str, Dict[str, str]]

# Options of the accelerator `tensorrt` with different names in Triton and onnxruntime. Others begin with trt_ in both.
_RENAMED = {
    "max_workspace_size_bytes": "trt_max_workspace_size",
    "int8_calibration_table_name": "trt_int8_calibration_table_name",
    "int8_use_native_calibration_table": "trt_int8_use_native_calibration_table",
}
_PRECISIONS = {"FP32": {}, "FP16": {"trt_fp16_enable": "1"}, "BF16": {"trt_bf16_enable": "1"}, "INT8": {"trt_int8_enable": "1"}}
# `parameters` that Triton reads for CUDA's provider, with their values where a list numbers them.
_CUDA_CHOICES = {
    "cudnn_conv_algo_search": ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
    "arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
}


def providers_of(config: Dict[str, Any], given: Parameters, has: Collection[str], gpu: Optional[int] = 0) -> List[Provider]:
    """The providers in the order in which onnxruntime tries them. `gpu`: device of the GPU providers; None: the instance is on the CPU.
    Raises ValueError."""
    asked = config.get("optimization", {}).get("execution_accelerators", {})
    for kind in asked:
        if kind not in ("gpu_execution_accelerator", "cpu_execution_accelerator"):
            raise ValueError(f"config.pbtxt: optimization.execution_accelerators.{kind} is not known: there are gpu_ and cpu_execution_accelerator")
    cuda = _cuda_parameters(given)
    wanted: List[Provider] = []
    for one in asked.get("gpu_execution_accelerator", []):
        name = one.get("name", "")
        if name == "tensorrt":
            wanted.append((TENSORRT, _tensorrt(one.get("parameters", {}))))
        elif name == "cuda":
            cuda = {**cuda, **{key: _plain(value) for key, value in one.get("parameters", {}).items()}}
        else:
            raise ValueError(f"config.pbtxt: unknown Execution Accelerator '{name}' is requested: of a GPU there are tensorrt and cuda")
    if gpu is None:  # as in Triton: GPU providers are for instances on GPUs
        for name, _ in wanted:
            _log.warning("config.pbtxt: %s is left out: this instance is on the CPU", name)
        wanted = []
    else:
        wanted.append((CUDA, cuda))
        if gpu:
            wanted = [(name, {"device_id": str(gpu), **options}) for name, options in wanted]
    for one in asked.get("cpu_execution_accelerator", []):
        if one.get("name") != "openvino":
            raise ValueError(f"config.pbtxt: unknown Execution Accelerator '{one.get('name', '')}' is requested: of a CPU there is openvino")
        wanted.append((OPENVINO, {"device_type": "CPU"}))
    is_asked = {name for name, _ in wanted} - (set() if "gpu_execution_accelerator" in asked else {CUDA})
    for name in sorted(is_asked - set(has)):
        _log.warning("config.pbtxt asks for %s, which this onnxruntime does not have (pip install %s): the model is served without it", name, _PACKAGES[name])
    return [*((name, options) for name, options in wanted if name in has), (CPU, {})]


def _plain(value: Any) -> str:
    """A map's value, written as a text or a number."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tensorrt(parameters: Dict[str, Any]) -> Dict[str, str]:
    options: Dict[str, str] = {}
    for key, value in parameters.items():
        text = _plain(value)
        if key == "precision_mode":
            if text not in _PRECISIONS:
                raise ValueError(f"config.pbtxt: unsupported precision mode '{text}' is requested: there are {', '.join(_PRECISIONS)}")
            options.update(_PRECISIONS[text])
        elif key in _RENAMED or key.startswith("trt_"):
            options[_RENAMED.get(key, key)] = text
        else:
            raise ValueError(f"config.pbtxt: unknown parameter '{key}' is provided for TensorRT Execution Accelerator")
    return options


def _cuda_parameters(given: Parameters) -> Dict[str, str]:
    options: Dict[str, str] = {}
    for name, choices in _CUDA_CHOICES.items():
        choice = given.integer(name, 0, len(choices) - 1)
        if choice is not None:
            options[name] = choices[choice]
    limit = given.integer("gpu_mem_limit", 0, (1 << 64) - 1)
    if limit is not None:
        options["gpu_mem_limit"] = str(limit)
    copies = given.flag("do_copy_in_default_stream")
    if copies is not None:
        options["do_copy_in_default_stream"] = "1" if copies else "0"
    return options
