"""Resembles the examples that take a video with its script and labels, explain their results and measure their input. It needs no torch."""
from ts.handler_utils.timer import timed
from ts.metrics.metric_type_enum import MetricTypes
from ts.torch_handler.base_handler import BaseHandler
from ts.utils.util import map_class_to_label


class Seen(BaseHandler):
    def initialize(self, context):
        self.context = context
        self.initialized = True

    @timed
    def preprocess(self, data):
        size = self.context.metrics.get_metric(metric_name="RequestBatchSize", metric_type=MetricTypes.GAUGE)
        size.add_or_update(value=len(data), dimension_values=[self.context.model_name])
        self.context.metrics.get_metric("InferenceRequestCount").add_or_update(value=1, dimension_values=[])
        return [{name: len(value) for name, value in row.items()} for row in data]

    @timed
    def inference(self, data):
        return [list(row.values()) for row in data], [list(row) for row in data]

    def postprocess(self, data):
        return map_class_to_label(data[0], None, data[1])

    def get_insights(self, made, answer, target):
        return [{"importances": made, "words": bytes(answer).decode().split()}]
