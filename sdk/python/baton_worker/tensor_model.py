"""A model with named input and output tensors, on any platform. Compatible rows of several requests are computed together.

With config.pbtxt, max_batch_size defines whether the first dimension is the batch, and how many rows the model accepts. Without one, the
model itself defines whether rows can be joined.
"""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Any, Collection, Dict, List, Optional, Sequence, Set, Tuple, Union

import numpy

from baton_client.tensors import Tensor

from . import pbtxt
from .handler import Context, Handler, Request, RequestError, Unusable

_log = logging.getLogger("baton_worker")

Arrays = Dict[str, Any]  # numpy arrays by name


class TensorModel(Handler):
    """A platform sets the first three in `load`, and implements `compute`."""

    input_types: Dict[str, str]  # name -> datatype; "": any
    optional: Set[str]  # optional inputs
    output_names: List[str]  # none: known after the first outputs
    can_join = False  # without a config: rows of requests may be joined

    def __init__(self, file: Path, config: Optional[Dict[str, Any]]):
        self.file, self.config = file, config or {}
        self.has_config = config is not None
        self.rows_max = int(self.config.get("max_batch_size", 0))  # 0: there is no batch dimension
        for kind in ("input", "output"):
            for one in self.config.get(kind, []):
                if one.get("reshape") is not None:
                    raise ValueError(f"config.pbtxt: {kind} '{one.get('name')}': reshape is not known here")

    def load(self) -> None:
        raise NotImplementedError

    def compute(self, arrays: Arrays) -> Arrays:
        """All outputs. Raises RequestError for inputs that the model rejects."""
        raise NotImplementedError

    def initialize(self, context: Context) -> None:
        super().initialize(context)
        self.optional = {i.get("name", "") for i in self.config.get("input", []) if i.get("optional")}
        self.load()

    def handle(self, requests: List[Request]) -> List[Any]:
        asked: List[Union[Arrays, RequestError]] = [self._read(request) for request in requests]
        answers: List[Any] = list(asked)  # keeps rejections in their positions
        for members in self._groups(asked):
            for at, made in zip(members, self._answer([asked[at] for at in members])):
                answers[at] = made
        return [self._answer_of(request, made) for request, made in zip(requests, answers)]

    # -- One request --

    def _read(self, request: Request) -> Union[Arrays, RequestError]:
        try:
            arrays = {tensor.name: self._array(tensor) for tensor in request.inputs}
            if len(arrays) < len(request.inputs):
                raise RequestError("an input is there twice")
            missing = [name for name in self.input_types if name not in arrays and name not in self.optional]
            if missing:
                raise RequestError(f"there is no input named '{missing[0]}'")
            if self.output_names:
                check_outputs(request.outputs, self.output_names)
            if self.rows_max:
                self._check_rows(arrays)
            return arrays
        except (RequestError, ValueError) as wrong:  # bytes that do not match their shape
            return wrong if isinstance(wrong, RequestError) else RequestError(str(wrong))

    def _array(self, tensor: Tensor) -> Any:
        if tensor.name not in self.input_types:
            raise RequestError(f"the model has no input '{tensor.name}', but {', '.join(self.input_types)}")
        wanted = self.input_types[tensor.name]
        if wanted and tensor.datatype != wanted:
            raise RequestError(f"input '{tensor.name}' is {tensor.datatype}, the model takes {wanted}")
        return tensor.numpy()

    def _check_rows(self, arrays: Arrays) -> None:
        rows = {a.shape[:1] for a in arrays.values()}
        if len(rows) != 1 or () in rows:
            raise RequestError("the first dimension is that of the batch, and all inputs have the same")
        (count,) = rows.pop()
        if not 0 < count <= self.rows_max:
            raise RequestError(f"a batch of {count}; the model takes 1 to {self.rows_max} (max_batch_size)")

    def _answer_of(self, request: Request, made: Any) -> Any:
        if isinstance(made, RequestError):
            return made
        try:
            check_outputs(request.outputs, made)
            return [Tensor.of(name, made[name]) for name in request.outputs or made]
        except RequestError as wrong:
            return wrong
        except ValueError as wrong:  # no datatype for this array
            return RequestError(str(wrong), 500)

    # -- Several --

    def _groups(self, asked: Sequence[Any]) -> List[List[int]]:
        """Requests computed together: equal except for their first dimension, and no more rows than the model accepts."""
        alike: Dict[Tuple, List[int]] = {}
        for at, arrays in enumerate(asked):
            if isinstance(arrays, RequestError):
                continue
            key: Tuple = (at,)
            if self._can_join(arrays):
                key = tuple((name, a.dtype.str, a.shape[1:]) for name, a in sorted(arrays.items()))
            alike.setdefault(key, []).append(at)
        groups: List[List[int]] = []
        for members in alike.values():
            groups.append([])
            rows = 0
            for at in members:
                count = _rows_of(asked[at])
                if groups[-1] and self.rows_max and rows + count > self.rows_max:
                    groups.append([])
                    rows = 0
                groups[-1].append(at)
                rows += count
        return groups

    def _can_join(self, arrays: Arrays) -> bool:
        if self.has_config:
            return self.rows_max > 0
        return self.can_join and len({a.shape[:1] for a in arrays.values()}) == 1 and _rows_of(arrays) > 0

    def _answer(self, rows: List[Arrays]) -> List[Any]:
        if len(rows) == 1:
            return [self._alone(rows[0])]
        try:
            made = self.compute({name: numpy.concatenate([row[name] for row in rows]) for name in rows[0]})
        except RequestError:
            return [self._alone(row) for row in rows]  # one of them fails, or only together
        ends = numpy.cumsum([_rows_of(row) for row in rows])
        if any(numpy.shape(a)[:1] != (ends[-1],) for a in made.values()):
            return [self._alone(row) for row in rows]  # outputs are not by row
        begins = [0, *ends[:-1]]
        return [{name: a[begin:end] for name, a in made.items()} for begin, end in zip(begins, ends)]

    def _alone(self, arrays: Arrays) -> Any:
        try:
            return self.compute(arrays)
        except RequestError as wrong:
            return wrong


def check_outputs(wanted: Sequence[str], there: Collection[str]) -> None:
    for name in wanted:
        if name not in there:
            raise RequestError(f"the model has no output '{name}', but {', '.join(there)}")


def _rows_of(arrays: Arrays) -> int:
    for a in arrays.values():
        return a.shape[0] if a.ndim else 0
    return 0


# -- Settings of config.pbtxt for a platform --


def options_of(context: Context, program: str, takes_directory: bool = False) -> Tuple[Path, Optional[Dict[str, Any]]]:
    """The model's file and its config.pbtxt, from the command line MODEL [--config FILE] [--max-batch-size ROWS]. Raises ValueError.

    ROWS is given where config.pbtxt has none; the import derives it from the model's file."""
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("model")
    parser.add_argument("--config", default=None)
    parser.add_argument("--max-batch-size", type=int, default=0)
    try:
        options = parser.parse_args(list(context.options))
    except SystemExit as wrong:
        raise ValueError(f"the options of {program}") from wrong
    file = Path(os.path.abspath(options.model))  # not resolved: config.pbtxt lies beside a link, not beside its target
    if not file.is_file() and not (takes_directory and file.is_dir()):
        raise ValueError(f"{file} is no file" + (", and no directory" if takes_directory else ""))
    config = pbtxt.beside(file, options.config)
    if options.max_batch_size:
        config = {**(config or {}), "max_batch_size": options.max_batch_size}
    return file, config


class Parameters:
    """`parameters` of config.pbtxt, each read once. Unread ones are logged by name; they have no effect in Triton either."""

    def __init__(self, config: Dict[str, Any]):
        self._left: Dict[str, str] = {}
        for key, value in config.get("parameters", {}).items():
            if not isinstance(value, (dict, type(None))):
                raise ValueError(f"config.pbtxt: parameters.{key} is no {{ string_value: ... }}")
            self._left[key] = (value or {}).get("string_value", "")

    def integer(self, name: str, least: int = 0, most: int = 1 << 16) -> Optional[int]:
        text = self._left.pop(name, None)
        if text is None:
            return None
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ValueError(f"config.pbtxt: parameters.{name} is '{text}', not a number from {least} to {most}")
        return number

    def flag(self, name: str) -> Optional[bool]:
        text = self._left.pop(name, None)
        if text is None:
            return None
        if text.lower() not in ("true", "false", "1", "0"):
            raise ValueError(f"config.pbtxt: parameters.{name} is '{text}', not true or false")
        return text.lower() in ("true", "1")

    def finish(self) -> None:
        for name in self._left:
            _log.warning("config.pbtxt: parameters.%s is not known here and changes nothing", name)

    def text(self, name: str) -> Optional[str]:
        return self._left.pop(name, None)


def gpu_of(config: Dict[str, Any], context: Context) -> Optional[int]:
    """The GPU that the model computes on; None: the CPU."""
    kinds = {group.get("kind") for group in config.get("instance_group", [])}
    if kinds == {"KIND_CPU"}:
        return None
    return 0 if kinds == {"KIND_MODEL"} else context.gpu_id  # KIND_MODEL: any device


def check_declared(config: Dict[str, Any], kind: str, has: Dict[str, str]) -> None:
    """Checks that the model has what config.pbtxt declares. Raises Unusable."""
    for one in config.get(kind, []):
        name, datatype = one.get("name", ""), one.get("data_type", "")
        if name not in has:
            raise Unusable(f"config.pbtxt: {kind} '{name}': the model has {', '.join(has) or 'none'}")
        declared = datatype.replace("TYPE_", "").replace("STRING", "BYTES")
        if declared and has[name] and declared != has[name]:
            raise Unusable(f"config.pbtxt: {kind} '{name}' is {datatype}, the model's is {has[name]}")
