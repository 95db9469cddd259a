"""The build id in a binary. Two builds that differ must have different ids, because processes compare them."""
import re
import shutil
import subprocess

import pytest
from harness import CLUSTER, ROOT

VERSION = re.compile(r'return "0\.1\.0\+([^"]+)"')
DIGEST = r"[0-9a-f]{12}"


@pytest.fixture
def tree(tmp_path):
    """A small source tree, and the id of a build of it."""
    source = tmp_path / "src"
    for part in ("schema", "runtime", "actors", "gateway", "cluster", "cmake"):
        (source / part).mkdir(parents=True)
    (source / "CMakeLists.txt").write_text("project(x)\n")
    (source / "cluster/a.cpp").write_text("int a;\n")
    shutil.copy(ROOT / "cluster/version.cpp.in", source / "cluster")

    def version(at=source):
        out = tmp_path / "version.cpp"
        subprocess.run(["cmake", f"-DSOURCE={at}", f"-DTEMPLATE={source}/cluster/version.cpp.in", f"-DOUTPUT={out}", "-DVERSION=0.1.0", "-P",
                        str(ROOT / "cmake/build_version.cmake")], check=True)
        return VERSION.search(out.read_text())[1]
    return source, version


def git(source, *words):
    subprocess.run(["git", "-C", source, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True)


def test_without_git_it_is_a_digest_of_the_sources(tree):
    source, version = tree
    first = version()
    assert re.fullmatch("sha256\\." + DIGEST, first) and version() == first
    (source / "docs").mkdir()
    (source / "docs/a.md").write_text("no part of a build")
    assert version() == first
    (source / "cluster/a.cpp").write_text("int b;\n")
    second = version()
    assert second != first
    (source / "cluster/a.cpp").rename(source / "cluster/b.cpp")
    assert version() not in (first, second)


def test_with_git_it_is_the_commit_and_what_differs_from_it(tree):
    source, version = tree
    git(source, "init")
    git(source, "add", ".")
    git(source, "commit", "-m", "a")
    commit = version()
    assert re.fullmatch("[0-9a-f]{7,}", commit)
    (source / "cluster/a.cpp").write_text("int b;\n")
    changed = version()
    assert re.fullmatch(commit + "\\." + DIGEST, changed)
    (source / "cluster/new.hpp").write_text("")
    assert version() not in (commit, changed)
    git(source, "add", ".")
    git(source, "commit", "-m", "b")
    assert re.fullmatch("[0-9a-f]{7,}", version()) and version() != commit


def test_a_repository_around_the_sources_is_not_theirs(tree, tmp_path):
    source, version = tree
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "a")
    assert version().startswith("sha256.")


def test_the_binary_says_it():
    answer = subprocess.run([CLUSTER, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    assert re.fullmatch(rf"0\.1\.0\+(sha256\.{DIGEST}|[0-9a-f]{{7,}}(\.{DIGEST})?)", answer)
