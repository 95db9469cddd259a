"""TorchServe's imports for large models, our versions: bases for pipelines and DeepSpeed, micro-batches, streams of a batch."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from .torchserve_base import BaseHandler, import_torch
from .torchserve_pipeline import device_of_rank, get_pipeline_driver, initialize_rpc_workers

STEPS = ("preprocess", "inference", "postprocess")


class BasePippyHandler(BaseHandler):
    """Counterpart of ts.torch_handler.distributed.base_pippy_handler."""

    def initialize(self, ctx: Any) -> None:
        import_torch()
        self.local_rank, self.world_size = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
        self.device = device_of_rank(self.local_rank)
        initialize_rpc_workers(self.local_rank, self.world_size, ctx)


class BaseDeepSpeedHandler(BaseHandler):
    """Counterpart of ts.torch_handler.distributed.base_deepspeed_handler."""

    def initialize(self, ctx: Any) -> None:
        self.device = int(os.getenv("LOCAL_RANK", "0"))


def create_checkpoints_json(model_path: str, checkpoints_json: str) -> None:
    """Lists the model's files for deepspeed."""
    files = sorted(str(f) for f in Path(model_path).rglob("*") if f.is_file() and f.suffix in (".bin", ".pt"))
    Path(checkpoints_json).write_text(json.dumps({"type": "ds_model", "checkpoints": files, "version": 1.0}), encoding="utf-8")


def get_ds_engine(model: Any, ctx: Any) -> Any:
    """deepspeed.init_inference, with the files that `deepspeed` of model-config.yaml names. Raises ValueError."""
    import deepspeed  # needed only on use

    given = ctx.model_yaml_config.get("deepspeed")
    if given is None:
        raise ValueError(f"{ctx.model_name} has no deepspeed in its model-config.yaml")
    directory, model_path = Path(ctx.system_properties["model_dir"]), ctx.model_yaml_config["handler"]["model_path"]
    config = checkpoint = None
    if "config" in given:
        config = str(directory / given["config"])
        if not os.path.exists(config):
            raise ValueError(f"{ctx.model_name} has no deepspeed config file {config}")
    if "checkpoint" in given:
        checkpoint = str(directory / given["checkpoint"])
        create_checkpoints_json(model_path, checkpoint)
    return deepspeed.init_inference(model, config=config, base_dir=model_path, checkpoint=checkpoint)


class MicroBatching:
    """Counterpart of ts.handler_utils.micro_batching: replaces a handler's `handle` and runs its steps concurrently, each on a part of the batch.
    `parallelism` is the number of parts per step. An exception of a step is raised for the batch."""

    def __init__(self, parent_handler: Any, micro_batch_size: int = 1, parallelism: Optional[Dict[str, int]] = None):
        self.handler = parent_handler
        self.micro_batch_size = micro_batch_size
        self._local = threading.local()
        self._threads: Optional[ThreadPoolExecutor] = None
        self._parallelism = {step: 1 for step in STEPS}
        self.parallelism = parallelism or {}

    @property
    def parallelism(self) -> Dict[str, int]:
        return dict(self._parallelism)

    @parallelism.setter
    def parallelism(self, given: Dict[str, int]) -> None:
        for step, count in given.items():
            if step not in STEPS or not isinstance(count, int) or count < 1:
                raise ValueError(f"micro_batching.parallelism: {step}: {count}; it is a number from 1 on of {', '.join(STEPS)}")
        self.shutdown()
        self._parallelism.update(given)
        self._turns = {step: threading.BoundedSemaphore(count) for step, count in self._parallelism.items()}
        self._threads = ThreadPoolExecutor(sum(self._parallelism.values()), "micro-batch")

    def shutdown(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()

    def get_micro_batch_idx(self) -> Optional[int]:
        return getattr(self._local, "index", None)

    def _run(self, index: int, part: Any) -> Any:
        self._local.index = index
        for step in STEPS:
            with self._turns[step]:
                part = getattr(self.handler, step)(part)
        return part

    def handle(self, data: List[Any]) -> List[Any]:
        assert self._threads is not None
        size = max(1, self.micro_batch_size)
        parts = [data[i : i + size] for i in range(0, len(data), size)]
        begun = [self._threads.submit(self._run, index, part) for index, part in enumerate(parts)]
        return [answer for one in begun for answer in one.result()]

    def __call__(self, data: List[Any], context: Any) -> Any:
        self.handler.context = context
        begun = time.monotonic()
        if os.environ.get("ENABLE_TORCH_PROFILER"):
            output = self.handler._infer_with_profiler(data)[0]
        else:
            output = self.handle(data)
        context.metrics.add_time("HandlerTime", round((time.monotonic() - begun) * 1000, 2), None, "ms")
        return output


class TextIteratorStreamerBatch:
    """Counterpart of ts.handler_utils.hf_batch_streamer: streams `generate` for a batch, as lists with the next text of each row."""

    def __init__(self, tokenizer: Any, batch_size: int, skip_prompt: bool = False, timeout: Optional[float] = None, **decode_kwargs: Any):
        from transformers.generation.streamers import TextIteratorStreamer  # needed only on use

        self.batch_size = batch_size
        self.streamers = [TextIteratorStreamer(tokenizer, skip_prompt, timeout, **decode_kwargs) for _ in range(batch_size)]

    def put(self, value: Any) -> None:
        if value.shape[0] != self.batch_size:
            raise ValueError(f"TextIteratorStreamerBatch has a batch of {self.batch_size} rows, not of {value.shape[0]}")
        for row, streamer in enumerate(self.streamers):
            streamer.put(value[row : row + 1])

    def end(self) -> None:
        for streamer in self.streamers:
            streamer.end()

    def __iter__(self) -> Iterator[List[Dict[str, str]]]:
        return self

    def __next__(self) -> List[Dict[str, str]]:
        """Rows are streamed in step, and end together."""
        return [{"text": next(streamer)} for streamer in self.streamers]


def modules() -> Dict[str, Dict[str, Any]]:
    """The modules by the names that handlers import."""
    return {
        "ts.torch_handler.base_handler": {"BaseHandler": BaseHandler},
        "ts.torch_handler.distributed.base_pippy_handler": {"BasePippyHandler": BasePippyHandler},
        "ts.torch_handler.distributed.base_deepspeed_handler": {"BaseDeepSpeedHandler": BaseDeepSpeedHandler},
        "ts.handler_utils.distributed.pt_pippy": {
            "initialize_rpc_workers": initialize_rpc_workers,
            "get_pipeline_driver": get_pipeline_driver,
            "get_pipline_driver": get_pipeline_driver,  # spelled as in TorchServe's documentation
        },
        "ts.handler_utils.distributed.deepspeed": {
            "get_ds_engine": get_ds_engine,
            "create_checkpoints_json": create_checkpoints_json,
        },
        "ts.handler_utils.micro_batching": {"MicroBatching": MicroBatching},
        "ts.handler_utils.hf_batch_streamer": {"TextIteratorStreamerBatch": TextIteratorStreamerBatch},
    }
