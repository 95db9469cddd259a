"""Writes checkpoint/ beside this script: a whole model directory as a user of transformers has it. It has config, tokenizer with chat
template, generation config and weights, all tiny and random; checkpoint.json has its answers. Run it by hand in the venv of
make_family_goldens.py; the results are committed.

The answers come from transformers' own generate() in float32, for prompts through its own chat template. The seed is the first one for
which the best token is never close to the second, so that the order of sums does not decide.
"""
import json
import pathlib
import shutil

import torch
import transformers as hf
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent
MARGIN, CONTINUATION, DISTINCT = 0.03, 10, 5
LINES = ["The quick brown fox jumps over the lazy dog.", "one two three four five six seven eight nine ten", "what is the answer to it all"]
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
PROMPTS = ["What is the answer?", "the fox\n\njumps 10 times"]


def tokenizer():
    made = Tokenizer(models.BPE())
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
               r"|\s+(?!\S)|\s+")
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(LINES * 3, trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    made.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE)


def model(seed, vocab):
    torch.manual_seed(seed)
    config = hf.Qwen3Config(
        vocab_size=vocab, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=16, max_position_embeddings=512, tie_word_embeddings=True, eos_token_id=vocab_id("<|im_end|>"), bos_token_id=None,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6}, initializer_range=0.4)
    made = hf.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    made.model.embed_tokens.weight[UNREADABLE] *= 0.01  # near zero is never the best
    return made.to(torch.bfloat16).to(torch.float32)


WORDS = tokenizer()
vocab_id = WORDS.convert_tokens_to_ids
UNREADABLE = [i for i in range(len(WORDS)) if i in WORDS.all_special_ids or not (WORDS.decode([i]).isascii() and WORDS.decode([i]).isprintable())]


def answer(made, prompt):
    ids = WORDS.apply_chat_template([{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=False)
    greedy, margin = [], float("inf")
    while len(greedy) < CONTINUATION:
        best = torch.topk(made(torch.tensor([ids + greedy]), use_cache=False).logits[0][-1], 2)
        greedy.append(int(best.indices[0]))
        margin = min(margin, float(best.values[0] - best.values[1]))
        if margin < MARGIN:
            return None
    text = WORDS.decode(greedy, skip_special_tokens=True)
    if len(set(greedy)) < DISTINCT or text != text.strip():
        return None
    return dict(prompt=prompt, prompt_ids=ids, ids=greedy, text=text)


torch.set_grad_enabled(False)
for seed in range(1, 5000):
    made = model(seed, len(WORDS))
    answers = []
    for prompt in PROMPTS:
        found = answer(made, prompt)
        if not found:
            break
        answers.append(found)
    if len(answers) == len(PROMPTS):
        break
else:
    raise SystemExit("no seed gives clear answers")
path = HERE / "checkpoint"
shutil.rmtree(path, ignore_errors=True)
made.generation_config = hf.GenerationConfig(eos_token_id=[vocab_id("<|im_end|>"), vocab_id("<|endoftext|>")])
made.to(torch.bfloat16).save_pretrained(path)
WORDS.save_pretrained(path)
(HERE / "checkpoint.json").write_text(json.dumps(answers).replace("}, {", "},\n{") + "\n")
print("seed", seed, {file.name: file.stat().st_size for file in path.iterdir()})
for each in answers:
    print(repr(each["text"]))
