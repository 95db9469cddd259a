"""What docs/compatibility*.md says is refused, is refused, by its name and in the words of the system whose client asks."""
import httpx
import pytest
from raw import chat

OPENAIS = ["audio/transcriptions", "audio/speech", "images/generations", "files", "batches", "fine_tuning/jobs", "moderations", "assistants", "threads", "realtime"]
VLLMS = ["v1/score", "score", "v1/rerank", "rerank", "pooling", "classify", "v1/load_lora_adapter", "v1/unload_lora_adapter", "sleep", "wake_up",
         "reset_prefix_cache", "start_profile", "invocations"]
TGIS = ["chat_tokenize", "embed", "invocations"]
TRITONS = ["v2/systemsharedmemory/status", "v2/cudasharedmemory/status", "v2/trace/setting", "v2/logging", "v2/models/fake/trace/setting"]
TORCHSERVES = ["explanations/fake", "v1/models/fake:explain", "wfpredict/flow", "workflows", "fake/predict", "v2/models/fake/infer"]


@pytest.mark.parametrize("path", [*(f"v1/{p}" for p in OPENAIS), *VLLMS, *TGIS, *TRITONS])
def test_routes_that_are_not_there(gateway, path):
    for method in ("GET", "POST"):
        r = httpx.request(method, f"{gateway.url}/{path}", json={} if method == "POST" else None)
        assert r.status_code == 404, r.text
        error = r.json()["error"]  # Triton's is a text
        assert "/" + path in (error if isinstance(error, str) else error["message"])


@pytest.mark.parametrize("path", TORCHSERVES)
def test_routes_of_torchserve_that_are_not_there(start, path):
    g = start("--torchserve-inference", "127.0.0.1:0")
    r = httpx.post(f"{g.torchserve['inference']}/{path}", json={})
    assert r.status_code == 404 and set(r.json()) == {"code", "type", "message"}, r.text


FIELDS = [("functions", [{"name": "f"}]), ("function_call", "auto"), ("guided_decoding_backend", "xgrammar"), ("structural_tag", {}), ("use_beam_search", True),
          ("prompt_logprobs", 1), ("chat_template", "{{ messages }}"),
          ("mm_processor_kwargs", {"a": 1}), ("kv_transfer_params", {"a": 1}), ("lora_request", {"name": "a"}), ("modalities", ["text", "audio"]),
          ("audio", {"voice": "a"}), ("prediction", {"type": "content", "content": "a"}), ("reasoning_effort", "high"), ("store", True),
          ("web_search_options", {})]


@pytest.mark.parametrize("name, value", FIELDS)
def test_fields_that_are_not_there_are_refused_by_their_names(gateway, name, value):
    r = httpx.post(gateway.url + "/v1/chat/completions", json={**chat("tokens=1"), name: value})
    assert (r.status_code, r.json()["error"]["code"], r.json()["error"]["param"]) == (400, "unsupported_parameter", name), r.text


@pytest.mark.parametrize("part", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                                  {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, {"type": "file", "file": {"file_id": "a"}}])
def test_images_and_audio_are_refused_by_their_place(gateway, part):
    r = httpx.post(gateway.url + "/v1/chat/completions", json={"model": "fake", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, part]}]})
    assert r.status_code == 400 and r.json()["error"]["param"].startswith("messages[0].content[1]"), r.text


def test_a_body_that_is_compressed_is_refused(gateway):
    for path in ("/v2/models/fake/infer", "/v1/chat/completions", "/generate"):
        assert httpx.post(gateway.url + path, content=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}).status_code == 415, path


def test_events_that_have_no_ids_cannot_be_gone_on_with(gateway):
    place = {"Last-Event-ID": "1-0:1"}
    kserve = httpx.post(gateway.url + "/v2/models/fake/generate_stream", json={"text_input": "tokens=1", "stream": True}, headers=place)
    tgi = httpx.post(gateway.url + "/generate_stream", json={"inputs": "tokens=1"}, headers=place)
    assert (kserve.status_code, tgi.status_code) == (400, 422) and all("Last-Event-ID" in r.json()["error"] for r in (kserve, tgi))


def test_several_prompts_are_several_requests_at_tritons_door(gateway):
    tensor = {"name": "text_input", "shape": [2], "datatype": "BYTES", "data": ["tokens=1", "tokens=1"]}
    r = httpx.post(gateway.url + "/v2/models/fake/infer", json={"inputs": [tensor]})
    assert r.status_code == 400 and "text_input" in r.json()["error"]
