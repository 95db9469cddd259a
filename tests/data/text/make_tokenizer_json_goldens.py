"""Writes tokenizer_json_goldens.json beside this script: small tokenizers in published shapes, with the ids of Hugging Face's `tokenizers`
for difficult texts. Also writes normal_forms.json, the output of its normalizers. Run it by hand (`pip install tokenizers`; 0.23 made the
committed files); the results are committed.
"""
import json
import math
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
SPACE = "\u2581"
LINES = [
    "The quick brown fox jumps over the lazy dog, and the dog sleeps on.",
    "It wasn't the best of times; it was the worst of times, they said.",
    "Der schnelle braune Fuchs springt \u00fcber den faulen Hund.",
    "Le renard brun saute par-dessus le chien paresseux. L'\u00e9t\u00e9 est fini.",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u4e16\u754c\u5f88\u5927\u3002",
    "for (int i = 0; i < count; ++i) sum += values[i] * weights[i];",
    "In 1984, 12345 people paid 3.14 dollars; 2024 was 100% different.",
    "aaaa aaaaaaaa bbbb abababab banana bananas ananas",
    "one  two   three    four five six seven eight nine ten eleven twelve",
]
TEXTS = [
    "", " ", "  ", "a", " a", "a ", "   a  b   c ", "The quick brown fox jumps over the lazy dog.",
    "the then there they're their them", "I'LL SAY it's THEY'RE", "HELLO WORLD! hello  world", "1234567890 3.14159 1,000,000",
    "\t", "\ta\t\tb", "\n", "a\nb\n\nc\n\n\nd\n", "a\r\nb\r\n", " \n \t x", "\u00a0a\u00a0b\u2003c\u3000d",
    "\u00fcber \u00e9t\u00e9 na\u00efve \u00df", "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u65b0\u5b57", "\u0627\u0644 \u05e9\u05dc \u0939\u093f",
    "\U0001f600", "a\U0001f600b \U0001f44d\U0001f3fd", "\u0001\u007f", SPACE, "a" + SPACE + "b", SPACE + " x",
    "aaaaaaaaaaaaaaaaaaaaaaaaa", "ababababab bababa ananananas", "          indented", "x" * 40,
    "for (int i = 0; i < n; ++i)\n    sum += v[i];\n\n", "http://example.org/a?b=c&d=e#f",
    "<|user|>", "<|user|>the fox", "<|user|> \n the fox<|end|>\n<|user|>", "fox <|end|> fox", "<|user|><|end|>", "<|us", "a<|end|>",
]
# Texts for normalizers: composed and decomposed, marks in and out of order, characters with replacements, long runs. Also texts that must
# not compose (across special tokens, after a control character, exclusions).
NASTY = [
    "e\u0301t\u00e9 \u00e9te\u0301", "a\u0323\u0307 a\u0307\u0323 \u1e9b\u0323", "\u0301 \u0301a", "\u1112\u1161\u11ab\u1100\u1173\u11af \ud55c\uae00 \u1100\uac00\u11a8",
    "\u212b \u2126 \u212a", "\ufb01ne \u2460 \uff21\uff22 \u00bd \ufdfa", "\u0958 \u0915\u093c \u2adc \u0344", "\u0b92\u0bd7 \u1b06 \u1b05\u1b35",
    "\uffc2\uffca \u3131", "Q\u0303\u0323\u0304" * 6, "x" + "\u0301\u0323" * 20, "the<\u0338fox", "<|user|>\u0338e\u0301<|end|>\u0301", "e\u0001\u0301e\u200d\u0301",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 1\ufe0f\u20e3", "\u0130STANBUL \u03a3\u0391\u03a3 STRASSE \u1e9e \u01c5", "\u00a0a\u2003b\u3000c\u00add", "a\r\n\u0301\tb", "\ufeff\ufffd\uffff",
    "\uff21\u0301b \u2460\u20dd", "the <b>fox</b> <b> <b>", "  the  fox ", "\u4e03\u516b \u4e5d\u5341", "banana<|end|>  banana <|end|>banana", "<b>\u00a0\u200bthe",
    "\U0001d15e\U0001d1bb", " " * 30 + "e\u0301" + "\n" * 9, "e\u0301" * 100,
]
SPECIALS = ["<unk>", "<s>", "</s>"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")


def byte_level(pre, normalizer=None, ignore_merges=False, adds_bos=False):
    made = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizers.Sequence(pre)
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(LINES * 3, trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    made.add_special_tokens(["<s>", "</s>", "<|user|>", "<|end|>"])
    if adds_bos:
        bos = made.token_to_id("<s>")
        made.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", bos)])])
    return made


def split(pattern):
    return [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


STRIPPED = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])


def converted(normalizer, pre=None, rstrip=False, byte_fallback=True, added=()):
    """As the converter of SentencePiece's models makes them: all ways to make a token are listed, the best token first."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    trained.train_from_iterator(LINES * 3, trainers.BpeTrainer(vocab_size=220, show_progress=False))
    pieces = [p for p, _ in sorted(trained.get_vocab().items(), key=lambda item: item[1])]
    vocab = {p: i for i, p in enumerate(SPECIALS)}
    if byte_fallback:
        vocab |= {f"<0x{b:02X}>": len(SPECIALS) + b for b in range(256)}
    for piece in sorted(pieces, key=len, reverse=False):
        vocab.setdefault(piece, len(vocab))
    order = {p: i for i, p in enumerate(pieces)}
    merges = []
    for piece in pieces:
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in order and right in order:
                merges.append((order[piece], vocab[left], vocab[right], left, right))
    merges.sort(key=lambda m: m[:3])
    made = Tokenizer(models.BPE(vocab, [m[3:] for m in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback))
    if normalizer:
        made.normalizer = normalizer
    if pre:
        made.pre_tokenizer = pre
    made.decoder = STRIPPED
    made.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in SPECIALS])
    made.add_special_tokens([AddedToken(t, normalized=False, special=True, rstrip=rstrip) for t in ("<|user|>", "<|end|>")])
    made.add_tokens([AddedToken(t, normalized=False) for t in added])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B:1", special_tokens=[("<s>", vocab["<s>"])])
    return made


def metaspace(scheme, split):
    return pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=split)


def scored(normalizer, pre, decoder, byte_fallback=False):
    """Unigram over the pieces of a trained BPE. Earlier pieces score higher. Short pieces have equal scores, so many sums are equal."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", SPACE)
    trained.pre_tokenizer = metaspace("always", True)
    trained.train_from_iterator(LINES * 3, trainers.BpeTrainer(vocab_size=180, show_progress=False))
    pieces = [p for p, _ in sorted(trained.get_vocab().items(), key=lambda item: item[1])]
    vocab = [(p, 0.0) for p in SPECIALS] + [(p, -4.1 if len(p) < 3 else -math.log(2 + i) - 0.1 * len(p)) for i, p in enumerate(pieces)]
    if byte_fallback:
        vocab += [(f"<0x{b:02X}>", 0.0) for b in range(256)]
    made = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=byte_fallback))
    if normalizer:
        made.normalizer = normalizer
    if pre:
        made.pre_tokenizer = pre
    made.decoder = decoder
    made.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in SPECIALS + ["<|user|>", "<|end|>"]])
    made.add_tokens([AddedToken("<b>", normalized=False)])
    return made


def character_map():
    """The small character map of the SentencePiece goldens."""
    mapped = json.loads((HERE / "sentencepiece_ids.json").read_text())["models"][-1]["character_map"]
    return normalizers.Precompiled(bytes.fromhex(mapped))


PREFIXED = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
SHAPES = {
    "llama 3": byte_level(split(LLAMA3), ignore_merges=True, adds_bos=True),
    "qwen 2": byte_level(split(QWEN2), normalizer=normalizers.NFC()),
    "smollm": byte_level([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "gpt 2": byte_level([pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "llama 2": converted(PREFIXED),
    "phi 3": converted(PREFIXED, rstrip=True),
    "gemma": converted(normalizers.Replace(" ", SPACE), pre=pre_tokenizers.Split(" ", "merged_with_previous")),
    "mistral 0.3": converted(normalizers.Sequence([]), pre=pre_tokenizers.Metaspace(SPACE, prepend_scheme="first", split=False)),
    "no bytes": converted(PREFIXED, byte_fallback=False),
    "nfkc": byte_level(split(QWEN2), normalizer=normalizers.NFKC()),
    "nfd lower case": byte_level(split(LLAMA3), normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase()])),
    "t5": scored(character_map(), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace("always", True)]), decoders.Metaspace(SPACE)),
    "unigram, converted": scored(normalizers.Sequence([character_map(), normalizers.Strip(False, True), normalizers.Replace(Regex(" {2,}"), SPACE)]),
                                 metaspace("always", True), decoders.Metaspace(SPACE)),
    "unigram with bytes": scored(normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]), None, STRIPPED, byte_fallback=True),
    "unigram, first": scored(normalizers.Sequence([normalizers.NFKC(), normalizers.Strip()]), metaspace("first", False),
                             decoders.Metaspace(SPACE, prepend_scheme="first")),
    "unigram, never": scored(normalizers.Replace("\n", " "), metaspace("never", True), decoders.Metaspace(SPACE, prepend_scheme="never")),
    "bpe, always, split": converted(None, pre=metaspace("always", True), added=["<b>"]),
    "bpe, always": converted(None, pre=metaspace("always", False), added=["<b>"]),
    "bpe, first, split": converted(None, pre=metaspace("first", True), byte_fallback=False),
    "bpe, never, split": converted(normalizers.Lowercase(), pre=metaspace("never", True)),
    "llama 2 nfkd": converted(normalizers.Sequence([normalizers.NFKD(), normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])),
}
SPACED = ["t5", "unigram, converted", "unigram with bytes", "unigram, first", "unigram, never", "bpe, always, split", "bpe, always", "bpe, first, split",
          "bpe, never, split"]
WITH_NASTY = SPACED + ["qwen 2", "nfkc", "nfd lower case", "llama 2 nfkd"]
FORMS = {"nfc": normalizers.NFC(), "nfd": normalizers.NFD(), "nfkc": normalizers.NFKC(), "nfkd": normalizers.NFKD(), "lower_case": normalizers.Lowercase()}

out = []
for name, made in SHAPES.items():
    texts = TEXTS + NASTY if name in WITH_NASTY else TEXTS
    cases = []
    for text in texts:
        ids = made.encode(text, add_special_tokens=False).ids
        cases.append({"text": text, "ids": ids} | ({"decoded": made.decode(ids)} if name in SPACED else {}))
    out.append({"name": name, "tokenizer": json.loads(made.to_str()), "adds_bos": made.encode("a").ids != made.encode("a", add_special_tokens=False).ids,
                "cases": cases})
body = ",\n".join(json.dumps(each, separators=(",", ":")) for each in out)
(HERE / "tokenizer_json_goldens.json").write_text(f"[{body}]\n")
forms = [{"text": t} | {name: form.normalize_str(t) for name, form in FORMS.items()} for t in TEXTS + NASTY]
(HERE / "normal_forms.json").write_text("[" + ",\n".join(json.dumps(each, separators=(",", ":")) for each in forms) + "]\n")
