"""A TorchServe handler whose ranks meet at MASTER_ADDR and MASTER_PORT, without torch: a request is a sum over all ranks."""
import json
import os
import socket
import struct
import threading
import time
from pathlib import Path

from ts.handler_utils.utils import send_intermediate_predict_response

from baton_worker import Unusable

SECONDS = 30 * float(os.environ.get("BATON_TEST_DEADLINE_SCALE", "1"))
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
        "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "BATON_WORKER_GPU_ID")


def wait_for(file):
    deadline = time.monotonic() + SECONDS
    while not Path(file).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(file)
        time.sleep(0.01)


class Meeting:
    """Rank 0 has a connection with each of the others."""

    def __init__(self, rank, size):
        self.rank, at = rank, (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if rank == 0:
            with socket.create_server(at) as door:
                made = [door.accept()[0] for _ in range(size - 1)]
            self.others = {self.receive(one): one for one in made}
            return
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                self.first = socket.create_connection(at)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        self.say(self.first, rank)

    def say(self, to, value):
        data = json.dumps(value).encode()
        to.sendall(struct.pack("<I", len(data)) + data)

    def receive(self, of):
        data = b""
        want = 4
        while len(data) < want:
            piece = of.recv(want - len(data))
            if not piece:
                raise EOFError("a rank has gone")
            data += piece
            if want == 4 and len(data) == 4:
                want = 4 + struct.unpack("<I", data)[0]
        return json.loads(data[4:])

    def all_gather(self, value):
        if self.rank == 0:
            all_values = [value, *(self.receive(self.others[r]) for r in sorted(self.others))]
            for other in self.others.values():
                self.say(other, all_values)
            return all_values
        self.say(self.first, value)
        return self.receive(self.first)


class Ranks:
    def initialize(self, context):
        self.rank, self.size = int(os.environ.get("RANK", -1)), int(os.environ.get("WORLD_SIZE", 1))
        options = context.model_yaml_config.get("handler", {})
        if self.rank == options.get("unusable"):
            raise Unusable(f"rank {self.rank} has no weights")
        self.is_asked = 0
        self.meeting = Meeting(max(self.rank, 0), self.size) if self.size > 1 else None
        self.parallel = os.environ.get("BATON_GROUP_PARALLEL")
        if self.parallel == "pp" and self.rank > 0:  # as torch's RPC does it: what rank 0 wants comes by the ranks' own road
            threading.Thread(target=self.serve_rank_0, daemon=True).start()

    def gather(self, value):
        if self.parallel == "pp":
            for other in self.meeting.others.values():
                self.meeting.say(other, {"number": value["number"]})
            return [value, *(self.meeting.receive(self.meeting.others[r]) for r in sorted(self.meeting.others))]
        return self.meeting.all_gather(value) if self.meeting else [value]

    def own(self, number):
        return {"number": number, "part": number * (self.rank + 1), "pid": os.getpid(), "parent": os.getppid(), "asked": self.is_asked,
                "environment": {key: os.environ.get(key) for key in RANK_VARIABLES}}

    def serve_rank_0(self):
        while True:
            self.meeting.say(self.meeting.first, self.own(self.meeting.receive(self.meeting.first)["number"]))

    def handle(self, data, context):
        self.is_asked += 1
        return [self.answer(row["body"], context) for row in data]

    def answer(self, asked, context):
        if asked.get("hangs") == self.rank:
            time.sleep(3600)
        if asked.get("dies") == self.rank and not Path(asked["file"]).exists():
            Path(asked["file"]).touch()
            os.kill(os.getpid(), 9)
        for i in range(asked.get("pieces", 0)):
            if i == asked.get("pause_at") and self.rank == 0:
                wait_for(asked["until"])
            parts = self.gather(self.own(i))
            if self.rank == 0:
                text = f"{sum(p['part'] for p in parts)} "
                send_intermediate_predict_response([text], {0: ""}, "", 200, context)
        if asked.get("ended") and self.rank == 0:
            Path(asked["ended"]).touch()
        if "number" not in asked:
            return "end"
        parts = self.gather(self.own(asked["number"]))
        return {"sum": sum(p["part"] for p in parts), "ranks": parts}
