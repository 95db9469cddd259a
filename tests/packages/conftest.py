"""Tests of the packages that ./package makes, of the build that is tested."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from chroot import make_base

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "packages"), str(ROOT / "scripts"), str(ROOT / "tests/support")]
SECONDS_MAX = 900  # compression takes a minute of a core
BASE = ROOT / "build/debian/base"  # made once, by debootstrap
BUILD = pathlib.Path(os.environ.get("BATON_BUILD", ROOT / "build/dev")).resolve()


@pytest.fixture(scope="session")
def build():
    if not (BUILD / "cluster/cluster").exists():
        pytest.skip(f"{BUILD}/cluster/cluster is not built")
    return BUILD


def said(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=SECONDS_MAX, check=False, **more)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


@pytest.fixture(scope="session")
def out(build, tmp_path_factory):
    """-> the folder that ./package fills; BATON_PACKAGES names one that it has filled"""
    if made := os.environ.get("BATON_PACKAGES"):
        return pathlib.Path(made).resolve()
    folder = tmp_path_factory.mktemp("dist")
    said(ROOT / "package", "--build-dir", build, "--out", folder, "tar", "wheel", "deb")
    return folder


def reason_against():
    """Why this machine cannot make a root of its own; empty: it can."""
    if os.geteuid():
        return "a chroot wants root"
    if not BASE.exists() and not shutil.which("debootstrap"):
        return f"there is neither debootstrap here nor {BASE.relative_to(ROOT)}"
    tried = subprocess.run(["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True, check=False)
    return f"no mounts here: {tried.stderr.strip()}" if tried.returncode else ""


@pytest.fixture(scope="session")
def base():
    if why := reason_against():
        pytest.skip(why)
    if not BASE.exists():
        try:
            make_base(BASE)
        except SystemExit as error:
            pytest.skip(f"no Debian can be had: {str(error).strip().splitlines()[-1]}")
    return BASE
