"""A rank of a pipeline with a Hugging Face model. Run by torch_large_cases.py; rank 0 prints `generate` through the pipeline, and of the
model alone."""

import json
import os
import sys
import time
import types

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from baton_worker.torchserve_pipeline import get_pipeline_driver, initialize_rpc_workers

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.manual_seed(1)
small = dict(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2)
model = LlamaForCausalLM(LlamaConfig(**small, use_cache=False)).eval()
ids = torch.randint(0, 64, (2, 5), generator=torch.Generator().manual_seed(2))
how = {"max_length": 7, "do_sample": False, "pad_token_id": 0}
alone = model.generate(ids, **how).tolist()
config = {"pippy": {"input_names": ["input_ids"], "model_type": "HF"}, "handler": {"model_path": "."}}
context = types.SimpleNamespace(model_name="small", model_yaml_config=config)
initialize_rpc_workers(rank, size, context)
front = get_pipeline_driver(model, size, context)
if rank > 0:
    time.sleep(300)  # until it is killed
print(json.dumps([front.generate(ids, **how).tolist(), alone]))
sys.stdout.flush()
os._exit(0)
