"""Serves an ONNX model as Triton's ONNX Runtime backend does; needs numpy and onnxruntime (or onnxruntime-gpu).

Inputs and outputs are the model's, by name. config.pbtxt is read beside the version's directory. Without one, rows of requests are
computed together if the model accepts any number of rows.

    python3 -m baton_worker.onnx REPOSITORY/MODEL/1/model.onnx [--config CONFIG.pbtxt]
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any, Dict, Optional

from .needs import need, words_for

need("numpy")
import numpy  # noqa: E402

from .handler import Context, Handler, RequestError, Unusable
from .onnx_providers import providers_of
from .start import start
from .tensor_model import Arrays, Parameters, TensorModel, check_declared, gpu_of, options_of

_log = logging.getLogger("baton_worker")

DATATYPES = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(string)": "BYTES",
}
# optimization.graph.level of config.pbtxt.
LEVELS = {-1: "ORT_ENABLE_BASIC", 0: "ORT_ENABLE_ALL", 1: "ORT_ENABLE_EXTENDED", 2: "ORT_DISABLE_ALL"}
# Settings of Triton's core, for its own memory and threads.
_MEMORY, _ONE_BATCH = "tensors do not pass through pinned memory", "a process computes one batch at a time"
ELSEWHERE = {
    "priority": _ONE_BATCH,
    "eager_batching": _ONE_BATCH,
    "input_pinned_memory": _MEMORY,
    "output_pinned_memory": _MEMORY,
    "gather_kernel_buffer_threshold": _MEMORY,
    "cuda": "CUDA's graphs are TensorRT's backend's; here they are enable_cuda_graph of the accelerator cuda",
}
SHRINKS = "memory.enable_memory_arena_shrinkage"
INITIALIZERS = "session.use_device_allocator_for_initializers"


def _datatype(kind: str, value: Any) -> str:
    if value.type not in DATATYPES:
        raise Unusable(f"{kind} '{value.name}' is a {value.type}: there is no datatype for it")
    return DATATYPES[value.type]


class OnnxModel(TensorModel):
    def __init__(self, runtime: Any, file: Path, config: Optional[Dict[str, Any]], context: Context):
        super().__init__(file, config)
        self._runtime = runtime
        parameters = Parameters(self.config)
        self._options = self._session_options(parameters)
        self._providers = providers_of(self.config, parameters, runtime.get_available_providers(), gpu_of(self.config, context))
        parameters.finish()

    def _session_options(self, parameters: Parameters) -> Any:
        options = self._runtime.SessionOptions()
        for name, attribute in (("intra_op_thread_count", "intra_op_num_threads"), ("inter_op_thread_count", "inter_op_num_threads")):
            threads = parameters.integer(name, -1)
            if threads and threads > 0:
                setattr(options, attribute, threads)
        if parameters.integer("execution_mode", 0, 1):
            options.execution_mode = self._runtime.ExecutionMode.ORT_PARALLEL
        for name, attribute in (("enable_mem_arena", "enable_cpu_mem_arena"), ("enable_mem_pattern", "enable_mem_pattern")):
            flag = parameters.flag(name)
            if flag is not None:
                setattr(options, attribute, flag)
        if parameters.flag(INITIALIZERS):
            options.add_session_config_entry(INITIALIZERS, "1")
        self._run_options = None
        shrinks = parameters.text(SHRINKS)
        if shrinks is not None:
            self._run_options = self._runtime.RunOptions()
            self._run_options.add_run_config_entry(SHRINKS, shrinks)
        optimization = self.config.get("optimization", {})
        for name in optimization:
            if name in ELSEWHERE:
                _log.info("config.pbtxt: optimization.%s changes nothing: %s", name, ELSEWHERE[name])
            elif name not in ("graph", "execution_accelerators"):
                raise ValueError(f"config.pbtxt: optimization.{name} is not known")
        level = optimization.get("graph", {}).get("level", 0)
        if level not in LEVELS:
            raise ValueError(f"config.pbtxt: optimization.graph.level is {level}, not one of {', '.join(map(str, LEVELS))}")
        options.graph_optimization_level = getattr(self._runtime.GraphOptimizationLevel, LEVELS[level])
        return options

    def load(self) -> None:
        state = self._runtime.capi.onnxruntime_pybind11_state
        hopeless = (state.InvalidProtobuf, state.InvalidGraph, state.InvalidArgument, state.NotImplemented, state.NoSuchFile)
        try:
            self.session = self._runtime.InferenceSession(str(self.file), self._options, providers=self._providers)
        except hopeless as wrong:
            raise Unusable(f"{self.file}: {wrong}") from wrong
        for name, _ in self._providers:
            if name not in self.session.get_providers():
                _log.warning("%s could not be used, as onnxruntime says above: the model is served without it", name)
        inputs = self.session.get_inputs()
        self.input_types = {i.name: _datatype("input", i) for i in inputs}
        outputs = {o.name: _datatype("output", o) for o in self.session.get_outputs()}
        check_declared(self.config, "input", self.input_types)
        check_declared(self.config, "output", outputs)
        declared = [o["name"] for o in self.config.get("output", [])]
        self.output_names = declared or list(outputs)
        self.can_join = bool(inputs) and all(i.shape and not isinstance(i.shape[0], int) for i in inputs)

    def compute(self, arrays: Arrays) -> Arrays:
        try:
            given = {name: _texts(a) if a.dtype == object else a for name, a in arrays.items()}
            return dict(zip(self.output_names, self.session.run(self.output_names, given, self._run_options)))
        except UnicodeDecodeError as wrong:
            raise RequestError("a text is not UTF-8") from wrong
        except self._runtime.capi.onnxruntime_pybind11_state.InvalidArgument as wrong:
            raise RequestError(f"the model does not take this: {wrong}") from wrong
        except Exception as wrong:  # onnxruntime's errors have no common base class
            raise RequestError(f"the model failed: {wrong}", 500) from wrong


def _texts(array: Any) -> Any:
    flat = numpy.empty(array.size, dtype=object)
    flat[:] = [element.decode() for element in array.reshape(-1)]
    return flat.reshape(array.shape)


def make(context: Context) -> Handler:
    file, config = options_of(context, "baton_worker.onnx")
    try:
        import onnxruntime
    except ImportError as wrong:
        raise ValueError(words_for("onnxruntime")) from wrong
    return OnnxModel(onnxruntime, file, config, context)


if __name__ == "__main__":
    start(make, sys.argv[1:])
