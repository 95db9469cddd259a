"""Draws docs/images/speed-*.svg from the results that stand in docs/develop/benchmarks.md: how many times llama.cpp, in the same
run. `python3 tests/bench/chart.py`; run.py calls it when it writes its results."""
import html
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCUMENT = ROOT / "docs/develop/benchmarks.md"
IMAGES = ROOT / "docs/images"
GROUPS = [("prompt, 512 tokens", "engine.{}/llama.prefill_512"), ("decode, batch 1", "engine.{}/llama.batch_1"),
          ("decode, batch 8", "engine.{}/llama.batch_8"), ("decode, batch 32", "engine.{}/llama.batch_32"),
          ("HTTP, 1 stream", "served.{}/llama.1.tok_s"), ("HTTP, 8 streams", "served.{}/llama.8.tok_s"),
          ("HTTP, 32 streams", "served.{}/llama.32.tok_s")]
SERIES = [("baton", "16-bit activations (default)"), ("baton_8bit", "8-bit activations")]
THEMES = {"light": {"ink": "#1f2328", "quiet": "#656d76", "rule": "#d0d7de", "baton": "#2563eb", "baton_8bit": "#60a5fa", "peer": "#9ca3af"},
          "dark": {"ink": "#e6edf3", "quiet": "#8d96a0", "rule": "#30363d", "baton": "#3b82f6", "baton_8bit": "#93c5fd", "peer": "#6b7280"}}
WIDTH, LABEL, ROW, BAR, HEAD, FOOT = 760, 150, 44, 13, 56, 46


def ratios(text):
    """-> {row: value}, for the rows with the unit x."""
    return {name: float(value) for name, value in re.findall(r"^\| (\S+) \| ([\d.]+) \| x \|", text, re.M)}


def heading(text):
    """-> (the date and file of the results, their processor)"""
    found = re.search(r"<!-- results -->\n(\S+), \S+, (.*)\n", text)
    cpu = re.search(r"^\| machine.cpu \| (.*?) \| text", text, re.M)
    cores = re.search(r"^\| machine.cores \| (\d+)", text, re.M)
    return (f"{found[2]} {found[1]}." if found else ""), (f"{cpu[1]}, {cores[1]} cores" if cpu and cores else "")


def bar(y, width, color, value, theme):
    return (f'<rect x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2" fill="{color}"/>'
            f'<text x="{LABEL + width + 6:.1f}" y="{y + BAR - 2}" fill="{theme["ink"]}" font-size="12">{value:.1f} x</text>')


def draw(text, theme):
    """The chart as SVG. Rows that the results lack have no bar."""
    values, (about, machine) = ratios(text), heading(text)
    rows = [(label, [(name, values[pattern.format(name)]) for name, _ in SERIES if pattern.format(name) in values]) for label, pattern in GROUPS]
    rows = [(label, bars) for label, bars in rows if bars]
    scale = (WIDTH - LABEL - 60) / max([1.0, *(value for _, bars in rows for _, value in bars)])
    height = HEAD + ROW * len(rows) + FOOT
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" role="img">',
             "<title>Tokens per second, as multiples of llama.cpp</title>",
             f'<text x="{LABEL}" y="20" fill="{theme["ink"]}" font-size="15" font-weight="600">Tokens per second, llama.cpp = 1</text>']
    for index, (name, label) in enumerate(SERIES):
        x = LABEL + 220 * index
        parts.append(f'<rect x="{x}" y="32" width="11" height="11" rx="2" fill="{theme[name]}"/>'
                     f'<text x="{x + 17}" y="42" fill="{theme["quiet"]}" font-size="12">{label}</text>')
    for index, (label, bars) in enumerate(rows):
        y = HEAD + ROW * index
        parts.append(f'<text x="{LABEL - 10}" y="{y + 18}" text-anchor="end" fill="{theme["ink"]}" font-size="13">{label}</text>')
        parts += [bar(y + 4 + (BAR + 3) * at, value * scale, theme[name], value, theme) for at, (name, value) in enumerate(bars)]
    one = LABEL + scale
    parts.append(f'<line x1="{one:.1f}" y1="{HEAD}" x2="{one:.1f}" y2="{height - FOOT}" stroke="{theme["peer"]}" stroke-dasharray="3 3"/>')
    parts += [f'<text x="{LABEL}" y="{height - 26 + 16 * line}" fill="{theme["quiet"]}" font-size="11">{html.escape(words)}</text>'
              for line, words in enumerate((f"{machine}. One run, interleaved, medians.", about))]
    return "\n".join([*parts, "</svg>"]) + "\n"


def write(document=DOCUMENT, images=IMAGES):
    text = document.read_text()
    for name, theme in THEMES.items():
        (images / f"speed-{name}.svg").write_text(draw(text, theme))


if __name__ == "__main__":
    write()
