"""The class of each pixel of each image, and its probability."""

from __future__ import annotations

from typing import Any

from torchvision import transforms

from baton_worker.torch_handlers.vision_handler import VisionHandler
from baton_worker.torchserve_base import import_torch


class ImageSegmenter(VisionHandler):
    image_processing = transforms.Compose(
        [
            transforms.Resize(256),
            transforms.CenterCrop(224),
            transforms.ToTensor(),
            transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
        ]
    )

    def postprocess(self, data: Any) -> Any:
        """-> [N, H, W, 2]: all classes of each pixel would make too large an answer."""
        torch = import_torch()
        best = torch.softmax(data["out"], dim=1).max(dim=1)
        return torch.stack([best.indices.type(best.values.dtype), best.values], dim=3).tolist()
