"""TorchScript and AOTInductor packages, as Triton's backend serves them. Run by test_torchscript.py, in a Python with torch."""

import importlib.util

import numpy
import pytest
import torch
from test_shims import context, made, read, run  # noqa: F401 (read is a fixture)

from baton_client import Tensor
from baton_worker import Unusable, torchscript


class AddSub(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor):
        return x + y, x - y


class Named(torch.nn.Module):
    def forward(self, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"twice": 2 * given["a"], "sum": given["a"] + given["b"]}


class Shout(torch.nn.Module):
    def forward(self, texts: list[str]) -> list[str]:
        return [text.upper() for text in texts]


class Half(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16)


class Maybe(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor = torch.ones(1)) -> torch.Tensor:
        return x * y


TWO_IN = """
max_batch_size: 4
input [{ name: "INPUT__0" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "INPUT__1" data_type: TYPE_FP32 dims: [ 2 ] }]
output [{ name: "OUTPUT__1" data_type: TYPE_FP32 dims: [ 2 ] }, { name: "OUTPUT__0" data_type: TYPE_FP32 dims: [ 2 ] }]
"""


def repository(tmp_path, module, config=None, name="model.pt"):
    file = tmp_path / "m" / "1" / name
    file.parent.mkdir(parents=True)
    if isinstance(module, torch.nn.Module):
        torch.jit.script(module).save(str(file))
    else:
        file.write_bytes(module)
    if config is not None:
        (tmp_path / "m" / "config.pbtxt").write_text(config)
    return str(file)


def served(tmp_path, module, config=None, **options):
    handler = made(torchscript.make, repository(tmp_path, module, config, **options))
    calls, compute = [], handler.compute
    handler.compute = lambda arrays: calls.append(len(next(iter(arrays.values())))) or compute(arrays)
    return handler, calls


def asked(outputs=(), **inputs):
    return {"inputs": [Tensor.of(name, numpy.array(v, "float32") if not isinstance(v, numpy.ndarray) else v) for name, v in inputs.items()],
            "outputs": list(outputs)}


def results_of(pieces):
    return [(p.failure.name, p.failure.message) if p.failure else {t.name: t.numpy().tolist() for t in p.outputs}
            for _, p in sorted(pieces, key=lambda one: one[0])]


def test_names_give_positions_and_rows_are_joined(tmp_path):
    handler, calls = served(tmp_path, AddSub(), TWO_IN)
    answers = results_of(run(handler, asked(INPUT__1=[[1, 2]], INPUT__0=[[10, 20]]), asked(INPUT__0=[[3, 4], [5, 6]], INPUT__1=[[1, 1], [1, 1]]),
                       asked(INPUT__0=[[1, 1], [1, 1]], INPUT__1=[[1, 1], [1, 1]], outputs=["OUTPUT__0"])))
    assert calls == [3, 2]
    assert answers[0] == {"OUTPUT__1": [[9, 18]], "OUTPUT__0": [[11, 22]]}
    assert answers[1]["OUTPUT__1"] == [[2, 3], [4, 5]] and answers[2] == {"OUTPUT__0": [[2, 2], [2, 2]]}


def test_arguments_of_forward_name_inputs(tmp_path):
    config = 'input [{ name: "y" data_type: TYPE_FP32 }, { name: "x" data_type: TYPE_FP32 }] output [{ name: "sum" }, { name: "difference" }]'
    handler, _ = served(tmp_path, AddSub(), config)
    assert results_of(run(handler, asked(x=[5], y=[2]))) == [{"sum": [7], "difference": [3]}]


def test_other_names_are_in_the_order_of_the_config(tmp_path):
    config = 'input [{ name: "first" data_type: TYPE_FP32 }, { name: "second" data_type: TYPE_FP32 }]'
    handler, _ = served(tmp_path, AddSub(), config)
    assert results_of(run(handler, asked(second=[2], first=[5]))) == [{"OUTPUT__0": [7], "OUTPUT__1": [3]}]


def test_without_a_config_the_model_says_what_it_takes(tmp_path):
    handler, calls = served(tmp_path, Maybe())
    answers = results_of(run(handler, asked(x=[5, 6]), asked(x=[5], y=[2]), asked(y=[1]), asked(x=[1], outputs=["z"])))
    assert answers[:2] == [{"OUTPUT__0": [5, 6]}, {"OUTPUT__0": [10]}] and len(calls) == 3
    assert answers[2] == ("invalid_request", "there is no input named 'x'")
    assert answers[3] == ("invalid_request", "the model has no output 'z', but OUTPUT__0")


def test_dictionaries_of_tensors(tmp_path):
    config = """input [{ name: "a" data_type: TYPE_FP32 }, { name: "b" data_type: TYPE_FP32 }] output [{ name: "sum" }, { name: "twice" }]"""
    handler, _ = served(tmp_path, Named(), config)
    assert results_of(run(handler, asked(a=[1, 2], b=[3, 4]))) == [{"sum": [4, 6], "twice": [2, 4]}]


def test_texts_are_lists(tmp_path):
    handler, _ = served(tmp_path, Shout(), 'input [{ name: "texts" data_type: TYPE_STRING }] output [{ name: "OUTPUT__0" data_type: TYPE_STRING }]')
    answers = results_of(run(handler, asked(texts=numpy.array(["ä", "b"], dtype=object)), asked(texts=numpy.array([["a"]], dtype=object))))
    assert answers[0] == {"OUTPUT__0": ["ä".encode(), b"B"]} and "of one dimension" in answers[1][1]


def test_an_exception_of_the_model_fails_its_own_request(tmp_path):
    handler, _ = served(tmp_path, AddSub(), TWO_IN)
    bad = asked(INPUT__0=[[1, 2, 3]], INPUT__1=[[1, 2]])
    answers = results_of(run(handler, asked(INPUT__0=[[1, 2]], INPUT__1=[[1, 2]]), bad))
    assert answers[0]["OUTPUT__0"] == [[2, 4]] and answers[1][0] == "handler_failed" and "the model failed" in answers[1][1]


def test_an_output_without_a_datatype_is_reported(tmp_path):
    handler, _ = served(tmp_path, Half())
    ((name, why),) = results_of(run(handler, asked(x=[1])))
    assert name == "handler_failed" and "bfloat16" in why


def test_parameters(tmp_path):
    one = lambda key, value: f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'
    threads = torch.get_num_threads()
    handler, _ = served(tmp_path, AddSub(), TWO_IN + one("INTRA_OP_THREAD_COUNT", 1) + one("DISABLE_OPTIMIZED_EXECUTION", "true") + one("INFERENCE_MODE", "false"))
    try:
        assert torch.get_num_threads() == 1
        assert results_of(run(handler, asked(INPUT__0=[[1, 2]], INPUT__1=[[1, 2]])))[0]["OUTPUT__0"] == [[2, 4]]
    finally:
        torch.set_num_threads(threads)
    for line, why in ((one("INTRA_OP_THREAD_COUNT", "few"), "INTRA_OP_THREAD_COUNT is 'few'"), (one("INFERENCE_MODE", "perhaps"), "INFERENCE_MODE is 'perhaps'")):
        (tmp_path / "m" / "config.pbtxt").write_text(TWO_IN + line)
        with pytest.raises(ValueError, match=why):
            torchscript.make(context(str(tmp_path / "m" / "1" / "model.pt")))


def test_parameters_that_change_nothing_are_named_in_the_log(tmp_path, caplog):
    one = lambda key, value: f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'
    answer = [one("ENABLE_NVFUSER", "true"), one("ENABLE_WEIGHT_SHARING", "true"), one("ENABLE_TENSOR_FUSER", "true"), one("INTER_OP_THREAD_COUNT", 0), one("CACHE_CLEANING_ENABLED", 1)]
    before = torch.get_num_interop_threads()
    handler, _ = served(tmp_path, AddSub(), TWO_IN + "".join(answer))
    assert results_of(run(handler, asked(INPUT__0=[[1, 2]], INPUT__1=[[1, 2]])))[0]["OUTPUT__0"] == [[2, 4]]
    reported_names = [r.getMessage().split("parameters.")[1].split()[0] for r in caplog.records if "parameters." in r.getMessage()]
    assert reported_names == ["ENABLE_WEIGHT_SHARING", "ENABLE_NVFUSER"] and torch._C._jit_texpr_fuser_enabled()
    assert torch.get_num_interop_threads() == before and handler._settings.cleans_cache


@pytest.mark.parametrize("config, why", [
    (TWO_IN.replace("INPUT__1", "INPUT__2"), "the places are not 0 to 1"),
    ('input [{ name: "x" data_type: TYPE_BF16 }]', "'BF16', which torch does not take"),
    ("input [" + ",".join(f'{{ name: "n{i}" data_type: TYPE_FP32 }}' for i in range(3)) + "]", "3 inputs, and the model's `forward` takes x, y"),
])
def test_a_config_that_is_not_the_models_cannot_be_served(tmp_path, config, why):
    with pytest.raises(Unusable, match=why):
        made(torchscript.make, repository(tmp_path, AddSub(), config))


def test_a_package_needs_a_config(tmp_path):
    with pytest.raises(ValueError, match="config.pbtxt with its inputs is needed|pip install 'torch>=2.6'"):
        torchscript.make(context(repository(tmp_path, b"PK", name="model.pt2")))


@pytest.mark.skipif(not hasattr(torch, "export"), reason=f"torch {torch.__version__} makes no packages of AOTInductor")
@pytest.mark.skipif(importlib.util.find_spec("sympy") is None, reason="torch's compiler wants sympy, which `pip install torch` brings")
def test_a_package_of_aotinductor(tmp_path):
    import torch._inductor

    example = (torch.ones(2, 2), torch.ones(2, 2))
    rows = torch.export.Dim("rows", max=64)
    exported = torch.export.export(AddSub(), example, dynamic_shapes={"x": {0: rows}, "y": {0: rows}})
    file = repository(tmp_path, b"", TWO_IN + "instance_group [{ kind: KIND_CPU }]", name="model.pt2")
    torch._inductor.aoti_compile_and_package(exported, package_path=file)
    handler = made(torchscript.make, file)
    answers = results_of(run(handler, asked(INPUT__0=[[10, 20]], INPUT__1=[[1, 2]]), asked(INPUT__0=[[3, 4], [5, 6]], INPUT__1=[[1, 1], [1, 1]])))
    assert answers[0] == {"OUTPUT__1": [[9, 18]], "OUTPUT__0": [[11, 22]]} and answers[1]["OUTPUT__0"] == [[4, 5], [6, 7]]
