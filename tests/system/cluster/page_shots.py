"""Makes the pictures of the web page in docs/images again: `python3 tests/system/cluster/page_shots.py`, with a built cluster and Chromium."""
import time

from browser import browser
from harness import ROOT, running
from page_words import Visitor
from png import smaller

IMAGES = ROOT / "docs/images"
FIRST, STORY = "How do I sort a list in Python? Show one line of code.", "Write a very long story about a relay race."


def shoot(page, name):
    IMAGES.mkdir(exist_ok=True)
    bytes_ = smaller(page.screenshot())
    (IMAGES / f"page-{name}.png").write_bytes(bytes_)
    print(f"{name}: {len(bytes_) // 1024} KiB")


def lose_twice(cluster, page, name):
    """At the second kill the supervisor waits before the restart."""
    cluster.kill(name)
    page.until(lambda: f"{name} was lost" in page.text("#events"))
    page.until(lambda: page.text("#phase") == "ready")
    cluster.kill(name)
    page.until(lambda: "ready" not in page.text(f"#pictures [data-name={name}] .stands"))


def main():
    with running() as cluster, browser() as page:
        visitor = Visitor(page, cluster.url).open(temperature=0, max_tokens=160)
        page.look(1400, 860, motion="no-preference")
        page.until(lambda: page.text("#api-lines"))
        shoot(page, "first")
        visitor.ask(FIRST)
        visitor.wait_end()
        visitor.ask(STORY)
        visitor.wait_begun(400)
        shoot(page, "light")
        visitor.wait_end()
        page.look(1400, 860, scheme="dark", motion="reduce")
        page.value("import('/page/settings.js').then(s => s.reset())")
        page.press("n", "KeyN", alt=True)
        visitor.ask(STORY)
        visitor.wait_begun(200)
        lose_twice(cluster, page, "shard-1")
        shoot(page, "dark")
        page.until(lambda: page.text("#phase") == "ready")
        page.look(390, 780, motion="no-preference", scale=1.5)
        page.click("#view-cluster")
        time.sleep(0.6)
        shoot(page, "phone")


if __name__ == "__main__":
    main()
