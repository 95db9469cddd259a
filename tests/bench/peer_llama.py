"""Downloads and builds llama.cpp, the peer of the benches, under build/peers/ (git-ignored).

Called by run.py and by hand: python3 tests/bench/peer_llama.py [--jobs N]. The source is the tree that the PyPI
sdist of llama-cpp-python vendors, at a pinned version. An existing build is kept. Never edits the peer.
"""
import argparse
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))

import child_process  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PEERS = ROOT / "build" / "peers"
VERSION = "0.3.36"
COMMIT = "0c1e57098"  # llama.cpp, as vendored by that version
TOOLS = ("llama-server", "llama-bench", "llama-batched-bench", "llama-quantize", "llama-perplexity")
OTHER_TYPES = ("Q4_0", "Q8_0", "BF16")  # types that a model's weights are quantised to, besides its own
SOURCE = PEERS / f"llama_cpp_python-{VERSION}"
BUILD = PEERS / f"llama.cpp-{VERSION}"
BIN = BUILD / "bin"
DOWNLOAD_SECONDS_MAX, QUANTIZE_SECONDS_MAX = 600, 3600
SILENCE_SECONDS_MAX = 1800  # of the build, which has no other deadline: about 5 minutes on two idle cores, more than 20 at one job

# The peer as its own documentation builds it for speed: native instructions, OpenMP, llamafile sgemm, repacking. Without AMX: on a processor
# that has it, this version ends with SIGSEGV in ggml_backend_amx_mul_mat for every quantised type.
NO_AMX = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
OPTIONS = (f"-DCMAKE_C_FLAGS={NO_AMX}", f"-DCMAKE_CXX_FLAGS={NO_AMX}", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DGGML_BLAS=OFF", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF",
           "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_UI=OFF")


class PeerMissing(Exception):
    """The peer is not available; the text says why."""


def tool(name):
    """Path of a built tool, or None."""
    path = BIN / name
    return path if os.access(path, os.X_OK) else None


def is_present():
    return all(tool(name) for name in TOOLS)


def _run(command, step, **limits):
    try:
        status, out = child_process.run(command, **(limits or {"deadline": DOWNLOAD_SECONDS_MAX}))
    except OSError as error:
        raise PeerMissing(f"{step}: {error}") from error
    if status:
        raise PeerMissing(f"{step} failed:\n{out[-4000:]}")


def unpack(archive, directory):
    """By tar, which keeps its members within the directory; tarfile does so from Python 3.11.4 on, which Debian 12 has not."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    _run(["tar", "-xzf", archive, "-C", directory], f"tar of {archive.name}")


def _fetch():
    """Downloads the sdist with pip and unpacks it. pip asks a sdist for its metadata, so its backend must be there."""
    if (SOURCE / "vendor" / "llama.cpp" / "CMakeLists.txt").is_file():
        return
    PEERS.mkdir(parents=True, exist_ok=True)
    venv = PEERS / "venv"
    python = venv / "bin" / "python"
    _run([sys.executable, "-m", "venv", venv], "venv")
    _run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "scikit-build-core"], "pip install scikit-build-core")
    _run([python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:",
          "--no-build-isolation", "-d", PEERS, f"llama-cpp-python=={VERSION}"], "pip download llama-cpp-python")
    sdist = PEERS / f"llama_cpp_python-{VERSION}.tar.gz"
    if not sdist.is_file():
        raise PeerMissing(f"pip left no {sdist.name}")
    part = PEERS / "unpack.part"
    unpack(sdist, part)
    shutil.rmtree(SOURCE, ignore_errors=True)
    (part / SOURCE.name).rename(SOURCE)
    part.rmdir()


def ensure(jobs=None, say=lambda text: None):
    """Makes the tools present. Raises PeerMissing with the reason."""
    if is_present():
        return BIN
    say(f"fetching llama.cpp (PyPI llama-cpp-python {VERSION})")
    _fetch()
    say("building llama.cpp (several minutes)")
    _run(["cmake", "-S", SOURCE / "vendor" / "llama.cpp", "-B", BUILD, "-G", "Ninja", *OPTIONS], "cmake", silence=SILENCE_SECONDS_MAX)
    _run(["cmake", "--build", BUILD, "-j", jobs or os.cpu_count() or 1, "--target", *TOOLS], "build", silence=SILENCE_SECONDS_MAX)
    if not is_present():
        raise PeerMissing(f"the build left no {', '.join(n for n in TOOLS if not tool(n))} in {BIN}")
    return BIN


def own_type(model):
    """The type in the file's name: Q4_1 of NAME.Q4_1.gguf."""
    return model.stem.rsplit(".", 1)[-1].upper()


def in_type(model, kind):
    """The GGUF file with its matrices in a type: itself, or made by llama-quantize under build/peers/ unless it is there."""
    if kind == own_type(model):
        return model
    quantize = tool("llama-quantize")
    if not quantize:
        raise PeerMissing(f"there is no llama-quantize in {BIN}")
    made = PEERS / "models" / f"{model.stem}.as-{kind}.gguf"
    if not made.is_file():
        made.parent.mkdir(parents=True, exist_ok=True)
        part = made.with_suffix(".part")
        _run([quantize, "--allow-requantize", model, part, kind, os.cpu_count() or 1], f"llama-quantize to {kind}", deadline=QUANTIZE_SECONDS_MAX)
        part.rename(made)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=None, help="parallel compile jobs (default: all cores)")
    options = parser.parse_args()
    try:
        print(ensure(options.jobs, say=lambda text: print(f"==> {text}", flush=True)))
    except PeerMissing as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
