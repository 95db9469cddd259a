"""A tiny model of random weights whose vocabulary and template have the marks of a family: a copy of tests/data/model/checkpoint."""
import json
import shutil

from harness import ROOT

# Tokens that occur in no other text; marks replace them.
WORDS = ["Ġfour", "ght", "Ġfox", "Ġsix", "Ġseve", "Ġit", "Ġis", "Ġans"]


def marked_model(directory, marks, template, are_control):
    """-> the model's directory. `are_control`: an answer's text has the marks only where a format names them."""
    copy = shutil.copytree(ROOT / "tests/data/model/checkpoint", directory / "model")
    tokenizer = json.loads((copy / "tokenizer.json").read_text())
    vocab, replaced = tokenizer["model"]["vocab"], dict(zip(WORDS, marks))
    for word, mark in replaced.items():
        number = vocab.pop(word)
        vocab[mark] = number
        tokenizer["added_tokens"].append({"id": number, "content": mark, "single_word": False, "lstrip": False, "rstrip": False,
                                          "normalized": False, "special": are_control})
    tokenizer["model"]["merges"] = [m for m in tokenizer["model"]["merges"] if "".join(m) not in replaced]
    tokenizer["added_tokens"].sort(key=lambda token: token["id"])
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    (copy / "chat_template.jinja").write_text(template)
    return copy
