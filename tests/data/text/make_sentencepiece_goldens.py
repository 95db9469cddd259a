"""Writes sentencepiece_ids.json beside this script: small vocabularies trained by the package sentencepiece, with its ids and texts for a
corpus of difficult texts. They are the reference of the C++ code. Where Hugging Face's `tokenizers` gives other ids, this script fails or
explains why that is expected.

Usage: pip install sentencepiece tokenizers protobuf && python make_sentencepiece_goldens.py
"""
import io, json, os, random, sys
import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

here = os.path.dirname(os.path.abspath(__file__))
SPACE = "\u2581"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # the same numbers in GGUF

# -- The text that the models are trained on: repeated words with a long tail of scripts.
lines = [
    "The quick brown fox jumps over the lazy dog, and the dog sleeps on.",
    "It wasn't the best of times; it was the worst of times, they said.",
    "Der schnelle braune Fuchs springt \u00fcber den faulen Hund.",
    "Le renard brun saute par-dessus le chien paresseux. L'\u00e9t\u00e9 est fini.",
    "\u0421\u044a\u0435\u0448\u044c \u0436\u0435 \u0435\u0449\u0451 \u044d\u0442\u0438\u0445 \u043c\u044f\u0433\u043a\u0438\u0445 \u0431\u0443\u043b\u043e\u043a.",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u4eca\u5929\u662f\u661f\u671f\u516d\u3002\u4e16\u754c\u5f88\u5927\u3002",
    "for (int i = 0; i < count; ++i) sum += values[i] * weights[i];",
    "def encode(text): return [token.id for token in tokenize(text)]",
    "In 1984, 12345 people paid 3.14 dollars; 2024 was 100% different.",
    "aaaa aaaaaaaa bbbb abababab banana bananas ananas",
    "one two three four five six seven eight nine ten eleven twelve",
    "there their they're then than that this those these where were we're",
]

# -- Texts, each here for one reason.
texts = [
    "", " ", "  ", "   a", "a", " a", "a ", "a  ", "a b", "a  b", "a   b    c",
    "The quick brown fox jumps over the lazy dog.", "the then there they're their them",
    "Hello world! HELLO WORLD! hello  world", "1234567890 3.14159 1,000,000",
    "\t", "\ta\t\tb", "\n", "a\nb\n\nc\n\n\nd\n", "a\r\nb\r\n", " \n \t x",
    "\u00a0a\u00a0b\u2003c\u3000d", "a\u200bb\u200dc\ufeff",
    "\u00fcber \u00e9t\u00e9 na\u00efve \u00df", "e\u0301 a\u0308\u0301 n\u0303o \u0301alone",
    "\u0421\u044a\u0435\u0448\u044c \u0436\u0435 \u0435\u0449\u0451", "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u65b0\u5b57",
    "\u3053\u3093\u306b\u3061\u306f \uc548\ub155", "\u0627\u0644\u0633\u0644\u0627\u0645 \u05e9\u05dc\u05d5\u05dd \u0939\u093f\u0928\u094d\u0926\u0940",
    "\U0001f600", "a\U0001f600b \U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467", "1\ufe0f\u20e3 \u2764\ufe0f",
    "\u0000", "a\u0000b", "\u0001\u0002\u001f\u007f", "\u0085\u2028\u2029",
    "\u07ff\u0800\ud7ff\ue000\ufffd\ufffe\uffff\U00010000\U0010ffff",
    SPACE, SPACE + SPACE + "a", "a" + SPACE + "b", " " + SPACE + " ",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "abababababababababababababababa bababa",
    "ananananas bananananana", "                    indented", "x" * 40,
    "<table>", "a<table>b", " <table> <table> ", "<table", "table>", "<table><table>", "<<table>>", "the<|mark|>the",
    "<tab", "<tabletop>", "a  <tabletop> b", "<s>", "</s>", "<unk>", "a<s>b</s>c<unk>", "<0x41>", "<0x0A><0xFF>",
    "for (int i = 0; i < n; ++i)\n    sum += v[i];\n\n", "http://example.org/a?b=c&d=e#f",
    "\ufb01ne \u2460 \uff21\uff22 \u00bd \u2126", "\ufdfa",
]
# Bytes that are no UTF-8.
broken = [b"\xff", b"a\x80b", b"\xe2\x82", b"\xe2\x82z", b"\xf0\x9f\x98 x", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b" \xff ", b"\xf8\x88"]


def train(kind, size, **more):
    out = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 3), model_writer=out, model_type=kind, vocab_size=size, byte_fallback=True,
        character_coverage=0.98, num_threads=1, minloglevel=2, hard_vocab_limit=False, split_digits=True,
        user_defined_symbols=["<table>", "<tabletop>", SPACE * 2, SPACE * 4, "\n\n"], max_sentencepiece_length=8, **more)
    proto = pb.ModelProto()
    proto.ParseFromString(out.getvalue())
    return proto


def variant(proto, prefix, extra, bytes_too=True):
    made = pb.ModelProto()
    made.CopyFrom(proto)
    made.normalizer_spec.add_dummy_prefix = prefix
    made.normalizer_spec.remove_extra_whitespaces = extra
    if not bytes_too:
        kept = [p for p in made.pieces if p.type != BYTE]
        del made.pieces[:]
        made.pieces.extend(kept)
        made.trainer_spec.byte_fallback = False
    return made


def tables(proto):
    """As a GGUF file has them. Scores: nine digits name a float exactly."""
    return {
        "tokens": [p.piece for p in proto.pieces],
        "scores": [float("%.9g" % p.score) for p in proto.pieces],
        "kinds": [p.type for p in proto.pieces],
    }


# -- The same model in Hugging Face's library, as its converter makes it.
def hugging_face(proto, kind):
    pieces = [(p.piece, p.score, p.type) for p in proto.pieces]
    vocab = {p: i for i, (p, _, _) in enumerate(pieces)}
    fallback = proto.trainer_spec.byte_fallback
    if kind == "llama":
        merges = []
        for i, (piece, score, t) in enumerate(pieces):
            if t not in (NORMAL, USER_DEFINED):
                continue
            for cut in range(1, len(piece)):
                left, right = piece[:cut], piece[cut:]
                if all(x in vocab and pieces[vocab[x]][2] in (NORMAL, USER_DEFINED) for x in (left, right)):
                    merges.append((-score, i, vocab[left], vocab[right], left, right))
        merges.sort(key=lambda m: m[:4])
        model = models.BPE(vocab, [m[4:] for m in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=fallback)
    else:
        model = models.Unigram([(p, s) for p, s, _ in pieces], unk_id=proto.trainer_spec.unk_id, byte_fallback=fallback)
    made = Tokenizer(model)
    steps = [normalizers.Replace(" ", SPACE)]
    if proto.normalizer_spec.add_dummy_prefix:
        steps.insert(0, normalizers.Prepend(SPACE))
    made.normalizer = normalizers.Sequence(steps)
    made.add_tokens([AddedToken(p, normalized=True) for p, _, t in pieces if t == USER_DEFINED])
    made.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    return made


def compare(name, proto, kind, ids):
    """Hugging Face's library must agree where both do the same by design. It differs on texts with user-defined tokens: it also adds a
    space after them, and unigram scores them. It also differs on names of other models' tokens, which are ordinary pieces to its
    models."""
    other, compared, differ = hugging_face(proto, kind), 0, []
    apart = [p.piece for p in proto.pieces if p.type not in (NORMAL, UNUSED)]
    for text, expected in zip(texts, ids):
        normal = SPACE * proto.normalizer_spec.add_dummy_prefix + text.replace(" ", SPACE)
        if any(piece in normal for piece in apart):
            continue
        compared += 1
        if other.encode(text).ids != expected:
            differ.append(text)
    print(f"{name}: {compared} texts compared with Hugging Face's", file=sys.stderr)
    assert not differ, (name, differ)


def random_ids(proto, rng, count):
    """Ids whose text does not depend on how a broken character is replaced."""
    usable = [i for i, p in enumerate(proto.pieces) if p.type in (NORMAL, CONTROL, USER_DEFINED)]
    euro = [next((i for i, p in enumerate(proto.pieces) if p.piece == f"<0x{b:02X}>"), None) for b in "\u20ac".encode()]
    ids = []
    while len(ids) < count:
        if euro[0] is not None and rng.random() < 0.1:
            ids += euro
        else:
            ids.append(rng.choice(usable))
    return ids


def record(name, vocabulary, kind, proto):
    processor = spm.SentencePieceProcessor(model_proto=proto.SerializeToString())
    ids = [processor.encode(t) for t in texts]
    if not proto.normalizer_spec.precompiled_charsmap and not proto.normalizer_spec.remove_extra_whitespaces:
        compare(name, proto, kind, ids)
    rng = random.Random(len(name))
    streams = [random_ids(proto, rng, n) for n in (1, 1, 1, 2, 2, 3, 4, 12)]
    return {
        "name": name, "vocabulary": vocabulary, "model": kind,
        "add_space_prefix": proto.normalizer_spec.add_dummy_prefix,
        "remove_extra_whitespaces": proto.normalizer_spec.remove_extra_whitespaces,
        "character_map": proto.normalizer_spec.precompiled_charsmap.hex(),
        "ids": ids,
        "broken_ids": [processor.encode(b) for b in broken],
        "decoded": [processor.decode(i) for i in ids],
        "streams": [{"ids": s, "text": processor.decode(s)} for s in streams],
    }


def main():
    # A small character map of its own: ligatures, letters to marks, something to nothing.
    rules = os.path.join(here, "rules.tsv.tmp")
    with open(rules, "w") as f:
        for source, target in [("\ufb01", "fi"), ("\u2460", "1"), ("\uff21", "A"), ("\uff22", "B"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "),
                               ("\n", " "), ("\r", ""), ("e\u0301", "\u00e9"), ("\u200b", ""), ("\u0001", ""), ("\ufdfa", "a b  c"), ("\u00bd", "1 2")]:
            f.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
    bpe = train("bpe", 560, normalization_rule_name="identity")
    uni = train("unigram", 520, normalization_rule_name="identity")
    across = train("bpe", 420, normalization_rule_name="identity", split_by_whitespace=False)
    mapped = train("unigram", 520, normalization_rule_tsv=rules)
    os.unlink(rules)
    vocabularies = {
        "bpe across spaces": tables(across),
        "bpe": tables(bpe), "bpe without bytes": tables(variant(bpe, True, False, bytes_too=False)),
        "unigram": tables(uni), "unigram without bytes": tables(variant(uni, True, False, bytes_too=False)),
    }
    character_map = mapped.normalizer_spec.precompiled_charsmap
    models_ = []
    for kind, proto, name in (("llama", bpe, "bpe"), ("t5", uni, "unigram")):
        for prefix in (True, False):
            for extra in (True, False):
                models_.append(record(f"{name}, prefix {prefix}, remove {extra}", name, kind, variant(proto, prefix, extra)))
        models_.append(record(f"{name} without bytes", f"{name} without bytes", kind, variant(proto, True, False, bytes_too=False)))
    models_.append(record("bpe across spaces", "bpe across spaces", "llama", variant(across, True, False)))
    with_map = variant(uni, True, True)
    with_map.normalizer_spec.precompiled_charsmap = character_map
    models_.append(record("unigram with a character map", "unigram", "t5", with_map))
    golden = {"texts": texts, "broken": [b.hex() for b in broken], "vocabularies": vocabularies, "models": models_}
    path = os.path.join(here, "sentencepiece_ids.json")
    with open(path, "w") as f:
        f.write(json.dumps(golden, separators=(",", ":")).replace("},{", "},\n{").replace("]],", "]],\n") + "\n")
    print(path, os.path.getsize(path), "bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
