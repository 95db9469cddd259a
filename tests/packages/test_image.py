"""Goal: the commands of docs/develop/release.md make an image of the .deb, and a container of it answers. Method: they run as they stand, with
buildah, which needs neither a daemon nor a registry."""
import os
import pathlib
import re
import shutil

import pytest
from conftest import ROOT, said

PAGE = ROOT / "docs/develop/release.md"


@pytest.fixture
def store(tmp_path):
    """-> the environment of a buildah with images of its own"""
    if not shutil.which("buildah"):
        pytest.skip("no buildah here: ./check all installs it")
    settings = tmp_path / "storage.conf"
    settings.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path}/images"\nrunroot = "{tmp_path}/run"\n')
    yield {**os.environ, "CONTAINERS_STORAGE_CONF": str(settings)}
    shutil.rmtree(tmp_path / "images", ignore_errors=True)


def test_the_image_of_the_page_answers(base, out, store, tmp_path):
    section = PAGE.read_text().split("\n## An image\n")[1]
    lines = re.search(r"^```text\n(.*?)^```", section, re.M | re.S)[1]
    deb, = pathlib.Path(out).glob("*.deb")
    for there, here in (("BASE", str(base)), ("dist/baton_0.1.0_amd64.deb", str(deb)), ("$PWD/models", f"{ROOT}/models"), ("STORAGE_DRIVER=vfs ", "")):
        assert there in lines
        lines = lines.replace(there, here)
    shown = said("bash", "-euc", lines.replace('"Hello"', '"Hello" --max-tokens 8 --temperature 0'), env=store, cwd=tmp_path)
    assert shown.rstrip().endswith("Hello! How can I assist you today"), shown[-2000:]
