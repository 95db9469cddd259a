"""The place where a lease runs: the parts of this tree there, the machine, and the models that are written there."""
import ctypes
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import gpu

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKED = "build/packed"  # of an unpacked archive
SHAPES = ("1b", "8b")  # written in this order
GIB = 1 << 30
BYTES_OF = {"1b": 3 * GIB, "8b": 17 * GIB, "tiny": 1 << 20}
TORCH = "2.11.0"
NCCL_OF_ONE_GPU = 23000  # from this version on, ranks may share a device
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WAIT_SECONDS = 0.2
TOOL_SECONDS_MAX = 20


def asked(*words, env=None):
    """The output of a program; empty if there is none, or it fails."""
    try:
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=TOOL_SECONDS_MAX, check=False, env=env)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def nccl_version(file):
    """23007 for 2.30.7; 0 if it is none."""
    try:
        number = ctypes.c_int()
        return number.value if ctypes.CDLL(str(file)).ncclGetVersion(ctypes.byref(number)) == 0 else 0
    except (OSError, AttributeError):
        return 0


class Place:
    def __init__(self, options):
        self.begun = options.begun
        self.device, self.is_tiny, self.source = options.device, options.tiny, options.source.resolve()
        self.build = (options.build_dir or ROOT / PACKED).resolve()
        self.is_child = options.work is not None
        self.work = options.work or pathlib.Path(tempfile.mkdtemp(prefix="lease-work-"))
        self.seconds = options.seconds
        self._facts = self.work / "facts.json"
        if not self.is_child:
            self._facts.write_text(json.dumps(self._look()))
        self.facts = json.loads(self._facts.read_text())

    @property
    def is_cuda(self):
        return self.device.startswith("cuda")

    @property
    def cluster(self):
        return self.build / "cluster/cluster"

    def words(self):
        """For a child of it."""
        return ["--work", str(self.work), "--device", self.device, "--from", str(self.source), "--begun", str(self.begun), "--build-dir", str(self.build),
                *(["--tiny"] if self.is_tiny else [])]

    def _look(self):
        """Once: what the machine has."""
        python, torch = next(((p, t) for p in (os.environ.get("BATON_TORCH_PYTHON"), "python3", "python", sys.executable) if p and (t := self._torch_of(p))), ("", ""))
        folder = pathlib.Path(torch) if torch else None
        libraries = [folder / "lib", *sorted(folder.parent.glob("nvidia/*/lib"))] if folder else []
        return {"python": python, "torch": asked(python, "-c", "import torch; print(torch.__version__)") if python else "",
                "libraries": [str(p) for p in libraries], "driver": asked("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
                "torch_nccl": next((nccl_version(f) for d in libraries for f in d.glob("libnccl.so.2")), 0),
                "transformers": asked(python, "-c", "import transformers; print(transformers.__version__)") if python else ""}

    @staticmethod
    def _torch_of(python):
        return asked(python, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])")

    @functools.cached_property
    def nccl(self):
        """The file of an NCCL whose ranks may share a GPU; None without one."""
        file = self.build / "nccl/libnccl.so.2"
        return file if file.is_file() else None

    def environment(self):
        """The environment of our programs: the libraries of the archive, torch's, and the engines' path."""
        found = [str(self.build / "lib"), *self.facts["libraries"], os.environ.get("LD_LIBRARY_PATH", "")]
        return {"LD_LIBRARY_PATH": ":".join(filter(None, found)), "BATON_ENGINES": str(self.build / "cluster/engines"), "BATON_SOURCE_DIR": str(ROOT)}

    def lacks(self, row):
        """The reason why the row cannot run here; empty if it can."""
        return next((why for need in row.needs if (why := getattr(self, f"_lacks_{need.replace('-', '_')}")())), "")

    def _lacks_device(self):
        if not self.is_cuda:
            return ""
        return "" if self.facts["driver"] else "no NVIDIA driver here"

    def _lacks_gpu(self):
        return "of a GPU alone" if not self.is_cuda else self._lacks_device()

    def _lacks_cluster(self):
        return "" if self.cluster.is_file() else f"there is no {self.cluster}"

    def _lacks_engine(self):
        if not self.is_cuda:
            return ""
        if not (self.build / "cluster/engines/engine_torch.so").is_file():
            return "the engine is not packed (engine_torch.so)"
        return self._lacks_torch()

    def _lacks_torch(self):
        return "" if self.facts["torch"].startswith(TORCH) else f"torch {TORCH} is not here ({self.facts['torch'] or 'none'})"

    def _lacks_bench(self):
        return "" if (self.build / "tests/bench/gpu_bench").is_file() else "gpu_bench is not packed"

    def _lacks_unit(self):
        return "" if (self.build / "tests/unit/torch/unit_torch").is_file() else "unit_torch is not packed"

    def _lacks_shared_nccl(self):
        return "" if not self.is_cuda or self.nccl else "no NCCL of 2.30 or later is packed"

    def _lacks_old_nccl(self):
        version = self.facts["torch_nccl"]
        return "" if 0 < version < NCCL_OF_ONE_GPU else f"torch's NCCL is {version or 'not found'}: none that refuses"

    def _lacks_mps(self):
        return "" if shutil.which("nvidia-cuda-mps-control") else "no nvidia-cuda-mps-control here"

    def _lacks_sanitizer(self):
        return "" if self.tool("compute-sanitizer") else "no compute-sanitizer here"

    def _lacks_transformers(self):
        return "" if self.facts["transformers"] else "transformers is not installed here"

    def _lacks_smollm2(self):
        return "" if self._parts() else f"neither {MODEL_FILE} nor its parts are in {self.source}"

    def _lacks_1b(self):
        return self._lacks_room("1b")

    def _lacks_8b(self):
        return self._lacks_room("8b")

    def _lacks_room(self, shape):
        return "" if self.folder_of(shape) else f"no room for {BYTES_OF[shape] // GIB} GiB of weights in /dev/shm or {tempfile.gettempdir()}"

    @staticmethod
    def tool(name):
        return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")

    def _parts(self):
        whole = [p for p in (self.source / MODEL_FILE, ROOT / "models" / MODEL_FILE) if p.is_file()]
        return whole[:1] or sorted(self.source.glob(f"{MODEL_FILE}.part*"))

    def smollm2(self):
        """The file, joined from its parts at the first call."""
        parts, joined = self._parts(), self.work / MODEL_FILE
        if len(parts) == 1 and parts[0].name == MODEL_FILE:
            return parts[0]
        if not joined.exists():
            with open(f"{joined}.new", "wb") as out:
                for part in parts:
                    out.write(part.read_bytes())
            os.rename(f"{joined}.new", joined)
        return joined

    def model(self, shape):
        """Its folder, once it is written. The row's time limit bounds the wait."""
        while not (done := self.work / f"{shape}.done").exists():
            if (failed := self.work / "not-written").exists():
                raise OSError(failed.read_text())
            time.sleep(WAIT_SECONDS)
        return pathlib.Path(done.read_text())

    def remove_models(self):
        for folder in (f for shape in SHAPES for f in self._folders(shape)):
            shutil.rmtree(folder, ignore_errors=True)

    def _folders(self, shape):
        """Possible folders for it: in memory, or on disk."""
        return [pathlib.Path(place) / f"{self.work.name}-{shape}" for place in ("/dev/shm", tempfile.gettempdir()) if os.path.isdir(place)]

    def folder_of(self, shape):
        """The folder in which the model is, or will be written; None: there is no room."""
        room = BYTES_OF["tiny" if self.is_tiny else shape]
        return next((f for f in self._folders(shape) if f.is_dir() or shutil.disk_usage(f.parent).free > room), None)

    def keep(self, name, value):
        (self.work / f"{name}.kept").write_text(json.dumps(value))

    def kept(self, name):
        """The value saved by an earlier row; None: there is none."""
        file = self.work / f"{name}.kept"
        return json.loads(file.read_text()) if file.exists() else None


def write_models(options):
    place = Place(options)
    try:
        for shape in options.names:
            folder = place.folder_of(shape)
            folder.mkdir(parents=True)
            gpu.write_model(folder, "tiny" if options.tiny else shape)
            (options.work / f"{shape}.new").write_text(str(folder))
            os.rename(options.work / f"{shape}.new", options.work / f"{shape}.done")
    except Exception as error:
        (options.work / "not-written").write_text(f"the model {shape} could not be written: {error}")
        return 1
    return 0
