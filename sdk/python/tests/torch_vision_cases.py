"""TorchServe's built-in image handlers, on torch and torchvision. Run by test_torchserve_inputs.py, in a Python with torch."""

import base64
import io
import json
import types

import pytest
import torch

pytest.importorskip("torchvision")
from PIL import Image  # noqa: E402

from baton_worker.torch_handlers.image_classifier import ImageClassifier  # noqa: E402
from baton_worker.torch_handlers.image_segmenter import ImageSegmenter  # noqa: E402
from baton_worker.torch_handlers.object_detector import ObjectDetector  # noqa: E402


class Seen(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        return torch.arange(7.0).repeat(x.shape[0], 1) * x.mean(dim=[1, 2, 3], keepdim=False)[:, None].abs()


def context_of(tmp_path, **names):
    torch.jit.script(Seen()).save(str(tmp_path / "m.pt"))
    (tmp_path / "index_to_name.json").write_text(json.dumps(names)) if names else None
    return types.SimpleNamespace(
        model_yaml_config={},
        manifest={"model": {"modelName": "m", "serializedFile": "m.pt"}},
        system_properties={"model_dir": str(tmp_path), "gpu_id": None, "limit_max_image_pixels": True},
        get_request_header=lambda idx, key: None,
    )


def picture(shade):
    file = io.BytesIO()
    Image.new("RGB", (300, 260), (shade, shade, shade)).save(file, "PNG")
    return file.getvalue()


def test_the_five_best_classes_of_each_picture_have_names(tmp_path):
    handler, context = ImageClassifier(), context_of(tmp_path, **{str(i): f"c{i}" for i in range(7)})
    handler.initialize(context)
    rows = [{"body": bytearray(picture(250))}, {"data": base64.b64encode(picture(10)).decode()}]
    for reply in handler.handle(rows, context):
        assert list(reply) == ["c6", "c5", "c4", "c3", "c2"] and sorted(reply.values(), reverse=True) == list(reply.values())
    handler.set_max_result_classes(2)
    assert handler.get_max_result_classes() == 2
    ((reply),) = handler.handle([{"body": torch.ones(3, 4, 4).tolist()}], context)
    assert list(reply) == ["c6", "c5"]


def test_without_names_classes_have_numbers(tmp_path):
    handler, context = ImageClassifier(), context_of(tmp_path)
    handler.initialize(context)
    assert list(handler.handle([{"body": picture(250)}], context)[0]) == ["6", "5", "4", "3", "2"]


def test_a_segmenter_returns_the_best_class_of_each_pixel():
    data = torch.zeros(1, 3, 2, 2)
    data[0, 2, 0, 0] = 50.0
    reply = ImageSegmenter().postprocess({"out": data})
    assert reply[0][0][0] == [2.0, 1.0] and reply[0][1][1] == [0.0, pytest.approx(1 / 3)]


def test_a_detector_returns_confident_boxes():
    handler = ObjectDetector()
    handler.mapping = {"1": "person", "3": "car"}
    found = {"boxes": torch.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]), "labels": torch.tensor([1, 3]), "scores": torch.tensor([0.75, 0.25])}
    assert handler.postprocess([found, {k: v[:0] for k, v in found.items()}]) == [[{"person": [0.0, 1.0, 2.0, 3.0], "score": 0.75}], []]


def test_explanations_need_captum(tmp_path):
    handler = ImageClassifier()
    handler.ig = None
    with pytest.raises(RuntimeError, match="pip install captum"):
        handler.get_insights(torch.ones(1, 3, 2, 2), None)
