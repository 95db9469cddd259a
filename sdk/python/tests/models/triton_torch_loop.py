# A typical loop for Triton's Python backend: gets logits token by token with `exec`, then DLPack into torch, top-p, a draw.
import json

import numpy as np
import torch
import triton_python_backend_utils as pb_utils
from torch.utils.dlpack import from_dlpack, to_dlpack


class TritonPythonModel:
    def initialize(self, args):
        self.rows = json.loads(args["model_config"])["max_batch_size"]
        self.generator = torch.Generator().manual_seed(7)

    def execute(self, requests):
        responses = []
        for request in requests:
            input_ids = from_dlpack(pb_utils.get_input_tensor_by_name(request, "input_ids").to_dlpack())
            top_p = float(pb_utils.get_input_tensor_by_name(request, "top_p").as_numpy()[0])
            model_name = pb_utils.get_input_tensor_by_name(request, "model_name").as_numpy()[0]
            for _ in range(4):
                asked = pb_utils.InferenceRequest(
                    model_name=model_name,
                    requested_output_names=["logits"],
                    inputs=[pb_utils.Tensor.from_dlpack("input_ids", to_dlpack(input_ids))],
                    preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_GPU, 0),
                )
                answer = asked.exec()
                if answer.has_error():
                    raise pb_utils.TritonModelException(answer.error().message())
                output = pb_utils.get_output_tensor_by_name(answer, "logits")
                logits = from_dlpack(output.to_dlpack()).cpu()
                probabilities = torch.softmax(logits.float(), dim=-1)
                ordered, places = torch.sort(probabilities, descending=True, dim=-1)
                ordered[torch.cumsum(ordered, dim=-1) - ordered > top_p] = 0.0
                drawn = torch.multinomial(ordered / ordered.sum(dim=-1, keepdim=True), 1, generator=self.generator)
                input_ids = torch.cat([input_ids, torch.gather(places, -1, drawn).to(input_ids.dtype)], dim=-1)
            reply = pb_utils.Tensor.from_dlpack("output_ids", input_ids.contiguous())
            score = pb_utils.Tensor("score", np.array([self.rows], np.int32))
            responses.append(pb_utils.InferenceResponse([reply, score], parameters={"steps": 4}))
        return responses
