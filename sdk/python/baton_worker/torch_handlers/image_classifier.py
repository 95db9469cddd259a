"""The five most probable classes of each image, by their names."""

from __future__ import annotations

from typing import Any

from torchvision import transforms

from baton_worker.torch_handlers.vision_handler import VisionHandler
from baton_worker.torchserve_base import import_torch
from baton_worker.torchserve_utils import map_class_to_label, timed


class ImageClassifier(VisionHandler):
    topk = 5
    image_processing = transforms.Compose(
        [  # as models for ImageNet are trained
            transforms.Resize(256),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
        ]
    )

    def set_max_result_classes(self, topk: int) -> None:
        self.topk = topk

    def get_max_result_classes(self) -> int:
        return self.topk

    @timed
    def postprocess(self, data: Any) -> Any:
        torch = import_torch()
        values, classes = torch.topk(torch.softmax(data, dim=1), self.topk, dim=1)
        return map_class_to_label(values.tolist(), self.mapping, classes.tolist())
