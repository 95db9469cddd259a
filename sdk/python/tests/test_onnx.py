"""ONNX models, as Triton's backend serves them, through the worker's loop."""

import os
import subprocess
import sys
from pathlib import Path

import onnx_bytes
import pytest
from onnx_bytes import BFLOAT16, INT64, STRING
from tensor_answers import results_of
from test_shims import context, made, read, run  # noqa: F401 (read is a fixture)

from baton_client import Tensor
from baton_worker import Context, Unusable

numpy = pytest.importorskip("numpy")
pytest.importorskip("onnxruntime")

from baton_worker import onnx  # noqa: E402

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "workers" / "models" / "add_sub"


ACCELERATED = "optimization { execution_accelerators { %s_execution_accelerator : [ { %s } ] } }"


def repository(tmp_path, config=None, model=None):
    """The file of a model in a repository, with a config if given."""
    file = tmp_path / "add_sub" / "1" / "model.onnx"
    file.parent.mkdir(parents=True)
    file.write_bytes(onnx_bytes.add_sub() if model is None else model)
    if config is not None:
        (tmp_path / "add_sub" / "config.pbtxt").write_text(config)
    return str(file)


def served(tmp_path, config=None, model=None):
    """A handler, and the number of rows in each call of its model."""
    handler = made(onnx.make, repository(tmp_path, config, model))
    calls, compute = [], handler.compute
    handler.compute = lambda arrays: calls.append(len(next(iter(arrays.values())))) or compute(arrays)
    return handler, calls


def rows(*values, outputs=(), dtype="float32"):
    x = numpy.array(values, dtype)
    return {"inputs": [Tensor.of("INPUT0", 10 * x), Tensor.of("INPUT1", x)], "outputs": list(outputs)}


def test_rows_of_several_requests_are_computed_together(tmp_path):
    handler, calls = served(tmp_path, "max_batch_size: 4")
    answers = results_of(run(handler, rows([1, 2]), rows([3, 4], [5, 6]), rows([1, 1], [2, 2]), rows([7, 7], [8, 8])))
    assert calls == [3, 4]  # as many as the model accepts
    assert answers[0] == {"OUTPUT0": [[11, 22]], "OUTPUT1": [[9, 18]]}
    assert answers[1]["OUTPUT0"] == [[33, 44], [55, 66]] and answers[3]["OUTPUT1"] == [[63, 63], [72, 72]]


def test_without_a_batch_dimension_each_request_is_computed_alone(tmp_path):
    handler, calls = served(tmp_path, "max_batch_size: 0")
    assert results_of(run(handler, rows([1, 2]), rows([3, 4])))[1] == {"OUTPUT0": [[33, 44]], "OUTPUT1": [[27, 36]]}
    assert calls == [1, 1]


@pytest.mark.parametrize("dims, calls_expected", [(("rows", 2), [2]), ((1, 2), [1, 1])])
def test_without_a_config_the_model_says_whether_rows_go_together(tmp_path, dims, calls_expected):
    names = ["INPUT0", "INPUT1"]
    model = onnx_bytes.model([("Add", names, ["z"])], [onnx_bytes.value(n, dims=dims) for n in names], [onnx_bytes.value("z", dims=dims)])
    handler, calls = served(tmp_path, None, model)
    assert results_of(run(handler, rows([1, 2]), rows([3, 4]))) == [{"z": [[11, 22]]}, {"z": [[33, 44]]}]
    assert calls == calls_expected


def test_requests_without_outputs_by_row_are_computed_alone(tmp_path):
    inputs = [onnx_bytes.value(name) for name in ("INPUT0", "INPUT1")]
    model = onnx_bytes.model([("Add", ["INPUT0", "INPUT1"], ["sum"]), ("Size", ["sum"], ["z"])], inputs, [onnx_bytes.value("z", INT64, ())])
    handler, calls = served(tmp_path, "max_batch_size: 8", model)
    assert results_of(run(handler, rows([1, 2]), rows([3, 4], [5, 6]))) == [{"z": 2}, {"z": 4}]
    assert calls == [3, 1, 2]


def test_the_requested_outputs_are_returned(tmp_path):
    handler, _ = served(tmp_path, "max_batch_size: 4")
    answers = results_of(run(handler, rows([1, 2], outputs=["OUTPUT1"]), rows([1, 2], outputs=["OUTPUT7"])))
    assert answers[0] == {"OUTPUT1": [[9, 18]]}
    assert answers[1] == ("invalid_request", "the model has no output 'OUTPUT7', but OUTPUT0, OUTPUT1")


def test_an_invalid_input_is_rejected_by_name_and_alone(tmp_path):
    handler, calls = served(tmp_path, "max_batch_size: 2")
    one = rows([1, 2])
    wrong = {
        "there is no input named 'INPUT1'": {"inputs": one["inputs"][:1]},
        "the model has no input 'more'": {"inputs": [*one["inputs"], Tensor.of("more", numpy.zeros(1))]},
        "an input is there twice": {"inputs": [*one["inputs"], one["inputs"][0]]},
        "input 'INPUT0' is FP64, the model takes FP32": rows([1, 2], dtype="float64"),
        "a batch of 3; the model takes 1 to 2": rows([1, 2], [3, 4], [5, 6]),
        "the first dimension is that of the batch": {"inputs": [rows([1, 2], [3, 4])["inputs"][0], one["inputs"][1]]},
        "cannot reshape": {"inputs": [Tensor("INPUT0", "FP32", [3, 2], b"1234"), one["inputs"][1]]},
        "the model does not take this": rows([1, 2, 3]),
    }
    answers = results_of(run(handler, one, *wrong.values(), one))
    for message, (name, answer) in zip(wrong, answers[1:-1]):
        assert name == "invalid_request" and message in answer
    assert answers[0] == answers[-1] == {"OUTPUT0": [[11, 22]], "OUTPUT1": [[9, 18]]}


def test_texts(tmp_path):
    value = lambda name: onnx_bytes.value(name, STRING, ("rows",))
    handler, _ = served(tmp_path, None, onnx_bytes.model([("Identity", ["x"], ["y"])], [value("x")], [value("y")]))
    texts = {"inputs": [Tensor.of("x", numpy.array(["häuser", ""], dtype=object))]}
    ((_, first), (_, second)) = run(handler, texts, {"inputs": [Tensor.of("x", numpy.array([b"\xff"], dtype=object))]})
    assert first.outputs[0].datatype == "BYTES" and first.outputs[0].numpy().tolist() == ["häuser".encode(), b""]
    assert second.failure.message == "a text is not UTF-8"


def test_threads_and_the_graphs_level_are_those_of_the_config(tmp_path):
    config = """
max_batch_size: 4 instance_group [{ kind: KIND_CPU }]
optimization { graph { level: 1 } }
parameters { key: "intra_op_thread_count" value: { string_value: "3" } }
parameters { key: "inter_op_thread_count" value: { string_value: "2" } }
parameters { key: "execution_mode" value: { string_value: "1" } }
parameters { key: "enable_mem_arena" value: { string_value: "0" } }
"""
    handler, _ = served(tmp_path, config)
    options = handler.session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (3, 2)
    assert (options.execution_mode.name, options.graph_optimization_level.name) == ("ORT_PARALLEL", "ORT_ENABLE_EXTENDED")
    assert not options.enable_cpu_mem_arena and handler.session.get_providers() == ["CPUExecutionProvider"]


@pytest.mark.parametrize(
    "config, why",
    [
        ('parameters { key: "gpu_mem_limit" value: { string_value: "much" } }', "gpu_mem_limit is 'much'"),
        ('parameters { key: "gpu_mem_limit" value: "1" }', "parameters.gpu_mem_limit is no { string_value"),
        ('parameters { key: "intra_op_thread_count" value: { string_value: "many" } }', "intra_op_thread_count is 'many'"),
        ('parameters { key: "execution_mode" value: { string_value: "2" } }', "execution_mode is '2'"),
        (ACCELERATED % ("gpu", 'name: "migraphx"'), "unknown Execution Accelerator 'migraphx' is requested: of a GPU there are tensorrt and cuda"),
        (ACCELERATED % ("cpu", 'name: "tensorrt"'), "unknown Execution Accelerator 'tensorrt' is requested: of a CPU there is openvino"),
        (ACCELERATED % ("tpu", 'name: "x"'), "execution_accelerators.tpu_execution_accelerator is not known"),
        (ACCELERATED % ("gpu", 'name: "tensorrt" parameters { key: "speed" value: "high" }'), "unknown parameter 'speed' is provided for TensorRT"),
        (ACCELERATED % ("gpu", 'name: "tensorrt" parameters { key: "precision_mode" value: "FP4" }'), "unsupported precision mode 'FP4'"),
        ("optimization { speed: 3 }", "optimization.speed is not known"),
        ("optimization { graph { level: 3 } }", "level is 3"),
        ('input [{ name: "INPUT0" dims: [ 2 ] reshape { shape: [ 1, 2 ] } }]', "input 'INPUT0': reshape"),
        ("max_batch_size: {", "ends too early"),
    ],
)
def test_what_is_not_known_here_is_refused_by_name(tmp_path, config, why):
    with pytest.raises(ValueError, match=why):
        onnx.make(context(repository(tmp_path, config)))


def providers(config, *has, gpu=0):
    from baton_worker import pbtxt
    from baton_worker.onnx_providers import providers_of
    from baton_worker.tensor_model import Parameters, gpu_of

    read_config = pbtxt.parse(config)
    where = gpu_of(read_config, Context("m", "1", "w", 1, "", gpu_id=gpu))
    return providers_of(read_config, Parameters(read_config), [f"{name}ExecutionProvider" for name in (*has, "CPU")], where)


def parameter(key, value):
    return f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}'


TENSORRT = ACCELERATED % (
    "gpu",
    'name: "tensorrt" parameters { key: "precision_mode" value: "FP16" } parameters { key: "max_workspace_size_bytes" value: "1073741824" } '
    'parameters { key: "trt_engine_cache_enable" value: "1" }',
)


def test_accelerators_that_onnxruntime_has_are_asked_first(caplog):
    options = {"trt_fp16_enable": "1", "trt_max_workspace_size": "1073741824", "trt_engine_cache_enable": "1"}
    expected = [("TensorrtExecutionProvider", options), ("CUDAExecutionProvider", {}), ("CPUExecutionProvider", {})]
    assert providers(TENSORRT, "Tensorrt", "CUDA") == expected
    assert providers(TENSORRT.replace(": [ {", " {").replace("} ]", "}"), "Tensorrt", "CUDA") == expected  # without brackets
    assert providers(ACCELERATED % ("cpu", 'name: "openvino"'), "OpenVINO") == [("OpenVINOExecutionProvider", {"device_type": "CPU"}), ("CPUExecutionProvider", {})]
    cuda = ACCELERATED % ("gpu", 'name: "cuda" parameters { key: "cudnn_conv_use_max_workspace" value: "0" }')
    old = parameter("gpu_mem_limit", 4294967200) + parameter("cudnn_conv_algo_search", 1) + parameter("arena_extend_strategy", 1) + parameter("do_copy_in_default_stream", "true")
    answer = {"cudnn_conv_algo_search": "HEURISTIC", "arena_extend_strategy": "kSameAsRequested", "gpu_mem_limit": "4294967200", "do_copy_in_default_stream": "1"}
    assert providers(cuda + old, "CUDA")[0] == ("CUDAExecutionProvider", {**answer, "cudnn_conv_use_max_workspace": "0"})
    assert caplog.records == []


def test_accelerators_that_onnxruntime_lacks_are_named_in_the_log(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("baton_worker.onnx.gpu_of", lambda config, context: 0)
    both = TENSORRT[: -len(" } }")] + ' cpu_execution_accelerator { name: "openvino" } } }'
    handler, _ = served(tmp_path, "max_batch_size: 4 " + both)
    assert results_of(run(handler, rows([1, 2]))) == [{"OUTPUT0": [[11, 22]], "OUTPUT1": [[9, 18]]}]
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
        f"config.pbtxt asks for {name}ExecutionProvider, which this onnxruntime does not have (pip install {package}): the model is served without it"
        for name, package in (("CUDA", "onnxruntime-gpu"), ("OpenVINO", "onnxruntime-openvino"), ("Tensorrt", "onnxruntime-gpu, with TensorRT's libraries"))
    ]


def test_accelerators_of_gpus_are_for_instances_on_gpus(caplog):
    caplog.set_level("INFO")
    only_cpu = [("CPUExecutionProvider", {})]
    assert providers(TENSORRT + "instance_group [{ kind: KIND_CPU }]", "Tensorrt", "CUDA") == only_cpu
    assert [r.getMessage() for r in caplog.records] == ["config.pbtxt: TensorrtExecutionProvider is left out: this instance is on the CPU"]
    assert providers(TENSORRT, "Tensorrt", "CUDA", gpu=None) == only_cpu


def test_a_provider_computes_on_the_gpu_of_its_instance():
    assert [options.get("device_id") for _, options in providers(TENSORRT, "Tensorrt", "CUDA", gpu=3)] == ["3", "3", None]
    assert [options.get("device_id") for _, options in providers(TENSORRT, "Tensorrt", "CUDA")] == [None, None, None]
    own = parameter("gpu_mem_limit", "1000") + "instance_group [{ kind: KIND_MODEL }]"
    assert providers(own, "CUDA", gpu=None) == [("CUDAExecutionProvider", {"gpu_mem_limit": "1000"}), ("CPUExecutionProvider", {})]


def test_what_changes_nothing_is_named_in_the_log(tmp_path, caplog):
    caplog.set_level("INFO")
    config = parameter("ENABLE_NVFUSER", "true") + parameter("memory.enable_memory_arena_shrinkage", "cpu:0") + parameter("intra_op_thread_count", "-1")
    handler, _ = served(tmp_path, config + "optimization { priority: PRIORITY_MAX input_pinned_memory { enable: true } }")
    assert results_of(run(handler, rows([1, 2]))) == [{"OUTPUT0": [[11, 22]], "OUTPUT1": [[9, 18]]}]
    answer = [r.getMessage() for r in caplog.records]
    assert "config.pbtxt: parameters.ENABLE_NVFUSER is not known here and changes nothing" in answer
    assert [word.split(" changes")[0] for word in answer if "optimization" in word] == [f"config.pbtxt: optimization.{key}" for key in ("priority", "input_pinned_memory")]
    assert handler._run_options.get_run_config_entry("memory.enable_memory_arena_shrinkage") == "cpu:0"


@pytest.mark.parametrize(
    "config, model, why",
    [
        ('input [{ name: "x" data_type: TYPE_FP32 }]', None, "input 'x': the model has INPUT0, INPUT1"),
        ('output [{ name: "OUTPUT0" data_type: TYPE_INT8 }]', None, "output 'OUTPUT0' is TYPE_INT8, the model's is FP32"),
        (None, b"no model", "model.onnx: "),
        (None, onnx_bytes.model([("Identity", ["x"], ["y"])], [onnx_bytes.value(n, BFLOAT16) for n in "x"], [onnx_bytes.value("y", BFLOAT16)]),
         r"input 'x' is a tensor\(bfloat16\)"),
    ],
)
def test_a_model_that_is_not_as_its_config_says_cannot_be_served(tmp_path, config, model, why):
    with pytest.raises(Unusable, match=why):
        made(onnx.make, repository(tmp_path, config, model))


def test_without_onnxruntime_the_install_command_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match=r"onnxruntime is not installed for .*: pip install 'sdk/python\[onnx\]'"):
        onnx.make(context(repository(tmp_path)))


@pytest.mark.parametrize("words, why", [(["nothing.onnx"], "is no file"), ([], "the options of"), (["a", "--config", "b", "c"], "the options of")])
def test_a_command_without_a_model_is_refused(words, why):
    with pytest.raises(ValueError, match=why):
        onnx.make(context(*words))


def test_the_process_ends_for_good_and_says_why_in_its_last_line(tmp_path):
    env = {f"BATON_WORKER_{key}": value for key, value in
           {"DOOR": "ipc:///nowhere", "NODE": "1", "EPOCH": "1", "NAME": "w", "MODEL": "m", "VERSION": "1", "BATCH_SIZE": "1"}.items()}
    command = [sys.executable, "-m", "baton_worker.onnx", repository(tmp_path, None, b"no model")]
    ended = subprocess.run(command, env={**os.environ, **env, "PYTHONPATH": str(Path(__file__).parents[1])}, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 78
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("baton_worker error ") and "model.onnx" in last


def test_the_example(tmp_path):
    assert (EXAMPLE / "1" / "model.onnx").read_bytes() == onnx_bytes.add_sub()
    handler = made(onnx.make, str(EXAMPLE / "1" / "model.onnx"))
    assert handler.rows_max == 8
    assert results_of(run(handler, rows([1, 2]))) == [{"OUTPUT0": [[11, 22]], "OUTPUT1": [[9, 18]]}]
