"""An archive's requirements.txt: packages found or missing, and installed from a directory of wheels, without a network."""
import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from test_archive import mar

from baton_worker import archive, requirements

SDK = Path(__file__).resolve().parents[1]


def wheel(directory, name, version="1.0", needs=()):
    """The smallest wheel that pip accepts: a module with a version."""
    directory.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {n}\n" for n in needs)
    files = {f"{name}.py": f"version = {version!r}\n", f"{info}/METADATA": metadata,
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    rows = []
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as made:
        for path, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(text)}")
            made.writestr(path, text)
        made.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")


HANDLER = ("handler.py", """
import os, sys
def handle(data, context):
    if data is None:
        return None
    import baton_test_wheel, zmq
    return [f"{baton_test_wheel.version} {sys.prefix} {zmq.__name__} {context.system_properties['model_dir']}"]
""")


def test_installed_and_missing_packages_are_reported(tmp_path):
    (tmp_path / "more.txt").write_text("baton-more-missing\n-r requirements.txt\n")
    file = tmp_path / "requirements.txt"
    file.write_text("# a comment\npytest  # is there\nbaton-test-missing>=2\npytest>=10000\nonlyelsewhere; python_version < '2'\n-r more.txt\n"
                    "--extra-index-url https://example.org\n./local.whl\npytest \\\n  >=1\n")
    wanted = requirements.look(file)
    assert [w.split(" (")[0] for w in wanted.lacking] == ["baton-test-missing>=2", "pytest>=10000", "baton-more-missing"]
    assert "is there)" in wanted.lacking[1]
    assert wanted.unknown == ["--extra-index-url https://example.org", "./local.whl"]
    file.write_text("-r gone.txt\n")
    with pytest.raises(requirements.RequirementsError, match="gone.txt, which is not there"):
        requirements.look(file)


def test_without_packaging_names_alone_are_known(tmp_path, monkeypatch):
    monkeypatch.setattr(requirements, "_parser", lambda: requirements._name_of)
    file = tmp_path / "requirements.txt"
    file.write_text("pytest>=10000\nbaton-test-missing[x]>=2; python_version > '3'\n")
    wanted = requirements.look(file)
    assert wanted.lacking == ["baton-test-missing"] and wanted.unknown == ["pytest"]


def test_an_archive_whose_packages_are_missing_is_refused_with_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("BATON_WORKER_FILES", str(tmp_path / "7"))
    file = mar(tmp_path / "m.mar", files=[HANDLER, ("requirements.txt", "baton-test-missing\n")], requirementsFile="requirements.txt")
    with pytest.raises(requirements.RequirementsError, match="baton-test-missing, which .* has not: install_py_dep_per_model = true"):
        requirements.provide(archive.open_archive(str(file)), None)
    there = mar(tmp_path / "n.mar", files=[HANDLER, ("requirements.txt", "pytest\n")], requirementsFile="requirements.txt")
    assert requirements.provide(archive.open_archive(str(there)), None) is None
    assert requirements.provide(archive.open_archive(str(there)), 60) is None  # existing packages are not installed again


@pytest.fixture
def ask(tmp_path):
    """Calls the archive in a separate process, as a person does in a terminal. -> its end"""
    def run(file, *options, files="7", **env):
        words = [sys.executable, "-m", "baton_worker.foreground", "baton_worker.torchserve", str(file), *options]
        path = os.pathsep.join([str(SDK), os.environ.get("PYTHONPATH", "")])
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")}
        return subprocess.run(words, env={**clean, "PYTHONPATH": path, "BATON_WORKER_FILES": str(tmp_path / files), "PIP_NO_INDEX": "1",
                                          "PIP_CONFIG_FILE": os.devnull, **env}, capture_output=True, text=True, timeout=180, check=False)
    return run


def test_packages_are_installed_for_this_model_from_a_directory_of_wheels(tmp_path, ask):
    wheel(tmp_path / "wheels", "baton_test_wheel", "2.5", needs=["baton_test_deeper"])
    wheel(tmp_path / "wheels", "baton_test_deeper")
    file = mar(tmp_path / "m.mar", files=[HANDLER, ("requirements.txt", "baton-test-wheel>=2\n")], requirementsFile="requirements.txt")
    env = {"PIP_FIND_LINKS": str(tmp_path / "wheels")}
    refused = ask(file, **env)
    assert refused.returncode == 2 and "install_py_dep_per_model" in refused.stderr
    done = ask(file, "--install-requirements", **env)
    assert done.returncode == 0, done.stderr
    assert f"2.5 {tmp_path / '7.venv'} zmq {tmp_path / '7'}" in done.stdout  # this Python's packages are visible as well
    assert "Successfully installed" in done.stderr  # pip's output is kept
    again = ask(file, "--install-requirements")  # no longer needs wheels
    assert again.returncode == 0 and "Successfully" not in again.stderr, again.stderr


def test_pips_error_is_the_reason(tmp_path, ask):
    (tmp_path / "wheels").mkdir()
    file = mar(tmp_path / "m.mar", files=[HANDLER, ("requirements.txt", "baton-test-wheel>=2\n")], requirementsFile="requirements.txt")
    done = ask(file, "--install-requirements", PIP_FIND_LINKS=str(tmp_path / "wheels"))
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert "pip cannot install its requirements.txt: ERROR: Could not find a version that satisfies the requirement baton-test-wheel>=2" in last
    assert not (tmp_path / "7.venv").exists()


def test_an_install_that_takes_too_long_is_ended(tmp_path):
    answer = requirements._run([sys.executable, "-c", "import time; print('ERROR: begun', flush=True); time.sleep(600)"], tmp_path, 0.5)
    assert answer == "not within 0.5 s"
    assert json.dumps(answer)
