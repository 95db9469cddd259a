"""Makes the golden files of this directory with Hugging Face's `tokenizers`, as the reference of the C++ code.

Usage: pip install tokenizers gguf && python make_goldens.py MODEL.gguf   (SmolLM2-135M-Instruct).
It writes smollm2_ids.json, pre_tokenizer_pieces.json, small_vocabulary.json beside itself.
"""
import json, os, sys
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from gguf import GGUFReader

here = os.path.dirname(os.path.abspath(__file__))

# -- Texts. Each is here for one reason; lists are kept short because ids of all of them are committed.
texts = {
    "empty": "",
    "one space": " ",
    "english": "The quick brown fox jumps over the lazy dog. It wasn't amused; neither were we!",
    "contractions": "I'm you're he'd she'll we've it's don't I'M YOU'RE HE'D 'tis o'clock rock'n'roll 's 't'd''ll",
    "long s contraction": "it'\u017f ok",
    "numbers": "3.14159 1,000,000 2024-11-21 0x1F 12345678901234567890 1st 2nd \u00bd \u2167 \u0663\u0664 x\u00b2",
    "code c++": "template <class T>\nstruct ring {\n  T* data_ = nullptr; // owned\n\tsize_t n{0};\n};\n#include <vector>\n",
    "code python": "def f(x: int) -> str:\n    if x % 2 == 0:\n        return f\"{x!r}\"\n\n    return '' # odd\n",
    "json": "{\"a\": [1, 2.5e-3, null, true], \"b\\n\": {\"c\": \"\\u00e9\"}}",
    "url": "https://example.org/a/b?c=d&e=f%20g#h mailto:a.b+c@d.co",
    "german": "Zw\u00f6lf Boxk\u00e4mpfer jagen Viktor quer \u00fcber den gro\u00dfen Sylter Deich.",
    "french": "Portez ce vieux whisky au juge blond qui fume. \u00ab\u202fO\u00f9\u202f? \u00bb L'\u00e9t\u00e9, \u00e7a va\u00a0!",
    "spanish": "\u00bfD\u00f3nde est\u00e1 el ni\u00f1o? \u00a1Aqu\u00ed!",
    "polish": "Za\u017c\u00f3\u0142\u0107 g\u0119\u015bl\u0105 ja\u017a\u0144.",
    "turkish": "I\u015f\u0131k \u0130stanbul'da s\u00f6nd\u00fc.",
    "russian": "\u0421\u044a\u0435\u0448\u044c \u0436\u0435 \u0435\u0449\u0451 \u044d\u0442\u0438\u0445 \u043c\u044f\u0433\u043a\u0438\u0445 \u0431\u0443\u043b\u043e\u043a.",
    "greek": "\u039e\u03b5\u03c3\u03ba\u03b5\u03c0\u03ac\u03b6\u03c9 \u03c4\u1f74\u03bd \u03c8\u03c5\u03c7\u03bf\u03c6\u03b8\u03cc\u03c1\u03b1.",
    "armenian georgian": "\u0532\u0561\u0580\u0587 \u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0",
    "hebrew": "\u05d0\u05d9\u05da \u05d1\u05dc\u05e9 \u05ea\u05e4\u05e1\u05d5 \u05d2\u05de\u05d3? \u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd",
    "arabic": "\u0627\u0644\u0633\u0644\u0627\u0645 \u0639\u0644\u064a\u0643\u0645\u060c \u0643\u064a\u0641 \u0627\u0644\u062d\u0627\u0644\u061f \u0627\u0644\u0652\u062d\u064e\u0645\u0652\u062f\u064f",
    "hindi": "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902 \u0932\u093f\u0916\u093e \u0939\u0941\u0906\u0964 \u0967\u0968\u0969",
    "thai": "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01 \u0e51\u0e52",
    "tamil": "\u0bb5\u0ba3\u0b95\u0bcd\u0b95\u0bae\u0bcd \u0b89\u0bb2\u0b95\u0bae\u0bcd",
    "chinese": "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u4eca\u5929\u662f2024\u5e7411\u670821\u65e5\u3002\u300c\u5f15\u53f7\u300d",
    "japanese": "\u3044\u308d\u306f\u306b\u307b\u3078\u3068\u3001\u30ab\u30bf\u30ab\u30ca\u3068\u6f22\u5b57\u3002\uff76\uff85\u3000\u5168\u89d2\u30fc",
    "korean": "\uc548\ub155\ud558\uc138\uc694, \uc138\uacc4! \u1112\u1161\u11ab",
    "mongolian separator": "\u182e\u180e\u1820 a\u180eb \u180e c",
    "emoji": "\U0001f600 \U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1eb\U0001f1f7 1\ufe0f\u20e3 \u2764\ufe0f\U0001f525",
    "combining marks": "e\u0301 a\u0308\u0301 Z\u0351\u036b\u0343a\u0322 n\u0303o \u0301alone",
    "astral letters": "\U0001d400\U0001d41b\U0001d7d8 \U00020000 \U00010400\U00010428",
    "spaces": "a  b   c    d     e                 f  ",
    "leading spaces": "   three\n    four\n        eight",
    "unicode spaces": "a\u00a0b\u2003c\u2009\u2009d\u3000e\u1680f\u2028g\u2029h\u0085i\u200bj\u202fk\u205fl",
    "tabs": "\ta\t\tb \t c\t \td\t",
    "newlines": "a\nb\n\nc\n\n\nd\n \n e \n\n",
    "crlf": "a\r\nb\r\n\r\nc\r\rd\n\r e \r\n",
    "space before newline": "a \nb  \n  c\t\n\td   \n\n\n   e",
    "punctuation": "!!! ?! ... -- --- /* */ // ## @@ $1 50% a=b a==b <= => :: ;; '' \"\" `` ~~ ^^ || && \\\\",
    "punctuation newline": "end.\n\nNext;\r\n(a)\n/path/\n",
    "camel case": "camelCase HTTPServer XMLHttpRequest iPhone \u00c9tatUnis aB ABc ABC abcD \u01c5ungla McDonald'S",
    "special tokens": "<|im_start|>system\nObey.<|im_end|>\n<|endoftext|><repo_name>x<|im_start|><|im_end|>",
    "broken special tokens": "<|im_start| > <|im_start <|im_<|im_end|>start|>|im_end|>",
    "control characters": "a\x00b\x01\x02\x03\x05\x07\x08c\x0b\x0cd\x1b[0m\x7fe",
    "characters without a token": "a\x04b \x06\x13\x14 x\x16\x1d\x05y \U00040000z\U0009ffff",
    "two-byte characters": "".join(map(chr, range(0x80, 0x180))),
    "edge code points": "\u07ff\u0800\ud7ff\ue000\ufffd\ufffe\uffff\U00010000\U0010ffff",
    "one long word": "Donaudampfschifffahrtselektrizit\u00e4tenhauptbetriebswerkbauunterbeamtengesellschaft",
    "repeated letters": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbb",
    "base64": "SGVsbG8sIFdvcmxkISBUaGlzIGlzIGJhc2U2NCBlbmNvZGVkIHRleHQu/+8=",
    "mixed scripts": "abc\u0430\u0431\u0432\u03b1\u03b2\u03b3\u05d0\u4e00\u3042\uac001\u06f1\u0967!",
}
# Long texts are made, not stored: the golden has a count and a hash of the ids.
repeats = [("a", 200_000), (" ", 50_000), ("ab", 50_000), ("\n", 20_000), ("1", 20_000), ("\u00e9", 20_000), ("Hello, world! ", 5_000), ("!?", 20_000)]

# -- The model's tokenizer: byte-level BPE after single digits, as its tokenizer.json has it.
def byte_level_tokenizer(tokens, merges):
    t = Tokenizer(models.BPE({x: i for i, x in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    return t

def fnv(ids):
    h = 0xCBF29CE484222325
    for i in ids:
        h = ((h ^ i) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return str(h)

def smollm2(path):
    r = GGUFReader(path)
    field = lambda k: r.fields["tokenizer.ggml." + k].contents()
    tokens, kinds, merges = field("tokens"), field("token_type"), field("merges")
    plain = byte_level_tokenizer(tokens, merges)            # no special tokens: a user's text
    special = byte_level_tokenizer(tokens, merges)
    special.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds) if k == 3])
    conversations = ["What is the capital of France?", "Write a haiku about the sea.", "Explain in one sentence what a mutex is.",
                     "List three fruits, comma separated.", "Translate 'good morning' into Spanish. What's 2 + 2?", " leading space\n", ""]
    head = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n<|im_start|>user\n"
    tail = "<|im_end|>\n<|im_start|>assistant\n"
    return {
        "texts": [{"name": n, "text": t, "ids": plain.encode(t).ids} for n, t in texts.items()],
        "repeats": [{"text": t, "times": n, "count": len(ids), "fnv": fnv(ids)} for t, n in repeats for ids in [plain.encode(t * n).ids]],
        "conversations": [{"head": head, "user": u, "tail": tail, "ids": special.encode(head + u + tail).ids} for u in conversations],
        "all special": {"text": texts["special tokens"], "ids": special.encode(texts["special tokens"]).ids},
    }

# -- Pre-tokenizers alone: the patterns of the models' tokenizer.json, run by the library they were made for.
gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
up, low = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
up_no_han, low_no_han = up[:-1] + r"&&[^\p{Han}]]", low[:-1] + r"&&[^\p{Han}]]"
lead, tail_, short = r"[^\r\n\p{L}\p{N}]?", r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
cased = r"\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}-\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}-\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}-\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}"
patterns = {
    "gpt-2": [gpt2],
    "smollm": [r"\p{N}", gpt2],
    "llama-bpe": [llama3],
    "qwen2": [llama3.replace("{1,3}", "")],
    "qwen35": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "deepseek-llm": [r"[\r\n]", r"\s?[" + cased + "]+", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "tekken": [lead + up + "*" + low + "+|" + lead + up + "+" + low + r"*|\p{N}" + tail_],
    "gpt-4o": [lead + up + "*" + low + "+" + short + "|" + lead + up + "+" + low + "*" + short + r"|\p{N}{1,3}" + tail_],
    "kimi-k2": [r"[\p{Han}]+|" + lead + up_no_han + "*" + low_no_han + "+" + short + "|" + lead + up_no_han + "+" + low_no_han + "*" + short
                + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", gpt2, r"[0-9][0-9][0-9]"],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", gpt2, r"\p{N}+", r"[0-9][0-9][0-9]"],
}
def pieces():
    out = {}
    for name, steps in patterns.items():
        p = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(s), "isolated") for s in steps])
        # Ends of the pieces in bytes: shorter than the pieces themselves, and just as exact.
        out[name] = []
        for t in texts.values():
            ends, n = [], 0
            for piece, _ in (p.pre_tokenize_str(t) if t else []):
                n += len(piece.encode())
                ends.append(n)
            assert n == len(t.encode()), (name, t)
            out[name].append(ends)
    return {"texts": list(texts.values()), "ends": out}

# -- A small vocabulary with all bytes, trained on the texts, so that encoding is tested without a model file.
def small():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.train_from_iterator(list(texts.values()) * 2, trainers.BpeTrainer(vocab_size=400, min_frequency=2, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    model = json.loads(t.to_str())["model"]
    tokens = [x for x, _ in sorted(model["vocab"].items(), key=lambda kv: kv[1])]
    merges = [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]
    extra = ["<|begin|>", "<|end|>", "<|end|>x", "<tool_call>", "\t\t", "<unk>"]
    kinds = [1] * len(tokens) + [3, 3, 3, 4, 4, 2]
    plain = Tokenizer(models.BPE({x: i for i, x in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.add_tokens([AddedToken("\t\t", normalized=False)])
    remap = {plain.token_to_id("\t\t"): len(tokens) + 4}
    cases = [{"text": x, "ids": [remap.get(i, i) for i in plain.encode(x).ids]} for x in texts.values()]
    return {"tokens": tokens + extra, "kinds": kinds, "merges": merges, "cases": cases}

def write(name, value):
    with open(os.path.join(here, name), "w") as f:
        # One line an entry keeps differences readable.
        f.write(json.dumps(value, separators=(",", ":")).replace("},{", "},\n{").replace("]],", "]],\n") + "\n")

write("smollm2_ids.json", smollm2(sys.argv[1]))
write("pre_tokenizer_pieces.json", pieces())
write("small_vocabulary.json", small())
