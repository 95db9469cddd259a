# Written as for Triton's Python backend.
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.served = pb_utils.MetricFamily(name="elements_served", description="Elements, by sign.", kind=pb_utils.MetricFamily.COUNTER)
        self.largest = pb_utils.MetricFamily(name="largest_element", description="Of the last request.", kind=pb_utils.MetricFamily.GAUGE).Metric(labels={})
        spread = pb_utils.MetricFamily(name="absolute_sum", description="Of requests.", kind=pb_utils.MetricFamily.HISTOGRAM)
        self.spread = spread.Metric(labels={"model": args["model_name"]}, buckets=[1, 4])
        self.by_sign = {sign: self.served.Metric(labels={"sign": sign, "model": args["model_name"]}) for sign in ("plus", "minus")}

    def execute(self, requests):
        responses = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            if x.size == 0:
                self.by_sign["plus"].increment(-1)
            self.by_sign["plus"].increment(int((x >= 0).sum()))
            self.by_sign["minus"].increment(int((x < 0).sum()))
            self.largest.set(float(x.max()))
            self.spread.observe(float(np.abs(x).sum()))
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([x.sum()], "float32"))]))
        return responses
