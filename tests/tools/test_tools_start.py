"""Every program of the tree is started once with the system's Python or shell, most of them by nothing else that CI does. A new one has to be in TOOLS."""
import ast
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEM = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
SECONDS_MAX = 120


def started(*words, cwd=ROOT, **options):
    done = subprocess.run([str(w) for w in words], cwd=cwd, capture_output=True, text=True, timeout=SECONDS_MAX, **options)
    return done.returncode, done.stdout, done.stderr


def usage(*words):
    """The tool passes its imports and prints its usage."""

    def check(tool, _):
        status, out, err = started(*(words or [SYSTEM]), ROOT / tool, "--help")
        assert status == 0 and (out.startswith("usage: ") or f"./{tool} " in out), out + err

    return check


def writes(*names, reads=()):
    """In a copy of its folder; what it writes is what is committed. `reads`: folders of tests/ that it reads."""

    def check(tool, tmp_path):
        folder = ROOT / tool
        for name in (folder.parent.name, *reads):
            shutil.copytree(folder.parent.parent / name, tmp_path / "copy" if name == folder.parent.name else tmp_path / name,
                            ignore=shutil.ignore_patterns("__pycache__"))
        written = [p for name in names for p in sorted((tmp_path / "copy").glob(name)) if p.is_file()]
        assert written
        committed = {p: p.read_bytes() for p in written}
        for p in written:
            p.unlink()
        status, out, err = started(SYSTEM, tmp_path / "copy" / folder.name)
        assert status == 0, out + err
        left = {p: p.read_bytes() for p in written if p.exists()}
        made = [p for p in left if left[p] == committed[p]]
        assert made and len(made) == len(left), [p.name for p in left if p not in made]

    return check


def needs(package):
    """A fake module by hand where the package is missing: only its import is checked here. The test below checks the use of the
    library."""

    def check(tool, _):
        status, out, err = started(SYSTEM, ROOT / tool)
        assert status == 1 and f"No module named '{package}'" in err, out + err

    return check


def needs_library(name):
    """Where the library is, it says what it found, or what is missing beneath it."""

    def check(tool, _):
        status, out, err = started(SYSTEM, ROOT / tool)
        assert (status == 1 and f"{name}: cannot open shared object file" in err) or isinstance(json.loads(out), dict), out + err

    return check


def run_by(other, name=""):
    """A test, or a tool of this table, that starts it, by its file's name or another one."""

    def check(tool, _):
        text = (ROOT / other).read_text()
        assert (name or pathlib.Path(tool).name) in text or (name or pathlib.Path(tool).stem) in text

    return check


def says(words, status, text, interpreter=SYSTEM, stdin="", cwd=ROOT):
    def check(tool, tmp_path):
        given = [w.format(tmp=tmp_path) for w in words]
        got, out, err = started(interpreter, ROOT / tool, *given, input=stdin, cwd=cwd)
        assert got == status and text in out + err, out + err

    return check


def counts_ids(tool, tmp_path):
    """Its package lives in .venv."""
    (tmp_path / "v.json").write_text(json.dumps({"pre": "smollm", "tokens": ["a", "b", "ab"], "merges": ["a b"]}))
    (tmp_path / "t").write_bytes(b"ab\0ba\0")
    status, out, err = started(sys.executable, ROOT / tool, tmp_path / "v.json", tmp_path / "t", tmp_path / "ids")
    assert status == 0 and json.loads(out)["bytes"] == 4, err
    assert (tmp_path / "ids").read_bytes() == b"".join(i.to_bytes(4, sys.byteorder) for i in (2, 1, 0))


def is_imported(tool, _):
    status, _, err = started(sys.executable, "-c", f"import {pathlib.Path(tool).stem}", cwd=(ROOT / tool).parent)
    assert status == 0, err


def reads(tool, _):
    status, _, err = started("bash", "-n", ROOT / tool)
    assert status == 0, err


def defines(*functions):
    def check(tool, _):
        status, out, err = started("bash", "-euc", f". {tool}; declare -F {' '.join(functions)}")
        assert status == 0 and out.split() == list(functions), err

    return check


TOOLS = {
    ".ci/run": reads,
    "check": usage("bash"),
    "up": usage("bash"),
    "examples/four_nodes.sh": run_by("tests/system/cluster/nodes/test_four_nodes.py"),
    "examples/openai_chat.py": run_by("tests/system/cluster/models/test_answers.py"),
    "examples/sdk_chat.py": run_by("tests/system/cluster/models/test_answers.py"),
    "examples/websocket_chat.py": run_by("tests/system/cluster/models/test_answers.py"),
    "package": usage("bash"),
    "packages/baton_server/__main__.py": run_by("tests/packages/test_packages.py", '"-m", "baton_server"'),
    "packages/deb/postinst": reads,
    "packages/deb/postrm": reads,
    "packages/make.py": usage(),
    "schema/generate_codec.py": says(["{tmp}", "schema/api.fbs", "schema/wire.fbs"], 0, ""),
    "scripts/cli_pages.py": is_imported,
    "scripts/compile_times": usage("bash"),
    "scripts/setup.sh": defines("build", "fetch_model", "install_packages"),
    "scripts/setup_gpu.sh": defines("build_kernels", "fetch_torch"),
    "sdk/python/baton_worker/__main__.py": run_by("tests/system/cluster/workers/test_workers.py", 'module="baton_worker"'),
    "sdk/python/baton_worker/check.py": run_by("sdk/python/tests/test_needs.py"),
    "sdk/python/baton_worker/fetch.py": run_by("sdk/python/tests/test_fetch.py"),
    "sdk/python/baton_worker/foreground.py": run_by("sdk/python/tests/test_foreground.py"),
    "sdk/python/baton_worker/onnx.py": run_by("sdk/python/tests/test_onnx.py"),
    "sdk/python/baton_worker/tensorflow.py": run_by("sdk/python/tests/test_tensorflow.py"),
    "sdk/python/baton_worker/torchscript.py": run_by("sdk/python/tests/test_torchscript.py"),
    "sdk/python/baton_worker/torchserve.py": run_by("sdk/python/tests/test_shims.py"),
    "sdk/python/baton_worker/triton.py": run_by("sdk/python/tests/test_shims.py"),
    "sdk/python/baton_worker/triton_complete.py": run_by("sdk/python/tests/test_triton_complete.py"),
    "sdk/python/generate_wire.py": says([], 0, ""),
    "sdk/python/tests/torch_generate_rank.py": run_by("sdk/python/tests/torch_large_cases.py"),
    "sdk/python/setup.py": says(["--name"], 0, "baton", sys.executable, cwd=ROOT / "sdk/python"),
    "tests/bench/chart.py": is_imported,
    "tests/bench/faults.py": usage(),
    "tests/bench/first_minute.py": usage(),
    "tests/bench/gpu.py": usage(),
    "tests/bench/random_model.py": usage(),
    "tests/bench/gpu_transformers.py": usage(),
    "tests/bench/growth.py": usage(),
    "tests/bench/hf_tokenizer.py": counts_ids,
    "tests/bench/load.py": usage(),
    "tests/bench/peer_llama.py": usage(),
    "tests/bench/run.py": usage(),
    "tests/bench/scale.py": usage(),
    "tests/bench/schema_judge.py": says([], 0, '""\n"ValidationError', sys.executable,
                                        '{"schema":{"type":"integer"},"text":"1"}\n{"schema":{"type":"integer"},"text":"\\"a\\""}\n'),
    "tests/check.py": says(["nosuch"], 2, "unknown level 'nosuch'"),
    "tests/clang_tidy.py": usage(),
    "tests/data/json_schemas/make_schemas.py": writes("schemas.jsonl"),
    "tests/data/model/make_checkpoint_golden.py": needs("torch"),
    "tests/data/model/make_family_goldens.py": needs("numpy"),
    "tests/data/model/make_code_grids.py": needs("gguf"),
    "tests/data/model/make_goldens.py": needs("gguf"),
    "tests/data/model/make_rope_goldens.py": needs("transformers"),
    "tests/data/model/make_gptq_goldens.py": needs("numpy"),
    "tests/data/model/make_quantised_goldens.py": needs("numpy"),
    "tests/data/template/make_apply_goldens.py": needs("transformers"),
    "tests/data/template/make_goldens.py": needs("jinja2"),
    "tests/data/text/make_goldens.py": needs("tokenizers"),
    "tests/data/text/make_sentencepiece_goldens.py": needs("sentencepiece"),
    "tests/data/text/make_tokenizer_json_goldens.py": needs("tokenizers"),
    "tests/fuzz/make_seeds.py": writes("seeds/*/*", reads=["data"]),
    "tests/gpu/lease.py": usage(),
    "tests/gpu/lease.sh": usage("bash"),
    "tests/gpu/nccl_pair.py": needs_library("libnccl.so.2"),
    "tests/sim/planted.py": usage(),
    "tests/support/library_check.py": says([f"{ROOT}/tests/check.py"], 0, ""),
    "tests/system/clients/manifests_check.py": run_by("tests/docs/test_kubernetes_files.py"),
    "tests/system/clients/own_venv.py": run_by("tests/check.py"),
    "tests/system/clients/text_generation_calls.py": run_by("tests/system/clients/text_generation_client.py"),
    "tests/system/clients/torchserve_calls.py": run_by("tests/system/clients/torchserve_client.py"),
    "tests/system/cluster/kill_recording.py": is_imported,
    "tests/system/cluster/page_shots.py": is_imported,
    "tests/packages/chroot.py": usage(),
    "tests/prose.py": says(["tests/prose.py"], 0, "prose: 0 offences"),
    "tests/tidy.py": run_by("tests/check.py"),
}


def tracked(*patterns):
    listed = subprocess.run(["git", "ls-files", "-coz", "--exclude-standard", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def is_program(tree):
    """It does something when it is run: a guarded main, or a statement that is none of a module's."""
    plain = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign, ast.AugAssign)
    return any(not isinstance(node, plain) and not (isinstance(node, ast.Expr) and is_quiet(node.value)) for node in tree.body)


def is_quiet(value):
    """A docstring, or a change of where modules are looked for."""
    return isinstance(value, ast.Constant) or ast.unparse(value).startswith(("sys.path.", "codec.READERS.", "pytest."))


def is_of_pytest(name):
    return pathlib.Path(name).name.startswith(("test_", "conftest"))


def is_package(name):
    return pathlib.Path(name).name == "__init__.py"


def programs():
    python = {name for name in tracked("*.py") if not is_of_pytest(name) and not is_package(name) and is_program(ast.parse((ROOT / name).read_text()))}
    others = {name for name in tracked() if name.endswith(".sh") or (os.access(ROOT / name, os.X_OK) and (ROOT / name).read_bytes()[:2] == b"#!")}
    return python | others


def test_no_program_is_left_out_and_none_is_gone():
    assert sorted(TOOLS) == sorted(programs())


@pytest.mark.parametrize("tool", TOOLS)
def test_it_starts(tool, tmp_path):
    TOOLS[tool](tool, tmp_path)


def test_nothing_asks_more_of_the_library_than_the_systems_python_has():
    status, out, err = started(SYSTEM, ROOT / "tests/support/library_check.py", *tracked("*.py"))
    assert status == 0, out + err


def test_packages_missing_in_the_systems_python_are_found(tmp_path):
    (tmp_path / "a.py").write_text("import itertools, os, shutil\nfrom typing import nothing\nitertools.unheard_of\nshutil.rmtree('a', sideways=1)\n"
                                   "os.path.join('a')\n")
    (tmp_path / "b.py").write_text("import tarfile\ntarfile.open('a').extractall('.', sideways=1)\ntarfile.open('a').extractall(path='.')\ndef f(\n")
    status, out, _ = started(SYSTEM, ROOT / "tests/support/library_check.py", tmp_path / "a.py", cwd=tmp_path)
    assert status == 1
    assert [line.partition(":")[2] for line in out.splitlines()] == ["2: typing has no nothing", "3: itertools has no unheard_of",
                                                                      "4: shutil.rmtree() takes no sideways"]
    assert "b.py:4: '(' was never closed" in started(SYSTEM, ROOT / "tests/support/library_check.py", tmp_path / "b.py")[1]
    (tmp_path / "b.py").write_text((tmp_path / "b.py").read_text().replace("def f(\n", ""))
    assert started(SYSTEM, ROOT / "tests/support/library_check.py", tmp_path / "b.py")[1] == f"{tmp_path}/b.py:2: extractall() takes no sideways\n"


def test_the_benchs_peer_is_unpacked_by_the_systems_python(tmp_path):
    (tmp_path / "in/tree").mkdir(parents=True)
    (tmp_path / "in/tree/file").write_text("text")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as made:
        made.add(tmp_path / "in/tree", "tree")
        made.add(tmp_path / "in/tree/file", "../outside")
    script = ("import pathlib, sys; sys.path.insert(0, sys.argv[1]); import peer_llama\n"
              "try: peer_llama.unpack(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))\n"
              "except peer_llama.PeerMissing as e: print(e)")
    run = lambda: started(SYSTEM, "-c", script, ROOT / "tests/bench", tmp_path / "a.tar.gz", tmp_path / "out")
    status, out, err = run()
    assert (status, err) == (0, "") and "'..'" in out and not (tmp_path / "outside").exists()
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as made:
        made.add(tmp_path / "in/tree", "tree")
    assert run() == (0, "", "") and (tmp_path / "out/tree/file").read_text() == "text"
