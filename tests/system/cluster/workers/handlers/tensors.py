"""A worker model of tensors, which does what its input DO says."""
import json
import os
import signal
import time
from pathlib import Path

import numpy as np
from baton_worker import Handler, RequestError, Response, Tensor


class Tensors(Handler):
    def inference(self, requests):
        return [self.answer(r) for r in requests]

    def answer(self, request):
        given = {t.name: t.numpy() for t in request.inputs}
        do, *words = bytes(given["DO"].flat[0]).decode().split() if "DO" in given else ["double"]
        return getattr(self, "do_" + do)(request, given, *words)

    def do_double(self, request, given):
        received = {"id": request.id, "parameters": dict(request.parameters), "outputs": request.outputs,
                "headers": {name.lower(): value for name, value in request.headers}}
        outputs = [Tensor.of("SAID", np.array([json.dumps(received)], dtype=object))]
        if "IN" in given:
            outputs.insert(0, Tensor.of("OUT", given["IN"] * np.float32(2)))
        if "NAMES" in given:
            outputs.append(Tensor.of("TEXT", np.array([n.upper() for n in given["NAMES"].flat], dtype=object).reshape(given["NAMES"].shape)))
        return Response(outputs=outputs, parameters={"rows": len(given.get("IN", ())), "how": "well"})

    def do_echo(self, request, given):
        return [t for t in request.inputs if t.name != "DO"]

    def do_who(self, request, given):
        return Tensor.of("OUT", np.array([os.getpid()], dtype=np.float32))

    def do_stream(self, request, given, count, until=None):
        for i in range(int(count)):
            if until and i == 1:
                while not Path(until).exists():
                    time.sleep(0.01)
            yield Tensor.of("OUT", np.array([i], dtype=np.float32))

    def do_endless(self, request, given, ended):
        try:
            while True:
                yield Tensor.of("OUT", np.zeros(1, dtype=np.float32))
                time.sleep(0.02)
        finally:
            Path(ended).touch()

    def do_raise(self, request, given):
        raise RuntimeError("as it was asked to")

    def do_refuse(self, request, given):
        return RequestError("not this one", 400)

    def do_late_error(self, request, given):
        yield Tensor.of("OUT", np.zeros(1, dtype=np.float32))
        raise RuntimeError("too late")

    def do_body(self, request, given):
        return b"no tensors"

    def do_torn(self, request, given):
        return Tensor("OUT", "FP32", [3], b"1234")

    def do_nan(self, request, given):
        return Tensor.of("OUT", np.array([np.nan], dtype=np.float32))

    def do_bytes(self, request, given):
        return Tensor.of("TEXT", np.array([b"\xff\xfe"], dtype=object))

    def do_die(self, request, given):
        os.kill(os.getpid(), signal.SIGKILL)
