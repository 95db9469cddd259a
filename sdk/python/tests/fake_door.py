"""A server that follows a script: a ROUTER, and a thread that passes each message to the script."""

import threading

import flatbuffers
import zmq

from baton_client import codec
from baton_client.wire import (
    Cancel,
    Chunk,
    Credit,
    Detokenize,
    Detokenized,
    Envelope,
    Error,
    Generate,
    Granted,
    Heartbeat,
    Hello,
    HelloAck,
    ListModels,
    ModelCard,
    Models,
    Rejected,
    Resume,
    Tokenize,
    Tokenized,
)
from baton_client.wire.MessageKind import MessageKind

DOOR = codec.Address(77, 88, 7)

READ = {
    MessageKind.hello: Hello.Hello,
    MessageKind.generate: Generate.Generate,
    MessageKind.resume: Resume.Resume,
    MessageKind.cancel: Cancel.Cancel,
    MessageKind.credit: Credit.Credit,
    MessageKind.heartbeat: Heartbeat.Heartbeat,
    MessageKind.list_models: ListModels.ListModels,
    MessageKind.tokenize: Tokenize.Tokenize,
    MessageKind.detokenize: Detokenize.Detokenize,
}


def error(b, code, name, message, retryable=False):
    name, message = b.CreateString(name), b.CreateString(message)
    Error.ErrorStart(b)
    Error.ErrorAddCode(b, code)
    Error.ErrorAddMessage(b, message)
    Error.ErrorAddName(b, name)
    Error.ErrorAddRetryable(b, retryable)
    return Error.ErrorEnd(b)


def finished(b, kind, root):
    b.Finish(root, file_identifier=b"BT%02d" % kind)
    return kind, bytes(b.Output())


def hello_ack(window, refused=None, epoch=DOOR.epoch):
    b = flatbuffers.Builder(64)
    why = error(b, *refused) if refused else None
    HelloAck.HelloAckStart(b)
    HelloAck.HelloAckAddNode(b, DOOR.node)
    HelloAck.HelloAckAddEpoch(b, epoch)
    HelloAck.HelloAckAddCreditBytes(b, window)
    if why:
        HelloAck.HelloAckAddRefused(b, why)
    return finished(b, MessageKind.hello_ack, HelloAck.HelloAckEnd(b))


def granted(request, ticket, resume_key=0):
    b = flatbuffers.Builder(64)
    Granted.GrantedStart(b)
    Granted.GrantedAddRequest(b, request)
    Granted.GrantedAddTicket(b, ticket)
    Granted.GrantedAddResumeKey(b, resume_key)
    return finished(b, MessageKind.granted, Granted.GrantedEnd(b))


def rejected(request, code, name, message, retry_after_ms):
    b = flatbuffers.Builder(64)
    why = error(b, code, name, message, True)
    Rejected.RejectedStart(b)
    Rejected.RejectedAddRequest(b, request)
    Rejected.RejectedAddReason(b, why)
    Rejected.RejectedAddRetryAfterMs(b, retry_after_ms)
    return finished(b, MessageKind.rejected, Rejected.RejectedEnd(b))


def chunk(request, text, finish=0, choice=0, failure=None, output_tokens=0, index=0):
    b = flatbuffers.Builder(64)
    why = error(b, *failure) if failure else None
    words = b.CreateString(text)
    Chunk.ChunkStart(b)
    Chunk.ChunkAddRequest(b, request)
    Chunk.ChunkAddTicket(b, 9)
    Chunk.ChunkAddChoice(b, choice)
    Chunk.ChunkAddIndex(b, index)
    Chunk.ChunkAddText(b, words)
    Chunk.ChunkAddFinish(b, finish)
    Chunk.ChunkAddOutputTokens(b, output_tokens)
    if why:
        Chunk.ChunkAddFailure(b, why)
    return finished(b, MessageKind.chunk, Chunk.ChunkEnd(b))


def models(request, *names):
    b = flatbuffers.Builder(64)
    cards = []
    for name in names:
        text = b.CreateString(name)
        ModelCard.ModelCardStart(b)
        ModelCard.ModelCardAddName(b, text)
        ModelCard.ModelCardAddPhase(b, 3)
        cards.append(ModelCard.ModelCardEnd(b))
    b.StartVector(4, len(cards), 4)
    for card in reversed(cards):
        b.PrependUOffsetTRelative(card)
    vector = b.EndVector()
    Models.ModelsStart(b)
    Models.ModelsAddRequest(b, request)
    Models.ModelsAddCards(b, vector)
    return finished(b, MessageKind.models, Models.ModelsEnd(b))


def tokenized(request, ids, pieces):
    b = flatbuffers.Builder(64)
    ends = [sum(map(len, pieces[: i + 1])) for i in range(len(pieces))]
    joined = b.CreateByteVector(b"".join(pieces))
    vectors = []
    for numbers in (ids, ends):
        b.StartVector(4, len(numbers), 4)
        for number in reversed(numbers):
            b.PrependUint32(number)
        vectors.append(b.EndVector())
    Tokenized.TokenizedStart(b)
    Tokenized.TokenizedAddRequest(b, request)
    Tokenized.TokenizedAddIds(b, vectors[0])
    Tokenized.TokenizedAddPieceBytes(b, joined)
    Tokenized.TokenizedAddPieceEnds(b, vectors[1])
    return finished(b, MessageKind.tokenized, Tokenized.TokenizedEnd(b))


def detokenized(request, text, failure=None):
    b = flatbuffers.Builder(64)
    why = error(b, *failure) if failure else None
    words = b.CreateString(text)
    Detokenized.DetokenizedStart(b)
    Detokenized.DetokenizedAddRequest(b, request)
    Detokenized.DetokenizedAddText(b, words)
    if why:
        Detokenized.DetokenizedAddFailure(b, why)
    return finished(b, MessageKind.detokenized, Detokenized.DetokenizedEnd(b))


class Peer:
    def __init__(self, door, routing):
        self.door, self.routing, self.received, self.sent = door, routing, 0, 0

    def say(self, message, source=DOOR, skip=0):
        """Returns the bytes of its parts."""
        kind, body = message
        self.sent += 1 + skip
        head = codec.envelope(kind, source, codec.Address(1, 1, 8), 0, self.sent)
        self.door.router.send_multipart([self.routing, codec.pack(head, body)])
        return len(head) + len(body)


class FakeDoor:
    """script(peer, kind, table) is called on the server's thread for all messages but hello and heartbeat."""

    def __init__(self, script, window=1 << 20, greets=True, beats=True, refuses=None, at="tcp://127.0.0.1:*"):
        self.script, self.window, self.greets, self.beats = script, window, greets, beats
        self.refuses = refuses
        self.received = []  # (kind, table)
        self.lives = []  # incarnations of the clients that sent hello, in order
        self.faults = []
        self.changed = threading.Condition()
        self.context = zmq.Context()
        self.router = self.context.socket(zmq.ROUTER)
        self.router.setsockopt(zmq.LINGER, 0)
        self.router.bind(at)
        self.endpoint = self.router.getsockopt(zmq.LAST_ENDPOINT).decode()
        self.peers = {}
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stopping.is_set():
            if self.router.poll(20):
                self.take(self.router.recv_multipart())
            if self.beats:
                for peer in self.peers.values():
                    if peer.sent:
                        peer.say(finished_heartbeat())
        self.router.close()
        self.context.term()

    def take(self, frames):
        routing, packet = frames
        head, body, bulk = codec.unpack(packet)
        peer = self.peers.setdefault(routing, Peer(self, routing))
        e = Envelope.Envelope.GetRootAs(head, 0)
        kind = e.Kind()
        peer.received += 1
        if e.Sequence() != peer.received:
            self.faults.append(f"sequence {e.Sequence()} after {peer.received - 1}")
        if e.Source() >> 31 != 1:
            self.faults.append("a client's node has the highest bit set")
        if peer.received > 1 and (e.Target(), e.TargetEpoch()) != (DOOR.node, DOOR.epoch):
            self.faults.append("after hello, messages are for this life of the door")
        if bulk or body[4:8] != b"BT%02d" % kind:
            self.faults.append(f"a body of {body[4:8]} for kind {kind}")
        table = READ[kind].GetRootAs(body, 0)
        if kind == MessageKind.hello:
            self.lives.append(e.SourceEpoch())
            if self.greets:
                peer.say(hello_ack(self.window, self.refuses))
        elif kind != MessageKind.heartbeat:
            with self.changed:
                self.received.append((kind, table))
                self.changed.notify_all()
            self.script(peer, kind, table)

    def has_received(self, found):
        def any_found():
            return any(found(kind, table) for kind, table in self.received)

        with self.changed:
            return self.changed.wait_for(any_found, 5)

    def close(self):
        self.stopping.set()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def finished_heartbeat():
    return MessageKind.heartbeat, codec.heartbeat(1)
