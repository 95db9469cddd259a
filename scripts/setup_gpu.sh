# Part of setup.sh: what the GPU engine is built with. All of it comes from PyPI where the machine has none of its own.

cuda_version=13.0

# nvcc of CUDA 13, the machine's or fetch_nvcc's; fails where there is none.
find_nvcc() {
  local nvcc
  for nvcc in "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc "$PWD/build/cuda/toolkit/bin/nvcc"; do
    if [ -x "$nvcc" ] && "$nvcc" --version | grep -q 'release 13\.'; then echo "$nvcc"; return; fi
  done
  return 1
}

# CUDAARCHS, which CMake reads: what the machine's GPUs are; without one the default of cmake/Cuda.cmake stands.
name_architectures() {
  local found; found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d '. ' | sort -u | sed 's/$/-real/' | paste -sd';') || return 0
  [ -z "$found" ] || export CUDAARCHS=${CUDAARCHS:-$found}
}

# CUDACXX, which CMake reads. The packages are put together as a toolkit lies on disk.
fetch_nvcc() {
  name_architectures
  export CUDACXX
  if CUDACXX=$(find_nvcc); then return; fi
  say "fetching nvcc of CUDA $cuda_version (104 MB, PyPI package nvidia-cuda-nvcc)"
  rm -rf build/cuda && mkdir -p build && python3 -m venv build/cuda \
    && build/cuda/bin/pip install -q --disable-pip-version-check --no-deps nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 \
      nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 \
    || die "pip could not install nvcc; is PyPI reachable?"
  local root; root=$(echo build/cuda/lib/python3*/site-packages/nvidia/cu13)
  ln -s libcudart.so.13 "$root/lib/libcudart.so"
  ln -s lib "$root/lib64" # where nvcc looks
  ln -s "${root#build/cuda/}" build/cuda/toolkit
  CUDACXX=$(find_nvcc) || die "the packages of CUDA $cuda_version hold no nvcc that runs here"
}

# The engine's kernels as objects, which wants nvcc but neither torch nor a GPU.
build_kernels() {
  fetch_nvcc
  fetch_flashinfer
  grep -qs 'flashinfer\.cu\.o' build/dev/build.ninja || cmake --preset dev >/dev/null || die "cmake failed"
  build dev gpu_kernels
}

torch_version=2.11.0

# Packages with the libraries that torch loads and this machine lacks. If nvcc was fetched, all of them, because a
# machine without a toolkit has no headers either.
missing_cuda_packages() {
  local found="" library package
  [[ "$CUDACXX" = "$PWD"/build/cuda/* ]] || found=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p)
  while read -r library package; do
    grep -q "^[[:space:]]*${library//./\\.} " <<<"$found" || echo "$package"
  done <<END
libcublas.so.13 nvidia-cublas==13.1.0.3
libcudart.so.13 nvidia-cuda-runtime==13.0.96
libcudnn.so.9 nvidia-cudnn-cu13==9.19.0.56
libcufft.so.12 nvidia-cufft==12.0.0.61
libcufile.so.0 nvidia-cufile==1.15.1.6
libcupti.so.13 nvidia-cuda-cupti==13.0.85
libcurand.so.10 nvidia-curand==10.4.0.35
libcusolver.so.12 nvidia-cusolver==12.0.4.66
libcusparse.so.12 nvidia-cusparse==12.6.3.3
libcusparseLt.so.0 nvidia-cusparselt-cu13==0.8.0
libnccl.so.2 nvidia-nccl-cu13==2.28.9
libnvJitLink.so.13 nvidia-nvjitlink==13.0.88
libnvrtc.so.13 nvidia-cuda-nvrtc==13.0.88
libnvshmem_host.so.3 nvidia-nvshmem-cu13==3.4.5
END
}

# torch in a folder of its own (build/torch). Its libraries and headers are used, so most packages of its Python side are
# left out. sympy and networkx serve torch.compile and pipelines, which handlers use. Sets what the preset "gpu" reads.
# BATON_TORCH=cpu leaves CUDA out, for tests on CPU tensors alone;
# BATON_TORCH_PYTHON names a Python that has torch already.
fetch_torch() {
  export BATON_TORCH=${BATON_TORCH:-cuda}
  local beside="nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85" # the CPU's part asks for these
  if [ "$BATON_TORCH" = cuda ]; then fetch_nvcc; fetch_flashinfer; fi
  [ "$BATON_TORCH" = cpu ] || beside=$(missing_cuda_packages | tr '\n' ' ')
  [ -z "${BATON_TORCH_PYTHON-}" ] || return 0
  local stamp="build/torch/stamp" wanted="$torch_version $BATON_TORCH sympy networkx"
  export BATON_TORCH_PYTHON=$PWD/build/torch/bin/python
  [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
  say "fetching torch $torch_version (530 MB; with all of CUDA's libraries 2 GB; PyPI)"
  # shellcheck disable=SC2086 # packages are words
  mkdir -p build && python3 -m venv build/torch \
    && build/torch/bin/pip install -q --disable-pip-version-check --no-deps "torch==$torch_version" sympy==1.14.0 mpmath==1.3.0 networkx==3.5 $beside \
    || die "pip could not install torch $torch_version; is PyPI reachable?"
  echo "$wanted" >"$stamp"
}

# torch for tests of workers. Its wheel is not imported without CUDA's libraries, so these come too (2 GB).
fetch_torch_for_workers() {
  case "$(cat build/torch/stamp 2>/dev/null)" in
    "$torch_version cuda sympy networkx" | "$torch_version workers sympy networkx") ;;
    *) BATON_TORCH=workers fetch_torch ;;
  esac
}

tensorflow_version=2.21.0

# TensorFlow in a folder of its own (build/tensorflow), for tests of workers
fetch_tensorflow_for_workers() {
  [ "$(cat build/tensorflow/stamp 2>/dev/null)" != $tensorflow_version ] || return 0
  say "fetching TensorFlow $tensorflow_version (300 MB; PyPI)"
  mkdir -p build && python3 -m venv build/tensorflow \
    && build/tensorflow/bin/pip install -q --disable-pip-version-check tensorflow-cpu==$tensorflow_version \
    || die "pip could not install TensorFlow $tensorflow_version; is PyPI reachable?"
  echo $tensorflow_version >build/tensorflow/stamp
}

flashinfer_version=0.7.2.post1
flashinfer_sha256=bfdc18b9e1e4d8d0730fe4343dc0e284cd0c160086de80f99888bc4867922d49

# The headers of FlashInfer's attention, out of its wheel into build/flashinfer, where CMake looks for them
# (cmake/FlashInfer.cmake). It keeps the headers, the CCCL version that they need and the licences of the
# wheel's 421 MB.
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
