"""TensorFlow models as workers: tensorflow_cases.py, run by any Python of this machine that has tensorflow. Other tests use a stand-in."""

import subprocess
import sys
import types
from pathlib import Path

import pytest
from tensor_answers import results_of
from test_shims import context, made, read, run  # noqa: F401 (read is a fixture)
from torch_python import environment, python_with

numpy = pytest.importorskip("numpy")

from baton_client import Tensor  # noqa: E402
from baton_worker import Context, Unusable  # noqa: E402
from baton_worker import tensorflow as worker  # noqa: E402

HERE = Path(__file__).resolve().parent


def test_models_of_tensorflow():
    python, why = python_with("tensorflow")
    if python is None:
        pytest.skip(why)
    command = [python, "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider", str(HERE / "tensorflow_cases.py")]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0 and " passed" in ended.stdout, ended.stdout[-8000:] + ended.stderr[-2000:]
    print(ended.stdout.splitlines()[-1])


def test_without_tensorflow_the_install_command_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ValueError, match=r"tensorflow-cpu is not installed for .*: pip install 'sdk/python\[tensorflow\]'"):
        worker.make(context(str(tmp_path)))
    with pytest.raises(ValueError, match="none is no file, and no directory"):
        worker.make(context(str(tmp_path / "none")))


# -- With a stand-in --


class Options(types.SimpleNamespace):
    """Fake of protobuf: any attribute can be read."""

    OFF, DEFAULT, ON_1, ON_2, ON = -1, 0, 1, 2, 1

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, {} if name == "device_count" else Options())
        return getattr(self, name)


class OpError(Exception):
    pass


class InvalidArgumentError(OpError):
    pass


def info(name, encoding="name"):
    return types.SimpleNamespace(name=name, WhichOneof=lambda _: encoding)


class Graph:
    """Tensors x and y of one row each, by name: the sum of both, and the first alone."""

    def get_tensor_by_name(self, name):
        kind = {"x:0": "float32", "y:0": "float32", "sum:0": "float32", "odd:0": "bfloat16"}[name]
        shape = types.SimpleNamespace(rank=2, as_list=lambda: [None, 2])
        return types.SimpleNamespace(dtype=types.SimpleNamespace(base_dtype=types.SimpleNamespace(name=kind)), shape=shape)


class Session:
    def __init__(self, graph, config):
        self.graph, self.config = graph, config

    def run(self, wanted, given):
        x = given["x:0"]
        if (x < 0).any():
            raise InvalidArgumentError("x is below 0\n\t [[node of the graph]]")
        if (x > 100).any():
            raise OpError("it is too much")
        return [x + given["y:0"] if name == "sum:0" else x for name in wanted]


def stand_in(signatures=None):
    signature = types.SimpleNamespace(inputs={"b": info("y:0"), "a": info("x:0")}, outputs={"sum": info("sum:0"), "first": info("x:0")})
    asked = []

    def load(session, tags, place):
        asked.append((tags, place))
        if tags == ["tpu"]:
            raise RuntimeError("MetaGraphDef associated with tags 'tpu' could not be found")
        return types.SimpleNamespace(signature_def=signatures or {"serving_default": signature, "other": signature})

    loader = types.SimpleNamespace(load=load)
    v1 = types.SimpleNamespace(ConfigProto=Options, Graph=Graph, Session=Session, saved_model=types.SimpleNamespace(loader=loader))
    errors = types.SimpleNamespace(OpError=OpError, InvalidArgumentError=InvalidArgumentError)
    return types.SimpleNamespace(compat=types.SimpleNamespace(v1=v1), errors=errors, asked=asked), signature


def served(tmp_path, monkeypatch, config="", tensorflow=None):
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow or stand_in()[0])
    place = tmp_path / "m" / "1" / "model.savedmodel"
    place.mkdir(parents=True)
    (tmp_path / "m" / "config.pbtxt").write_text(config)
    return made(worker.make, str(place))


def rows(*values):
    x = numpy.array(values, "float32")
    return {"inputs": [Tensor.of("a", x), Tensor.of("b", 10 * x)]}


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


def test_rows_are_computed_together_by_the_names_of_the_signature(tmp_path, monkeypatch):
    handler = served(tmp_path, monkeypatch, "max_batch_size: 4")
    answers = results_of(run(handler, rows([1, 2]), rows([-1, 0]), rows([3, 4]), rows([101, 0])))
    assert answers[0] == {"first": [[1, 2]], "sum": [[11, 22]]} and answers[2] == {"first": [[3, 4]], "sum": [[33, 44]]}
    assert answers[1] == ("invalid_request", "the model does not take this: x is below 0")
    assert answers[3] == ("handler_failed", "the model failed: it is too much")


def test_parameters_are_those_of_tritons_backend(tmp_path, monkeypatch, caplog):
    tensorflow, _ = stand_in()
    config = "".join(parameter(*one) for one in (
        ("TF_NUM_INTRA_THREADS", 3), ("TF_NUM_INTER_THREADS", 2), ("TF_USE_PER_SESSION_THREADS", "yes"), ("TF_GRAPH_TAG", "mine"),
        ("TF_SIGNATURE_DEF", "other"), ("MAX_SESSION_SHARE_COUNT", 2), ("ENABLE_NVFUSER", 1)))
    handler = served(tmp_path, monkeypatch, config + "instance_group { kind: KIND_CPU } optimization { graph { level: -1 } }", tensorflow)
    options = handler._options
    assert (options.intra_op_parallelism_threads, options.inter_op_parallelism_threads, options.use_per_session_threads) == (3, 2, False)
    assert options.device_count == {"GPU": 0} and options.graph_options.optimizer_options.global_jit_level == Options.OFF
    assert tensorflow.asked == [(["mine"], str(handler.file))]
    assert "parameters.ENABLE_NVFUSER is not known here and changes nothing" in caplog.text


@pytest.mark.parametrize(("kind", "gpu", "seen"), [("KIND_AUTO", 2, "2"), ("KIND_MODEL", None, "0"), ("KIND_CPU", 2, None), ("KIND_GPU", None, None)])
def test_a_model_computes_on_its_workers_gpu(tmp_path, monkeypatch, kind, gpu, seen):
    monkeypatch.setitem(sys.modules, "tensorflow", stand_in()[0])
    place = tmp_path / "m" / "1" / "model.savedmodel"
    place.mkdir(parents=True)
    (tmp_path / "m" / "config.pbtxt").write_text(f"instance_group {{ kind: {kind} }}")
    options = worker.make(Context("m", "1", "w", 1, "", options=[str(place)], gpu_id=gpu))._options
    assert vars(options.gpu_options).get("visible_device_list") == seen
    assert options.device_count == ({"GPU": 0} if seen is None else {})


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (parameter("TF_NUM_INTRA_THREADS", "many"), "parameters.TF_NUM_INTRA_THREADS is 'many'"),
        (parameter("MAX_SESSION_SHARE_COUNT", "0"), "parameters.MAX_SESSION_SHARE_COUNT is '0'"),
        ('optimization { execution_accelerators { cpu_execution_accelerator : [ { name: "openvino" } ] } }', "CPU Execution Accelerator is not supported"),
        ('optimization { execution_accelerators { gpu_execution_accelerator : [ { name: "magic" } ] } }', "unknown Execution Accelerator 'magic'"),
        ("optimization { speed: 9 }", "optimization.speed is not known"),
        ('input { name: "a" data_type: TYPE_FP32 dims: 2 reshape { shape: [] } }', "reshape is not known here"),
    ],
)
def test_what_is_not_known_here_is_refused_by_name(tmp_path, monkeypatch, config, why):
    with pytest.raises(ValueError, match=why):
        served(tmp_path, monkeypatch, config)


def test_a_signature_that_is_not_there_is_refused_by_its_name(tmp_path, monkeypatch, caplog):
    _, signature = stand_in()
    tensorflow, _ = stand_in({"__saved_model_init_op": None, "predict": signature})
    (tmp_path / "a").mkdir()
    assert served(tmp_path / "a", monkeypatch, "", tensorflow).output_names == ["first", "sum"]  # the order that Triton uses
    assert "has no signature serving_default: predict is served" in caplog.text
    for at, (config, why) in enumerate(((parameter("TF_SIGNATURE_DEF", "serving_default"), "expected 'serving_default' signature"),
                                        (parameter("TF_GRAPH_TAG", "tpu"), "'tpu' could not be found"))):
        (tmp_path / str(at)).mkdir()
        with pytest.raises(Unusable, match=why):
            served(tmp_path / str(at), monkeypatch, config, tensorflow)


def test_a_tensor_that_has_no_datatype_is_refused(tmp_path, monkeypatch):
    _, signature = stand_in()
    for at, (tensor, why) in enumerate(((info("odd:0"), "'odd' is a bfloat16"), (info("x:0", "coo_sparse"), "'odd' is not dense"))):
        (tmp_path / str(at)).mkdir()
        wrong = types.SimpleNamespace(inputs=signature.inputs, outputs={"odd": tensor})
        with pytest.raises(Unusable, match=why):
            served(tmp_path / str(at), monkeypatch, "", stand_in({"serving_default": wrong})[0])


def test_a_graph_without_a_config_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", stand_in()[0])
    (tmp_path / "model.graphdef").write_bytes(b"")
    with pytest.raises(ValueError, match="config.pbtxt with both is needed"):
        worker.make(context(str(tmp_path / "model.graphdef")))
