"""Makes pictures smaller without a library: a palette of 256 colours, no alpha, zlib's best compression.
The input has 8 bits a channel, as Chromium writes it (https://www.w3.org/TR/png-3/)."""
import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MASK = 0xFC  # of a channel: steps of 4 are not seen, 255 stays 255


def chunks(data):
    at = len(SIGNATURE)
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        yield kind, data[at + 8:at + 8 + size]
        at += size + 12


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def paeth(a, b, c):
    p = a + b - c
    pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
    return a if pa <= pb and pa <= pc else b if pb <= pc else c


def unfiltered(raw, stride, step):
    """The rows' bytes (PNG, section 9)."""
    before, rows = bytes(stride), []
    for at in range(0, len(raw), stride + 1):
        kind, row = raw[at], bytearray(raw[at + 1:at + 1 + stride])
        for i in range(stride if kind else 0):
            a = row[i - step] if i >= step else 0
            if kind == 1:
                row[i] = row[i] + a & 255
            elif kind == 2:
                row[i] = row[i] + before[i] & 255
            elif kind == 3:
                row[i] = row[i] + (a + before[i]) // 2 & 255
            else:
                row[i] = row[i] + paeth(a, before[i], before[i - step] if i >= step else 0) & 255
        rows.append(bytes(row))
        before = rows[-1]
    return rows


def smaller(png):
    parts = list(chunks(png))
    header = parts[0][1]
    width, height, bits, colour = struct.unpack(">IIBB", header[:10])
    assert bits == 8 and colour in (2, 6), (bits, colour)
    step = 4 if colour == 6 else 3
    rows = unfiltered(zlib.decompress(b"".join(body for kind, body in parts if kind == b"IDAT")), width * step, step)
    fewer = bytes(v & MASK | v >> 6 for v in range(256))
    pixels = [[row[i:i + 3].translate(fewer) for i in range(0, len(row), step)] for row in rows]
    counts = {}
    for row in pixels:
        for p in row:
            counts[p] = counts.get(p, 0) + 1
    palette = sorted(counts, key=counts.get, reverse=True)[:256]
    index = {p: i for i, p in enumerate(palette)}
    for p in counts:  # the rare ones become their nearest neighbour
        if p not in index:
            index[p] = min(range(len(palette)), key=lambda i: sum((x - y) ** 2 for x, y in zip(palette[i], p)))
    raw = b"".join(b"\0" + bytes(index[p] for p in row) for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return SIGNATURE + chunk(b"IHDR", head) + chunk(b"PLTE", b"".join(palette)) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
