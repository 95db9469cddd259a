"""Writes docs/reference/cli.md, docs/reference/cluster.1 and packages/completion from the help of the `cluster` binary:
`python3 scripts/cli_pages.py [CLUSTER]`."""
import pathlib
import re
import subprocess
import sys

import completion

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = ROOT / "build/dev/cluster/cluster"
PAGE, MANUAL = ROOT / "docs/reference/cli.md", ROOT / "docs/reference/cluster.1"
BASH, ZSH = ROOT / "packages/completion/cluster.bash", ROOT / "packages/completion/_cluster"
SUBCOMMAND = re.compile(r"^  ([a-z][a-z-]*)  ", re.M)


def help_of(cluster, *command):
    return subprocess.run([cluster, *command, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout.strip("\n")


def commands(cluster, *command):
    """-> [(words, help)] of the command and of all beneath it."""
    text = help_of(cluster, *command)
    found = [(command, text)]
    if "\nSubcommands:\n" in text:
        for name in SUBCOMMAND.findall(text.split("\nSubcommands:\n")[1]):
            found += commands(cluster, *command, name)
    return found


def markdown(found):
    sections = [f"## cluster {' '.join(words)}\n\n```text\n{text}\n```\n" for words, text in found[1:]]
    return "\n".join(["# Command line", "", "The help of each command, as its `--help` prints it.", "",
                      f"```text\n{found[0][1]}\n```\n", *sections])


def escaped(text):
    """Text as roff takes it: backslashes, dashes, and lines that would be requests."""
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.M)


def manual(found):
    summary = found[0][1].split("\n")[0].removeprefix("Baton: ").rstrip(".")
    head = ['.TH CLUSTER 1 "" "Baton" "User Commands"', ".SH NAME", f"cluster \\- {escaped(summary)}", ".SH SYNOPSIS", ".B cluster", "[OPTIONS] SUBCOMMAND",
            ".SH DESCRIPTION", ".nf", escaped(found[0][1]), ".fi", ".SH COMMANDS"]
    return "\n".join(head + [part for words, text in found[1:] for part in (f".SS cluster {escaped(' '.join(words))}", ".nf", escaped(text), ".fi")]) + "\n"


def pages(cluster):
    """-> {path: what belongs there}"""
    found = commands(cluster)
    return {PAGE: markdown(found), MANUAL: manual(found), BASH: completion.bash(found), ZSH: completion.zsh(found)}


def main(cluster=CLUSTER):
    for path, text in pages(cluster).items():
        path.write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
