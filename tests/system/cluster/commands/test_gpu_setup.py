"""`./up --gpu` and the build of the GPU engine name what is missing and then do nothing. Also the choice of the compiler."""
import re
import subprocess

import pytest
from harness import CLUSTER, ROOT

DRIVER, NVCC = "/proc/driver/nvidia/version", "/usr/local/cuda/bin/nvcc"


@pytest.fixture
def copy(tmp_path):
    """A copy of the scripts of `./up --gpu`. It looks for the driver and nvcc in the folder `found` beside it."""
    (tmp_path / "copy/scripts").mkdir(parents=True)
    for script in ("up", "scripts/setup.sh", "scripts/setup_gpu.sh"):
        text = (ROOT / script).read_text()
        assert {"up": DRIVER, "scripts/setup_gpu.sh": NVCC}.get(script, "") in text
        (tmp_path / "copy" / script).write_text(text.replace(DRIVER, f"{tmp_path}/found/driver").replace(NVCC, f"{tmp_path}/found/nvcc"))
    return tmp_path / "copy"


def test_a_missing_driver_is_reported(copy):
    done = subprocess.run(["bash", copy / "up", "--gpu"], capture_output=True, text=True, timeout=60, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 1 and not (copy / "build").exists()
    assert "error: --gpu: this machine has no NVIDIA driver (" in done.stderr


@pytest.mark.parametrize("path, installed, fetched, taken", [
    ("13.2", "13.0", "13.0", "path"),
    (None, "13.0", "13.0", "installed"),
    ("12.4", "13.0", None, "installed"),
    ("12.4", "12.9", "13.0", "fetched"),
    ("11.8", None, None, None),
    ("broken", None, "13.0", "fetched")])
def test_the_machines_own_nvcc_is_taken_where_it_is_of_cuda_13(copy, tmp_path, path, installed, fetched, taken):
    places = {"path": tmp_path / "bin/nvcc", "installed": tmp_path / "found/nvcc", "fetched": copy / "build/cuda/toolkit/bin/nvcc"}
    for place, version in zip(places, (path, installed, fetched)):
        if version:
            nvcc = places[place]
            nvcc.parent.mkdir(parents=True)
            nvcc.write_text("#!/bin/sh\n" + ("exit 1\n" if version == "broken" else f"echo 'Cuda compilation tools, release {version}, V{version}.88'\n"))
            nvcc.chmod(0o755)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", ". scripts/setup.sh; find_nvcc"], cwd=copy, capture_output=True, text=True, timeout=60,
                          env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    assert (done.returncode == 0) == (taken is not None), done.stderr
    assert done.stdout.strip() == (str(places[taken]) if taken else "")


@pytest.mark.parametrize("capabilities, architectures", [("9.0\n9.0\n", "90-real"), ("9.0\n8.9\n12.0\n", "120-real;89-real;90-real"), ("", "none"), (None, "none")])
def test_kernels_are_compiled_for_the_gpus_of_the_machine(copy, tmp_path, capabilities, architectures):
    if capabilities is not None:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/nvidia-smi").write_text(f"#!/bin/sh\nprintf '{capabilities}'\n")
        (tmp_path / "bin/nvidia-smi").chmod(0o755)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", '. scripts/setup.sh; name_architectures; echo "${CUDAARCHS-none}"'], cwd=copy,
                          capture_output=True, text=True, timeout=60, env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    assert done.stdout.strip() == architectures, done.stderr


@pytest.fixture
def pythons(tmp_path):
    """A Python without torch, and one that reports another version."""
    answer = {"none": "exit 0", "other": "printf '%s;%s' /nowhere/torch 2.12.1"}
    for name, line in answer.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    return {name: str(tmp_path / name) for name in answer}


@pytest.mark.parametrize("torch, python, why", [
    ("rocm", "none", "BATON_TORCH is 'rocm': OFF, cpu and cuda are possible"),
    ("cpu", "none", "BATON_TORCH=cpu needs torch 2.11.0: {none} has none."),
    ("cpu", "other", "torch 2.12.1 is installed in /nowhere/torch; the GPU engine is written for 2.11.0")])
def test_a_build_without_its_torch_says_what_it_needs(tmp_path, pythons, torch, python, why):
    done = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja", f"-DBATON_TORCH={torch}", f"-DBATON_TORCH_PYTHON={pythons[python]}"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    assert why.format(**pythons) in " ".join(done.stderr.split())


PAGE = (ROOT / "docs/develop/gpu-checks.md").read_text()
CONFIGURED = sorted(set(re.findall(r"gpu_toml build/[^;`]*", PAGE)))


def test_the_page_of_what_a_gpu_has_to_show_writes_configurations_as_it_says():
    assert len(CONFIGURED) >= 5


@pytest.mark.parametrize("words", CONFIGURED)
def test_the_configurations_of_that_page_are_ones(tmp_path, words):
    """Uses the default model for every row."""
    function = re.search(r"^gpu_toml\(\) \{.*?^\}$", PAGE, re.MULTILINE | re.DOTALL)[0]
    subprocess.run(["bash", "-euc", f"cd {tmp_path}; mkdir build; {function}\n{words}"], check=True, timeout=60)
    (written,) = (tmp_path / "build").iterdir()
    done = subprocess.run([CLUSTER, "plan", written], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0 and "cuda:0" in done.stdout, done.stdout + done.stderr
