"""`reshape` of config.pbtxt: a tensor has different shapes for the model and for its clients."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, List, Sequence, Tuple

from baton_client.tensors import Tensor

Shapes = Dict[str, Tuple[List[int], List[int]]]  # tensor name -> (the clients' shape, the model's shape)


class Reshapes:
    """Reshapes the inputs and outputs of one model. The -1 dimensions of the two shapes correspond in order."""

    def __init__(self, config: Dict[str, Any]):
        self._is_batched = config.get("max_batch_size", 0) > 0
        self._inputs, self._outputs = _declared(config.get("input", [])), _declared(config.get("output", []))

    def to_model(self, tensor: Tensor) -> Tensor:
        """Raises ValueError if its shape is not the declared one."""
        declared = self._inputs.get(tensor.name)
        return tensor if declared is None else self._made(tensor, *declared)

    def to_client(self, tensor: Tensor) -> Tensor:
        """Raises ValueError if its shape is not the model's own."""
        declared = self._outputs.get(tensor.name)
        return tensor if declared is None else self._made(tensor, *reversed(declared))

    def _made(self, tensor: Tensor, of: Sequence[int], to: Sequence[int]) -> Tensor:
        rows, rest = (list(tensor.shape[:1]), list(tensor.shape[1:])) if self._is_batched else ([], list(tensor.shape))
        sizes = iter([size for size, wanted in zip(rest, of) if wanted == -1])
        made = [next(sizes, -1) if wanted == -1 else wanted for wanted in to]
        if len(rest) != len(of) or any(wanted not in (-1, size) for size, wanted in zip(rest, of)) or math.prod(made) != math.prod(rest):
            raise ValueError(f"the shape {rest} of '{tensor.name}' is none of {list(of)}, of which config.pbtxt makes {list(to)}")
        return dataclasses.replace(tensor, shape=type(tensor.shape)(rows + made))


def _declared(tensors: Sequence[Dict[str, Any]]) -> Shapes:
    return {str(t.get("name")): (list(t.get("dims", [])), list(t["reshape"].get("shape", []))) for t in tensors if isinstance(t.get("reshape"), dict)}
