"""Goal: the wheel of the GPU engine serves beside the server's wheel and torch, wherever pip put them. Method: both are made of builds that
are tested and installed in a new environment, with torch linked into it. CPU tensors take the place of a GPU. Run by `./check gpu`, which
names the build with the engine."""
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest
from conftest import ROOT, said
from test_packages import EMPTY, MODEL, assert_stripped_of_this_machine, dynamic, free_port, serving

ENGINE_BUILD = os.environ.get("BATON_ENGINE_BUILD")
TORCH = os.environ.get("BATON_TORCH_PYTHON", str(ROOT / "build/torch/bin/python"))
pytestmark = pytest.mark.skipif(not ENGINE_BUILD, reason="./check gpu runs it")


@pytest.fixture(scope="session")
def packages(build, tmp_path_factory):
    """-> the site-packages of a new environment with both wheels and a torch that is on this machine"""
    out = tmp_path_factory.mktemp("engine-dist")
    said(ROOT / "package", "--build-dir", build, "--out", out, "wheel")
    said(ROOT / "package", "--build-dir", ENGINE_BUILD, "--out", out, "engine")
    folder = tmp_path_factory.mktemp("engine-venv")
    said(sys.executable, "-m", "venv", folder)
    # torch is not a distribution here, but links to its folders.
    said(folder / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps", *sorted(out.glob("*.whl")))
    found, = folder.glob("lib/python*/site-packages")
    torch = pathlib.Path(said(TORCH, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])").strip())
    for name in ("torch", "nvidia"):
        if (torch.parent / name).exists():
            (found / name).symlink_to(torch.parent / name)
    return found


def cluster_of(packages):
    return packages.parents[2] / "bin/cluster"


def test_it_has_the_engine_alone_and_names_what_it_needs(packages):
    info, = packages.glob("baton_server_cuda-*.dist-info")
    assert [row.split(",")[0] for row in (info / "RECORD").read_text().splitlines() if not row.startswith("baton_server_cuda-")] \
        == ["baton_server/lib/baton/engines/engine_torch.so"]
    version = re.search(r"^Version: (.+)$", (info / "METADATA").read_text(), re.M)[1]
    assert set(re.findall(r"^Requires-Dist: (.+)$", (info / "METADATA").read_text(), re.M)) == {f"baton-server=={version}", "torch==2.11.0"}
    assert "Apache License" in (info / "licenses/libraries/flashinfer").read_text()


def test_it_finds_all_libraries_from_its_own_place(packages):
    engine = packages / "baton_server/lib/baton/engines/engine_torch.so"
    assert_stripped_of_this_machine(engine)
    assert not re.search(r"R(UN)?PATH.*[\[:]/", dynamic(engine))
    found = dict(re.findall(r"^\s*(\S+) => (\S+)", said(*EMPTY, "/usr/bin/ldd", engine), re.M))
    assert {name for name in found if found[name] == "not"} == set()
    for name in ("libtorch_cuda.so", "libtorch_cpu.so", "libc10_cuda.so", "libfmt.so.9"):
        assert os.path.normpath(found[name]).startswith(str(packages)), found


def test_it_serves_with_the_servers_wheel(packages):
    with tempfile.TemporaryDirectory(prefix="baton-") as folder:  # a run directory's path is short
        port = free_port()
        config = pathlib.Path(folder, "nodes.toml")
        config.write_text(f'[cluster]\nrun_dir = "{folder}/run"\n[model]\nname = "m"\npath = "{MODEL}"\nkv_cache_bytes = "256MiB"\ndtype = "float32"\n'
                          f'[gateway]\nhttp = "127.0.0.1:{port}"\nzmq = ""\n[[nodes]]\nname = "a"\ndevices = ["torch/cpu-torch"]\n')
        with serving(cluster_of(packages), config) as shown:
            assert "torch cpu-torch" in shown
            asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            asked.request("POST", "/v1/completions", json.dumps({"prompt": "The capital of France is", "max_tokens": 1, "temperature": 0}))
            assert json.loads(asked.getresponse().read())["choices"][0]["text"] == " Paris"


def test_a_machine_without_a_gpu_gets_the_reason_alone(packages):
    if pathlib.Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this machine has a GPU")
    done = subprocess.run([*EMPTY, cluster_of(packages), "doctor", "--device", "cuda:0"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0 and "pip install" not in done.stdout + done.stderr, done
