"""grpc.health.v1 at every gRPC address, by gRPC's own client for it, as probes of Kubernetes and of proxies use it."""
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from test_traces import wait_for

FLAGS = ("--kserve-grpc", "127.0.0.1:0", "--torchserve-grpc-inference", "127.0.0.1:0", "--torchserve-grpc-management", "127.0.0.1:0",
         "--alias", "ensemble")
SERVING, NOT_SERVING, UNKNOWN = (health_pb2.HealthCheckResponse.ServingStatus.Value(n) for n in ("SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"))
SERVICES = {"kserve": "inference.GRPCInferenceService", "inference": "org.pytorch.serve.grpc.inference.InferenceAPIsService",
            "management": "org.pytorch.serve.grpc.management.ManagementAPIsService"}
HEALTH = "grpc.health.v1.Health"


def stub(g, door="kserve"):
    return health_pb2_grpc.HealthStub(grpc.insecure_channel(g.grpc[door]))


def asked(name=""):
    return health_pb2.HealthCheckRequest(service=name)


def refusal(call, *arguments, **fields):
    with pytest.raises(grpc.RpcError) as e:
        call(*arguments, timeout=20, **fields)
    return e.value.code()


def fields(message):
    """(number, value) of each field; varints here have one byte."""
    while message:
        number, kind, message = message[0] >> 3, message[0] & 7, message[1:]
        size = message[0] if kind == 2 else 0
        yield number, message[1:1 + size] if kind == 2 else message[0]
        message = message[1 + size:]


def listed(g, door="kserve", **fields_of_call):
    """{name: status} of List, which gRPC's client for Python does not have."""
    reply = grpc.insecure_channel(g.grpc[door]).unary_unary(f"/{HEALTH}/List")(b"", timeout=20, **fields_of_call)
    entries = [dict(fields(entry)) for _, entry in fields(reply)]
    return {e.get(1, b"").decode(): dict(fields(e[2]))[1] for e in entries}


@pytest.mark.parametrize("door", SERVICES)
def test_health_is_checked_at_every_grpc_address(start, door):
    g = start(*FLAGS)
    health = stub(g, door)
    for name in ("", SERVICES[door], HEALTH, "fake", "ensemble"):
        assert health.Check(asked(name), timeout=20).status == SERVING, name
    others = [s for d, s in SERVICES.items() if d != door]
    for name in ("nope", "fake/1", *others):
        assert refusal(health.Check, asked(name)) == grpc.StatusCode.NOT_FOUND, name
    assert listed(g, door) == dict.fromkeys(["", SERVICES[door], HEALTH, "fake"], SERVING)
    g.order("phase loading")
    wait_for(lambda: all(health.Check(asked(name), timeout=20).status == NOT_SERVING for name in ("", "fake")))


def test_health_is_watched_while_it_changes(start):
    g = start(*FLAGS)
    health = stub(g)
    whole, model, nobody = (health.Watch(asked(n), timeout=60) for n in ("", "fake", "nope"))
    assert next(whole).status == SERVING and next(model).status == SERVING and next(nobody).status == UNKNOWN
    g.order("phase loading")
    assert next(whole).status == NOT_SERVING and next(model).status == NOT_SERVING
    g.order("phase ready")
    assert next(whole).status == SERVING and next(model).status == SERVING
    model.cancel()
    g.order("drain")
    assert next(whole).status == NOT_SERVING
    nobody.cancel()
    whole.cancel()


def test_health_needs_no_key_and_the_names_of_models_do(start, keys_file):
    g = start(*FLAGS, "--keys", str(keys_file))
    health = stub(g)
    for name in ("", SERVICES["kserve"]):
        assert health.Check(asked(name), timeout=20).status == SERVING
    assert refusal(health.Check, asked("fake")) == grpc.StatusCode.NOT_FOUND
    assert set(listed(g)) == {"", SERVICES["kserve"], HEALTH}
    assert next(health.Watch(asked("fake"), timeout=60)).status == UNKNOWN
    key = [("authorization", "Bearer k")]
    assert listed(g, metadata=key)["fake"] == SERVING
    assert health.Check(asked("fake"), metadata=key, timeout=20).status == SERVING
    assert next(health.Watch(asked("fake"), metadata=key, timeout=60)).status == SERVING
    assert refusal(health.Check, asked(), metadata=[("authorization", "Bearer wrong")]) == grpc.StatusCode.UNAUTHENTICATED


def test_an_invalid_health_request_is_rejected(start):
    g = start(*FLAGS)
    channel = grpc.insecure_channel(g.grpc["kserve"])
    assert refusal(channel.unary_unary(f"/{HEALTH}/Nope"), b"") == grpc.StatusCode.UNIMPLEMENTED
    for name in ("Check", "Watch"):
        call = channel.unary_unary if name == "Check" else lambda path: (lambda *a, **k: next(channel.unary_stream(path)(*a, **k)))
        assert refusal(call(f"/{HEALTH}/{name}"), b"\xff\xff") == grpc.StatusCode.INVALID_ARGUMENT
