# As in Triton's bls examples: a model that calls others; its input DO selects the call.
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [getattr(self, pb_utils.get_input_tensor_by_name(r, "DO").as_numpy()[0].decode())(r) for r in requests]

    def call(self, request, model_name, names, inputs, **answer):
        return pb_utils.InferenceRequest(
            model_name=model_name, requested_output_names=names, inputs=inputs, request_id=request.request_id(), correlation_id=request.correlation_id(),
            preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0), trace=request.trace(), **answer
        )

    def double(self, request):
        inputs = [pb_utils.get_input_tensor_by_name(request, "IN")]
        response = self.call(request, "tensors", ["OUT", "SAID"], inputs, timeout=1500, parameters={"colour": "red"}).exec()
        if response.has_error():
            raise pb_utils.TritonModelException(response.error().message())
        return pb_utils.InferenceResponse(output_tensors=response.output_tensors())

    def count(self, request):
        """Counts all responses of a decoupled model."""
        responses = self.call(request, "square", ["OUT"], [pb_utils.get_input_tensor_by_name(request, "IN")]).exec(decoupled=True)
        reply = []
        for response in responses:
            if response.has_error():
                raise pb_utils.TritonModelException(response.error().message())
            if len(response.output_tensors()) > 0:  # the last one may be empty
                reply.append(pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy())
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.concatenate(reply or [np.zeros(0, np.int32)]))])

    def leave(self, request):
        """Takes one response of an endless model."""
        asked = pb_utils.Tensor("DO", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())
        responses = self.call(request, "tensors", [], [asked]).exec(decoupled=True)
        first = next(responses)
        responses.cancel()
        return pb_utils.InferenceResponse(first.output_tensors())

    def fail(self, request):
        """The other model's error message, as a tensor."""
        name, *words = [word.decode() for word in pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()]
        response = self.call(request, name, [], [pb_utils.Tensor("DO", np.array(words, np.object_))]).exec()
        text = f"{response.has_error()} {response.error().code() == pb_utils.TritonError.NOT_FOUND} {response.error().message()}"
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([text.encode()], np.object_))])

    def generate(self, request):
        """Calls a language model with the tensors of Triton's vLLM backend."""
        inputs = [t for t in request.inputs() if t.name() != "DO"]
        responses = self.call(request, "smollm2", ["text_output"], inputs).exec(decoupled=True)
        reply = []
        for response in responses:
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
            reply.append(pb_utils.get_output_tensor_by_name(response, "text_output").as_numpy()[0])
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(reply, np.object_))])
