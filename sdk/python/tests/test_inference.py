"""Worker models' messages: Python reads every field that C++ wrote, and its own output; tensors are numpy's."""

from pathlib import Path

import pytest
from test_codec import golden, printed_values

from baton_client import Tensor, codec, inference
from baton_client.errors import BatonError
from baton_client.inference import Infer, Inferred
from baton_client.tensors import pack_elements, unpack_elements
from baton_client.wire.MessageKind import MessageKind

US = codec.Address(1, 2, 8)


def back(kind, body):
    return codec.decode(codec.pack(codec.envelope(kind, US, US, 0, 1), body))


def leaves(value):
    """As C++ lists them: every value, depth first."""
    if isinstance(value, str):
        return [f'"{value}"']
    if isinstance(value, bytes):
        return [f'"{value.decode()}"']
    if isinstance(value, (list, tuple)):
        return [f"{len(value)} of"] + [leaf for one in value for leaf in leaves(one)]
    return [str(int(value))]


def tensors(all_of_them):
    rows = [leaves(t.name) + leaves(t.datatype) + leaves(t.shape) + leaves(t.data) for t in all_of_them]
    return [f"{len(rows)} of"] + [leaf for row in rows for leaf in row]


def headers(all_of_them):
    return [f"{len(all_of_them)} of"] + [leaf for pair in all_of_them for text in pair for leaf in leaves(text)]


def infer_leaves(m):
    return (
        leaves(m.request) + leaves(m.model) + leaves(m.version) + tensors(m.inputs) + leaves(m.outputs) + leaves(m.body)
        + leaves(m.content_type) + headers(m.headers) + leaves(m.parameters_json) + leaves(m.request_id)
        + [f"{round(m.deadline * 1000)} ms"]
    )


def test_a_batch_of_cpp_is_read_with_every_field():
    received = codec.decode(golden("infer_batch"))
    rows = [infer_leaves(item) for item in received.value]
    assert printed_values("infer_batch")[1:] == ["2 of"] + rows[0] + rows[1]


def test_a_piece_of_cpp_is_read_with_every_field():
    received = codec.decode(golden("inferred"))
    m = received.value
    assert isinstance(m.failure, BatonError)
    values = (
        leaves(received.request) + leaves(m.index) + [str(m.is_last).lower()] + tensors(m.outputs) + leaves(m.body)
        + leaves(m.content_type) + headers(m.headers) + leaves(m.parameters_json) + leaves(m.status)
    )
    assert printed_values("inferred")[: len(values)] == values


def test_a_piece_that_python_writes_is_read_back():
    piece = Inferred(
        outputs=[Tensor("x", "FP32", [2, 1], b"12345678")], body=b"\0\xff", content_type="a/b", headers=[("n", "v")],
        parameters_json='{"a": 1}', status=201, index=3, is_last=False,
    )
    received = back(MessageKind.inferred, inference.inferred(7, piece))
    assert (received.request, received.value) == (7, piece)
    failed = back(MessageKind.inferred, inference.inferred(7, Inferred(failure=BatonError(57, "handler_failed", "no")))).value
    assert (failed.failure.code, failed.failure.message, failed.is_last) == (57, "no", True)


def test_a_long_or_odd_failure_message_is_cut_to_the_servers_limit():
    """A longer message would be unreadable for the server and end the worker."""
    for words in ("ä" * 100_000, "\udc80 is no text"):
        printed_values = back(MessageKind.inferred, inference.inferred(7, Inferred(failure=BatonError(57, "handler_failed", words, param=words))))
        assert 0 < len(printed_values.value.failure.message.encode()) <= 16 << 10
        assert 0 < len(printed_values.value.failure.param.encode()) <= 16 << 10


def test_a_truncated_message_is_a_bad_frame():
    asked = inference.inferred(1, Inferred(body=b"x" * 100))
    head = codec.envelope(MessageKind.inferred, US, US, 0, 1)
    for size in range(8, len(asked), 4):
        try:
            codec.decode(codec.pack(head, asked[:size]))
        except codec.BadFrame:
            pass


def test_a_piece_beyond_a_limit_is_refused_where_it_is_made():
    for piece in (
        Inferred(body=b"x" * (inference.BYTES_MAX + 1)),
        Inferred(outputs=[Tensor("x", "FP32", [1] * 33, b"")]),
        Inferred(headers=[("n" * 1025, "v")]),
        Inferred(content_type="é" * 513),
    ):
        with pytest.raises(ValueError):
            inference.check(piece)
    inference.check(Inferred(body=b"x" * (inference.BYTES_MAX - inference.WHOLE_BYTES)))


def test_bytes_elements():
    data = pack_elements(["a", b"", "äö"])
    assert unpack_elements(data) == [b"a", b"", "äö".encode()]
    for cut in range(1, len(data)):
        if cut not in (5, 9):
            with pytest.raises(ValueError):
                unpack_elements(data[:cut])


@pytest.mark.parametrize("element", [5, 1.5, None, ["a"]])
def test_only_text_and_bytes_are_elements_of_bytes(element):
    with pytest.raises(ValueError, match=f"a text or bytes, not a {type(element).__name__}"):
        pack_elements(["a", element])


def test_tensors_are_numpys():
    numpy = pytest.importorskip("numpy")
    for datatype, name in [("FP32", "float32"), ("INT64", "int64"), ("BOOL", "bool"), ("FP16", "float16"), ("UINT8", "uint8")]:
        array = numpy.arange(6).reshape(2, 3).astype(name)
        t = Tensor.of("x", array)
        assert t.datatype == datatype and (t.numpy() == array).all() and t.numpy().dtype == array.dtype
    texts = Tensor.of("x", [["a", "b"]])
    assert texts.datatype == "BYTES" and texts.numpy().tolist() == [[b"a", b"b"]]


def test_an_infer_that_python_writes_is_that_of_cpp():
    """tests/unit/schema/golden_test.cpp reads these bytes with every field."""
    asked = Infer(
        request=11, model="m", version="2", inputs=[Tensor("x", "BYTES", [1], pack_elements(["a"]))], outputs=["y"], body=b"b",
        content_type="c", headers=[("h", "v")], parameters_json="{}", request_id="r", deadline=1.5,
    )
    kept = Path(__file__).resolve().parents[3] / "tests" / "data" / "schema" / "python_infer.bin"
    assert inference.infer(asked) == kept.read_bytes()
