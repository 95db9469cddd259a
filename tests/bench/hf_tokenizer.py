"""Hugging Face's `tokenizers` on texts, on one core, as the comparison for tokenizer.py.

VOCABULARY is the JSON that tokenizer_bench writes, TEXTS has a NUL after each text, IDS gets all ids, 32 bits each. Prints
{"bytes", "seconds"} of CPU time, the fastest of three passes. A separate program, because the library lives in .venv and
its number of cores must be set before the import.

    hf_tokenizer.py VOCABULARY TEXTS IDS
"""
import array
import json
import os
import pathlib
import sys
import time

PASSES = 3


def byte_level(vocabulary):
    """As the tokenizer.json of the default model has it: single digits, then GPT-2's pattern and merges."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    if vocabulary["pre"] != "smollm":
        sys.exit(f"hf_tokenizer.py knows how to build the pre-tokenizer 'smollm', not '{vocabulary['pre']}'")
    made = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary["tokens"])},
                                [tuple(line.split(" ")) for line in vocabulary["merges"]]))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return made


def main(vocabulary_file, texts_file, ids_file):
    os.environ.update(TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")
    tokenizer = byte_level(json.loads(pathlib.Path(vocabulary_file).read_text(encoding="utf-8")))
    data = pathlib.Path(texts_file).read_bytes()
    texts = [text.decode() for text in data.split(b"\0")[:-1]]
    best = float("inf")
    for _ in range(PASSES):
        begin = time.process_time()
        for text in texts:
            tokenizer.encode(text)
        best = min(best, time.process_time() - begin)
    ids = array.array("i", (i for text in texts for i in tokenizer.encode(text).ids))
    pathlib.Path(ids_file).write_bytes(ids.tobytes())
    print(json.dumps({"bytes": len(data) - len(texts), "seconds": best}))


if __name__ == "__main__":
    main(*sys.argv[1:])
