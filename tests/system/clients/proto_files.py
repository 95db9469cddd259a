"""The definitions in .proto files, as plain values that can be compared."""


def described(files):
    """{"message": {field: [number, type, label]}}, {"service/method": [asked, answered, streams in, streams out]}"""
    found = {}
    for file in files:
        for m in file.message_type:
            found[f"{file.package}.{m.name}"] = {f.name: [f.number, f.type, f.label] for f in m.field}
        for s in file.service:
            for m in s.method:
                found[f"{file.package}.{s.name}/{m.name}"] = [m.input_type, m.output_type, m.client_streaming, m.server_streaming]
    return found
