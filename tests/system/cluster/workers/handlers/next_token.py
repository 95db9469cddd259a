"""The logits of a model with 16 tokens. The likeliest token is the last one plus 1."""
import numpy as np
from baton_worker import Handler, Tensor


class NextToken(Handler):
    def inference(self, requests):
        return [Tensor.of("logits", self.logits(r.tensor("input_ids").numpy())) for r in requests]

    def logits(self, ids):
        out = np.full((len(ids), 16), -8, np.float32)
        out[np.arange(len(ids)), (ids[:, -1] + 1) % 16] = 8
        return out
