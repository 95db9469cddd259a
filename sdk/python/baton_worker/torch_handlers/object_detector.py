"""The detected boxes of each image, with class and score."""

from __future__ import annotations

from typing import Any

from torchvision import transforms

from baton_worker.torch_handlers.vision_handler import VisionHandler
from baton_worker.torchserve_utils import map_class_to_label


class ObjectDetector(VisionHandler):
    image_processing = transforms.Compose([transforms.ToTensor()])
    threshold = 0.5

    def postprocess(self, data: Any) -> Any:
        return [self._boxes_of(row) for row in data]

    def _boxes_of(self, row: Any) -> Any:
        is_sure = row["scores"] >= self.threshold
        boxes, classes, scores = (row[key][is_sure].tolist() for key in ("boxes", "labels", "scores"))
        named = map_class_to_label([[box] for box in boxes], self.mapping, [[one] for one in classes])
        return [{**one, "score": score} for one, score in zip(named, scores)]
