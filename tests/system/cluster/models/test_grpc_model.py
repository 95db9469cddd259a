"""gRPC with a real model: the same tokens as over HTTP, a stage killed during a stream, a drain, and the processes that load the library."""
import contextlib
import pathlib
import queue
import threading

import numpy as np
import tritonclient.grpc as triton
from harness import free_port, running

PROMPT = "Once upon a time, in a small town by the sea,"


@contextlib.contextmanager
def served():
    address = f"127.0.0.1:{free_port()}"
    with running(gateway=f'kserve_grpc = "{address}"') as cluster, triton.InferenceServerClient(address) as client:
        yield cluster, client


def tensor(name, value, datatype="BYTES"):
    t = triton.InferInput(name, [1], datatype)
    t.set_data_from_numpy(np.array([value.encode() if isinstance(value, str) else value], dtype=np.object_ if datatype == "BYTES" else np.bool_))
    return t


def infer(client, **parameters):
    return client.infer("smollm2", [tensor("text_input", PROMPT), tensor("exclude_input_in_output", True, "BOOL")], parameters=parameters,
                        client_timeout=120).as_numpy("text_output")[0].decode()


class Stream:
    """Yields the pieces of one answer as they arrive."""

    def __init__(self, client, **parameters):
        self.client, self.replies = client, queue.Queue()
        client.start_stream(callback=lambda result, error: self.replies.put((result, error)))
        client.async_stream_infer("smollm2", [tensor("text_input", PROMPT), tensor("stream", True, "BOOL")], parameters=parameters,
                                  enable_empty_final_response=True)

    def __iter__(self):
        while True:
            result, error = self.replies.get(timeout=120)
            assert error is None, error
            answer = result.get_response()
            if answer.parameters["triton_final_response"].bool_param:
                self.client.stop_stream()
                return
            yield result.as_numpy("text_output")[0].decode()


def test_the_text_is_that_of_a_completion_and_outlives_killed_stages():
    with served() as (cluster, client):
        assert client.is_model_ready("smollm2")
        asked = {"max_tokens": 24, "temperature": 0}
        answer = cluster.post("/v1/completions", {"model": "smollm2", "prompt": PROMPT, **asked})[2]["choices"][0]["text"]
        assert infer(client, **asked) == answer == "".join(Stream(client, **asked))
        loaded = {name: "door_grpc" in pathlib.Path(f"/proc/{pid}/maps").read_text() for name, pid in cluster.pids().items()}
        assert [name for name, has_it in loaded.items() if has_it] == ["gateway"], loaded
        asked = {"max_tokens": 120, "temperature": 1.0, "seed": 5}
        undisturbed = "".join(Stream(client, **asked))
        for shard in ("shard-0", "shard-1"):
            pieces = iter(Stream(client, **asked))
            text = "".join(next(pieces) for _ in range(20))
            cluster.kill(shard)
            assert text + "".join(pieces) == undisturbed
            cluster.wait_standing()


def test_a_drain_lets_streams_end():
    with served() as (cluster, client):
        pieces = iter(Stream(client, max_tokens=150, ignore_eos=True))
        text = next(pieces)
        down = threading.Thread(target=lambda: cluster.command("down", str(cluster.config), timeout=120))
        down.start()
        rest = list(pieces)
        assert text and len(rest) >= 20
        down.join()
