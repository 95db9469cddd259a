"""Serves a TensorFlow model as Triton's TensorFlow backend does: a SavedModel's directory, or a frozen GraphDef. It needs numpy and
tensorflow (PyPI: tensorflow-cpu).

Inputs and outputs of a SavedModel are those of a signature, by name. Inputs and outputs of a GraphDef are operations that config.pbtxt names.

    python3 -m baton_worker.tensorflow REPOSITORY/MODEL/1/model.savedmodel [--config CONFIG.pbtxt]
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

from .needs import need, words_for

need("numpy")
import numpy  # noqa: E402

from .handler import Context, Handler, RequestError, Unusable
from .start import start
from .tensor_model import Arrays, Parameters, TensorModel, check_declared, gpu_of, options_of

_log = logging.getLogger("baton_worker")

# tensorflow's type name -> datatype.
DATATYPES = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8", "int16": "INT16",
    "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32", "float64": "FP64", "string": "BYTES",
}
SERVE, DEFAULT_SIGNATURE = "serve", "serving_default"
NOT_SERVED = ("__saved_model_init_op", "__saved_model_train_op")
# Settings of Triton's core, for its own memory.
ELSEWHERE = ("priority", "eager_batching", "input_pinned_memory", "output_pinned_memory", "gather_kernel_buffer_threshold", "cuda")


class TensorFlowModel(TensorModel):
    def __init__(self, tensorflow: Any, file: Path, config: Optional[Dict[str, Any]], context: Context):
        super().__init__(file, config)
        self._tensorflow, self._v1 = tensorflow, tensorflow.compat.v1
        self._is_graph = not file.is_dir()
        if self._is_graph and not (self.config.get("input") and self.config.get("output")):
            raise ValueError("a GraphDef does not say its inputs and outputs: config.pbtxt with both is needed")
        parameters = Parameters(self.config)
        self._options = self._session_options(parameters, gpu_of(self.config, context))
        self._tag = parameters.text("TF_GRAPH_TAG") or SERVE
        self._signature = parameters.text("TF_SIGNATURE_DEF") or ""
        self._init_ops_file = parameters.text("TF_INIT_OPS_FILE")
        if parameters.integer("MAX_SESSION_SHARE_COUNT", 1):
            _log.info("config.pbtxt: parameters.MAX_SESSION_SHARE_COUNT changes nothing: instances are processes here, each with a session of its own")
        parameters.finish()

    def _session_options(self, parameters: Parameters, gpu: Optional[int]) -> Any:
        options = self._v1.ConfigProto(allow_soft_placement=True)
        options.intra_op_parallelism_threads = parameters.integer("TF_NUM_INTRA_THREADS") or 0
        options.inter_op_parallelism_threads = parameters.integer("TF_NUM_INTER_THREADS", -1) or 0
        # Triton treats these words as true, and any other as false.
        options.use_per_session_threads = (parameters.text("TF_USE_PER_SESSION_THREADS") or "").lower() in ("true", "on", "1")
        options.gpu_options.allow_growth = True
        if gpu is None:
            options.device_count["GPU"] = 0
        else:
            options.gpu_options.visible_device_list = str(gpu)
        optimization = self.config.get("optimization", {})
        for name in optimization:
            if name in ELSEWHERE:
                _log.info("config.pbtxt: optimization.%s changes nothing: it is about Triton's own memory and threads", name)
            elif name not in ("graph", "execution_accelerators"):
                raise ValueError(f"config.pbtxt: optimization.{name} is not known")
        level = optimization.get("graph", {}).get("level", 0)
        optimizer = options.graph_options.optimizer_options
        if level:  # for XLA
            optimizer.global_jit_level = {-1: optimizer.OFF, 1: optimizer.ON_1}.get(level, optimizer.ON_2 if level > 1 else optimizer.DEFAULT)
        self._accelerate(options, optimization.get("execution_accelerators", {}), gpu is None)
        return options

    @staticmethod
    def _accelerate(options: Any, asked: Dict[str, Any], is_on_cpu: bool) -> None:
        for kind in asked:
            if kind == "cpu_execution_accelerator":
                raise ValueError("config.pbtxt: CPU Execution Accelerator is not supported in TensorFlow backend")
            if kind != "gpu_execution_accelerator":
                raise ValueError(f"config.pbtxt: optimization.execution_accelerators.{kind} is not known")
        for one in asked.get("gpu_execution_accelerator", []):
            name = one.get("name", "")
            if name not in ("tensorrt", "gpu_io", "auto_mixed_precision"):
                raise ValueError(f"config.pbtxt: unknown Execution Accelerator '{name}' is requested: there are tensorrt, gpu_io and auto_mixed_precision")
            if is_on_cpu:
                _log.info("config.pbtxt: %s is left out: this instance is on the CPU", name)
            elif name == "auto_mixed_precision":
                rewrites = options.graph_options.rewrite_options
                rewrites.auto_mixed_precision = rewrites.ON
            elif name == "tensorrt":
                _log.warning("config.pbtxt asks for tensorrt, which TensorFlow's packages of PyPI do not have: the model is served without it")
            else:
                _log.info("config.pbtxt: gpu_io changes nothing: tensors come from the CPU's memory")

    def load(self) -> None:
        self._load_operations()
        graph = self._v1.Graph()
        self._session = self._v1.Session(graph=graph, config=self._options)
        if self._is_graph:
            inputs, outputs = self._load_graph(graph)
        else:
            inputs, outputs = self._load_saved_model()
        self._tensors = {**outputs, **inputs}
        self._outputs = outputs
        self.input_types = {name: self._datatype("input", name, graph, tensor) for name, tensor in inputs.items()}
        output_types = {name: self._datatype("output", name, graph, tensor) for name, tensor in outputs.items()}
        check_declared(self.config, "input", self.input_types)
        check_declared(self.config, "output", output_types)
        self.output_names = [one.get("name", "") for one in self.config.get("output", [])] or list(outputs)
        shapes = [graph.get_tensor_by_name(tensor).shape for tensor in inputs.values()]
        self.can_join = bool(shapes) and all(shape.rank and shape.as_list()[0] is None for shape in shapes)
        self._run_init_ops()

    def _load_operations(self) -> None:
        for name in self.config.get("model_operations", {}).get("op_library_filename", []):
            beside = self.file.parent.parent / name
            try:
                self._tensorflow.load_op_library(str(beside if beside.is_file() else name))
            except (OSError, RuntimeError, self._tensorflow.errors.OpError) as wrong:
                raise Unusable(f"config.pbtxt: model_operations: {name}: {wrong}") from wrong

    def _load_saved_model(self) -> Any:
        try:
            meta = self._v1.saved_model.loader.load(self._session, [self._tag], str(self.file))
        except (OSError, RuntimeError, ValueError, self._tensorflow.errors.OpError) as wrong:
            raise Unusable(f"{self.file}: {wrong}") from wrong
        there = sorted(meta.signature_def)
        wanted = self._signature or DEFAULT_SIGNATURE
        if wanted not in there and not self._signature:
            wanted = next((name for name in there if name not in NOT_SERVED), wanted)
            _log.warning("%s has no signature %s: %s is served", self.file, DEFAULT_SIGNATURE, wanted)
        if wanted not in there:
            raise Unusable(f"{self.file}: expected '{wanted}' signature (TF_SIGNATURE_DEF), there are {', '.join(there) or 'none'}")
        signature = meta.signature_def[wanted]
        return _names(signature.inputs, "input"), _names(signature.outputs, "output")

    def _load_graph(self, graph: Any) -> Any:
        definition = self._v1.GraphDef()
        try:
            definition.ParseFromString(self.file.read_bytes())
            with graph.as_default():
                self._v1.import_graph_def(definition, name="")
        except Exception as wrong:  # protobuf's errors have different names in its releases
            raise Unusable(f"{self.file} is no GraphDef: {wrong}") from wrong
        names: List[Dict[str, str]] = []
        for kind in ("input", "output"):
            names.append({})
            for one in self.config[kind]:
                name = one.get("name", "")
                tensor = name if ":" in name else f"{name}:0"
                try:
                    graph.get_tensor_by_name(tensor)
                except (KeyError, ValueError) as wrong:
                    raise Unusable(f"config.pbtxt: {kind} '{name}': the graph has no such operation") from wrong
                names[-1][name] = tensor
        return names

    def _datatype(self, kind: str, name: str, graph: Any, tensor: str) -> str:
        dtype = graph.get_tensor_by_name(tensor).dtype.base_dtype.name
        if dtype not in DATATYPES:
            raise Unusable(f"{kind} '{name}' is a {dtype}: there is no datatype for it")
        return DATATYPES[dtype]

    def _run_init_ops(self) -> None:
        if not self._init_ops_file:
            return
        places = [self.file.parent / self._init_ops_file, self.file.parent.parent / self._init_ops_file]
        place = next((one for one in places if one.is_file()), places[-1])
        try:
            names = json.loads(place.read_text())["init_ops"]
            for name in names:
                self._session.run(self._session.graph.get_operation_by_name(name))
        except (OSError, ValueError, TypeError, KeyError, self._tensorflow.errors.OpError) as wrong:
            raise Unusable(f"config.pbtxt: parameters.TF_INIT_OPS_FILE: {place}: {wrong}") from wrong

    def compute(self, arrays: Arrays) -> Arrays:
        errors = self._tensorflow.errors
        try:
            made = self._session.run([self._outputs[name] for name in self.output_names], {self._tensors[name]: a for name, a in arrays.items()})
        except (ValueError, errors.InvalidArgumentError) as wrong:
            raise RequestError(f"the model does not take this: {_first_line(wrong)}") from wrong
        except errors.OpError as wrong:
            raise RequestError(f"the model failed: {_first_line(wrong)}", 500) from wrong
        return {name: numpy.asarray(a) for name, a in zip(self.output_names, made)}


def _names(tensors: Any, kind: str) -> Dict[str, str]:
    """Names in the signature -> names in the graph. Raises Unusable."""
    names = {}
    for name in sorted(tensors):
        if tensors[name].WhichOneof("encoding") != "name":
            raise Unusable(f"{kind} '{name}' is not dense: there is no datatype for it")
        names[name] = tensors[name].name
    return names


def _first_line(wrong: Exception) -> str:
    """The rest lists the graph's operations."""
    return str(getattr(wrong, "message", None) or wrong).strip().split("\n")[0]


def make(context: Context) -> Handler:
    file, config = options_of(context, "baton_worker.tensorflow", takes_directory=True)
    try:
        import tensorflow
    except ImportError as wrong:
        raise ValueError(words_for("tensorflow")) from wrong
    return TensorFlowModel(tensorflow, file, config, context)


if __name__ == "__main__":
    start(make, sys.argv[1:])
