"""Requests of TorchServe's clients: several named inputs, envelopes; and the names of `ts` that handlers import."""

import json
import subprocess
import sys
import types

import pytest
from test_shims import context, made, run
from torch_python import HERE, environment, python_with_torch

from baton_client import inference
from baton_worker import torch_handlers, torchserve, torchserve_utils
from baton_worker.handler import Unusable
from baton_worker.torchserve_base import BaseHandler

SHOWS = """
class Shows:
    def handle(self, data, context):
        return [{k: v if isinstance(v, (str, dict, list, float)) else bytes(v).decode() for k, v in row.items()} for row in data]
"""
INSTANCES = """
class Doubles:
    def handle(self, data, context):
        self.seen = data
        return [x * 2 for x in data]
"""
FORM = (
    b'--baton-0\r\nContent-Disposition: form-data; name="data"\r\nContent-Type: text/plain\r\n\r\nhi\r\nthere\r\n'
    b'--baton-0\r\nContent-Disposition: form-data; name="a %22b%22"\r\n\r\n\r\n--baton-0--\r\n'
)


@pytest.fixture(autouse=True)
def read(monkeypatch):
    monkeypatch.setattr(inference, "inferred", lambda request, piece: (request, piece))
    yield
    for name in [n for n in sys.modules if n == "ts" or n.startswith("ts.")]:
        del sys.modules[name]


def handler(tmp_path, text):
    file = tmp_path / "handler.py"
    file.write_text(text)
    return made(torchserve.make, str(file))


def answer_to(handler, **asked):
    ((_, piece),) = run(handler, asked)
    assert piece.failure is None, piece.failure
    return json.loads(piece.body)


def test_the_fields_of_a_form_are_inputs_by_their_names(tmp_path):
    shows = handler(tmp_path, SHOWS)
    assert answer_to(shows, body=FORM, content_type="multipart/form-data; boundary=baton-0") == {"data": "hi\r\nthere", 'a "b"': ""}
    (_, wrong), (_, right) = run(shows, {"body": b"x", "content_type": "multipart/form-data; boundary=baton-0"}, {"body": b"y"})
    assert wrong.failure.name == "invalid_request" and "no field" in wrong.failure.message
    assert json.loads(right.body) == {"body": "y"}
    ((_, alone),) = run(shows, {"body": b"x", "content_type": "multipart/form-data"})
    assert alone.failure.name == "invalid_request"
    fields = answer_to(shows, body=b'--b\r\nContent-Disposition: form-data; name="\xff"\r\n\r\n1\r\n--b--\r\n', content_type="multipart/form-data; boundary=b")
    assert fields == {"\ufffd": "1"}


def test_one_input_has_the_name_under_which_it_came(tmp_path):
    shows = handler(tmp_path, SHOWS)
    assert answer_to(shows, body=b"x") == {"body": "x"}
    assert answer_to(shows, body=b'{"a": 1}', content_type="application/json", parameters_json='{"torchserve_input": "data"}') == {"data": {"a": 1}}


def test_bodies_are_not_decoded_where_the_environment_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("TS_DECODE_INPUT_REQUEST", "false")
    assert answer_to(handler(tmp_path, SHOWS), body=b'{"a": 1}', content_type="application/json") == {"body": '{"a": 1}'}


def test_an_envelope_of_a_body(tmp_path, monkeypatch):
    monkeypatch.setenv("TS_SERVICE_ENVELOPE", "body")
    assert answer_to(handler(tmp_path, INSTANCES), body=b"[1, 2]", content_type="application/json") == [1, 2, 1, 2]


@pytest.mark.parametrize("name", ["json", "kserve"])
def test_an_envelope_of_instances(tmp_path, monkeypatch, name):
    monkeypatch.setenv("TS_SERVICE_ENVELOPE", name)
    doubles = handler(tmp_path, INSTANCES)
    assert answer_to(doubles, body=b'{"instances": [1, 2.5]}') == {"predictions": [2, 5.0]}
    first, second = (json.loads(p.body) for _, p in run(doubles, {"body": b'{"instances": [1]}'}, {"body": b'{"instances": ["a", "b"]}'}))
    assert (first, second) == ({"predictions": [2]}, {"predictions": ["aa", "bb"]})
    for body in (b"[]", b"{}", b"x", b'{"instances": 3}'):
        (_, wrong), (_, right) = run(doubles, {"body": body}, {"body": b'{"instances": [1]}'})
        assert wrong.failure.name == "invalid_request" and "instances" in wrong.failure.message
        assert json.loads(right.body) == {"predictions": [2]}
    ((_, alone),) = run(doubles, {"body": b"x"})
    assert alone.failure.name == "invalid_request"


def test_bytes_in_an_envelope_are_base64(tmp_path, monkeypatch):
    monkeypatch.setenv("TS_SERVICE_ENVELOPE", "json")
    text = "class Sizes:\n    def handle(self, data, context):\n        return [len(x) if isinstance(x, bytes) else len(x['i']) for x in data]\n"
    assert answer_to(handler(tmp_path, text), body=b'{"instances": [{"b64": "AAEC"}, {"i": {"b64": "AA=="}, "n": 1}]}') == {"predictions": [3, 1]}


def test_an_envelope_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TS_SERVICE_ENVELOPE", "kservev2")
    with pytest.raises(ValueError, match="body, json and kserve are here"):
        handler(tmp_path, INSTANCES)


METRICS = """
dimensions:
  - &model_name "ModelName"
model_metrics:
  counter:
    - name: Calls
      unit: count
      dimensions: []
  gauge:
    - name: BatchSize
      unit: count
      dimensions: [*model_name]
"""
MEASURES = """
from ts.metrics.metric_type_enum import MetricTypes
class Measures:
    def handle(self, data, context):
        context.metrics.get_metric("Calls").add_or_update(1, [])
        context.metrics.get_metric(metric_name="BatchSize", metric_type=MetricTypes.GAUGE).add_or_update(value=len(data), dimension_values=[context.model_name])
        return ["measured"] * len(data)
"""


def test_metrics_of_a_metrics_yaml_are_there_for_who_asks_for_them(tmp_path, monkeypatch):
    (tmp_path / "metrics.yaml").write_text(METRICS)
    ((_, piece),) = run(handler(tmp_path, MEASURES), {"body": b"x"})
    assert "there is no counter 'Calls'" in piece.failure.message
    monkeypatch.setenv("TS_METRICS_CONFIG", str(tmp_path / "metrics.yaml"))
    ((_, piece),) = run(handler(tmp_path, MEASURES), {"body": b"x"})
    assert (piece.failure, piece.body) == (None, b"measured")
    (tmp_path / "metrics.yaml").write_text("model_metrics:\n  counter:\n    - name: Calls\n")
    with pytest.raises(ValueError, match="needs name, unit and dimensions"):
        handler(tmp_path, MEASURES)


class Explains(BaseHandler):
    def preprocess(self, data):
        return [len(row["body"]) for row in data]

    def inference(self, data):
        return data

    def postprocess(self, data):
        return data

    def get_insights(self, made, settings, target):
        return [{"of": bytes(settings).decode(), "made": made, "target": target}]


def asked_for(explain):
    return types.SimpleNamespace(get_request_header=lambda idx, key: {"explain": explain}.get(key))


def test_explanations_are_the_handlers_insights():
    explains = Explains()
    assert explains.handle([{"body": b"abc"}], asked_for(None)) == [3]
    assert explains.handle([{"body": b"abc", "target": 2}], asked_for("True")) == [{"of": "abc", "made": [3], "target": 2}]
    assert explains.explain is True
    with pytest.raises(ValueError, match="no get_insights"):
        BaseHandler().handle([{"body": b"abc"}], asked_for("True"))


IMPORTS = '''
from ts.context import Context
from ts.handler_utils.timer import timed
from ts.handler_utils.utils import import_class, send_intermediate_predict_response
from ts.torch_handler.base_handler import BaseHandler
from ts.utils.util import CLEANUP_REGEX, check_valid_pt2_backend, list_classes_from_module, load_label_mapping, map_class_to_label
class Imports(BaseHandler):
    def initialize(self, context):
        self.context = context
    @timed
    def preprocess(self, data):
        return ["<b>x</b>"] * len(data)
    def inference(self, data):
        assert check_valid_pt2_backend("inductor") and not check_valid_pt2_backend("none")
        assert import_class("json.JSONDecoder").__name__ == "JSONDecoder"
        return map_class_to_label([[0.5, 0.25]] * len(data), {"1": "one", "7": "seven"}, [[7, 1]] * len(data))
    def postprocess(self, data):
        return [{**row, "text": CLEANUP_REGEX.sub("", "<b>x</b>&amp;")} for row in data]
'''


def test_what_handlers_import_beside_the_base_is_there(tmp_path):
    if torchserve.is_torchserve_installed():
        pytest.skip("TorchServe itself is installed")
    imports = handler(tmp_path, IMPORTS)
    assert answer_to(imports, body=b"x") == {"seven": 0.5, "one": 0.25, "text": "x"}


@pytest.mark.parametrize("settings, counted", [({"handler": {"profile": True}}, 1), ({"handler": {"profile": False}}, 0), ({}, 0)])
def test_steps_are_timed_where_the_config_says_so(settings, counted):
    added = []

    class Steps:
        context = types.SimpleNamespace(model_yaml_config=settings, metrics=types.SimpleNamespace(add_time=lambda name, value: added.append(name)))

        @torchserve_utils.timed
        def preprocess(self, data):
            return data

    assert Steps().preprocess(3) == 3 and added == ["ts_handler_preprocess"] * counted


def test_classes_without_names_have_their_numbers():
    assert torchserve_utils.map_class_to_label([[0.5], [0.25]]) == [{"0": 0.5}, {"0": 0.25}]
    with pytest.raises(ValueError, match="no list"):
        torchserve_utils.map_class_to_label(None)
    with pytest.raises(ImportError, match="no class Gone"):
        torchserve_utils.import_class("Gone", "json")


def test_a_handler_of_torchserves_own_that_is_not_here_is_named(tmp_path):
    (tmp_path / "MAR-INF").mkdir()
    (tmp_path / "MAR-INF" / "MANIFEST.json").write_text(json.dumps({"model": {"modelName": "m", "handler": "text_classifier"}}))
    if torchserve.is_torchserve_installed():
        pytest.skip("TorchServe itself is installed")
    with pytest.raises(ValueError, match="image_classifier, image_segmenter, object_detector are here: with pip install torchserve"):
        torchserve.make(context(str(tmp_path)))


def test_weights_that_no_one_loads_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(Unusable, match="pip install onnxruntime"):
        BaseHandler()._load_onnx_model("m.onnx")


@pytest.mark.parametrize("name", torch_handlers.NAMES)
def test_what_a_handler_of_images_lacks_is_named(tmp_path, monkeypatch, name):
    (tmp_path / "MAR-INF").mkdir()
    (tmp_path / "MAR-INF" / "MANIFEST.json").write_text(json.dumps({"model": {"modelName": "m", "handler": name}}))
    if torchserve.is_torchserve_installed():
        pytest.skip("TorchServe itself is installed")
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ValueError, match=r"torchvision.* not installed for .*sdk/python\[.*vision"):
        torchserve.make(context(str(tmp_path)))
    (tmp_path / "own.py").write_text(f"from ts.torch_handler.{name} import Anything\n")
    with pytest.raises(ValueError, match="torchvision.* not installed"):
        torchserve.make(context(str(tmp_path / "own.py")))
    assert not hasattr(sys.modules[f"ts.torch_handler.{name}"], "time")  # programs that look through all modules ask so


def test_handlers_of_images_on_torch():
    python, why = python_with_torch()
    if python is None:
        pytest.skip(why)
    ran = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "torch_vision_cases.py")], env=environment(), capture_output=True, text=True, timeout=900)
    if ran.returncode == 5:  # no case was run
        pytest.skip("torchvision is nowhere")
    assert ran.returncode == 0 and " passed" in ran.stdout, ran.stdout[-4000:] + ran.stderr[-2000:]
