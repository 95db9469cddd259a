"""Texts for the benches: made with a seed, or from files that every Debian machine has. Called by tokenizer.py and perplexity.py."""
import os
import pathlib
import random

LICENCES = pathlib.Path("/usr/share/common-licenses")
LICENCE_NAMES = ("GPL-3", "Apache-2.0", "Artistic", "GFDL-1.3", "LGPL-2.1", "MPL-1.1", "MPL-2.0", "GPL-1", "CC0-1.0")
DOCUMENT_CHARACTERS = 8000  # of a text that is tokenized in one call, as long as a long prompt

# First and last letter of alphabets without gaps, with letters of two, three and four bytes in UTF-8.
ALPHABETS = (("a", "z"), ("α", "ω"), ("а", "я"), ("א", "ת"), ("ا", "غ"), ("क", "ह"), ("ก", "ฮ"),
             ("ぁ", "ん"), ("一", "龥"), ("가", "힣"), ("😀", "🙏"))


def documents(text):
    return [text[i:i + DOCUMENT_CHARACTERS] for i in range(0, len(text), DOCUMENT_CHARACTERS)]


def licence(name):
    return (LICENCES / name).read_text(encoding="utf-8", errors="replace")


def english(characters):
    return "".join(licence(name) for name in LICENCE_NAMES if (LICENCES / name).is_file())[:characters]


def code(characters):
    """Of Python's standard library."""
    text = ""
    for path in sorted(pathlib.Path(os.__file__).parent.glob("*.py")):
        if len(text) >= characters:
            break
        text += path.read_text(encoding="utf-8", errors="replace")
    return text[:characters]


def mixed(characters, seed=7):
    """Words of many alphabets, a few hundred of each, as a reader would meet them again and again."""
    dice = random.Random(seed)
    words = [["".join(chr(dice.randint(ord(first), ord(last))) for _ in range(dice.randint(1, 9))) for _ in range(300)]
             for first, last in ALPHABETS]
    text = []
    length = 0
    while length < characters:
        sentence = " ".join(dice.choice(dice.choice(words)) for _ in range(dice.randint(4, 14))) + dice.choice((". ", "! ", "?\n", ", 3.14; "))
        text.append(sentence)
        length += len(sentence)
    return "".join(text)[:characters]


KINDS = {"english": english, "code": code, "mixed_scripts": mixed}
