# As in Triton's bls examples: a model that calls others, and does what its input DO says.
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [getattr(self, pb_utils.get_input_tensor_by_name(r, "DO").as_numpy()[0].decode())(r) for r in requests]

    def call(self, request, model_name, names, inputs, **said):
        return pb_utils.InferenceRequest(
            model_name=model_name, requested_output_names=names, inputs=inputs, request_id=request.request_id(), correlation_id=request.correlation_id(),
            preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0), trace=request.trace(), **said
        )

    def double(self, request):
        inputs = [pb_utils.get_input_tensor_by_name(request, "IN")]
        response = self.call(request, "tensors", ["OUT", "SAID"], inputs, timeout=1500, parameters={"colour": "red"}).exec()
        if response.has_error():
            raise pb_utils.TritonModelException(response.error().message())
        return pb_utils.InferenceResponse(output_tensors=response.output_tensors())

    def count(self, request):
        """All that a decoupled model says, together."""
        responses = self.call(request, "square", ["OUT"], [pb_utils.get_input_tensor_by_name(request, "IN")]).exec(decoupled=True)
        told = []
        for response in responses:
            if response.has_error():
                raise pb_utils.TritonModelException(response.error().message())
            if len(response.output_tensors()) > 0:  # the last may be empty
                told.append(pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy())
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.concatenate(told or [np.zeros(0, np.int32)]))])

    def leave(self, request):
        """One response of an endless model."""
        asked = pb_utils.Tensor("DO", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())
        responses = self.call(request, "tensors", [], [asked]).exec(decoupled=True)
        first = next(responses)
        responses.cancel()
        return pb_utils.InferenceResponse(first.output_tensors())

    def fail(self, request):
        """What the other model says is wrong, as a tensor."""
        name, *words = [word.decode() for word in pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()]
        response = self.call(request, name, [], [pb_utils.Tensor("DO", np.array(words, np.object_))]).exec()
        text = f"{response.has_error()} {response.error().code() == pb_utils.TritonError.NOT_FOUND} {response.error().message()}"
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([text.encode()], np.object_))])

    def generate(self, request):
        """Of a language model, in the words of Triton's vLLM backend."""
        inputs = [t for t in request.inputs() if t.name() != "DO"]
        responses = self.call(request, "smollm2", ["text_output"], inputs).exec(decoupled=True)
        told = []
        for response in responses:
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
            told.append(pb_utils.get_output_tensor_by_name(response, "text_output").as_numpy()[0])
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array(told, np.object_))])
