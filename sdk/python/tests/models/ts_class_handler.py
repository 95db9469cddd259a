# Written as for TorchServe, without any reference to Baton.
import json
import logging
import os

from ts.handler_utils.utils import send_intermediate_predict_response
from ts.torch_handler.base_handler import BaseHandler
from ts.utils.util import PredictionException

logger = logging.getLogger(__name__)


class WordCounter(BaseHandler):
    def __init__(self):
        super().__init__()
        self.initialized = False

    def initialize(self, context):
        self.manifest = context.manifest
        properties = context.system_properties
        assert properties.get("gpu_id") is None and os.path.isdir(properties.get("model_dir"))
        self.name = self.manifest["model"]["modelName"]
        self.initialized = True

    def preprocess(self, data):
        rows = []
        for row in data:
            value = row.get("data") or row.get("body")
            if isinstance(value, (bytes, bytearray)):
                value = value.decode("utf-8")
            rows.append(value["text"] if isinstance(value, dict) else value)
        return rows

    def inference(self, data):
        if any("refuse" in text for text in data):
            raise PredictionException("I will not count this", 513)
        if any("stream" in text for text in data):
            for i in range(2):
                send_intermediate_predict_response(
                    [f"{i} "] * len(data), self.context.request_ids, "Intermediate Prediction success", 200, self.context
                )
        return [len(text.split()) for text in data]

    def postprocess(self, counts):
        self.context.metrics.add_counter("Words", sum(counts), None)
        for i, count in enumerate(counts):
            self.context.set_response_header(i, "X-Words", str(count))
        return [{"model": self.name, "words": count, "accept": self.context.get_request_header(i, "Accept")} for i, count in enumerate(counts)]
