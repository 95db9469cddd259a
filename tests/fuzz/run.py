"""The fuzz targets, their seeds, and a run of one of them. Called by tests/check.py (`./check fuzz`)."""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build/fuzz"
HERE = ROOT / "tests/fuzz"
INPUT_BYTES_MAX = 65536
# Ten seconds an input, in an instrumented build on a busy machine: about one second of the product's.
LIMITS = ["-timeout=10", "-rss_limit_mb=1024", "-malloc_limit_mb=512", f"-max_len={INPUT_BYTES_MAX}", "-print_final_stats=1"]
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:allocator_may_return_null=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "ASAN_SYMBOLIZER_PATH": "/usr/lib/llvm-14/bin/llvm-symbolizer",
}


@dataclasses.dataclass
class Target:
    """Seeds besides tests/fuzz/seeds/NAME, and the sources whose string literals become the dictionary."""
    seeds: list = dataclasses.field(default_factory=list)
    sources: list = dataclasses.field(default_factory=list)
    syntax: list = dataclasses.field(default_factory=list)


JSON = ["{", "}", "[", "]", ":", ",", '"', "\\xef\\xbb\\xbf", " ", "\\x09", "\\x0d", "\\x0a", "\\\\u0061", "\\\\u00e4", "null", "true", "false", "-1", "1e9", "0.5"]
MODEL = ["runtime/model/checkpoint/checkpoint*.cpp", "runtime/model/description.cpp", "runtime/model/family.cpp",
         "runtime/model/checkpoint/formats/*.cpp", "runtime/model/safetensors/safetensors.cpp"]
TARGETS = {
    "api_keys": Target([], ["cluster/config/readers/api_key_file.cpp", "cluster/formats/toml_section.cpp"], ["[[keys]]", "]]", "=", '"', "[", "]", "a" * 64]),
    "calls": Target([], ["runtime/text/stream/call_style.cpp"], JSON + ["<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "; ", "```json\n", "\n```"]),
    "chat_template": Target(["tests/data/template/*.jinja"], ["runtime/text/template/*.cpp"],
                            ["{{", "}}", "{%", "%}", "{%-", "-%}", "{#", "#}", "|", "messages", "loop", "self", "[::-1]", "**", "//"]),
    "constraint": Target([], ["runtime/grammar/json_schema/json_schema.cpp", "runtime/grammar/json_schema/schema_*.cpp", "runtime/grammar/ebnf.cpp", "runtime/grammar/lark.cpp", "runtime/grammar/structural_tag.cpp"],
                         JSON + ["\\\\d", "\\\\w", "[^", "(?:", "{2,3}", "|", "*", "+", "::=", "root", "#/$defs/a", "$defs", "start: ", "%import common.WS", "%ignore ", "~2..3", "\"i"]),
    "gguf": Target(["tests/data/model/families/llama3.gguf", "tests/data/model/families/mistral.gguf"],
                   ["runtime/model/gguf/gguf*.cpp", "runtime/model/description.cpp", "runtime/model/family.cpp", "runtime/text/vocabulary/vocabulary_gguf.cpp"]),
    "http": Target([], ["gateway/http/*.cpp"], ["\r\n", "\r\n\r\n", "HTTP/1.1", "HTTP/1.0", "Transfer-Encoding: chunked\r\n",
                                                "Content-Length: ", "Connection: close\r\n", "Expect: 100-continue\r\n", "0\r\n\r\n"]),
    "launch_command": Target([], ["cluster/import/launch_*.cpp", "cluster/models/torchserve/torchserve_properties.cpp"], ["vllm", "serve", "\n", "=", "{", "}", "32k"]),
    "message": Target(["tests/data/schema/*.bin"]),
    "model_archive": Target([], ["cluster/models/model_archive.cpp", "cluster/models/store_models.cpp", "cluster/models/torchserve/torchserve_worker.cpp"], ["PK\\x03\\x04", "PK\\x01\\x02", "PK\\x05\\x06", *JSON]),
    "model_config": Target(["tests/data/model/checkpoint/config.json", "tests/data/model/families/*/config.json"], MODEL, JSON),
    "model_index": Target(["tests/data/model/families/qwen2/model.safetensors.index.json"], MODEL, JSON),
    "nodes_toml": Target(["examples/*.toml"], ["cluster/config/config.cpp", "cluster/config/readers/config*.cpp", "cluster/formats/toml_*.cpp"],
                         ["[", "]", "[[", "]]", "=", '"', "'''", '"' * 3, "inf", "nan", "0x", "1979-05-27T07:32:00Z"]),
    "onnx_file": Target([], ["cluster/models/triton/onnx_file.cpp"]),
    "packet": Target(["tests/data/schema/packet.bin"]),
    "grpc": Target([], ["gateway/grpc/*.cpp", "gateway/api/kserve/**/*.cpp", "gateway/api/torchserve/torchserve_request.cpp"]),
    "request": Target([], ["gateway/request/json_reader.cpp", "gateway/request/ignored_fields.cpp", "gateway/api/anthropic/*.cpp", "gateway/api/kserve/**/*.cpp", "gateway/api/ollama/*.cpp", "gateway/api/openai/**/*.[ch]pp", "gateway/api/responses/*.cpp", "gateway/request/request_check.cpp",
                           "gateway/api/tgi/tgi_request.cpp", "gateway/api/torchserve/*.cpp", "gateway/api/vllm/vllm_generate.cpp",
                           "gateway/api/openai/request/embedding_request.cpp", "gateway/websocket/websocket_messages.cpp"],
                      JSON),
    "safetensors": Target([], MODEL, JSON),
    "saved_model": Target([], ["cluster/models/triton/saved_model_file.cpp"], ["serve", "train", "serving_default", "named"]),
    "tokenizer": Target([], [], ["<|im_start|>", "<tool_call>", "</s>", "\\xe2\\x96\\x81", "\\xef\\xbf\\xbd"]),
    "tokenizer_json": Target(["tests/data/model/checkpoint/tokenizer.json"],
                             ["runtime/text/tokenizer/tokenizer_json_steps.cpp", "runtime/text/bpe/vocabulary_checkpoint.cpp", "runtime/text/pre_tokenizers/pre_tokenizer*.cpp"],
                             JSON),
    "torchserve_yaml": Target([], ["cluster/*/torchserve_*.cpp"],
                              [": ", "- ", "[", "]", "{", "}", "&a", "*a", "|", "---", "!!str", '"']),
    "triton_config": Target([], ["cluster/formats/pbtxt.cpp", "cluster/models/triton/*.cpp"], ["{", "}", "[", "]", ": ", '"', "#", "<", ">", "python", "vllm"]),
    "websocket": Target([], ["gateway/websocket/websocket_messages.cpp"], ["\\x81\\x80", "\\x88\\x80", "\\x89\\x80", "\\xfe", "\\xff"]),
}


def files_of(pattern):
    """A pattern without a match is out of date. The target would silently lose words or seeds."""
    found = sorted(path for path in ROOT.glob(pattern) if path.is_file())
    if not found:
        raise ValueError(f"tests/fuzz/run.py: '{pattern}' matches no file")
    return found


def dictionary(target):
    """The reader's own string literals: they cannot go stale."""
    words = set()
    for pattern in target.sources:
        for path in files_of(pattern):
            words |= {w for w in re.findall(r'"([^"\\\n]{2,64})"', path.read_text()) if w.isascii() and "{" not in w and "/" not in w[:8]}
    escaped = [w.replace('"', '\\"').replace("\r", "\\x0d").replace("\n", "\\x0a") for w in target.syntax]
    return "\n".join(f'"{w}"' for w in sorted(words) + escaped) + "\n"


def prepare(name):
    """-> the corpus directories, and the dictionary. libFuzzer adds to the first directory."""
    grown, given, words = (BUILD / kind / name for kind in ("corpus", "seeds", "words"))
    shutil.rmtree(given, ignore_errors=True)
    for directory in (grown, given, words.parent, BUILD / "crashes"):
        directory.mkdir(parents=True, exist_ok=True)
    for pattern in TARGETS[name].seeds:
        for path in files_of(pattern):
            shutil.copy(path, given / str(path.relative_to(ROOT)).replace("/", "-"))
    words.write_text(dictionary(TARGETS[name]))
    kept = [HERE / kind / name for kind in ("seeds", "corpus") if (HERE / kind / name).is_dir()]
    return [grown, given, *kept], words


def fuzz(name, seconds):
    """-> (whether it found nothing, one line of numbers, the text to show otherwise)"""
    directories, words = prepare(name)
    binary = BUILD / "tests/fuzz" / f"fuzz_{name}"
    crashes = BUILD / "crashes"
    begin = time.time()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as scratch:
        command = [str(binary), *LIMITS, f"-max_total_time={seconds}", f"-dict={words}", f"-artifact_prefix={crashes}/{name}-",
                   *map(str, directories)]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **ENVIRONMENT, "TMPDIR": scratch}, capture_output=True, text=True,
                              errors="replace")
    out = done.stderr
    number = lambda name: (re.findall(rf"{name}: +(\d+)", out) or ["0"])[-1]
    text = f"{number('number_of_executed_units')} inputs, {number('average_exec_per_sec')}/s, {number('cov')} edges"
    if done.returncode == 0:
        return True, text, ""
    found = [path for path in crashes.glob(f"{name}-*") if path.stat().st_mtime >= begin]
    shown = "\n".join(row for row in out.splitlines() if not re.match(r"#\d|\tNEW_FUNC", row))[-8000:]
    for path in found:
        shown += (f"\ninput:  {path.relative_to(ROOT)}\nreplay: {binary.relative_to(ROOT)} {path.relative_to(ROOT)}\n"
                  f"keep:   cp {path.relative_to(ROOT)} {(HERE / 'corpus' / name).relative_to(ROOT)}/ (once it is fixed)\n")
    return False, text, shown
