"""The finished rows of ./check faults, kept beside the build: with --resume those of the same product and settings are not made again."""
import dataclasses
import datetime
import json
import subprocess

import report

PRODUCT = ("schema", "runtime", "actors", "gateway", "cluster")


def product(root=report.ROOT):
    """The last commit that changed what is measured; None: it has changes that are not committed."""
    git = lambda *words: subprocess.run(["git", "-C", root, *words, "--", *PRODUCT], capture_output=True, text=True, check=False).stdout.strip()
    return None if git("status", "--porcelain") else git("log", "-1", "--format=%h") or None


class Book:
    """One line for each finished row: the commit, the settings, the time and the result."""

    def __init__(self, path, made_of, settings):
        self.path = path
        self.key = {"product": made_of, **settings}

    def find(self, name):
        """-> the newest rows of `name`, with missed bars; None: there are none of this commit with these settings."""
        if self.key["product"] is None or not self.path.exists():
            return None
        kept = [line for line in map(json.loads, self.path.read_text().splitlines()) if line["name"] == name and line["key"] == self.key]
        rows = [report.Row(**fields) for fields in kept[-1]["rows"]] if kept else []
        return rows if rows and all(row.value is not None for row in rows) else None

    def keep(self, name, rows):
        line = {"name": name, "key": self.key, "made": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M}", "rows": [dataclasses.asdict(r) for r in rows]}
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
