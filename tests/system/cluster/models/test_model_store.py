"""A model store of TorchServe: clients register, scale, choose and unregister its archives, and no request is lost."""
import concurrent.futures
import functools
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile

import grpc
import harness
import pytest
from harness import CLUSTER, ROOT, free_ports
from worker_models import SDK, WithWorkers, wait_for

sys.path[:0] = [str(SDK), *(str(ROOT / "tests/system/doors" / folder) for folder in ("", "torchserve"))]

from test_grpc_torchserve import stubs  # noqa: E402, F401 (a fixture)

# Waits while a body contains "wait" and a file is missing. Returns its own word, the size of the batch and its directory.
HANDLER = '''
import os, time
from ts.torch_handler.base_handler import BaseHandler
class Echo(BaseHandler):
    def initialize(self, context):
        {initialize}
        self.batch_size = context.system_properties["batch_size"]
        self.directory = context.system_properties["model_dir"]
    def handle(self, data, context):
        bodies = [bytes(row["body"]).decode() if isinstance(row["body"], (bytes, bytearray)) else row["body"] for row in data]
        while any("wait" in b for b in bodies) and not os.path.exists({gate!r}):
            time.sleep(0.02)
        return [{{"word": {word!r}, "pid": os.getpid(), "batch_size": self.batch_size, "directory": self.directory}} for _ in bodies]
'''


class WithStore(WithWorkers):
    def __init__(self, directory, section="", archives=None, **options):
        self.store = pathlib.Path(directory) / "store"
        self.store.mkdir()
        self.gate = str(pathlib.Path(directory) / "gate")
        for name, settings in (archives or {}).items():
            self.write(name, **settings)
        first = free_ports(4)
        self.inference, self.management, self.grpc_port = (f"127.0.0.1:{first + i}" for i in range(3))
        gateway = (f'torchserve_inference = "{self.inference}"\ntorchserve_management = "{self.management}"\n'
                   f'torchserve_grpc_management = "{self.grpc_port}"\n{options.pop("gateway", "")}')
        super().__init__(directory, devices=("cpu:0",), gateway=gateway, nodes=f'[model_store]\npath = "{self.store}"\n{section}', **options)

    def write(self, file, model="echo", version="1.0", word="one", initialize="pass", config="", extra=()):
        """Writes an archive as torch-model-archiver does, or a directory as with --archive-format no-archive."""
        about = {"modelName": model, "modelVersion": version, "handler": "handler.py", **({"configFile": "model-config.yaml"} if config else {})}
        files = {"MAR-INF/MANIFEST.json": json.dumps({"runtime": "python", "model": about}),
                 "handler.py": HANDLER.format(initialize=initialize, gate=self.gate, word=word), **({"model-config.yaml": config} if config else {}),
                 **dict(extra)}
        if file.endswith(".mar"):
            with zipfile.ZipFile(self.store / file, "w", zipfile.ZIP_DEFLATED) as made:
                for name, text in files.items():
                    made.writestr(name, text)
            return
        for name, text in files.items():
            (self.store / file / name).parent.mkdir(parents=True, exist_ok=True)
            (self.store / file / name).write_text(text)

    def ask(self, method, target, body=None, at=None, timeout=60, headers=None):
        """-> (status, its JSON)"""
        request = urllib.request.Request(f"http://{at or self.management}{target}", data=body, method=method, headers={"Content-Type": "text/plain", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as r:
                return r.status, json.loads(r.read())
        except urllib.error.HTTPError as e:
            return e.code, json.loads(e.read())

    def register(self, url, **query):
        return self.ask("POST", "/models?" + urllib.parse.urlencode({"url": url, **query}))

    def predict(self, model, body=b"x", timeout=60):
        return self.ask("POST", f"/predictions/{model}", body, at=self.inference, timeout=timeout)

    def describe(self, model):
        status, reply = self.ask("GET", f"/models/{model}")
        assert status == 200, reply
        return reply[0]


running = functools.partial(harness.running, WithStore)


@pytest.fixture(scope="module")
def store():
    with running(archives={"echo.mar": {}, "plain": {"model": "plain", "word": "plain"}, "two.mar": {"version": "2.0", "word": "two"},
                           "configured.mar": {"model": "configured", "config": "minWorkers: 1\nbatchSize: 3\nresponseTimeout: 7\n"},
                           "fails.mar": {"model": "fails", "initialize": "raise ValueError('no weights')"},
                           "escapes.mar": {"model": "escapes", "extra": [("../out", "x")]},
                           "bomb.mar": {"model": "bomb", "extra": [("zeros", "0" * (100 << 20))]}}) as cluster:
        yield cluster


@pytest.fixture
def fresh(store):
    yield store
    for m in store.ask("GET", "/models")[1]["models"]:
        if m["modelName"] != "smollm2":
            for version in reversed(store.ask("GET", f"/models/{m['modelName']}/all")[1]):
                store.ask("DELETE", f"/models/{m['modelName']}/{version['modelVersion']}")
    pathlib.Path(store.gate).unlink(missing_ok=True)


def test_an_archive_is_registered_described_asked_and_unregistered(fresh):
    assert fresh.predict("echo")[0] == 404
    assert fresh.register("echo.mar", initial_workers=1, synchronous="true", batch_size=2, max_batch_delay=0) == (
        200, {"status": 'Model "echo" Version: 1.0 registered with 1 initial workers'})
    status, reply = fresh.predict("echo")
    assert status == 200 and reply["word"] == "one" and reply["batch_size"] == 2
    unpacked = pathlib.Path(reply["directory"])
    assert unpacked.is_relative_to(fresh.directory / "run") and (unpacked / "handler.py").exists()
    one = fresh.describe("echo")
    assert (one["modelUrl"], one["minWorkers"], one["maxWorkers"], one["batchSize"], one["maxBatchDelay"]) == ("echo.mar", 1, 1, 2, 0)
    wait_for(lambda: [w["status"] for w in fresh.describe("echo")["workers"]] == ["READY"])
    assert {"modelName": "echo", "modelUrl": "echo.mar"} in fresh.ask("GET", "/models")[1]["models"]
    assert fresh.register("echo.mar")[0] == 409
    assert fresh.ask("DELETE", "/models/echo") == (200, {"status": 'Model "echo" unregistered'})
    assert fresh.predict("echo")[0] == 404
    assert fresh.ask("DELETE", "/models/echo")[0] == 404
    wait_for(lambda: not fresh.workers("echo"))
    wait_for(lambda: not unpacked.exists())


def test_a_directory_is_registered_and_who_does_not_wait_is_answered_at_once(fresh):
    assert fresh.register("plain", initial_workers=1, model_name="mine") == (202, {"status": "Processing worker updates..."})
    status, reply = fresh.predict("mine")  # waits for its worker
    assert (status, reply["word"], reply["directory"]) == (200, "plain", str((fresh.store / "plain").resolve()))


def test_the_archives_own_settings_count(fresh):
    assert fresh.register("configured.mar", synchronous="true", batch_size=8)[0] == 200
    one = fresh.describe("configured")
    assert (one["batchSize"], one["responseTimeout"], one["minWorkers"]) == (3, 7, 1)
    assert fresh.predict("configured")[1]["batch_size"] == 3


def test_what_cannot_be_registered_says_why(fresh):
    for url, code, words in (("s3://bucket/echo.mar", 404, "Model not found"), ("../echo.mar", 404, "Relative path"),
                             ("/etc/passwd", 404, "Model not found"), ("none.mar", 404, "Model not found"), ("", 400, "url is required")):
        status, reply = fresh.register(url, initial_workers=1)
        assert status == reply["code"] == code and words in reply["message"], (url, reply)
    (fresh.store / "junk.mar").write_bytes(b"junk")
    status, reply = fresh.register("junk.mar")
    assert status == 400 and "no model archive" in reply["message"]
    for url, words in (("fails.mar", "no weights"), ("escapes.mar", "outside of it"), ("bomb.mar", "times as many")):
        status, reply = fresh.register(url, initial_workers=1, synchronous="true")
        assert (status, reply["type"]) == (500, "InternalServerException") and words in reply["message"], reply
        assert fresh.ask("GET", f"/models/{url[:-4]}")[0] == 404
    assert not (fresh.directory / "run" / "unpacked" / "out").exists()
    assert fresh.ask("DELETE", "/models/smollm2")[0] == 405
    assert fresh.register("echo.mar", model_name="smollm2", initial_workers=1)[0] == 409


def test_a_model_is_scaled_up_down_and_to_none(fresh):
    assert fresh.register("echo.mar", synchronous="true")[1]["status"].startswith('Model "echo" Version: 1.0 registered with 0 initial workers')
    status, reply = fresh.predict("echo")
    assert status == 503 and "Please use scale workers API to add workers" in reply["message"]
    assert fresh.ask("PUT", "/models/echo?min_worker=1&synchronous=true") == (200, {"status": "Workers scaled to 1 for model: echo"})
    first = fresh.predict("echo")[1]["pid"]
    assert fresh.ask("PUT", "/models/echo?min_worker=3&synchronous=true")[0] == 200
    assert len(fresh.describe("echo")["workers"]) == 3
    assert first in wait_for(lambda: len(now := fresh.workers("echo")) == 3 and now).values()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(fresh.predict, "echo", b"wait") for _ in range(3)]
        wait_for(lambda: fresh.ask("GET", "/models/echo?customized=true")[1][0]["customizedMetadata"]["running"] == 3)
        assert fresh.ask("PUT", "/models/echo?min_worker=1&max_worker=1") == (202, {"status": "Processing worker updates..."})
        assert fresh.describe("echo")["maxWorkers"] == 1
        pathlib.Path(fresh.gate).touch()
        assert {w.result()[0] for w in waiting} == {200}
        assert len({w.result()[1]["pid"] for w in waiting}) == 3
    wait_for(lambda: set(fresh.workers("echo").values()) == {first})
    assert fresh.predict("echo")[1]["pid"] == first
    assert fresh.ask("PUT", "/models/echo?min_worker=0&synchronous=true")[0] == 200
    assert fresh.predict("echo")[0] == 503


def test_unregistering_answers_what_the_model_has(fresh):
    fresh.register("echo.mar", initial_workers=1, synchronous="true")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(fresh.predict, "echo", b"wait")
        wait_for(lambda: fresh.ask("GET", "/models/echo?customized=true")[1][0]["customizedMetadata"]["running"] == 1)
        assert fresh.ask("DELETE", "/models/echo")[0] == 200
        assert fresh.register("echo.mar", initial_workers=1, synchronous="true")[0] == 200  # at once, beside it
        pathlib.Path(fresh.gate).touch()
        assert waiting.result()[0] == 200


def test_versions_and_the_default_of_them(fresh):
    fresh.register("echo.mar", initial_workers=1, synchronous="true")
    fresh.register("two.mar", initial_workers=1, synchronous="true")
    assert [v["modelVersion"] for v in fresh.ask("GET", "/models/echo/all")[1]] == ["1.0", "2.0"]
    assert fresh.predict("echo")[1]["word"] == "one" and fresh.predict("echo/2.0")[1]["word"] == "two"
    status, reply = fresh.ask("DELETE", "/models/echo")
    assert status == 400 and "Cannot remove default version 1.0" in reply["message"]
    assert fresh.ask("PUT", "/models/echo/2.0/set-default") == (
        200, {"status": 'Default version successfully updated for model "echo" to "2.0"'})
    assert fresh.predict("echo")[1]["word"] == "two"
    assert fresh.ask("PUT", "/models/echo/3.0/set-default")[1]["type"] == "ModelVersionNotFoundException"
    assert fresh.ask("DELETE", "/models/echo/1.0")[0] == 200
    assert fresh.predict("echo/1.0")[0] == 404 and fresh.predict("echo")[0] == 200


def test_no_request_is_lost_while_a_model_is_scaled(fresh):
    fresh.register("echo.mar", initial_workers=1, synchronous="true")
    stop, seen = threading.Event(), []

    def ask():
        while not stop.is_set():
            seen.append(fresh.predict("echo")[0])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    try:
        for count in (3, 1, 2, 1):
            assert fresh.ask("PUT", f"/models/echo?min_worker={count}&max_worker={count}&synchronous=true")[0] == 200
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert len(seen) > 4 and set(seen) == {200}


def test_the_management_api_over_grpc(fresh, stubs):  # noqa: F811
    _, _, messages, services = stubs
    with grpc.insecure_channel(fresh.grpc_port) as channel:
        stub = services.ManagementAPIsServiceStub(channel)
        reply = stub.RegisterModel(messages.RegisterModelRequest(url="echo.mar", initial_workers=1, synchronous=True, batch_size=2), timeout=60).msg
        assert json.loads(reply)["status"] == 'Model "echo" Version: 1.0 registered with 1 initial workers'
        assert fresh.predict("echo")[1]["batch_size"] == 2
        reply = stub.ScaleWorker(messages.ScaleWorkerRequest(model_name="echo", min_worker=2, max_worker=2, synchronous=True), timeout=60).msg
        assert json.loads(reply)["status"] == "Workers scaled to 2 for model: echo"
        stub.RegisterModel(messages.RegisterModelRequest(url="two.mar", initial_workers=1, synchronous=True), timeout=60)
        stub.SetDefault(messages.SetDefaultRequest(model_name="echo", model_version="2.0"), timeout=60)
        assert fresh.predict("echo")[1]["word"] == "two"
        reply = stub.UnregisterModel(messages.UnregisterModelRequest(model_name="echo", model_version="1.0"), timeout=60).msg
        assert json.loads(reply)["status"] == 'Model "echo" unregistered'
        for ask, request, code in (
                (stub.RegisterModel, messages.RegisterModelRequest(url="s3://b/m.mar"), grpc.StatusCode.NOT_FOUND),
                (stub.RegisterModel, messages.RegisterModelRequest(url="none.mar"), grpc.StatusCode.NOT_FOUND),
                (stub.RegisterModel, messages.RegisterModelRequest(url="echo.mar", startup_timeout=-1), grpc.StatusCode.INVALID_ARGUMENT),
                (stub.ScaleWorker, messages.ScaleWorkerRequest(model_name="smollm2", min_worker=1, number_gpu=1), grpc.StatusCode.INVALID_ARGUMENT),
                (stub.UnregisterModel, messages.UnregisterModelRequest(model_name="none"), grpc.StatusCode.NOT_FOUND),
                (stub.UnregisterModel, messages.UnregisterModelRequest(model_name="smollm2"), grpc.StatusCode.UNIMPLEMENTED)):
            with pytest.raises(grpc.RpcError) as refused:
                ask(request, timeout=60)
            assert refused.value.code() == code, refused.value


def test_load_models_are_served_at_the_start_and_registrations_survive_the_root():
    archives = {"echo.mar": {}, "two.mar": {"model": "two", "word": "two"}, "fails.mar": {"model": "fails", "initialize": "raise ValueError('no weights')"}}
    with running(section='load_models = ["mine=echo.mar", "fails.mar"]\n', archives=archives) as cluster:
        wait_for(lambda: cluster.predict("mine")[0] == 200)
        assert cluster.register("two.mar", initial_workers=1, synchronous="true")[0] == 200
        pids = {**cluster.workers("two"), **cluster.workers("mine")}
        cluster.process.kill()
        cluster.process.wait(30)
        assert cluster.predict("two")[0] == 200
        cluster.start()
        assert cluster.predict("two")[1]["word"] == "two" and cluster.predict("mine")[0] == 200
        wait_for(lambda: {**cluster.workers("two"), **cluster.workers("mine")} == pids)  # once they have greeted the new root
        assert cluster.ask("DELETE", "/models/two")[0] == 200
        wait_for(lambda: not cluster.workers("two"))


def test_management_is_an_admins(tmp_path):
    file = tmp_path / "keys.toml"
    make = lambda *words: subprocess.run([CLUSTER, "keygen", "--api", *words, file], capture_output=True, text=True, timeout=30).stdout.strip()  # noqa: E731
    user, admin = make("alice"), make("ops", "--admin")
    with running(gateway=f'api_keys = "{file}"', archives={"echo.mar": {}}) as cluster:
        ask = lambda key, method, target: cluster.ask(method, target, headers={"Authorization": f"Bearer {key}"})[0]  # noqa: E731
        assert ask(user, "POST", "/models?url=echo.mar") == 400
        assert cluster.register("echo.mar")[0] == 400
        assert ask(admin, "POST", "/models?url=echo.mar") == 200
        assert ask(user, "DELETE", "/models/echo") == 400
        assert ask(admin, "DELETE", "/models/echo") == 200
