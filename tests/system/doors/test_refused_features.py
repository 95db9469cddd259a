"""Features that docs/apis calls rejected are rejected by name, in the error format of the client's API."""
import httpx
import pytest
from raw import chat

OPENAIS = ["audio/transcriptions", "audio/speech", "images/generations", "files", "batches", "fine_tuning/jobs", "moderations", "assistants", "threads", "realtime"]
VLLMS = ["v1/score", "score", "v1/rerank", "rerank", "v2/rerank", "v2/embed", "pooling", "classify", "generative_scoring", "v1/load_lora_adapter",
         "v1/unload_lora_adapter", "sleep", "wake_up", "is_sleeping", "pause", "resume", "is_paused", "reset_prefix_cache", "reset_mm_cache",
         "reset_encoder_cache", "start_profile", "stop_profile", "invocations", "collective_rpc", "server_info", "tokenizer_info", "scale_elastic_ep",
         "is_scaling_elastic_ep", "abort_requests", "fault_tolerance/apply", "fault_tolerance/status", "v1/decisions", "v1/systemone", "kv_event_sources",
         "v1/messages/render", "v1/chat/completions/derender", "v1/completions/derender", "cohere/v2/chat", "cohere/v2/chat/render",
         "inference/v1/abort_requests", "init_weight_transfer_engine", "shutdown_weight_transfer_engine", "update_weights", "start_weight_update",
         "start_draft_weight_update", "finish_weight_update", "update_weight_version", "weight_info", "weight_checker", "get_world_size", "release_kv_cache_memory",
         "v1/audio/translations", "inference/v1/generate", "v1/chat/completions/render", "v1/completions/render", "v1/chat/completions/batch",
         "docs", "redoc"]
TGIS = ["chat_tokenize", "embed", "invocations", "vertex"]
TRITONS = ["v2/systemsharedmemory/status", "v2/cudasharedmemory/status", "v2/trace/setting", "v2/logging", "v2/models/fake/trace/setting",
           "v2/systemsharedmemory/region/a/register", "v2/systemsharedmemory/unregister", "v2/cudasharedmemory/region/a/register"]
TORCHSERVES = ["explanations/fake", "v1/models/fake:explain", "wfpredict/flow", "workflows", "fake/predict", "v2/models/fake/infer"]


@pytest.mark.parametrize("path", [*(f"v1/{p}" for p in OPENAIS), *VLLMS, *TGIS, *TRITONS])
def test_routes_that_are_not_there(gateway, path):
    for method in ("GET", "POST"):
        r = httpx.request(method, f"{gateway.url}/{path}", json={} if method == "POST" else None)
        assert r.status_code == 404, r.text
        error = r.json()["error"]  # Triton's is a text
        assert "/" + path in (error if isinstance(error, str) else error["message"])


def test_a_route_below_the_responses_is_one_of_them(gateway):
    r = httpx.post(f"{gateway.url}/" + "v1/responses/render", json={})
    assert r.status_code == 405 and "POST" in r.json()["error"]["message"], r.text


@pytest.mark.parametrize("path", TORCHSERVES)
def test_routes_of_torchserve_that_are_not_there(start, path):
    g = start("--torchserve-inference", "127.0.0.1:0")
    r = httpx.post(f"{g.torchserve['inference']}/{path}", json={})
    assert r.status_code == 404 and set(r.json()) == {"code", "type", "message"}, r.text


FIELDS = [("functions", [{"name": "f"}]), ("function_call", "auto"), ("guided_decoding_backend", "xgrammar"), ("use_beam_search", True),
          ("prompt_logprobs", 1), ("chat_template", "{{ messages }}"),
          ("mm_processor_kwargs", {"a": 1}), ("kv_transfer_params", {"a": 1}), ("lora_request", {"name": "a"}), ("modalities", ["text", "audio"]),
          ("audio", {"voice": "a"}), ("prediction", {"type": "content", "content": "a"}), ("store", True),
          ("web_search_options", {})]


@pytest.mark.parametrize("name, value", FIELDS)
def test_fields_that_are_not_there_are_refused_by_their_names(gateway, name, value):
    r = httpx.post(gateway.url + "/v1/chat/completions", json={**chat("tokens=1"), name: value})
    assert (r.status_code, r.json()["error"]["code"], r.json()["error"]["param"]) == (400, "unsupported_parameter", name), r.text


# For bodies of vLLM 0.33 and TGI: a field that exists there but not here is reported as unsupported, not as misspelt.
OF_VLLM = {
    "/v1/chat/completions": {
        "watermarking": True, "truncation_side": "right", "logprob_token_ids": [1], "routed_experts_prompt_start": 1,
        "return_token_offsets": True, "return_mm_kwargs": False, "ec_transfer_params": {"a": 1}, "repetition_detection": {"a": 1}, "stream_interval": 4,
        "mm_payload": {"a": 1}, "return_weight_versions": True,
        "media_io_kwargs": {"a": {}}, "return_prompt_text": True, "tool_prompt": "say", "length_penalty": 0.5, "best_of": 2, "echo": True,
        "allowed_token_ids": [1], "bad_words": ["a"], "logits_processors": ["a"], "vllm_xargs": {"a": 1}, "skip_special_tokens": False, "spaces_between_special_tokens": False,
        "guided_whitespace_pattern": " "},
    "/v1/completions": {"thinking_token_budget": 5, "prompt_embeds": "aGk=", "suffix": "a", "stream_interval": 4, "use_beam_search": True},
    "/v1/responses": {
        "top_k": 3, "repetition_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": 0.5, "logit_bias": {"5": 1}, "stop": ["a"], "ignore_eos": True,
        "include_stop_str_in_output": True, "skip_special_tokens": False, "structured_outputs": {"regex": "a"}, "request_id": "r",
        "mm_processor_kwargs": {"a": 1}, "enable_response_messages": True, "previous_input_messages": [{}], "previous_response": {"a": 1},
        "vllm_xargs": {"a": 1}, "mm_payload": {"a": 1}, "prompt_cache_options": {"a": 1}, "prompt_cache_retention": "24h", "include": ["message.output_text.logprobs"], "max_tool_calls": 3, "prompt": {"id": "a"}, "service_tier": "flex", "top_logprobs": 2, "truncation": "auto"},
    "/v1/embeddings": {
        "use_activation": False, "endianness": "big", "truncation_side": "right", "chat_template": "a", "chat_template_kwargs": {"a": 1},
        "mm_processor_kwargs": {"a": 1}, "media_io_kwargs": {"a": {}}, "dimensions": 3, "truncate_prompt_tokens": 3, "normalize": False,
        "embed_dtype": "float16", "request_id": "r", "messages": [{}]},
    "/tokenize": {"chat_template": "a", "mm_processor_kwargs": {"a": 1}, "media_io_kwargs": {"a": {}}, "return_token_offsets": True}}
WITHOUT_THEM = {"/v1/chat/completions": chat("tokens=1"), "/v1/completions": {"prompt": "tokens=1"}, "/v1/responses": {"input": "tokens=1"},
                "/v1/embeddings": {"input": "a"}, "/tokenize": {"prompt": "a"}}
SAYS_NOTHING = {"/v1/chat/completions": {"thinking_token_budget": -1, "reasoning_effort": "none", "include_reasoning": False, "watermarking": False, "truncation_side": "left", "stream_interval": 1, "session_id": "s"},
                "/v1/completions": {"return_mm_kwargs": True, "session_id": "s"},
                "/v1/responses": {"top_k": 0, "stop": [], "ignore_eos": False, "skip_special_tokens": True, "repetition_penalty": 1.0},
                "/v1/embeddings": {"use_activation": True, "endianness": "native"}, "/tokenize": {"return_token_offsets": False}}


@pytest.mark.parametrize("path", OF_VLLM)
def test_what_vllm_has_and_is_not_here_is_not_told_as_misspelt(gateway, path):
    for name, value in OF_VLLM[path].items():
        r = httpx.post(gateway.url + path, json={"model": "fake", **WITHOUT_THEM[path], name: value})
        error = r.json()["error"]
        assert (r.status_code, error["code"], error["param"]) == (400, "unsupported_parameter", name), r.text
        assert f"'{name}' is not supported by this server" in error["message"], r.text


@pytest.mark.parametrize("path", SAYS_NOTHING)
def test_what_says_the_same_as_leaving_it_out_passes(gateway, path):
    r = httpx.post(gateway.url + path, json={"model": "fake", **WITHOUT_THEM[path], **SAYS_NOTHING[path]})
    assert r.status_code == 200, r.text


@pytest.mark.parametrize("part", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                                  {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}, {"type": "file", "file": {"file_id": "a"}}])
def test_images_and_audio_are_refused_by_their_place(gateway, part):
    r = httpx.post(gateway.url + "/v1/chat/completions", json={"model": "fake", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, part]}]})
    assert r.status_code == 400 and r.json()["error"]["param"].startswith("messages[0].content[1]"), r.text


def test_a_body_that_is_compressed_is_refused(gateway):
    for path in ("/v2/models/fake/infer", "/v1/chat/completions", "/generate"):
        r = httpx.post(gateway.url + path, content=b"\x1f\x8b", headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})
        assert r.status_code == 415 and "must not be compressed" in r.text, (path, r.text)


def test_events_that_have_no_ids_cannot_be_gone_on_with(gateway):
    place = {"Last-Event-ID": "1-0:1"}
    kserve = httpx.post(gateway.url + "/v2/models/fake/generate_stream", json={"text_input": "tokens=1", "stream": True}, headers=place)
    tgi = httpx.post(gateway.url + "/generate_stream", json={"inputs": "tokens=1"}, headers=place)
    assert (kserve.status_code, tgi.status_code) == (400, 422) and all("Last-Event-ID" in r.json()["error"] for r in (kserve, tgi))


def test_several_prompts_are_several_requests_at_tritons_door(gateway):
    tensor = {"name": "text_input", "shape": [2], "datatype": "BYTES", "data": ["tokens=1", "tokens=1"]}
    r = httpx.post(gateway.url + "/v2/models/fake/infer", json={"inputs": [tensor]})
    assert r.status_code == 400 and "text_input" in r.json()["error"]
