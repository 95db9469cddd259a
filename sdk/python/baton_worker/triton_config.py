"""The argument of a Triton model's `auto_complete_config`: config.pbtxt, to which it adds missing parts."""

from __future__ import annotations

import copy
from typing import Any, Dict

# Fields that Triton's JSON of a config always has, and that models read without a check.
_ALWAYS: Dict[str, Any] = {"platform": "", "backend": "python", "max_batch_size": 0, "input": [], "output": [], "instance_group": [], "parameters": {}}
_TENSOR_KEYS = {"name", "data_type", "dims", "optional"}


def whole(config: Dict[str, Any]) -> Dict[str, Any]:
    """The config with all defaults."""
    return {**copy.deepcopy(_ALWAYS), **config}


class ModelConfig:
    """Raises ValueError if an addition contradicts config.pbtxt, or is no tensor."""

    def __init__(self, config: Dict[str, Any]):
        self._config = config

    def as_dict(self) -> Dict[str, Any]:
        return self._config

    def add_input(self, tensor: Dict[str, Any]) -> None:
        self._add("input", tensor)

    def add_output(self, tensor: Dict[str, Any]) -> None:
        self._add("output", tensor)

    def set_max_batch_size(self, rows: int) -> None:
        if self._config.get("max_batch_size", 0) > rows:
            raise ValueError(f"config.pbtxt says max_batch_size {self._config['max_batch_size']}, auto_complete_config {rows}")
        self._config["max_batch_size"] = rows

    def set_dynamic_batching(self) -> None:
        for other in ("sequence_batching", "ensemble_scheduling"):
            if other in self._config:
                raise ValueError(f"config.pbtxt says {other}, auto_complete_config dynamic_batching")
        self._config.setdefault("dynamic_batching", {})

    def set_model_transaction_policy(self, policy: Dict[str, Any]) -> None:
        if set(policy) != {"decoupled"}:
            raise ValueError(f"a transaction policy has `decoupled` alone, not {', '.join(policy) or 'nothing'}")
        known = self._config.setdefault("model_transaction_policy", policy)
        if bool(known.get("decoupled")) != bool(policy["decoupled"]):
            raise ValueError("config.pbtxt and auto_complete_config disagree on model_transaction_policy.decoupled")

    def _add(self, kind: str, tensor: Dict[str, Any]) -> None:
        wrong = [key for key in tensor if key not in _TENSOR_KEYS] + [f"no {key}" for key in ("name", "data_type", "dims") if key not in tensor]
        if wrong:
            raise ValueError(f"an {kind} of auto_complete_config has {wrong[0]}")
        for one in self._config.setdefault(kind, []):
            if one.get("name") != tensor["name"]:
                continue
            for key in ("data_type", "dims"):
                if key in one and one[key] != tensor[key]:
                    raise ValueError(f"{kind} '{tensor['name']}': config.pbtxt says {key} {one[key]}, auto_complete_config {tensor[key]}")
                one.setdefault(key, tensor[key])
            return
        self._config[kind].append(dict(tensor))
