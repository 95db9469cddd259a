# As in Triton's bls_async and bls_decoupled_async examples.
import asyncio

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        responses = []
        for request in requests:
            in_0 = pb_utils.get_input_tensor_by_name(request, "IN")
            calls = [pb_utils.InferenceRequest(model_name="tensors", requested_output_names=["OUT"], inputs=[pb_utils.Tensor("IN", in_0.as_numpy() + n)]).async_exec() for n in (0, 1)]
            infer_responses = await asyncio.gather(*calls)
            for infer_response in infer_responses:
                if infer_response.has_error():
                    raise pb_utils.TritonModelException(infer_response.error().message())
            outputs = [pb_utils.Tensor(f"OUT{n}", r.output_tensors()[0].as_numpy()) for n, r in enumerate(infer_responses)]
            count = pb_utils.Tensor("IN", in_0.as_numpy()[:1].astype(np.int32))
            decoupled = await pb_utils.InferenceRequest(model_name="square", requested_output_names=["OUT"], inputs=[count]).async_exec(decoupled=True)
            reply = [t.as_numpy()[0] for r in decoupled for t in r.output_tensors()]
            responses.append(pb_utils.InferenceResponse([*outputs, pb_utils.Tensor("TOLD", np.array(reply, np.int32))]))
        return responses
