"""An ONNX model as a worker; needs numpy and onnxruntime.

    [[workers]]
    name = "classifier"
    command = ["python3", "-m", "baton_worker", "examples/workers/onnx_model.py", "classifier.onnx"]
    batch_size = 16

    client.infer("classifier", [Tensor.of("x", array)]).outputs[0].numpy()

Requests whose tensors differ in their first dimension alone are computed together, as one batch of the model's.
"""

import numpy
import onnxruntime

from baton_worker import Handler, RequestError, Tensor


class Onnx(Handler):
    def initialize(self, context):
        super().initialize(context)
        self.session = onnxruntime.InferenceSession(context.options[0], providers=onnxruntime.get_available_providers())
        self.names = [i.name for i in self.session.get_inputs()]

    def preprocess(self, requests):
        """Of each request its arrays by name, or why not."""
        return [self.arrays_of(r) for r in requests]

    def arrays_of(self, request):
        try:
            return {name: request.tensor(name).numpy() for name in self.names}
        except (RequestError, ValueError) as wrong:
            return RequestError(str(wrong), 422)

    def inference(self, rows):
        answers = list(rows)  # refusals stay where they are
        groups = {}
        for at, row in enumerate(rows):
            if isinstance(row, dict):
                shape = tuple((a.dtype.str, a.shape[1:], a.ndim > 0) for a in row.values())
                groups.setdefault(shape, []).append(at)
        for members in groups.values():
            for at, answer in zip(members, self.run_together([rows[at] for at in members])):
                answers[at] = answer
        return answers

    def run_together(self, rows):
        sizes = [next(iter(row.values())).shape[:1] for row in rows]
        are_rows = all(a.shape[:1] == size and size for row, size in zip(rows, sizes) for a in row.values())
        if not are_rows or len(rows) == 1:  # nothing to lay one behind the other
            return [self.run_alone(row) for row in rows]
        joined = {name: numpy.concatenate([row[name] for row in rows]) for name in self.names}
        try:
            outputs = self.run(joined)
        except RequestError:
            return [self.run_alone(row) for row in rows]  # the first dimension may be fixed
        ends = numpy.cumsum([size[0] for size in sizes])
        if any(t.shape[:1] != (ends[-1],) for t in outputs.values()):
            return [self.run_alone(row) for row in rows]  # what comes out is not by row
        return [
            [Tensor.of(name, out[end - size[0] : end]) for name, out in outputs.items()] for size, end in zip(sizes, ends)
        ]

    def run_alone(self, row):
        try:
            return [Tensor.of(name, out) for name, out in self.run(row).items()]
        except RequestError as wrong:
            return wrong

    def run(self, row):
        names = [o.name for o in self.session.get_outputs()]
        try:
            return dict(zip(names, self.session.run(names, row)))
        except Exception as wrong:  # onnxruntime has no common base of its errors
            raise RequestError(f"the model does not take this: {wrong}", 422) from wrong
