"""Makes the packages of a build: `python3 packages/make.py [--build-dir DIR] [--out DIR] [deb] [tar] [wheel] [engine]`; `./package`
builds before."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import archive
import libraries
import wheel

ROOT = pathlib.Path(__file__).resolve().parent.parent
FROM_RELEASE = ("deb", "tar", "wheel")


def git(*words):
    """-> the output, or None where the sources are in no repository"""
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


def declared_version():
    return re.search(r"project\(baton VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]


def changes():
    """-> the files that differ from the last commit"""
    # Not the folders that are fetched or built; where they are links, .gitignore has no row for them.
    status = git("status", "--porcelain", "--", ".", ":!models", ":!.venv", ":!build", ":!dist")
    return [line[3:] for line in (status or "").splitlines()]


def version_of_tree():
    """A clean tree gives the version alone. Otherwise the commit is named too, so the package cannot be taken for a release."""
    version, changed = declared_version(), changes()
    if not changed:
        return version
    shown = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
    version += f"+{git('rev-parse', '--short', 'HEAD')}.changed"
    print(f"the tree has changes ({shown}): this is version {version}, no release", flush=True)
    return version


def time_of_tree():
    """Seconds of the last commit: equal sources give equal packages."""
    return int(git("log", "-1", "--format=%ct") or 0)


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def install(build, prefix, *components):
    for component in components:
        run("cmake", "--install", build, "--prefix", prefix, "--strip", "--component", component)


def make_deb(build, out, version, scratch):
    run("cpack", "-G", "DEB", "--config", build / "CPackConfig.cmake", "-B", scratch, "-D", f"CPACK_PACKAGE_VERSION={version}",
        "-D", f"CPACK_DEBIAN_PACKAGE_VERSION={version}")
    made, = scratch.glob("*.deb")
    return made.rename(out / made.name)


def carry(prefix):
    """Puts what the programs of a prefix need beside them, and their licences."""
    folder = prefix / "lib/baton"
    carried = libraries.needed_by([prefix / "bin/cluster", *folder.rglob("*.so")])
    libraries.copy(carried, folder)
    libraries.copy_licences(carried, prefix / "share/doc/baton/licenses")


def make_tar(build, out, version, scratch):
    name = f"baton-{version}-linux-x86_64"
    prefix = scratch / name
    install(build, prefix, "program", "documents")
    carry(prefix)
    return archive.write_tar(out / f"{name}.tar.xz", prefix, time_of_tree())


def make_wheel(build, out, version, scratch):
    prefix = scratch / "prefix"
    install(build, prefix, "program", "documents")
    carry(prefix)
    run(sys.executable, ROOT / "sdk/python/generate_wire.py")
    return wheel.write(out, wheel.SERVER, version, wheel.contents_of_server(ROOT, prefix, version), time_of_tree())


def torch_of(build):
    """-> the version of torch that a build's GPU engine needs"""
    cache = (build / "CMakeCache.txt").read_text()
    if "BATON_TORCH:STRING=cuda" not in cache:
        sys.exit(f"{build} has no GPU engine for CUDA: ./package engine builds one")
    return re.search(r"set\(BATON_TORCH_VERSION (\S+)\)", (ROOT / "cmake/Torch.cmake").read_text())[1]


def licences_in_engine():
    """-> {name: file} of the headers whose code is in the engine"""
    return {"flashinfer": file for file in (ROOT / "build/flashinfer").glob("flashinfer_python-*.dist-info/licenses/LICENSE")}


def make_engine(build, out, version, scratch):
    prefix = scratch / "prefix"
    torch = torch_of(build)
    install(build, prefix, "engine")
    return wheel.write(out, wheel.ENGINE, version, wheel.contents_of_engine(ROOT, prefix, version, torch, licences_in_engine()), time_of_tree())


MAKERS = {"deb": make_deb, "tar": make_tar, "wheel": make_wheel, "engine": make_engine}


def main():
    parser = argparse.ArgumentParser(prog="./package")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(MAKERS)}; default: {', '.join(FROM_RELEASE)}")
    parser.add_argument("--build-dir", type=pathlib.Path, help="default: build/release, and build/engine for `engine`")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist", help="default: dist")
    asked = parser.parse_args()
    if unknown := set(asked.kinds) - set(MAKERS):
        parser.error(f"there is no package {unknown.pop()}: {', '.join(MAKERS)}")
    kinds = [kind for kind in MAKERS if kind in (asked.kinds or FROM_RELEASE)]
    builds = {kind: (asked.build_dir or ROOT / "build" / ("engine" if kind == "engine" else "release")).resolve() for kind in kinds}
    for kind, build in builds.items():
        wanted = build / ("cluster/engines/engine_torch.so" if kind == "engine" else "cluster/cluster")
        if not wanted.exists():
            parser.error(f"{wanted} is not built")
    version, out = version_of_tree(), asked.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for kind, build in builds.items():
        with tempfile.TemporaryDirectory(prefix="baton-package-") as scratch:
            made = MAKERS[kind](build, out, version, pathlib.Path(scratch))
        print(f"{made.relative_to(ROOT) if made.is_relative_to(ROOT) else made}  {made.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
