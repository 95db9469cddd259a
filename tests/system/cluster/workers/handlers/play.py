"""A worker model that does what its request says."""
import os
import signal
import time
from pathlib import Path

from baton_worker import Handler, RequestError, Response, Tensor


def wait_for(file, seconds=20):
    deadline = time.monotonic() + seconds * float(os.environ.get("BATON_TEST_DEADLINE_SCALE", "1"))
    while not Path(file).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(file)
        time.sleep(0.01)


class Play(Handler):
    def inference(self, requests):
        self.batch_size = len(requests)
        answers = [self.answer(r) for r in requests]
        return answers[:-1] if self.is_short else answers

    is_short = False

    def answer(self, request):
        if request.inputs:
            return [Tensor("again-" + t.name, t.datatype, t.shape, t.data) for t in request.inputs]
        if not request.content_type.startswith("application/json"):
            return Response(request.body, content_type=request.content_type)
        asked = request.json()
        self.is_short = asked["do"] == "short"
        return getattr(self, "do_" + asked["do"])(asked, request)

    def do_who(self, asked, request):
        return {"pid": os.getpid(), "batch": self.batch_size, "model": self.context.model}

    def do_wait(self, asked, request):
        Path(asked["begun"] + str(os.getpid())).touch()
        wait_for(asked["until"])
        return {"pid": os.getpid()}

    def do_note(self, asked, request):
        with open(asked["file"], "a") as file:
            file.write(asked["name"] + "\n")
        return {}

    def do_stream(self, asked, request):
        for i in range(asked["count"]):
            if i == asked.get("pause_at"):
                wait_for(asked["until"])
            time.sleep(asked.get("seconds", 0))
            yield f"{i} "

    def do_events(self, asked, request):
        """Sends two pieces, the second once a file exists. `as_if`: an encoding that the bytes do not have."""
        headers = [("Content-Encoding", asked["as_if"])] if "as_if" in asked else []
        for i in range(2):
            if i == 1:
                wait_for(asked["until"])
            yield Response(f"data: {i}\n\n".encode(), "text/event-stream", headers=headers if i == 0 else [])

    def do_endless(self, asked, request):
        try:
            while True:
                yield "x"
                time.sleep(0.02)
        finally:
            Path(asked["ended"]).touch()

    def do_raise(self, asked, request):
        raise RuntimeError("as it was asked to")

    def do_refuse(self, asked, request):
        return RequestError("not this one", 422)

    def do_die(self, asked, request):
        os.kill(os.getpid(), signal.SIGKILL)

    def do_die_once(self, asked, request):
        if not Path(asked["file"]).exists():
            Path(asked["file"]).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"pid": os.getpid()}

    def do_hang(self, asked, request):
        time.sleep(3600)

    def do_large(self, asked, request):
        return b"x" * asked["bytes"]

    def do_short(self, asked, request):
        return "nobody hears this"

    def do_nonsense(self, asked, request):
        return object()

    def do_status(self, asked, request):
        return Response(b"short and stout", "text/plain", headers=[("X-Kind", "pot")], status=418)

    def do_split(self, asked, request):
        return Response(b"", headers=[("X-Bad", "a\r\nSet-Cookie: b")])
