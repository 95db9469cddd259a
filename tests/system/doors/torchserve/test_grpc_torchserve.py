"""TorchServe over gRPC: with the messages of TorchServe's own package, and with stubs made from our .proto as users make them."""
import base64
import json
import pathlib
import subprocess
import sys

import grpc
import pytest

from test_grpc import bearer, refusal

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients"))

from proto_files import described  # noqa: E402
from torchserve_client import calls  # noqa: E402

TORCHSERVE = ("--torchserve-grpc-inference", "127.0.0.1:0", "--torchserve-grpc-management", "127.0.0.1:0")
PROTOS = pathlib.Path(__file__).resolve().parents[4] / "gateway/grpc/library"


@pytest.fixture(scope="module")
def doors():
    from conftest import Gateway
    g = Gateway(*TORCHSERVE, "--pipeline", "fake", "--pipeline", "fake")
    assert g.is_ready, g.message
    yield g
    assert g.stop() == 0


@pytest.fixture(scope="session")
def stubs(tmp_path_factory):
    """Messages and stubs of TorchServe's services, as its users make them."""
    out = tmp_path_factory.mktemp("stubs")
    names = ("torchserve_inference", "torchserve_management")
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", f"--python_out={out}", f"--grpc_python_out={out}",
                    *(f"{n}.proto" for n in names)], check=True)
    sys.path.insert(0, str(out))
    import torchserve_inference_pb2, torchserve_inference_pb2_grpc, torchserve_management_pb2, torchserve_management_pb2_grpc
    return torchserve_inference_pb2, torchserve_inference_pb2_grpc, torchserve_management_pb2, torchserve_management_pb2_grpc


def channel_to(g, door):
    return grpc.insecure_channel(g.grpc[door])


def test_predictions(doors, stubs):
    messages, services, _, _ = stubs
    from google.protobuf.empty_pb2 import Empty
    with channel_to(doors, "inference") as channel:
        stub = services.InferenceAPIsServiceStub(channel)
        assert stub.Ping(Empty(), timeout=20).health == "Healthy"
        ask = lambda data, **f: messages.PredictionsRequest(model_name="fake", input={"data": data}, **f)  # noqa: E731
        assert stub.Predictions(ask(b"tokens=3"), timeout=20).prediction == b"w0 w1 w2 "
        assert stub.Predictions(ask(b"tokens=3", model_version="1.0"), timeout=20).prediction == b"w0 w1 w2 "
        reply = json.loads(stub.Predictions(ask(json.dumps({"prompt": "tokens=9", "max_new_tokens": 2}).encode()), timeout=20).prediction)
        assert reply["text"] == "w0 w1 "
        pieces = [r.prediction for r in stub.StreamPredictions(ask(b"tokens=4 pace_ms=5"), timeout=20)]
        assert pieces == [b"w0 ", b"w1 ", b"w2 ", b"w3 "]
        for message, code in ((ask(b"x", model_version="2.0"), grpc.StatusCode.NOT_FOUND), (ask(b""), grpc.StatusCode.INVALID_ARGUMENT),
                              (messages.PredictionsRequest(model_name="nope", input={"data": b"x"}), grpc.StatusCode.NOT_FOUND),
                              (messages.PredictionsRequest(model_name="fake", input={"image": b"x"}), grpc.StatusCode.INVALID_ARGUMENT)):
            assert refusal(stub.Predictions, request=message).code() == code
        with pytest.raises(grpc.RpcError) as e:
            list(stub.StreamPredictions2(iter([ask(b"x", sequence_id="1")]), timeout=20))
        assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED and "StreamPredictions2" in e.value.details()
        with pytest.raises(grpc.RpcError) as e:
            list(stub.StreamPredictions(ask(b"tokens=9 fail_at=3"), timeout=20))
        assert e.value.code() == grpc.StatusCode.INTERNAL


def test_who_leaves_a_prediction_has_its_ticket_cancelled(start, stubs):
    messages, services, _, _ = stubs
    g = start(*TORCHSERVE)
    with channel_to(g, "inference") as channel:
        call = services.InferenceAPIsServiceStub(channel).StreamPredictions(
            messages.PredictionsRequest(model_name="fake", input={"data": json.dumps({"prompt": "tokens=100000 pace_ms=5", "max_tokens": 100000}).encode()}), timeout=60)
        assert json.loads(next(call).prediction)["text"] == "w0 "
        call.cancel()
        g.wait_for("cancel")


def test_management(doors, stubs):
    _, _, messages, services = stubs
    with channel_to(doors, "management") as channel:
        stub = services.ManagementAPIsServiceStub(channel)
        listed = json.loads(stub.ListModels(messages.ListModelsRequest(), timeout=20).msg)
        assert listed["models"] == [{"modelName": "fake", "modelUrl": "fake"}]
        described = json.loads(stub.DescribeModel(messages.DescribeModelRequest(model_name="fake", customized=True), timeout=20).msg)
        assert described[0]["maxWorkers"] == 2 and "customizedMetadata" in described[0]
        assert "scaled" in stub.ScaleWorker(messages.ScaleWorkerRequest(model_name="fake", min_worker=2), timeout=20).msg
        e = refusal(stub.ScaleWorker, request=messages.ScaleWorkerRequest(model_name="fake", min_worker=5))
        assert e.code() == grpc.StatusCode.FAILED_PRECONDITION and "nodes.toml" in e.details()
        assert "1.0" in stub.SetDefault(messages.SetDefaultRequest(model_name="fake", model_version="1.0"), timeout=20).msg
        for name, message in (("RegisterModel", messages.RegisterModelRequest(url="x.mar")), ("UnregisterModel", messages.UnregisterModelRequest(model_name="fake"))):
            e = refusal(getattr(stub, name), request=message)
            assert e.code() == grpc.StatusCode.UNIMPLEMENTED and "nodes.toml" in e.details()
        assert refusal(stub.DescribeModel, request=messages.DescribeModelRequest(model_name="nope")).code() == grpc.StatusCode.NOT_FOUND


def test_our_definitions_are_those_of_torchserve(tmp_path):
    """Names, numbers and types; what is not served (a status of sequences) is left out and nothing has its number."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    (theirs,) = calls({"describe": True})
    out = tmp_path / "ours.bin"
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", f"--descriptor_set_out={out}", "torchserve_inference.proto",
                    "torchserve_management.proto"], check=True)
    files = FileDescriptorSet.FromString(out.read_bytes()).file
    ours = described(files)
    status = theirs["org.pytorch.serve.grpc.inference.PredictionResponse"].pop("status")
    assert ours == theirs
    response = next(m for m in files[0].message_type if m.name == "PredictionResponse")
    assert [(r.start, r.end) for r in response.reserved_range] == [(status[0], status[0] + 1)]


def test_torchserves_own_messages_are_understood(doors):
    inference, management = "org.pytorch.serve.grpc.inference.InferenceAPIsService/", "org.pytorch.serve.grpc.management.ManagementAPIsService/"
    data = lambda text: {"data": base64.b64encode(text).decode()}  # noqa: E731
    ask = lambda method, **message: {"address": doors.grpc["inference"], "method": inference + method, "message": message}  # noqa: E731
    manage = lambda method, **message: {"address": doors.grpc["management"], "method": management + method, "message": message}  # noqa: E731
    (ping, one, of_version, other_version, stream, no_such, sequence, listed, described_one, scaled, too_many, default, registered, unregistered) = calls(
        ask("Ping"), ask("Predictions", model_name="fake", input=data(b"tokens=3")),
        ask("Predictions", model_name="fake", model_version="1.0", input=data(b"tokens=3")),
        ask("Predictions", model_name="fake", model_version="2.0", input=data(b"tokens=3")),
        ask("StreamPredictions", model_name="fake", input=data(b"tokens=4 pace_ms=5")), ask("Predictions", model_name="nope", input=data(b"x")),
        ask("Predictions", model_name="fake", input=data(b"tokens=1"), sequence_id="s"),
        manage("ListModels", limit=5), manage("DescribeModel", model_name="fake", model_version="1.0", customized=True),
        manage("ScaleWorker", model_name="fake", min_worker=2, max_worker=2, synchronous=True), manage("ScaleWorker", model_name="fake", min_worker=5),
        manage("SetDefault", model_name="fake", model_version="1.0"), manage("RegisterModel", url="x.mar", startup_timeout=3),
        manage("UnregisterModel", model_name="fake", model_version="1.0"))
    assert ping == {"answers": [{"health": "Healthy"}]}
    predictions = lambda reply: [base64.b64decode(a["prediction"]) for a in reply["answers"]]  # noqa: E731
    assert predictions(one) == predictions(of_version) == [b"w0 w1 w2 "] and predictions(stream) == [b"w0 ", b"w1 ", b"w2 ", b"w3 "]
    assert [t["error"] for t in (other_version, no_such)] == ["NOT_FOUND"] * 2
    assert predictions(sequence) == [b"w0 "]
    msg = lambda reply: reply["answers"][0]["msg"]  # noqa: E731
    assert json.loads(msg(listed))["models"] == [{"modelName": "fake", "modelUrl": "fake"}]
    assert "customizedMetadata" in json.loads(msg(described_one))[0] and "scaled" in msg(scaled) and "1.0" in msg(default)
    assert [t["error"] for t in (too_many, registered, unregistered)] == ["FAILED_PRECONDITION", "UNIMPLEMENTED", "UNIMPLEMENTED"]


def test_management_is_an_admins(start, stubs, keys_file):
    _, _, messages, services = stubs
    g = start(*TORCHSERVE, "--keys", str(keys_file))
    with channel_to(g, "management") as channel:
        ask = services.ManagementAPIsServiceStub(channel).ListModels
        assert refusal(ask, request=messages.ListModelsRequest()).code() == grpc.StatusCode.UNAUTHENTICATED
        assert refusal(ask, request=messages.ListModelsRequest(), metadata=bearer("k")).code() == grpc.StatusCode.PERMISSION_DENIED
        assert ask(messages.ListModelsRequest(), metadata=bearer("root"), timeout=20).msg
