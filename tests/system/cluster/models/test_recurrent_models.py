"""Models with recurrent layers, with layers of several sizes or with latent attention answer as transformers does, in two stages. Their
streams outlive the end of any process, because states of sequences are kept, redone and shared like keys and values. Tiny models of random weights
(tests/data/model/make_family_goldens.py)."""
import concurrent.futures as futures
import json
import shutil
import string

import openai
import pytest
from harness import ROOT, running

FAMILIES = ROOT / "tests/data/model/families"
NAMES = ("qwen35", "qwen35moe", "qwen3next", "lfm2", "lfm2moe", "granitehybrid", "gemma4", "gemma4moe", "gemma4e", "deepseek_v2_lite",
         "deepseek_v3")
UNCUT = ("gemma4e",)  # its layers stay in one stage
LENGTH = 450


def with_tokenizer(family, directory):
    """The family's directory, with a letter for each of its 64 tokens."""
    shutil.copytree(FAMILIES / family, directory)
    letters = string.ascii_letters + string.digits + ".\u0120"  # the last one is a space
    (directory / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(letters)}, "merges": []}}))
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return directory


@pytest.fixture(scope="module", params=NAMES)
def served(request, tmp_path_factory):
    golden = json.loads((FAMILIES / f"{request.param}.json").read_text())
    directory = with_tokenizer(request.param, tmp_path_factory.mktemp("model") / request.param)
    with running(path=directory, devices=("cpu:0",) if request.param in UNCUT else ("cpu:0", "cpu:1")) as cluster:
        yield cluster, golden


def complete(cluster, prompt, count, **more):
    body = {"model": "smollm2", "prompt": prompt, "temperature": 0, "max_tokens": count, "ignore_eos": True, **more}
    status, _, answer = cluster.post("/v1/completions", body)
    assert status == 200, answer
    return answer


def test_answers_are_those_of_transformers_also_from_the_prefix_cache(served):
    cluster, golden = served
    expected = cluster.post("/detokenize", {"tokens": golden["greedy_ids"]})[2]["prompt"]
    cached = []
    for _ in range(2):
        answer = complete(cluster, golden["prompt_ids"], len(golden["greedy_ids"]))
        assert answer["choices"][0]["text"] == expected
        cached.append(answer["usage"]["prompt_tokens_details"]["cached_tokens"])
    assert cached == [0, 128]  # whole blocks of 64 positions before the last one of 150


def test_streams_outlive_every_process(served):
    cluster, golden = served
    client = openai.OpenAI(base_url=cluster.url + "/v1", api_key="x", max_retries=0)
    prompt = golden["prompt_ids"][:50]
    whole = complete(cluster, prompt, LENGTH)["choices"][0]["text"]
    for victim in sorted({"shard-0", "shard-1", "head"} & set(cluster.pids())):
        former = cluster.pids()
        text = ""
        stream = client.completions.create(model="smollm2", prompt=prompt, temperature=0, max_tokens=LENGTH, stream=True,
                                           extra_body={"ignore_eos": True})
        for event in stream:
            text += event.choices[0].text if event.choices else ""
            if victim and text:
                cluster.kill(victim)
                former = {victim: former[victim]}
                victim = None
        assert text == whole
        cluster.wait_standing(*former.items())


def test_many_sequences_share_the_slots(served):
    cluster, golden = served
    prompts = [golden["prompt_ids"][:n] for n in (3, 20, 64, 65, 100, 128, 129, 150)]
    alone = [complete(cluster, prompt, 30)["choices"][0]["text"] for prompt in prompts]
    with futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(lambda prompt: complete(cluster, prompt, 30)["choices"][0]["text"], prompts * 4))
    assert together == alone * 4
