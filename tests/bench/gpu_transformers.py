"""transformers on the same model and device, in its fastest documented setup: static cache, compiled forward.

PYTHON has torch and transformers (pip install torch==2.11.0 transformers==4.57.6); `gpu.py --shape 8b --write DIR` writes DIR.
Prints one JSON object: tokens/s of all sequences, without prompt and compilation. This is also the measurement of
`gpu_bench --batches BATCH --position PROMPT --steps STEPS`. --continuous uses its continuous batching (generate_batch) instead.
Continuous batching reads the prompts itself, so its row includes them. The matching row of gpu_bench is
`decode batch BATCH with its prompts`.

    PYTHON tests/bench/gpu_transformers.py --model DIR [--device cuda:0] [--dtype bfloat16] [--batch 1] [--prompt 128] [--steps 512] [--no-compile]
    PYTHON tests/bench/gpu_transformers.py --model DIR --continuous --batch 256 ...
"""
import argparse
import json
import sys
import time

if not {"-h", "--help"} & set(sys.argv):
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig, StaticCache


def continuous(model, options):
    """Tokens/s of greedy sequences that all come at once, with a cache that holds all of them and no end token."""
    block = 32  # positions
    how = GenerationConfig(max_new_tokens=options.steps, do_sample=False, eos_token_id=-1, pad_token_id=0, block_size=block,
                           num_blocks=options.batch * ((options.prompt + options.steps) // block + 2), max_batch_tokens=max(512, options.batch))
    how.use_cuda_graph = options.device.startswith("cuda") and not options.no_compile
    prompts = torch.randint(2, model.config.vocab_size, (options.batch, options.prompt)).tolist()
    best = 0
    for round_number in range(options.rounds + 1):  # the first one warms up
        begin = time.perf_counter()
        made = model.generate_batch(prompts, generation_config=how, progress_bar=False)
        took = time.perf_counter() - begin
        tokens = sum(len(one.generated_tokens) for one in made.values())
        if tokens != options.batch * options.steps:
            raise SystemExit(f"transformers made {tokens} tokens of {options.batch * options.steps}")
        if round_number > 0:
            best = max(best, tokens / took)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="bfloat16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--steps", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--continuous", action="store_true")
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    torch.manual_seed(1)
    ways = {"attn_implementation": "sdpa_paged"} if options.continuous else {}
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=dtype, **ways).to(options.device).eval()
    if options.continuous:
        row = f"transformers, continuous batching of {options.batch} with their prompts"
        print(json.dumps({"row": row, "value": continuous(model, options), "unit": "tokens/s"}))
        return
    forward = model.forward if options.no_compile else torch.compile(model.forward, mode="reduce-overhead", fullgraph=True)
    wait = torch.cuda.synchronize if options.device.startswith("cuda") else lambda: None
    best = 0
    with torch.inference_mode():
        cache = StaticCache(config=model.config, max_cache_len=options.prompt + options.steps)
        for round_number in range(options.rounds + 1):  # the first one compiles
            cache.reset()
            ids = torch.randint(model.config.vocab_size, (options.batch, options.prompt), device=options.device)
            at = torch.arange(options.prompt, device=options.device)
            logits = model(input_ids=ids, past_key_values=cache, cache_position=at, use_cache=True, logits_to_keep=1).logits
            token = logits[:, -1:].argmax(-1)
            wait()
            begin = time.perf_counter()
            for step in range(options.steps):
                at = torch.tensor([options.prompt + step], device=options.device)
                token = forward(input_ids=token, past_key_values=cache, cache_position=at, use_cache=True).logits[:, -1:].argmax(-1).clone()
            wait()
            took = time.perf_counter() - begin
            if round_number > 0:
                best = max(best, options.batch * options.steps / took)
    print(json.dumps({"row": f"transformers, decode batch {options.batch}", "value": best, "unit": "tokens/s"}))


if __name__ == "__main__":
    main()
