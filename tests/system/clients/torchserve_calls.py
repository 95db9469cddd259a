"""Calls a server as TorchServe's gRPC clients do, with the messages that TorchServe itself ships: the .proto files in the jar of its package, compiled
here. Lines of JSON on stdin, each answered by one: {"address", "method": "Service/Method", "message"} by {"answers": [...]} or {"error": CODE,
"message"}; {"describe": true} by all numbers, types and streams of its definitions.
"""
import json
import pathlib
import sys
import tempfile
import zipfile

import grpc
import grpc_tools
from google.protobuf import descriptor_pb2, descriptor_pool, empty_pb2, json_format, message_factory  # noqa: F401: Empty is in the pool
from grpc_tools import protoc
from importlib import metadata

from proto_files import described

JAR = "ts/frontend/model-server.jar"
FILES = ("inference.proto", "management.proto")
IMPORTED = ("google/rpc/status.proto",)
TIMEOUT = 20


def definitions():
    """The compiled files, as a FileDescriptorSet."""
    jar = next(f for f in metadata.files("torchserve") if str(f) == JAR).locate()
    with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(jar) as inside:
        for name in FILES + IMPORTED:
            inside.extract(name, scratch)
        out = pathlib.Path(scratch) / "all.bin"
        include = pathlib.Path(grpc_tools.__file__).parent / "_proto"
        assert protoc.main(["protoc", f"-I{scratch}", f"-I{include}", "--include_imports", f"--descriptor_set_out={out}", *FILES]) == 0
        return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())


def call(pool, address, method, message):
    service, name = method.split("/")
    of = pool.FindServiceByName(service).FindMethodByName(name)
    asked, answered = (message_factory.GetMessageClass(d) for d in (of.input_type, of.output_type))
    request = json_format.ParseDict(message, asked())
    with grpc.insecure_channel(address) as channel:
        kind = channel.unary_stream if of.server_streaming else channel.unary_unary
        came = kind(f"/{method}", asked.SerializeToString, answered.FromString)(request, timeout=TIMEOUT)
        return [json_format.MessageToDict(m, preserving_proto_field_name=True) for m in (came if of.server_streaming else [came])]


def main():
    all_files = definitions()
    pool = descriptor_pool.DescriptorPool()
    for file in all_files.file:
        pool.Add(file)
    for line in sys.stdin:
        wanted = json.loads(line)
        if wanted.get("describe"):
            reply = described(f for f in all_files.file if f.name in FILES)
        else:
            try:
                reply = {"answers": call(pool, **wanted)}
            except grpc.RpcError as e:
                reply = {"error": e.code().name, "message": e.details()}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
