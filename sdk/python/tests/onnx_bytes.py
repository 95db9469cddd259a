"""Small ONNX models without the package that makes them (onnx.proto)."""

FLOAT, INT64, STRING, BFLOAT16 = 1, 7, 8, 16


def field(number, value):
    """A field of a protobuf message: a number, or bytes."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    raw = value.encode() if isinstance(value, str) else value
    assert len(raw) < 1 << 14
    size = bytes([len(raw)]) if len(raw) < 128 else bytes([len(raw) & 127 | 128, len(raw) >> 7])
    return bytes([number << 3 | 2]) + size + raw


def value(name, element=FLOAT, dims=("rows", 2)):
    """A named tensor: a dimension with a name is any number."""
    shape = b"".join(field(1, field(2, dim) if isinstance(dim, str) else field(1, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, element) + field(2, shape)))


def model(nodes, inputs, outputs):
    """`nodes`: (operator, names in, names out)."""
    graph = b"".join(
        field(1, b"".join(field(1, one) for one in taken) + b"".join(field(2, one) for one in given) + field(4, operator))
        for operator, taken, given in nodes
    )
    graph += field(2, "g") + b"".join(field(11, one) for one in inputs) + b"".join(field(12, one) for one in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def add_sub():
    """OUTPUT0 = INPUT0 + INPUT1, OUTPUT1 = INPUT0 - INPUT1, of any number of rows of two."""
    names = ["INPUT0", "INPUT1"]
    nodes = [("Add", names, ["OUTPUT0"]), ("Sub", names, ["OUTPUT1"])]
    return model(nodes, [value(name) for name in names], [value(name) for name in ("OUTPUT0", "OUTPUT1")])
