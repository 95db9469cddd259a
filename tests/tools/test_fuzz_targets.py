"""Everything that tests/fuzz/run.py names for a target exists: its program, its seeds, and the files of its dictionary."""
import dataclasses
import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def module():
    spec = importlib.util.spec_from_file_location("fuzz_run", ROOT / "tests/fuzz/run.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


RUN = module()


@pytest.mark.parametrize("name", RUN.TARGETS)
def test_every_pattern_of_a_target_matches_a_file(name):
    target = RUN.TARGETS[name]
    for pattern in [*target.seeds, *target.sources]:
        assert RUN.files_of(pattern), pattern


def test_a_pattern_without_a_file_is_refused_where_it_is_used():
    stale = dataclasses.replace(RUN.TARGETS["packet"], sources=["cluster/no_such_*.cpp"])
    with pytest.raises(ValueError, match="'cluster/no_such_\\*.cpp' matches no file"):
        RUN.dictionary(stale)


def test_the_targets_are_those_that_are_built():
    built = re.findall(r"^baton_fuzz\((\w+)\.cpp", (ROOT / "tests/fuzz/CMakeLists.txt").read_text(), re.MULTILINE)
    assert sorted(built) == sorted(RUN.TARGETS)


# The options of each server's start line are in files of their own, which a rename or a split may take out of a pattern.
@pytest.mark.parametrize(("name", "word"), [
    ("launch_command", "--served-model-name"), ("launch_command", "--max-batch-total-tokens"), ("launch_command", "--n-gpu-layers"),
    ("launch_command", "--model-control-mode"), ("launch_command", "default_workers_per_model"), ("torchserve_yaml", "parallelType"),
    ("nodes_toml", "kv_cache_bytes"), ("nodes_toml", "max_batch_size"), ("request", "max_new_tokens"), ("request", "max_output_tokens"),
    ("request", "instances"), ("onnx_file", "FP16"), ("triton_config", "instance_group")])
def test_a_dictionary_has_the_words_of_what_it_reads(name, word):
    assert word in RUN.dictionary(RUN.TARGETS[name])
