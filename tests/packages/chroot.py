"""Proves packages in a fresh minimal Debian 12 without a compiler: installs each as its reader does, and asks a model.
As root: `python3 tests/packages/chroot.py [--base DIR] [--copy FILE] MODEL.gguf PACKAGE...`."""
import argparse
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SECONDS_MAX = 900
USER = "reader"
PROMPT = "Why is the sky blue?"
ANSWER = f'run /model.gguf "{PROMPT}" --max-tokens 8 --temperature 0'


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def now():
    """-> (seconds, processor seconds of the ended processes); on a busy machine the first number means little"""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic(), ended.ru_utime + ended.ru_stime


def make_base(folder):
    """Makes a minimal Debian 12 in a new folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    run("debootstrap", "--variant=minbase", "bookworm", str(part))
    part.rename(folder)


def copy_of(base, root, copied=()):
    """-> a Chroot with files of this machine"""
    run("cp", "-a", str(base), str(root))
    for file in ("/etc/resolv.conf", *copied):
        place = root / file.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    return Chroot(root)


class Chroot:
    """A copy of the base in `root`. Each command has mounts and process ids of its own, which end with it."""

    def __init__(self, root):
        self.root = root

    def run(self, script, user="root", **more):
        """-> the output of a shell's script. `more`: of its environment"""
        home = "/root" if user == "root" else f"/home/{user}"
        environment = ["env", "-i", f"HOME={home}", f"PATH={PATH}", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", *(f"{k}={v}" for k, v in more.items())]
        become = [] if user == "root" else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        inside = ["chroot", str(self.root), *environment, *become, "bash", "-euc", f"cd; {script}"]
        mounts = f"mount -t proc proc {self.root}/proc && mount --rbind /dev {self.root}/dev && mount -t tmpfs tmpfs {self.root}/tmp && exec \"$@\""
        return run("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", mounts, "sh", *inside)

    def prepare(self, packages):
        self.run(f"apt-get update -qq; apt-get install -y -qq --no-install-recommends {packages} >/dev/null; useradd --create-home {USER}")
        found = self.run("for tool in cc gcc g++ c++ ld make cmake; do command -v $tool || true; done")
        if found:
            sys.exit(f"this is no machine of a reader: it has {found.split()}")


def prove_deb(chroot, package):
    chroot.prepare("ca-certificates")
    begin = now()
    chroot.run(f"apt-get install -y -qq --no-install-recommends /{package} >/dev/null")
    chroot.run("for name in cluster baton; do test -x /usr/bin/$name; done; test -f /usr/lib/baton/doors/door_grpc.so; ! ldd /usr/lib/baton/doors/door_grpc.so | grep 'not found'")
    return chroot.run(f"cluster {ANSWER}", USER), begin


def prove_tar(chroot, package):
    chroot.prepare("xz-utils")
    begin = now()
    chroot.run(f"tar xJf /{package}", USER)
    folder = package.removesuffix(".tar.xz")
    return chroot.run(f"{folder}/bin/baton {ANSWER}", USER), begin


def prove_wheel(chroot, package):
    chroot.prepare("python3-venv")
    chroot.run("python3 -m venv venv", USER)
    begin = now()
    chroot.run(f"venv/bin/pip install -q --no-index /{package}", USER)
    return chroot.run(f"venv/bin/cluster {ANSWER}", USER), begin


def prove_engine(chroot, server, package):
    """On CPU tensors. pip fetches torch and CUDA's libraries. `server`: the wheel that the engine's requires"""
    chroot.prepare("python3-venv ca-certificates")
    chroot.run("python3 -m venv venv", USER)
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_") and not name.endswith("FIND_LINKS")}
    begin = now()
    chroot.run(f"TMPDIR=$HOME venv/bin/pip install -q --no-cache-dir /{server} /{package}", USER, **pip)
    return chroot.run(f"venv/bin/cluster {ANSWER} --device torch/cpu-torch", USER), begin


PROOFS = {".deb": prove_deb, ".xz": prove_tar, ".whl": prove_wheel}


def is_engine(package):
    return package.name.startswith("baton_server_cuda-")


def prove(base, package, model, copied, server):
    """`server`: the server's wheel, or None"""
    proof, installed = (prove_engine, [server, package]) if is_engine(package) else (PROOFS[package.suffix], [package])
    with tempfile.TemporaryDirectory(prefix="baton-chroot-") as scratch:
        root = pathlib.Path(scratch, "root")
        chroot = copy_of(base, root, copied)
        shutil.copy(model, root / "model.gguf")
        for file in installed:
            shutil.copy(file, root / file.name)
        answer, begin = proof(chroot, *(file.name for file in installed))
        seconds, of_processor = (end - start for end, start in zip(now(), begin))
        if not answer.strip():
            sys.exit(f"{package.name}: no answer")
        print(f"{package.name}: installed, and answered {answer.strip()!r}, after {seconds:.1f} s ({of_processor:.1f} s of processor time)", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="chroot.py", description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("packages", type=pathlib.Path, nargs="+", metavar="PACKAGE")
    parser.add_argument("--base", type=pathlib.Path, help="a minimal Debian 12 to copy; default: debootstrap makes one")
    parser.add_argument("--copy", action="append", default=[], metavar="FILE", help="of this machine, that the chroot needs too: apt's proxy, a certificate")
    asked = parser.parse_args()
    if wrong := [package for package in asked.packages if package.suffix not in PROOFS]:
        parser.error(f"{wrong[0]} is no package")
    server = next((package.resolve() for package in asked.packages if package.suffix == ".whl" and not is_engine(package)), None)
    if server is None and any(map(is_engine, asked.packages)):
        parser.error("the engine's wheel needs the server's beside it")
    with tempfile.TemporaryDirectory(prefix="baton-debian-") as scratch:
        base = asked.base or pathlib.Path(scratch, "base")
        if asked.base is None:
            make_base(base)
        for package in asked.packages:
            prove(base, package.resolve(), asked.model.resolve(), asked.copy, server)


if __name__ == "__main__":
    main()
