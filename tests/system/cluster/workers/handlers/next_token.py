"""Logits of a model of 16 tokens whose likeliest is one more than the last."""
import numpy as np
from baton_worker import Handler, Tensor


class NextToken(Handler):
    def inference(self, requests):
        return [Tensor.of("logits", self.logits(r.tensor("input_ids").numpy())) for r in requests]

    def logits(self, ids):
        out = np.full((len(ids), 16), -8, np.float32)
        out[np.arange(len(ids)), (ids[:, -1] + 1) % 16] = 8
        return out
