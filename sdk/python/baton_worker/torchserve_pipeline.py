"""TorchServe's imports from PiPPy for handlers, on torch.distributed.pipelining (PyTorch 2.4 or later).

Every rank builds the whole model and keeps one stage of it: consecutive blocks, cut so that the parameters are even. Rank 0 calls the
driver of `get_pipeline_driver`; the other ranks run their stages in a thread, as with torch's RPC. A pipeline is traced for the shapes of
its inputs, and the most recent ones are cached.
"""

from __future__ import annotations

import copy
import datetime
import inspect
import json
import logging
import math
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Dict, List

log = logging.getLogger("baton_worker")

PIPELINES_MAX = 16  # cached pipelines, by the shapes of their inputs
RPC_TIMEOUT = 60.0  # seconds, as in torch.distributed.rpc
FOREVER = datetime.timedelta(days=3650)  # a rank waits for the next request


def initialize_rpc_workers(local_rank: int, world_size: int, ctx: Any) -> None:
    """The ranks form a process group: nccl if each has a GPU, else gloo. `num_worker_threads` has no counterpart."""
    import torch
    import torch.distributed as dist

    if dist.is_initialized():
        return
    seconds = ctx.model_yaml_config.get("pippy", {}).get("rpc_timeout", RPC_TIMEOUT)
    with_gpus = torch.cuda.is_available() and torch.cuda.device_count() >= world_size
    if with_gpus:
        torch.cuda.set_device(local_rank)
    log.info("rank %d of %d in pid %d meets the others by %s", local_rank, world_size, os.getpid(), "nccl" if with_gpus else "gloo")
    dist.init_process_group("nccl" if with_gpus else "gloo", timeout=datetime.timedelta(seconds=seconds))


def device_of_rank(local_rank: int) -> Any:
    """The GPU's number as in TorchServe's handlers, if there are GPUs; else the CPU, which they do not support."""
    import torch

    count = torch.cuda.device_count()
    return local_rank % count if count else "cpu"


def split_points(model: Any, stages: int) -> List[str]:
    """The names of the first modules of all stages but the first. Raises ValueError if the model has no such blocks."""
    from torch import nn

    def size(module: Any) -> int:
        return sum(p.numel() for p in module.parameters())

    lists = [(n, m) for n, m in model.named_modules() if isinstance(m, (nn.ModuleList, nn.Sequential)) and len(list(m.children())) >= stages]
    name, blocks = max(lists, key=lambda one: size(one[1]), default=("", model))
    children = [(f"{name}.{n}" if name else n, max(1, size(m))) for n, m in blocks.named_children()]
    if len(children) < stages:
        raise ValueError(f"the model has no {stages} blocks one behind the other: it cannot be cut into {stages} stages")
    whole, done, points = sum(s for _, s in children), 0, []
    for i, (path, own) in enumerate(children):
        left, wanted = len(children) - i, stages - 1 - len(points)
        is_due = done >= whole * (len(points) + 1) / stages or left == wanted
        if i and wanted and is_due:
            points.append(path)
        done += own
    return points


CONSTANT = "lifted_tensor_"  # torch.export's name of a tensor that a model creates in its forward pass


def load_stage(stage: Any, index_file: Path) -> None:
    """Loads the weights of a stage whose model was built on the meta device, from the files that the index names."""
    import torch

    files = json.loads(index_file.read_text(encoding="utf-8"))["weight_map"]
    state = stage.state_dict()
    plain = {name: name.removeprefix("inner.") for name, value in state.items() if value.is_meta}  # first_output_of
    wanted = set(plain.values())
    loaded: Dict[str, Any] = {}
    for file in sorted({files[name] for name in wanted if name in files}):
        path = index_file.parent / file
        if path.suffix == ".safetensors":
            from safetensors import safe_open

            with safe_open(path, "pt") as opened:
                loaded.update({n: opened.get_tensor(n) for n in opened.keys() if n in wanted})
        else:
            part = torch.load(path, map_location="cpu", weights_only=True)
            loaded.update({n: value for n, value in part.items() if n in wanted})
    missing = sorted(wanted - set(loaded))
    constants = [name for name in missing if name.rpartition(".")[2].startswith(CONSTANT)]
    if constants:
        raise ValueError(
            f"{constants[0]} is a constant that the model makes where its weights are, and has no value on the meta device: make the model on the CPU, and leave handler.index_filename out"
        )
    if missing:
        raise ValueError(f"{index_file} names no file for {missing[0]}")
    stage.load_state_dict({name: loaded[own].to(state[name].dtype) for name, own in plain.items()}, strict=False, assign=True)
    left = [name for name, value in [*stage.named_parameters(), *stage.named_buffers()] if value.is_meta]
    if left:
        raise ValueError(f"{left[0]} is in no file: a model that computes it has to be made on the CPU, not on the meta device")


class PipelineDriver:
    """Called like the model. Exists on every rank; rank 0 calls `run`, the others `follow`."""

    def __init__(self, model: Any, stages: int, chunks: int, index_file: Any, device: Any):
        import torch
        import torch.distributed as dist

        self._model, self._stages, self._chunks, self._index_file = model, stages, chunks, index_file
        self._device = torch.device(device)
        self._rank = dist.get_rank()
        self._group = dist.new_group(backend="gloo", timeout=FOREVER)
        self._points = split_points(model, stages)
        self._made: "OrderedDict[Any, Any]" = OrderedDict()  # schedules
        self._lock = threading.Lock()
        if self._rank > 0:
            threading.Thread(target=self._follow, name="baton-stage", daemon=True).start()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch.distributed as dist

        if self._rank > 0:
            raise RuntimeError("a pipeline's driver is called on rank 0")
        with self._lock:  # one request at a time
            asked = [(self._shapes(args), {k: self._shapes([v])[0] for k, v in kwargs.items()})]
            dist.broadcast_object_list(asked, src=0, group=self._group)
            result = self._step(*asked[0], args, kwargs)
            if self._stages > 1:
                sent: List[Any] = [None]
                dist.recv_object_list(sent, src=self._stages - 1, group=self._group)
                result = sent[0]
        if isinstance(result, str):
            raise RuntimeError(f"the last stage: {result}")
        import torch.utils._pytree as pytree

        return pytree.tree_map(lambda v: v.to(self._device) if hasattr(v, "to") else v, result)

    @staticmethod
    def _shapes(values: Any) -> List[Any]:
        """The data that every rank needs to trace the model: shape and type of tensors, anything else unchanged."""
        import torch

        return [(tuple(v.shape), v.dtype) if isinstance(v, torch.Tensor) else [v] for v in values]

    def _follow(self) -> None:
        import torch
        import torch.distributed as dist

        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
        try:
            while True:
                asked: List[Any] = [None]
                dist.broadcast_object_list(asked, src=0, group=self._group)
                result = self._step(*asked[0], None, None)
                if self._rank == self._stages - 1:
                    import torch.utils._pytree as pytree

                    sent = pytree.tree_map(lambda v: v.cpu() if hasattr(v, "cpu") else v, result)
                    dist.send_object_list([sent], dst=0, group=self._group)
        except Exception:
            log.exception("a stage has failed")
            os._exit(1)  # ends the group too: the neighbours would wait in vain

    def _step(self, shapes: List[Any], named: Dict[str, Any], args: Any, kwargs: Any) -> Any:
        import torch

        with torch.no_grad():
            schedule = self._schedule(shapes, named)
            if self._rank == 0:
                on = [v.to(self._device) if isinstance(v, torch.Tensor) else v for v in args]
                return schedule.step(*on, **{k: v.to(self._device) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()})
            return schedule.step()

    def _schedule(self, shapes: List[Any], named: Dict[str, Any]) -> Any:
        key = repr((shapes, sorted(named.items())))
        if key in self._made:
            self._made.move_to_end(key)
        else:
            self._made[key] = self._trace(shapes, named)
            while len(self._made) > PIPELINES_MAX:
                self._made.popitem(last=False)
        return self._made[key]

    def _trace(self, shapes: List[Any], named: Dict[str, Any]) -> Any:
        import torch
        from torch.distributed.pipelining import ScheduleGPipe, SplitPoint, pipeline

        tensors = [s for s in [*shapes, *named.values()] if isinstance(s, tuple)]
        chunks = math.gcd(self._chunks, *(s[0][0] if s[0] else 1 for s in tensors))
        home = next((p.device for p in self._model.parameters()), torch.device("cpu"))

        def example(of: Any) -> Any:
            if not isinstance(of, tuple):
                return of[0]
            shape, dtype = of
            return torch.zeros((shape[0] // chunks, *shape[1:]), dtype=dtype, device=home)

        try:
            pipe = pipeline(
                self._model,
                mb_args=tuple(map(example, shapes)),
                mb_kwargs={k: example(v) for k, v in named.items()},
                split_spec={name: SplitPoint.BEGINNING for name in self._points},
            )
        finally:  # splitting marks the model's modules, and the next trace would find the marks
            for name in self._points:
                for mark in ("forward", "_orig_forward"):
                    vars(self._model.get_submodule(name)).pop(mark, None)
        module = pipe.get_stage_module(self._rank)
        if any(p.is_meta for p in module.parameters()):
            if self._index_file is None:
                raise ValueError("the model is on the meta device, and handler.index_filename does not say where its weights are")
            load_stage(module, self._index_file)
        module.to(self._device)
        # A stage fixes its outputs once, so it keeps its schedule.
        return ScheduleGPipe(pipe.build_stage(self._rank, self._device), n_microbatches=chunks)


def get_pipeline_driver(model: Any, world_size: int, ctx: Any) -> Any:
    """As in TorchServe: model-config.yaml needs `pippy.input_names`, `model_type` and `handler.model_path`; `pippy.chunks` and
    `handler.index_filename` are optional. For model_type HF it returns the model itself, whose `forward` is the pipeline."""
    pippy, options = (ctx.model_yaml_config.get(key) for key in ("pippy", "handler"))
    for section, values, keys in (("pippy", pippy, ("input_names", "model_type")), ("handler", options, ("model_path",))):
        for key in keys:
            if not values or key not in values:
                raise ValueError(f"model-config.yaml has no {section}.{key}")
    index_file = None
    if name := options.get("index_filename"):
        index_file = Path(options["model_path"]) / name
        if not index_file.is_file():
            raise ValueError(f"handler.index_filename: {index_file} is no file")
    model.eval()
    names = list(pippy["input_names"])
    unknown = [n for n in names if n not in inspect.signature(model.forward).parameters]
    if unknown:
        raise ValueError(f"pippy.input_names: the model's forward has no {unknown[0]}")
    chunks, device = int(pippy.get("chunks", 1)), device_of_rank(int(os.environ["LOCAL_RANK"]))
    if pippy["model_type"] != "HF":
        return PipelineDriver(model, world_size, chunks, index_file, device)
    return front_of(model, PipelineDriver(first_output_of(model, names), world_size, chunks, index_file, device), names)


def first_output_of(model: Any, names: List[str]) -> Any:
    """The first output of a Hugging Face model: its logits, or hidden states, without a cache."""
    from torch import nn

    fixed = {"return_dict": False}
    if "use_cache" in inspect.signature(model.forward).parameters:
        fixed["use_cache"] = False

    class FirstOutput(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, *inputs: Any) -> Any:
            return self.inner(**dict(zip(names, inputs)), **fixed)[0]

    return FirstOutput()


def front_of(model: Any, driver: PipelineDriver, names: List[str]) -> Any:
    """The model for rank 0's handler: `generate` and other callers of `forward` use the pipeline."""
    front = copy.copy(model)

    def forward(*args: Any, **kwargs: Any) -> Any:
        from transformers.modeling_outputs import CausalLMOutputWithPast

        given = {**dict(zip(names, args)), **kwargs}
        inputs = [given[n] for n in names if given.get(n) is not None]
        return CausalLMOutputWithPast(logits=driver(*inputs))

    forward.__signature__ = inspect.signature(model.forward)  # type: ignore[attr-defined]
    front.forward = forward
    for config in (getattr(front, "config", None), getattr(front, "generation_config", None)):
        if config is not None:
            config.use_cache = False  # each step computes the whole text
    return front
