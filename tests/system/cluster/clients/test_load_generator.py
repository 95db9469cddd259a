"""NVIDIA's load generator aiperf (PyPI), in a venv of its own, loads a real cluster while a stage is killed. Its tokenizer is a folder that the test
writes, so that nothing is fetched; tokens are those that the server counts."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients"))

from own_venv import program  # noqa: E402

REQUESTS, STREAMS, TOKENS = 16, 4, 32
SECONDS_MAX = 240


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A token for each byte, in Hugging Face's layout."""
    folder = tmp_path_factory.mktemp("tokenizer")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({**{c: i for i, c in enumerate(alphabet)}, "<eos>": len(alphabet)}, []))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>", "pad_token": "<eos>"}))
    return folder


def begin(cluster, tokenizer, folder):
    command = [program("aiperf", "aiperf"), "profile", "--model", "smollm2", "--url", cluster.url, "--endpoint-type", "chat", "--streaming",
               "--tokenizer", tokenizer, "--use-server-token-count", "--concurrency", STREAMS, "--request-count", REQUESTS, "--isl", 200,
               "--osl", TOKENS, "--extra-inputs", "ignore_eos:true", "--ui", "none", "--artifact-dir", folder]
    offline = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HOME": str(folder / "no-hub"), "NO_COLOR": "1"}
    return subprocess.Popen([str(word) for word in command], env={**os.environ, **offline}, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            start_new_session=True)  # it has processes of its own


def result(process, folder):
    answer, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, answer[-4000:]
    return json.loads((folder / "profile_export_aiperf.json").read_text())


def test_streams_of_chats_while_a_stage_is_killed(fresh, tokenizer, tmp_path):
    load = begin(fresh, tokenizer, tmp_path)
    try:
        deadline = time.monotonic() + SECONDS_MAX
        while fresh.metric("vllm:num_requests_running") < STREAMS:
            assert load.poll() is None and time.monotonic() < deadline, load.communicate()[0][-4000:]
            time.sleep(0.01)
        fresh.kill("shard-1")
        reply = result(load, tmp_path)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(load.pid, signal.SIGKILL)
    assert reply["request_count"]["avg"] == REQUESTS and not reply.get("error_request_count")
    assert (reply["output_sequence_length"]["min"], reply["output_sequence_length"]["max"]) == (TOKENS, TOKENS)
    assert reply["time_to_first_token"]["count"] == reply["inter_token_latency"]["count"] == REQUESTS
    assert reply["output_token_throughput"]["avg"] > 0
    read = json.loads((tmp_path / "server_metrics_export.json").read_text())
    assert read["summary"]["endpoints_successful"] == [fresh.url + "/metrics"] and "vllm:num_requests_running" in read["metrics"]
    fresh.wait_standing()
    assert [p["restarts"] for p in fresh.status()["processes"] if p["name"] == "shard-1"] == [1]
