"""Both tokenizers that the bench compares do the same work: the same ids for every kind of text it reads."""
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from sections import texts, tokenizer  # noqa: E402
from servers import ROOT  # noqa: E402

BENCH = pathlib.Path(os.environ.get("BATON_BUILD", ROOT / "build" / "dev")) / "tests" / "bench" / "tokenizer_bench"
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("tokenizer") / "vocabulary"
    tokenizer.write_vocabulary(BENCH, MODEL, path)
    return path


@pytest.mark.parametrize("kind", texts.KINDS)
def test_ids_are_those_of_hugging_faces_tokenizers(kind, vocabulary, tmp_path):
    tokenizer.write_texts(kind, 60_000, tmp_path / "texts")
    ours = tokenizer.ours(BENCH, MODEL, tmp_path / "texts", tmp_path / "ours")
    theirs = tokenizer.theirs(vocabulary, tmp_path / "texts", tmp_path / "theirs")
    assert ours["bytes"] == theirs["bytes"] > 60_000 - 1
    ids = (tmp_path / "ours").read_bytes()
    assert len(ids) > 4 * 10_000 and ids == (tmp_path / "theirs").read_bytes()


def test_documents_are_the_whole_text():
    text = texts.mixed(20_001)
    assert "".join(texts.documents(text)) == text and len(text) == 20_001
    assert texts.mixed(500) == texts.mixed(500) != texts.mixed(500, seed=8)
