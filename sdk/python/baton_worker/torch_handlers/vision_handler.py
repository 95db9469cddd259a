"""Base of image handlers: bytes, base64 or lists of numbers become one tensor of the batch."""

from __future__ import annotations

import base64
import io
from typing import Any, List

from baton_worker.torchserve_base import BaseHandler, import_torch
from baton_worker.torchserve_utils import timed


class VisionHandler(BaseHandler):
    image_processing: Any = None  # from a Pillow image to a tensor

    def initialize(self, context: Any) -> None:
        super().initialize(context)
        self.ig = _integrated_gradients(self.model)
        if not context.system_properties.get("limit_max_image_pixels"):
            from PIL import Image

            Image.MAX_IMAGE_PIXELS = None
        self.initialized = True

    @timed
    def preprocess(self, data: Any) -> Any:
        torch = import_torch()
        return torch.stack([self._tensor_of(row.get("data") or row.get("body")) for row in data]).to(self.device)

    def _tensor_of(self, image: Any) -> Any:
        from PIL import Image

        if isinstance(image, str):
            image = base64.b64decode(image)
        if isinstance(image, (bytes, bytearray)):
            return self.image_processing(Image.open(io.BytesIO(image)))
        return import_torch().FloatTensor(image)

    def get_insights(self, tensor_data: Any, _: Any, target: int = 0) -> List[Any]:
        if self.ig is None:
            raise RuntimeError("explanations need captum, which is not installed here: pip install captum")
        return self.ig.attribute(tensor_data, target=target, n_steps=15).tolist()


def _integrated_gradients(model: Any) -> Any:
    """None without captum, which predictions do not need."""
    try:
        from captum.attr import IntegratedGradients
    except ImportError:
        return None
    return IntegratedGradients(model)
