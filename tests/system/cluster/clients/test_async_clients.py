"""Common asynchronous clients, and others, use one cluster with every API. Each gets the same text, also while a stage is
killed."""
import asyncio
import json
import pathlib
import sys
from typing import Annotated

import numpy as np
import openai
import pytest
import requests
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http.aio as http_aio
from harness import free_port, running
from huggingface_hub import AsyncInferenceClient
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel, Field

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients"))

from text_generation_client import calls  # noqa: E402

PROMPT = "Once upon a time, in a small town by the sea,"
CONVERSATION = [{"role": "user", "content": "Tell me about a small town by the sea."}]
GREEDY = {"max_tokens": 24, "temperature": 0}
DOORS = ("kserve_grpc", "torchserve_inference", "torchserve_management", "torchserve_metrics")


@pytest.fixture(scope="module")
def cluster():
    addresses = {door: f"127.0.0.1:{free_port()}" for door in DOORS}
    with running(gateway="\n".join(f'{door} = "{address}"' for door, address in addresses.items())) as c:
        c.doors = addresses
        c.text = c.post("/v1/completions", {"model": "smollm2", "prompt": PROMPT, **GREEDY})[2]["choices"][0]["text"]
        assert c.text
        yield c


class City(BaseModel):
    name: str = Field(max_length=20)
    people: int = Field(ge=1, le=99_000_000)
    districts: list[Annotated[str, Field(max_length=20)]] = Field(max_length=2)  # otherwise a draw may continue to the end of the context


def openai_of(cluster):
    return openai.AsyncOpenAI(base_url=cluster.url + "/v1", api_key="x", max_retries=0, timeout=120)


async def text_of(client, **fields):
    stream = await client.chat.completions.create(model="smollm2", messages=CONVERSATION, stream=True, **fields)
    return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])


def test_openai_streams_run_beside_each_other_and_outlive_a_killed_stage(cluster):
    asked = [{"max_tokens": 100, "temperature": 1.0, "seed": seed} for seed in range(4)]

    async def all_of_them(killed=None):
        async with openai_of(cluster) as client:
            runs = [asyncio.create_task(text_of(client, **fields)) for fields in asked]
            if killed:
                await asyncio.sleep(0.3)
                await asyncio.to_thread(cluster.kill, killed)
            return await asyncio.gather(*runs)

    undisturbed = asyncio.run(all_of_them())
    assert len(set(undisturbed)) == 4
    assert asyncio.run(all_of_them("shard-1")) == undisturbed
    cluster.wait_standing()


def test_openai_parses_answers_into_types_whole_and_streamed(cluster):
    async def parsed():
        async with openai_of(cluster) as client:
            whole = await client.chat.completions.parse(model="smollm2", messages=CONVERSATION, response_format=City, temperature=1.0, seed=3)
            async with client.chat.completions.stream(model="smollm2", messages=CONVERSATION, response_format=City, temperature=1.0, seed=3) as stream:
                async for _ in stream:
                    pass
                streamed = await stream.get_final_completion()
            response = await client.responses.parse(model="smollm2", input="A city as JSON.", text_format=City)
            return whole.choices[0].message.parsed, streamed.choices[0].message.parsed, response.output_parsed

    whole, streamed, response = asyncio.run(parsed())
    assert whole == streamed and all(isinstance(c, City) for c in (whole, streamed, response))


def test_openai_embeds_and_refuses(cluster):
    async def asked():
        async with openai_of(cluster) as client:
            made = await client.embeddings.create(model="smollm2", input=["a town", "a sea"])
            with pytest.raises(openai.NotFoundError):
                await text_of(client, extra_body={"model": "nobody"})
            with pytest.raises(openai.BadRequestError) as refused:
                await text_of(client, temperature=9)
            return made, refused.value.param

    made, param = asyncio.run(asked())
    assert [e.index for e in made.data] == [0, 1] and abs(sum(x * x for x in made.data[0].embedding) - 1) < 1e-3 and param == "temperature"


def test_openai_leaves_a_stream_and_its_ticket_ends(cluster):
    async def left():
        async with openai_of(cluster) as client:
            stream = await client.chat.completions.create(model="smollm2", messages=CONVERSATION, stream=True, max_tokens=4000, extra_body={"ignore_eos": True})
            async for _ in stream:
                break
            await stream.close()
        for _ in range(200):
            if cluster.metric("vllm:num_requests_running") == 0:
                return True
            await asyncio.sleep(0.05)

    assert asyncio.run(left())


def test_hugging_faces_client(cluster):
    async def asked():
        client = AsyncInferenceClient(model=cluster.url, timeout=120)
        whole = await client.text_generation(PROMPT, max_new_tokens=24, return_full_text=False)
        pieces = [p async for p in await client.text_generation(PROMPT, max_new_tokens=24, stream=True)]
        details = await client.text_generation(PROMPT, max_new_tokens=24, details=True, return_full_text=False)
        chat = [c async for c in await client.chat_completion(CONVERSATION, model="smollm2", max_tokens=8, temperature=0, stream=True)]
        return whole, "".join(pieces), details, "".join(c.choices[0].delta.content or "" for c in chat if c.choices)

    whole, streamed, details, chat = asyncio.run(asked())
    assert whole == streamed == cluster.text and chat
    assert details.details.generated_tokens == 24 and details.details.finish_reason == "length"


def test_tgis_client_both_ways(cluster):
    greedy = {"prompt": PROMPT, "max_new_tokens": 24}
    whole, streamed, both = calls(cluster.url, {"call": "generate", **greedy}, {"call": "generate_stream", **greedy}, {"call": "async", **greedy})
    assert whole["answer"]["generated_text"] == both["answer"][0]["generated_text"] == cluster.text
    for pieces in (streamed["answer"], both["answer"][1]):
        assert pieces[-1]["generated_text"] == "".join(p["token"]["text"] for p in pieces) == cluster.text
    too_long, = calls(cluster.url, {"call": "generate", "prompt": PROMPT, "max_new_tokens": 1_000_000})
    assert too_long["error"] == "ValidationError" and "context" in too_long["message"]


def inputs_of(module, **flags):
    text = module.InferInput("text_input", [1], "BYTES")
    text.set_data_from_numpy(np.array([PROMPT.encode()], dtype=np.object_))
    all_of_them = [text]
    for name in flags:
        flag = module.InferInput(name, [1], "BOOL")
        flag.set_data_from_numpy(np.array([True]))
        all_of_them.append(flag)
    return all_of_them


def test_triton_over_http(cluster):
    async def asked():
        async with http_aio.InferenceServerClient(cluster.url.removeprefix("http://"), conn_timeout=120) as client:
            assert await client.is_server_ready() and await client.is_model_ready("smollm2")
            assert (await client.get_model_metadata("smollm2"))["name"] == "smollm2"
            both = [client.infer("smollm2", inputs_of(http_aio, exclude_input_in_output=True), parameters=GREEDY) for _ in range(3)]
            return [r.as_numpy("text_output")[0].decode() for r in await asyncio.gather(*both)]

    assert asyncio.run(asked()) == [cluster.text] * 3


def test_triton_over_grpc_through_a_killed_stage(cluster):
    async def streamed(client, killed=None, **parameters):
        async def requests_of_it():
            yield {"model_name": "smollm2", "inputs": inputs_of(grpc_aio, stream=True), "parameters": parameters}
        text = ""
        async for result, error in client.stream_infer(requests_of_it()):
            assert error is None, error
            text += result.as_numpy("text_output")[0].decode()
            if killed and len(text) > 40:
                await asyncio.to_thread(cluster.kill, killed)
                killed = None
        assert killed is None
        return text

    async def asked():
        async with grpc_aio.InferenceServerClient(cluster.doors["kserve_grpc"]) as client:
            assert await client.is_server_live() and await client.is_model_ready("smollm2")
            whole = await client.infer("smollm2", inputs_of(grpc_aio, exclude_input_in_output=True), parameters=GREEDY)
            assert whole.as_numpy("text_output")[0].decode() == await streamed(client, **GREEDY) == cluster.text
            drawn = {"max_tokens": 120, "temperature": 1.0, "seed": 5}
            undisturbed = await streamed(client, **drawn)
            assert await streamed(client, killed="shard-0", **drawn) == undisturbed

    asyncio.run(asked())
    cluster.wait_standing()


def test_requests_reads_chunks_and_events_as_they_come(cluster):
    url = f"http://{cluster.doors['torchserve_inference']}/predictions/smollm2"
    with requests.post(url, json={"prompt": PROMPT, **GREEDY}, stream=True, timeout=120) as r:
        chunks = [json.loads(c)["text"] for c in r.iter_content(chunk_size=None) if c]
    assert "".join(chunks) == cluster.text and len(chunks) > 4
    with requests.post(cluster.url + "/v1/completions", json={"model": "smollm2", "prompt": PROMPT, "stream": True, **GREEDY}, stream=True, timeout=120) as r:
        lines = [line.removeprefix("data: ") for line in r.iter_lines(decode_unicode=True) if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    assert "".join(c["text"] for line in lines[:-1] for c in json.loads(line)["choices"]) == cluster.text


def families_at(url):
    families = list(text_string_to_metric_families(requests.get(url + "/metrics", timeout=30).text))
    names = [f.name for f in families]
    assert names and len(names) == len(set(names)), url
    strange = [(f.name, f.type, f.documentation) for f in families if not f.documentation or f.type == "unknown"]
    assert strange == [], url
    return set(names)


def test_prometheus_reads_every_metrics_door(cluster):
    everything = {"baton_blocks_total", "vllm:num_requests_running", "tgi_queue_size", "nv_inference_count"}
    assert everything <= families_at(cluster.url)
    assert "ts_inference_requests" in families_at(f"http://{cluster.doors['torchserve_metrics']}")
    admin = f"127.0.0.1:{free_port()}"
    with running(gateway=f'admin = "{admin}"') as other:
        assert {"baton_blocks_total", "vllm:num_requests_running"} <= families_at(f"http://{admin}")
        assert requests.get(other.url + "/metrics", timeout=30).status_code == 403  # it has moved there
