"""Records a stream whose pipeline stage is killed, and draws it as docs/images/kill-*.svg: `python3 tests/system/cluster/kill_recording.py`,
with a built cluster. The text, the moments and the process ids are those of the run; a second run without the kill gives the text to
compare with."""
import html
import http.client
import json
import time

from harness import ROOT, running

IMAGES = ROOT / "docs/images"
PROMPT, TOKENS, KILL_AFTER = "How does a relay race work?", 150, 60
COLUMNS, LINE, CELL, LEFT, TOP, WIDTH = 84, 19, 8.43, 18, 48, 760
SECONDS, PAUSE = 11.0, 3.5  # of the picture: the stream, and the end result
THEMES = {"light": ("#f6f8fa", "#1f2328", "#656d76", "#cf222e", "#1a7f37", "#d0d7de"),
          "dark": ("#161b22", "#e6edf3", "#8d96a0", "#ff7b72", "#3fb950", "#30363d")}


def read_stream(cluster, on_token=lambda count: None):
    """-> [(seconds since the request, text)]"""
    connection = http.client.HTTPConnection("127.0.0.1", cluster.http_port, timeout=120)
    body = {"model": "smollm2", "stream": True, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": TOKENS, "temperature": 0}
    begin = time.monotonic()
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    pieces = []
    for raw in connection.getresponse():
        if not raw.startswith(b"data: {"):
            continue
        delta = json.loads(raw[6:])["choices"][0]["delta"].get("content")
        if delta:
            pieces.append((time.monotonic() - begin, delta))
            on_token(len(pieces))
    return pieces


def record():
    """-> (pieces, moment of the kill, pid that was killed, pid that follows, whether the text is that of an undisturbed run)"""
    with running() as cluster:
        undisturbed = read_stream(cluster)
        begin, killed = time.monotonic(), {}

        def kill(count):
            if count == KILL_AFTER:
                killed.update(pid=cluster.pids()["shard-1"], at=time.monotonic() - begin)
                cluster.kill("shard-1")

        pieces = read_stream(cluster, kill)
        cluster.wait_ready()
        text = lambda parts: "".join(part for _, part in parts)
        return pieces, killed["at"], killed["pid"], cluster.pids()["shard-1"], text(pieces) == text(undisturbed)


def laid_out(pieces):
    """-> [(line, column, seconds, text)]: pieces cut into words and put into lines of COLUMNS."""
    out, line, column = [], 0, 0
    for seconds, piece in pieces:
        for index, part in enumerate(piece.replace("\n\n", "\n").split("\n")):
            if index or column + len(part) > COLUMNS:
                line, column, part = line + 1, 0, part.lstrip()
            out.append((line, column, seconds, part))
            column += len(part)
    return out


def draw(recording, theme):
    pieces, killed_at, pid, next_pid, is_same = recording
    ground, ink, quiet, red, green, rule = theme
    slower = SECONDS / pieces[-1][0]
    placed = laid_out(pieces)
    lines = placed[-1][0] + 1
    height = TOP + LINE * (lines + 6)
    appear = lambda seconds: f'<set attributeName="visibility" to="hidden" begin="loop.begin" dur="{max(0.01, seconds):.2f}s"/>'

    def text(row, column, words, color, seconds):
        return (f'<text x="{LEFT + column * CELL:.1f}" y="{TOP + LINE * row:.1f}" textLength="{len(words) * CELL:.1f}" fill="{color}" '
                f'xml:space="preserve">{html.escape(words)}{appear(seconds)}</text>')

    waits = [b[0] - a[0] for a, b in zip(pieces, pieces[1:])]
    gap, below = max(waits), lines + 2
    result = f"stream ended: {'the same text as without the kill' if is_same else 'ANOTHER TEXT'}, longest pause {gap * 1000:.0f} ms"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="ui-monospace, Menlo, Consolas, monospace" '
             'font-size="14" role="img">', "<title>A pipeline stage is killed under a stream, which goes on</title>",
             f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{ground}" stroke="{rule}"/>',
             *(f'<circle cx="{LEFT + 4 + 18 * i}" cy="17" r="5" fill="{rule}"/>' for i in range(3)),
             f'<animate id="loop" attributeName="data-x" begin="0s;loop.end" dur="{SECONDS + PAUSE:.1f}s"/>',
             f'<text x="{LEFT}" y="{TOP}" fill="{quiet}">$ curl -N localhost:8000/v1/chat/completions -d \'{{"stream": true, ...}}\'</text>']
    parts += [text(line + 1.3, column, words, ink, seconds * slower) for line, column, seconds, words in placed if words]
    parts.append(text(below, 0, f"$ kill -9 {pid}    # shard-1: the second half of the model's layers", red, killed_at * slower))
    parts.append(text(below + 1, 0, f"shard-1 runs again as {next_pid}; the step in flight was computed again", quiet, killed_at * slower + 0.6))
    parts.append(text(below + 2, 0, result, green, SECONDS + 0.1))
    parts.append(f'<text x="{WIDTH - LEFT}" y="{height - 12}" fill="{quiet}" font-size="11" text-anchor="end">recorded, played {slower:.0f} x slower</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    recording = record()
    for name, theme in THEMES.items():
        (IMAGES / f"kill-{name}.svg").write_text(draw(recording, theme))
    print(f"{len(recording[0])} pieces in {recording[0][-1][0]:.2f} s, killed at {recording[1]:.2f} s, same text: {recording[4]}")


if __name__ == "__main__":
    main()
