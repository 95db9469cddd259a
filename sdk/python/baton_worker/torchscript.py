"""Serves a PyTorch model as Triton's PyTorch backend does: TorchScript (.pt), or a package of AOTInductor (.pt2). It needs numpy and
torch.

Inputs of TorchScript have the names of the arguments of `forward`. Otherwise, and for packages, NAME__INDEX gives the position (INPUT__0),
or the order in config.pbtxt does. Outputs are NAME__INDEX, or in the order of config.pbtxt; without one OUTPUT__0 and so on.

    python3 -m baton_worker.torchscript REPOSITORY/MODEL/1/model.pt [--config CONFIG.pbtxt]
"""

from __future__ import annotations

import logging
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from .needs import need, words_for

need("numpy")
import numpy  # noqa: E402

from .handler import Context, Handler, RequestError, Unusable
from .start import start
from .tensor_model import Arrays, Parameters, TensorModel, gpu_of, options_of

_log = logging.getLogger("baton_worker")

DATATYPES = {"BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"}
PLACES_MAX = 256  # tensors_max of schema/limits.hpp


def place_of(name: str) -> Optional[int]:
    """The index in NAME__INDEX."""
    _, mark, index = name.rpartition("__")
    return int(index) if mark and index.isdecimal() and int(index) < PLACES_MAX else None


def places(names: Sequence[str]) -> Dict[str, int]:
    """Positions from the names, or from their order. Raises Unusable if they leave a gap."""
    parameters = [place_of(name) for name in names]
    if any(place is None for place in parameters):
        return {name: at for at, name in enumerate(names)}
    if sorted(parameters) != list(range(len(names))):  # type: ignore[type-var]
        raise Unusable(f"config.pbtxt: {', '.join(names)}: the places are not 0 to {len(names) - 1}")
    return dict(zip(names, parameters))  # type: ignore[arg-type]


def _threads(parameters: Parameters, *names: str) -> int:
    """0: left to torch, as Triton does with a number that is not positive."""
    numbers = [parameters.integer(name, -1) for name in names]
    return next((number for number in numbers if number and number > 0), 0)


class Settings:
    """Process-wide torch settings from `parameters`; the rest is logged by name."""

    def __init__(self, torch: Any, config: Dict[str, Any], is_package: bool):
        parameters = Parameters(config)
        within, between = _threads(parameters, "INTRA_OP_THREAD_COUNT", "NUM_THREADS"), _threads(parameters, "INTER_OP_THREAD_COUNT", "NUM_INTEROP_THREADS")
        if within:
            torch.set_num_threads(within)
        if between:
            torch.set_num_interop_threads(between)
        if parameters.flag("DISABLE_CUDNN"):
            torch.backends.cudnn.enabled = False
        cleans, cleans_too = parameters.flag("ENABLE_CACHE_CLEANING"), parameters.flag("CACHE_CLEANING_ENABLED")  # the second applies to packages
        self.cleans_cache = bool(cleans or cleans_too)
        self.without_gradients = torch.inference_mode if parameters.flag("INFERENCE_MODE") is not False else torch.no_grad
        is_optimized = True
        if not is_package:
            is_optimized = not parameters.flag("DISABLE_OPTIMIZED_EXECUTION")
            for name, switch in (("ENABLE_JIT_EXECUTOR", "_jit_set_profiling_executor"), ("ENABLE_JIT_PROFILING", "_jit_set_profiling_mode"),
                                 ("ENABLE_TENSOR_FUSER", "_jit_set_texpr_fuser_enabled")):
                flag = parameters.flag(name)
                if flag is not None:
                    getattr(torch._C, switch)(flag)
        self.execution = nullcontext if is_optimized else lambda: torch.jit.optimized_execution(False)
        if parameters.flag("ENABLE_WEIGHT_SHARING"):
            _log.warning("config.pbtxt: parameters.ENABLE_WEIGHT_SHARING changes nothing: instances are processes here, each with weights of its own")
        parameters.finish()


class TorchModel(TensorModel):
    def __init__(self, torch: Any, file: Path, config: Optional[Dict[str, Any]], context: Context):
        super().__init__(file, config)
        self._torch = torch
        self._is_package = file.suffix == ".pt2"
        if self._is_package and not _reads_packages():
            raise ValueError(f"torch {torch.__version__} reads no packages of AOTInductor: pip install 'torch>=2.6'")
        if self._is_package and not self.config.get("input"):
            raise ValueError("a package of AOTInductor does not say what it takes: config.pbtxt with its inputs is needed")
        self._settings = Settings(torch, self.config, self._is_package)
        gpu = gpu_of(self.config, context)
        if context.gpu_id is not None and not torch.cuda.is_available():
            _log.warning("torch finds no GPU: the model is computed on the CPU, not on GPU %s", context.gpu_id)
        self._device = torch.device(f"cuda:{gpu}" if gpu is not None and torch.cuda.is_available() else "cpu")

    def load(self) -> None:
        declared = self.config.get("input", [])
        names = [one.get("name", "") for one in declared]
        arguments: List[Any] = []
        if self._device.type == "cuda":
            self._torch.cuda.set_device(self._device)  # a package has no device of its own
        if self._is_package:
            self._model = self._torch._inductor.aoti_load_package(str(self.file))
        else:
            self._model = self._torch.jit.load(str(self.file), map_location=self._device).eval()
            arguments = list(self._model.forward.schema.arguments)[1:]  # without `self`
        forward = [a.name for a in arguments]
        if not declared:
            names = forward
            self.optional = {a.name for a in arguments if a.has_default_value()}
        self._takes_dict = len(arguments) == 1 and names != forward and str(arguments[0].type).startswith("Dict[str")
        self._is_by_name = not self._takes_dict and bool(forward) and set(names) <= set(forward)
        self._places = {} if self._takes_dict or self._is_by_name else places(names)
        if self._places and arguments and len(names) > len(arguments):
            raise Unusable(f"config.pbtxt: {len(names)} inputs, and the model's `forward` takes {', '.join(forward)}")
        self.input_types = {name: "" for name in names}
        for one in declared:
            self.input_types[one.get("name", "")] = _datatype(one)
        self.output_names = [one.get("name", "") for one in self.config.get("output", [])]
        self._output_places = places(self.output_names)

    def compute(self, arrays: Arrays) -> Arrays:
        torch = self._torch
        given = {name: self._given(name, a) for name, a in arrays.items()}
        with self._settings.without_gradients(), self._settings.execution():
            made = self._run(given)
            outputs = self._outputs(made)
        if self._settings.cleans_cache and self._device.type == "cuda":
            torch.cuda.empty_cache()
        return outputs

    def _run(self, given: Dict[str, Any]) -> Any:
        in_order = sorted(given, key=lambda name: self._places.get(name, 0))
        if self._places and [self._places[name] for name in in_order] != list(range(len(given))):
            raise RequestError("an optional input is left out before one that is there")
        try:
            if self._takes_dict:
                return self._model(given)
            if self._is_by_name:
                return self._model(**given)
            return self._model(*(given[name] for name in in_order))
        except Exception as wrong:  # from the model's code, with its own message
            raise RequestError(f"the model failed: {wrong}", 500) from wrong

    def _given(self, name: str, array: Any) -> Any:
        if array.dtype == object:
            if array.ndim != 1:
                raise RequestError(f"input '{name}': texts are a list, of one dimension")
            try:
                return [element.decode() for element in array]
            except UnicodeDecodeError as wrong:
                raise RequestError(f"input '{name}': a text is not UTF-8") from wrong
        try:
            return self._torch.from_numpy(numpy.array(array)).to(self._device)  # a copy: the input is read-only
        except TypeError as wrong:
            raise RequestError(f"input '{name}': torch has no {array.dtype}") from wrong

    def _outputs(self, made: Any) -> Arrays:
        if isinstance(made, dict):
            named = {str(name): self._numpy(value) for name, value in made.items()}
        else:
            several = isinstance(made, (list, tuple)) and not (made and isinstance(made[0], str))
            values = [self._numpy(value) for value in (made if several else [made])]
            at = self._output_places or {f"OUTPUT__{place}": place for place in range(len(values))}
            named = {name: values[place] for name, place in at.items() if place < len(values)}
        for name in self.output_names:
            if name not in named:
                raise RequestError(f"the model gave no output '{name}'", 500)
        return {name: named[name] for name in self.output_names or named}

    def _numpy(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
            return numpy.array(value, dtype=object)
        if not isinstance(value, self._torch.Tensor):
            raise RequestError(f"the model gave a {type(value).__name__}, which is no tensor", 500)
        try:
            return value.detach().cpu().numpy()
        except TypeError as wrong:  # bfloat16
            raise RequestError(f"the model gave {value.dtype}, which has no datatype here", 500) from wrong


def _reads_packages() -> bool:
    try:
        from torch._inductor import aoti_load_package  # noqa: F401
    except ImportError:
        return False
    return True


def _datatype(declared: Dict[str, Any]) -> str:
    datatype = declared.get("data_type", "").replace("TYPE_", "").replace("STRING", "BYTES")
    if datatype not in DATATYPES:
        raise Unusable(f"config.pbtxt: input '{declared.get('name')}' is '{datatype}', which torch does not take")
    return datatype


def make(context: Context) -> Handler:
    file, config = options_of(context, "baton_worker.torchscript")
    try:
        import torch
    except ImportError as wrong:
        raise ValueError(words_for("torch")) from wrong
    return TorchModel(torch, file, config, context)


if __name__ == "__main__":
    start(make, sys.argv[1:])
