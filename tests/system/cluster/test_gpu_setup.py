"""`./up --gpu` and the build of the GPU engine say what is missing, and do nothing then."""
import re
import shutil
import subprocess

import pytest
from harness import CLUSTER, ROOT

DRIVER, NVCC = "/proc/driver/nvidia/version", "/usr/local/cuda/bin/nvcc"


@pytest.fixture
def up_on(tmp_path):
    """Runs a copy of `./up --gpu` that looks for driver and nvcc in a folder of the test, with what is named there."""
    def run(*there):
        copy, found = tmp_path / "copy", tmp_path / "found"
        found.mkdir()
        (copy / "scripts").mkdir(parents=True)
        for name in there:
            (found / name).write_text("#!/bin/sh\n")
            (found / name).chmod(0o755)
        for script in ("up", "scripts/setup.sh"):
            text = (ROOT / script).read_text().replace(DRIVER, str(found / "driver")).replace(NVCC, str(found / "nvcc"))
            assert NVCC not in text and DRIVER not in text
            (copy / script).write_text(text)
        done = subprocess.run(["bash", copy / "up", "--gpu"], capture_output=True, text=True, timeout=60, env={"PATH": "/usr/bin:/bin"})
        assert done.returncode == 1 and not (copy / "build").exists()
        return done.stderr

    return run


def test_a_machine_without_a_driver_is_told_so(up_on):
    assert "error: --gpu: this machine has no NVIDIA driver (" in up_on("nvcc")


@pytest.mark.skipif(shutil.which("nvcc", path="/usr/bin:/bin") is not None, reason="nvcc is in /usr/bin: it cannot be hidden")
def test_a_machine_without_nvcc_is_told_so(up_on):
    assert "error: --gpu: nvcc of CUDA 13 is neither in PATH nor in " in up_on("driver")


@pytest.fixture
def pythons(tmp_path):
    """One that has no torch, and one that says it has another one."""
    said = {"none": "exit 0", "other": "printf '%s;%s' /nowhere/torch 2.12.1"}
    for name, line in said.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    return {name: str(tmp_path / name) for name in said}


@pytest.mark.parametrize("torch, python, why", [
    ("rocm", "none", "BATON_TORCH is 'rocm': OFF, cpu and cuda are possible"),
    ("cpu", "none", "BATON_TORCH=cpu needs torch 2.11.0: {none} has none."),
    ("cpu", "other", "torch 2.12.1 is installed in /nowhere/torch; the GPU engine is written for 2.11.0")])
def test_a_build_without_its_torch_says_what_it_needs(tmp_path, pythons, torch, python, why):
    done = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path / "build", "-G", "Ninja", f"-DBATON_TORCH={torch}", f"-DBATON_TORCH_PYTHON={pythons[python]}"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    assert why.format(**pythons) in " ".join(done.stderr.split())


PAGE = (ROOT / "docs/gpu-todo.md").read_text()
CONFIGURED = sorted(set(re.findall(r"gpu_toml build/[^;`]*", PAGE)))


def test_the_page_of_what_a_gpu_has_to_show_writes_configurations_as_it_says():
    assert len(CONFIGURED) >= 5


@pytest.mark.parametrize("words", CONFIGURED)
def test_the_configurations_of_that_page_are_ones(tmp_path, words):
    """With the default model, whatever the row has."""
    function = re.search(r"^gpu_toml\(\) \{.*?^\}$", PAGE, re.MULTILINE | re.DOTALL)[0]
    subprocess.run(["bash", "-euc", f"cd {tmp_path}; mkdir build; {function}\n{words}"], check=True, timeout=60)
    (written,) = (tmp_path / "build").iterdir()
    done = subprocess.run([CLUSTER, "plan", written], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0 and "cuda:0" in done.stdout, done.stdout + done.stderr
