"""Archives of every packing, from the sources of TorchServe's clients, with their required packages. Unservable archives of a store or a
repository are reported everywhere."""
import contextlib
import functools
import http.server
import io
import json
import os
import pathlib
import re
import sys
import tarfile
import threading
import urllib.error
import urllib.request
import zipfile
from unittest import mock

import harness
import pytest
import tritonclient.http as triton_http
from harness import ROOT
from test_model_repository import WithRepository
from test_model_store import WithStore
from worker_models import wait_for

sys.path[:0] = [str(ROOT / "sdk" / "python" / "tests")]

from test_requirements import wheel  # noqa: E402

HANDLER = """
def handle(data, context):
    {extra}
    return None if data is None else [{answer}] * len(data)
"""


def files_of(model, answer, extra="pass", **more):
    about = {"modelName": model, "modelVersion": "1.0", "handler": "handler.py", **({"requirementsFile": "requirements.txt"} if "requirements" in more else {})}
    files = {"handler.py": HANDLER.format(extra=extra, answer=answer)}
    if "requirements" in more:
        files["requirements.txt"] = more["requirements"]
    return {**files, "MAR-INF/MANIFEST.json": json.dumps({"runtime": "python", "model": about})}  # last in the archive, as in torch-model-archiver's tgz


def tgz(path, files, top):
    with tarfile.open(path, "w:gz") as made:
        for name, text in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(text)
            made.addfile(info, io.BytesIO(text.encode()))


def mar(path, files):
    with zipfile.ZipFile(path, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)


class Archives(WithStore):
    """Runs an HTTP server beside the cluster, which allows only its path /allowed."""

    def __init__(self, directory, section="", **options):
        directory = pathlib.Path(directory)
        self.far = directory / "far"
        (self.far / "allowed").mkdir(parents=True)
        (self.far / "other").mkdir()
        self.wheels = directory / "wheels"
        wheel(self.wheels, "baton_test_wheel", "2.5")
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=self.far)
        handler.log_message = lambda *_: None
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.host = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        allowed = f'allowed_urls = ["{self.host}/allowed/.*", "file://{directory}/far/allowed/.*"]\ninstall_py_dep_per_model = true\n'
        super().__init__(directory, section=allowed + section.replace("HOST", self.host), **options)
        tgz(self.store / "packed.tar.gz", files_of("packed", "'tar'"), "packed")
        tgz(self.store / "also.mar", files_of("also", "'also'"), "also")
        (self.store / "junk.mar").write_bytes(b"junk")
        (self.store / "a b.mar").write_bytes(b"junk")
        (self.store / "damaged.tgz").write_bytes((self.store / "packed.tar.gz").read_bytes()[:100])
        (self.store / "empty").mkdir()
        (self.store / "README.md").write_text("no archive, and not looked at")
        mar(self.far / "allowed" / "far.mar", files_of("far", "'far'"))
        mar(self.far / "other" / "far.mar", files_of("far", "'far'"))
        mar(self.far / "allowed" / "start.mar", files_of("start", "'start'"))
        (self.far / "allowed" / "bad.mar").write_bytes(b"junk")
        mar(self.store / "needs.model", files_of("needs", "baton_test_wheel.version", "import baton_test_wheel", requirements="baton-test-wheel>=2\n"))
        mar(self.store / "lacks.model", files_of("lacks", "1", requirements="baton-test-missing\n"))

    def start(self, wait=True):
        with mock.patch.dict(os.environ, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(self.wheels), PIP_CONFIG_FILE=os.devnull):
            return super().start(wait)

    def index(self):
        with contextlib.closing(triton_http.InferenceServerClient(self.url.removeprefix("http://"))) as client:
            return {one["name"]: one for one in client.get_model_repository_index()}


@pytest.fixture(scope="module")
def store():
    with harness.running(Archives, section='load_models = ["all", "gone.mar", "HOST/allowed/start.mar"]\n') as cluster:
        yield cluster
        cluster.http.shutdown()


def is_served(store, model, word, seconds=60):
    def answers():
        with contextlib.suppress(urllib.error.HTTPError):
            request = urllib.request.Request(f"http://{store.inference}/predictions/{model}", data=b"x", method="POST", headers={"Content-Type": "text/plain"})
            return urllib.request.urlopen(request, timeout=60).read().decode() == word
    return wait_for(answers, seconds, store.logs)


def test_archives_are_what_their_bytes_say(store):
    assert is_served(store, "packed", "tar") and is_served(store, "also", "also")
    assert is_served(store, "start", "start")  # fetched at the start
    assert store.describe("packed")["modelUrl"] == "packed.tar.gz"


def test_an_archive_is_fetched_from_a_url_that_is_allowed(store):
    url = f"{store.host}/allowed/far.mar?signature=a"
    assert store.register(url, initial_workers=1, synchronous="true") == (200, {"status": 'Model "far" Version: 1.0 registered with 1 initial workers'})
    assert is_served(store, "far", "far") and store.describe("far")["modelUrl"] == url
    assert (store.store / "far.mar").is_file()
    status, reply = store.register(url)
    assert (status, reply["type"]) == (409, "ConflictStatusException") and "already exists far.mar" in reply["message"]
    assert store.ask("DELETE", "/models/far")[0] == 200
    wait_for(lambda: not (store.store / "far.mar").exists())
    assert store.register(f"file://{store.far}/allowed/far.mar", model_name="near", initial_workers=1, synchronous="true")[0] == 200
    assert is_served(store, "near", "far")
    assert store.ask("DELETE", "/models/near")[0] == 200
    wait_for(lambda: not (store.store / "far.mar").exists())


def test_a_url_that_cannot_be_had_says_why_as_torchserve_does(store):
    other = f"{store.host}/other/far.mar"
    status, reply = store.register(other)
    assert (status, reply["type"]) == (404, "ModelNotFoundException")
    assert reply["message"] == f"Given URL {other} does not match any allowed URL(s)"
    gone = f"{store.host}/allowed/gone.mar"
    status, reply = store.register(gone)
    assert status == 400 and reply["message"].startswith(f"Failed to download archive from: {gone}: HTTP 404")
    status, reply = store.register(f"{store.host}/allowed/bad.mar")
    assert status == 400 and "no model archive" in reply["message"]
    status, reply = store.register(f"{store.host}/allowed/..mar")
    assert status == 404 and "Relative path" in reply["message"]
    assert not (store.store / "bad.mar").exists() and not [n for n in os.listdir(store.store) if n.startswith(".")]


def test_packages_are_installed_from_a_directory_of_wheels(store):
    assert is_served(store, "needs", "2.5", 180)
    environments = list((store.directory / "run" / "unpacked").glob("*.venv"))
    assert len(environments) == 1
    assert "Successfully installed baton" in (store.directory / "run" / "worker-needs-0.log").read_text()
    assert store.ask("DELETE", "/models/needs")[0] == 200
    wait_for(lambda: not environments[0].exists())


# Reasons in the index, by the requested name.
REASONS = {"junk.mar": "it is no model archive", "a b.mar": "an archive's name is 1 to 64 of", "gone.mar": "Model not found in the model store",
           "empty": "it is no model archive", "damaged.tgz": "it is no model archive", "lacks": "pip cannot install its requirements.txt: ERROR: "}


def test_what_cannot_be_served_is_said_wherever_it_is_looked_for(store):
    wait_for(lambda: store.index().get("lacks", {}).get("state") == "UNAVAILABLE", 120)
    index, processes = store.index(), {p["name"]: p for p in store.status()["processes"]}
    log = (store.directory / "run" / "root.log").read_text()
    for name, reason in REASONS.items():
        assert index[name]["state"] == "UNAVAILABLE" and reason in index[name]["reason"], index[name]
        assert any(p.startswith(f"model-{name}") and reason in one["reason"] for p, one in processes.items()), (name, processes)
        status, reply = store.ask("GET", "/models/" + name.replace(" ", "%20"))
        assert (status, reply["type"]) == (404, "ModelNotFoundException") and reason in reply["message"], reply
        assert re.search(f"{re.escape(name)}.*{re.escape(reason)}", log), (name, log)
    assert "README.md" not in index
    listed = {m["modelName"] for m in store.ask("GET", "/models")[1]["models"]}
    assert "packed" in listed and "junk.mar" not in listed  # there a model is one that is registered
    shown = store.output.read_text()
    assert "is skipped" in log and "is skipped" not in shown and "is up (pid" not in shown  # the terminal shows the progress, not the log
    assert "is being read" not in shown
    tgz(store.store / "junk.mar", files_of("mended", "'mended'"), "mended")
    assert store.register("junk.mar", initial_workers=1, synchronous="true")[0] == 200
    wait_for(lambda: "junk.mar" not in store.index())
    assert store.ask("DELETE", "/models/mended")[0] == 200


def test_doctor_says_what_a_store_would_pass_over(store):
    found = {row["check"]: row for row in json.loads(store.command("doctor", str(store.config), "--json").stdout)}
    assert "an archive's name is 1 to 64 of" in found["archive a b.mar"]["found"]


def test_a_misspelt_name_of_a_repository_is_in_its_index():
    section = 'control_mode = "explicit"\nload_models = ["scale", "scael", "noted"]\n'
    with harness.running(WithRepository, section=section, models={"scale": 2}) as cluster:
        (cluster.models / "nowhere").symlink_to(cluster.directory / "none")
        with contextlib.closing(triton_http.InferenceServerClient(cluster.url.removeprefix("http://"))) as client:
            index = {one["name"]: one for one in client.get_model_repository_index()}
            assert index["scael"]["state"] == "UNAVAILABLE"
            assert index["scael"]["reason"].endswith("has no such directory; did you mean 'scale'?")
            with pytest.raises(triton_http.InferenceServerException, match="leads nowhere"):
                client.load_model("nowhere")
            index = {one["name"]: one for one in client.get_model_repository_index()}
            assert "leads nowhere" in index["nowhere"]["reason"]
        assert any(p["name"] == "model-scael" for p in cluster.status()["processes"])
        assert "scael is skipped" in (cluster.directory / "run" / "root.log").read_text()
