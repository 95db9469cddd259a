"""lease.sh pack: makes the archive of a lease, with the folders of this repository, and the default model in parts beside it."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import fatbin
from lease_place import MODEL_FILE, NCCL_OF_ONE_GPU, PACKED, ROOT, nccl_version

ARCHIVE_BYTES_MAX = 60 << 20  # of one transfer
PART_BYTES = 48 << 20  # the model has 93 MB: two of them
NCCL = "nvidia-nccl-cu13==2.30.7"
# Libraries that every machine with torch has in its own version: those of the loader, the compiler and the driver.
OF_THE_MACHINE = re.compile(r"(?:ld-linux[\w-]*|libc|libm|libdl|librt|libpthread|libresolv|libutil|libstdc\+\+|libgcc_s|libgomp[\w-]*|libcuda|linux-vdso)\.so")
OF_TORCH = re.compile(r"/(?:torch|nvidia)/|/cuda[^/]*/|lib(?:torch|c10|cu[a-z]+|nccl|nvrtc|nvJitLink)[\w-]*\.so")
PROGRAMS = {"cluster": "cluster/cluster"}
OF_THE_GPU = {"engine": "cluster/engines/engine_torch.so", "bench": "tests/bench/gpu_bench", "unit": "tests/unit/torch/unit_torch"}
SOURCES = ["tests/gpu", "tests/bench", "tests/data"]


def ldd_of(text):
    """name -> path of what `ldd` lists; those that are not found are left out."""
    return dict(re.findall(r"^\s*(\S+) => (/\S+)", text, re.M))


def is_carried(name, path):
    return not OF_THE_MACHINE.match(name) and not OF_TORCH.search(path) and not OF_TORCH.search(name)


def libraries_of(files):
    """{name: path} of the Debian libraries that these need, directly or through others."""
    found = {}
    for file in files:
        listing = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
        found.update({name: path for name, path in ldd_of(listing).items() if is_carried(name, path)})
    return found


def strip(file):
    subprocess.run(["strip", "--strip-unneeded", file], check=True)


def fetch_nccl():
    """PyPI's, into build/nccl once."""
    folder = ROOT / "build/nccl"
    found = sorted(folder.glob("**/libnccl.so.2"))
    if not found or nccl_version(found[0]) < NCCL_OF_ONE_GPU:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-deps", NCCL], check=True)
        found = sorted(folder.glob("**/libnccl.so.2"))
    return found[0]


def add_nccl(options, tree):
    """-> the reason why there is none; empty if there is one"""
    try:
        source = options.nccl or fetch_nccl()
        if nccl_version(source) < NCCL_OF_ONE_GPU:
            return f"{source} is no NCCL of 2.30 or later"
        target = tree / PACKED / "nccl/libnccl.so.2"
        target.parent.mkdir(parents=True)
        shutil.copy(source, target)
        strip(target)
        fatbin.cut(target, target, {int(a) for a in options.architectures.split(",")})
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        return str(error)
    return ""


def add_builds(options, tree):
    """-> what is missing, as lines for people"""
    packed, missing, found = tree / PACKED, [], []
    for folder, programs in ((options.build_dir or ROOT / "build/release", PROGRAMS), (options.gpu_dir, OF_THE_GPU)):
        for name, path in programs.items():
            if (folder / path).is_file():
                (packed / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(folder / path, packed / path)
                found.append(folder / path)
            else:
                missing.append(f"{name}: there is no {folder / path}")
    (packed / "lib").mkdir(parents=True, exist_ok=True)
    for name, path in libraries_of(found).items():
        shutil.copy(pathlib.Path(path).resolve(), packed / "lib" / name)
    for file in packed.rglob("*"):
        if file.is_file():
            strip(file)
    return missing


def write_parts(out):
    """The default model, cut into parts that each fit into one transfer."""
    source = ROOT / "models" / MODEL_FILE
    if not source.is_file():
        return [f"model: there is no {source} (./up fetches it)"]
    with open(source, "rb") as data:
        for number in range(1000):
            piece = data.read(PART_BYTES)
            if not piece:
                break
            (out / f"{MODEL_FILE}.part{number}").write_bytes(piece)
    return []


def pack(options):
    if options.build_dir is None:  # what is there already is not built anew
        gpu = " && build gpu engine_torch gpu_bench unit_torch" if (options.gpu_dir / "build.ninja").is_file() else ""
        subprocess.run(["bash", "-c", f"set -euo pipefail; . scripts/setup.sh; build release cluster{gpu}"], cwd=ROOT, check=True, stdout=sys.stderr)
    out = options.out.resolve()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="lease-pack-") as folder:
        tree = pathlib.Path(folder)
        missing = add_builds(options, tree)
        if not (tree / PACKED / PROGRAMS["cluster"]).is_file():
            print(f"error: {missing[0]}", file=sys.stderr)
            return 1
        if (tree / PACKED / OF_THE_GPU["engine"]).is_file() or options.nccl:
            if why := add_nccl(options, tree):
                missing.append(f"NCCL: {why}")
        for source in SOURCES:
            shutil.copytree(ROOT / source, tree / source, ignore=shutil.ignore_patterns("__pycache__", "*.cpp", "*.hpp", "test_*"))
        archive = out / "lease.tar.xz"
        subprocess.run(["tar", "-C", tree, "-cJf", archive, *sorted({s.split("/")[0] for s in SOURCES} | {"build"})], check=True, env={**os.environ, "XZ_OPT": "-T0"})
    missing += write_parts(out)
    size = archive.stat().st_size
    summary = {"archive": str(archive), "bytes": size, "parts": sorted(p.name for p in out.glob(f"{MODEL_FILE}.part*")), "missing": missing}
    print(json.dumps(summary, indent=1))
    if size > ARCHIVE_BYTES_MAX:
        print(f"error: {archive} has {size} bytes, and one transfer takes {ARCHIVE_BYTES_MAX}", file=sys.stderr)
        return 1
    return 0
