"""TensorFlow models, as Triton's backend serves them, through the worker's loop. Run by test_tensorflow.py if tensorflow is installed."""

import numpy
import pytest
import tensorflow
from tensor_answers import results_of
from test_shims import made, read, run  # noqa: F401 (read is a fixture)

from baton_client import Tensor
from baton_worker import Unusable
from baton_worker import tensorflow as worker

v1 = tensorflow.compat.v1


class Sums(tensorflow.Module):
    """Rows of numbers and of texts; a trained variable."""

    def __init__(self):
        super().__init__()
        self.weight = tensorflow.Variable([10.0, 1.0])

    @tensorflow.function(input_signature=[tensorflow.TensorSpec([None, 2], tensorflow.float32, "x"), tensorflow.TensorSpec([None, 1], tensorflow.string, "text")])
    def serve(self, x, text):
        return {"sum": tensorflow.reduce_sum(x * self.weight, axis=1, keepdims=True), "upper": tensorflow.strings.upper(text)}

    @tensorflow.function(input_signature=[tensorflow.TensorSpec([2], tensorflow.int64, "n")])
    def twice(self, n):
        return {"twice": n * 2}


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    place = tmp_path_factory.mktemp("saved") / "model.savedmodel"
    module = Sums()
    tensorflow.saved_model.save(module, str(place), signatures={"serving_default": module.serve, "twice": module.twice})
    return place


def repository(tmp_path, saved, config=None):
    place = tmp_path / "m" / "1" / "model.savedmodel"
    place.parent.mkdir(parents=True)
    place.symlink_to(saved)
    if config is not None:
        (tmp_path / "m" / "config.pbtxt").write_text(config)
    return str(tmp_path / "m" / "1" / "model.savedmodel")


def served(file):
    handler = made(worker.make, file)
    calls, compute = [], handler.compute
    handler.compute = lambda arrays: calls.append(len(next(iter(arrays.values())))) or compute(arrays)
    return handler, calls


def rows(*values, text=b"a"):
    x = numpy.array(values, "float32")
    return {"inputs": [Tensor.of("x", x), Tensor.of("text", numpy.array([[text]] * len(values), object))]}


def test_a_saved_model_is_served_by_the_names_of_its_signature(tmp_path, saved):
    handler, calls = served(repository(tmp_path, saved))
    answers = results_of(run(handler, rows([1, 2]), rows([3, 4], [5, 6], text="ä".encode())))
    assert answers == [{"sum": [[12]], "upper": [[b"A"]]}, {"sum": [[34], [56]], "upper": [["ä".encode()]] * 2}]
    assert calls == [3]  # rows of both requests, since the first dimension has any size
    assert handler.input_types == {"text": "BYTES", "x": "FP32"} and handler.output_names == ["sum", "upper"]


def test_a_config_says_how_many_rows_which_outputs_and_which_signature(tmp_path, saved):
    (tmp_path / "a").mkdir()
    handler, calls = served(repository(tmp_path / "a", saved, 'max_batch_size: 2 output { name: "sum" data_type: TYPE_FP32 dims: 1 }'))
    assert results_of(run(handler, rows([1, 2]), rows([1, 0], [0, 1]))) == [{"sum": [[12]]}, {"sum": [[10], [1]]}] and calls == [1, 2]
    (tmp_path / "b").mkdir()
    handler, _ = served(repository(tmp_path / "b", saved, 'parameters { key: "TF_SIGNATURE_DEF" value { string_value: "twice" } }'))
    assert results_of(run(handler, {"inputs": [Tensor.of("n", numpy.array([1, 2]))]})) == [{"twice": [2, 4]}]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ('parameters { key: "TF_SIGNATURE_DEF" value { string_value: "none" } }', "expected 'none' signature .*there are .*serving_default, twice"),
        ('parameters { key: "TF_GRAPH_TAG" value { string_value: "tpu" } }', "tpu"),
        ('output { name: "avg" data_type: TYPE_FP32 dims: 1 }', "output 'avg': the model has sum, upper"),
        ('input { name: "x" data_type: TYPE_FP64 dims: 2 }', "input 'x' is TYPE_FP64, the model's is FP32"),
        ('model_operations { op_library_filename: "none.so" }', "none.so"),
        ('parameters { key: "TF_INIT_OPS_FILE" value { string_value: "none.json" } }', "none.json"),
    ],
)
def test_a_model_that_is_not_as_its_config_says_cannot_be_served(tmp_path, saved, config, why):
    with pytest.raises(Unusable, match=why):
        served(repository(tmp_path, saved, config))


def test_an_invalid_request_is_rejected_alone(tmp_path, saved):
    handler, _ = served(repository(tmp_path, saved))
    wide = {"inputs": [Tensor.of("x", numpy.ones((1, 3), "float32")), Tensor.of("text", numpy.array([[b"a"]], object))]}
    first, second = results_of(run(handler, wide, rows([1, 2])))
    assert first[0] == "invalid_request" and "the model does not take this" in first[1] and "\n" not in first[1]
    assert second["sum"] == [[12]]


def test_settings_are_those_of_the_config(tmp_path, saved):
    config = "".join(f'parameters {{ key: "{k}" value {{ string_value: "{v}" }} }}\n' for k, v in (
        ("TF_NUM_INTRA_THREADS", "2"), ("TF_NUM_INTER_THREADS", "1"), ("TF_USE_PER_SESSION_THREADS", "On")))
    handler, _ = served(repository(tmp_path, saved, config + "optimization { graph { level: 1 } }"))
    options = handler._options
    assert (options.intra_op_parallelism_threads, options.inter_op_parallelism_threads, options.use_per_session_threads) == (2, 1, True)
    assert options.graph_options.optimizer_options.global_jit_level == options.graph_options.optimizer_options.ON_1
    assert results_of(run(handler, rows([1, 2])))[0]["sum"] == [[12]]


# -- GraphDef --

TIMES = 'max_batch_size: 4 input { name: "x" data_type: TYPE_FP32 dims: 2 } output { name: "y" data_type: TYPE_FP32 dims: 2 }'


def frozen(tmp_path, config=TIMES, content=None):
    graph = v1.Graph()
    with graph.as_default():
        x = v1.placeholder(tensorflow.float32, [None, 2], name="x")
        weight = v1.Variable(3.0, name="weight", use_resource=True)
        v1.multiply(x, weight.read_value(), name="z")
        v1.identity(x * 2.0, name="y")
    place = tmp_path / "m" / "1" / "model.graphdef"
    place.parent.mkdir(parents=True)
    place.write_bytes(graph.as_graph_def().SerializeToString() if content is None else content)
    (tmp_path / "m" / "config.pbtxt").write_text(config)
    return str(place)


def numbers(*values):
    return {"inputs": [Tensor.of("x", numpy.array(values, "float32"))]}


def test_a_graph_is_served_by_the_operations_that_its_config_names(tmp_path):
    handler, calls = served(frozen(tmp_path))
    assert results_of(run(handler, numbers([1, 2]), numbers([3, 4]))) == [{"y": [[2, 4]]}, {"y": [[6, 8]]}] and calls == [2]


def test_a_graph_begins_with_its_init_ops(tmp_path):
    config = TIMES.replace('"y"', '"z"')
    (tmp_path / "bare").mkdir()
    handler, _ = served(frozen(tmp_path / "bare", config))
    assert results_of(run(handler, numbers([1, 2])))[0][0] == "handler_failed"
    (tmp_path / "with").mkdir()
    file = frozen(tmp_path / "with", config + 'parameters { key: "TF_INIT_OPS_FILE" value { string_value: "init_ops.json" } }')
    (tmp_path / "with" / "m" / "init_ops.json").write_text('{"init_ops": ["weight/Assign"]}')
    handler, _ = served(file)
    assert results_of(run(handler, numbers([1, 2]))) == [{"z": [[3, 6]]}]


@pytest.mark.parametrize(
    ("config", "content", "why"),
    [(TIMES.replace('"x"', '"q"'), None, "input 'q': the graph has no such operation"), (TIMES, b"none", "is no GraphDef"),
     (TIMES.replace("TYPE_FP32", "TYPE_INT8"), None, "input 'x' is TYPE_INT8, the model's is FP32")],
)
def test_a_graph_that_is_not_as_its_config_says_cannot_be_served(tmp_path, config, content, why):
    with pytest.raises(Unusable, match=why):
        served(frozen(tmp_path, config, content))
