#include "cluster/import/launch_options.hpp"
#include "schema/ids.hpp"

namespace baton::cluster::start_line {
namespace {

constexpr std::string_view one_pass = "a step has model.max_num_batched_tokens rows";
constexpr std::string_view samplers = "samplers have one order";
constexpr std::string_view unsampled = "NO SUCH SAMPLER IS HERE";
constexpr std::string_view llama_cores =
    "model.threads_per_shard sets how many, and [[nodes]] which: \"cpu:0-3\"";
constexpr std::string_view page = "the page at / is this server's own";
constexpr std::string_view no_tools = "the server runs no tools";
constexpr std::string_view one_model = "[[models]] tables name the models that are served";
constexpr std::string_view slots =
    "sequences have no slots: blocks of KV go to the sequences that need them";
constexpr std::string_view presets = "GIVE THE MODEL'S FILE: --model";
constexpr std::string_view gpu_layers = "[[nodes]] names devices; a shard's layers are on one";

constexpr option llama_options[] = {
    {"-m --model", kind::model},
    {"--models-dir", kind::directory, "model.models_dir"},
    {"--models-max", kind::loaded, "cluster.max_loaded_models", 1, pipelines_max},
    {"--sleep-idle-seconds", kind::sleep, "model.idle_timeout", 1, 30 * 86'400},
    {"-a --alias", kind::names},
    {"--host", kind::host},
    {"--port", kind::port},
    {"--api-key", kind::key},
    {"--api-key-file", kind::key},
    {"--ssl-cert-file", kind::text, "gateway.tls_certificate"},
    {"--ssl-key-file", kind::text, "gateway.tls_key"},
    {"-c --ctx-size", kind::unless, "model.max_model_len", 16, 1 << 24},
    {"-np --parallel --n-parallel", kind::unless, "model.max_num_seqs", 1, 16'384},
    {"-t --threads", kind::unless, "model.threads_per_shard", 1, 1024},
    {"-ub --ubatch-size --ubatch", kind::number, "model.max_num_batched_tokens", 16, 8192},
    {"-n --predict --n-predict", kind::unless, "sampling.max_tokens", 1, 1 << 24},
    {"--temp --temperature", kind::real, "sampling.temperature"},
    {"--top-k", kind::number, "sampling.top_k", 0, 1 << 20},
    {"--top-p", kind::real, "sampling.top_p"},
    {"--min-p", kind::real, "sampling.min_p"},
    {"--repeat-penalty", kind::real, "sampling.repetition_penalty"},
    {"-ctk --cache-type-k", kind::choice, "model.kv_cache_dtype", 0, 0,
     "f32 f16 bf16=f16 q8_0 q4_0=q8_0 q4_1=q8_0 iq4_nl=q8_0 q5_0=q8_0 q5_1=q8_0"},
    {"-ctv --cache-type-v", kind::without_a_value, "values have the type of keys: --cache-type-k"},
    {"--pooling", kind::choice, "model.pooling", 0, 0, "mean cls last none= rank="},
    {"-sm --split-mode", kind::stages},
    {"--cache-prompt", kind::on, "model.enable_prefix_caching"},
    {"--no-cache-prompt", kind::off, "model.enable_prefix_caching"},
    {"--spec-draft-n-max --draft --draft-n --draft-max", kind::number,
     "model.num_speculative_tokens", 0, 16},
    {"-to --timeout", kind::number, "gateway.request_timeout", 1, 86'400},
    {"--threads-http", kind::unless, "gateway.threads", 1, 64},
    {"-fa --flash-attn -kvo --kv-offload -nkvo --no-kv-offload --op-offload --no-op-offload "
     "--repack -nr --no-repack --no-host --swa-full --perf --no-perf -bs --backend-sampling "
     "--check-tensors --warmup --no-warmup --spec-draft-backend-sampling "
     "--no-spec-draft-backend-sampling",
     kind::without, why::kernels},
    {"-cb --cont-batching", kind::without, why::always},
    {"-nocb --no-cont-batching", kind::without, "sequences always join and leave between steps"},
    {"--jinja --no-jinja --metrics --props --slots --no-slots", kind::without,
     "the model's template, /metrics and /cluster are always there"},
    {"-e --escape --no-escape -sp --special --spm-infill --prefill-assistant "
     "--no-prefill-assistant --skip-chat-parsing --no-skip-chat-parsing --reasoning-preserve "
     "--no-reasoning-preserve",
     kind::without, why::requests_set},
    {"-r --reverse-prompt --keep --grammar --grammar-file -j --json-schema -jf "
     "--json-schema-file -l --logit-bias -s --seed --chat-template-kwargs --reasoning-effort",
     kind::without_a_value, why::requests_set},
    {"--ignore-eos", kind::without, why::requests_set},
    {"--presence-penalty --frequency-penalty --typical --typical-p", kind::without_a_value,
     "REQUESTS SET IT: [model.sampling] has no such default"},
    {"--samplers --sampler-seq --sampling-seq --repeat-last-n", kind::without_a_value, samplers},
    {"--top-nsigma --top-n-sigma --xtc-probability --xtc-threshold --dry-multiplier --dry-base "
     "--dry-allowed-length --dry-penalty-last-n --dry-sequence-breaker --adaptive-target "
     "--adaptive-decay --dynatemp-range --dynatemp-exp --mirostat --mirostat-lr --mirostat-ent",
     kind::without_a_value, unsampled},
    {"-b --batch-size --batch", kind::without_a_value, one_pass},
    {"-tb --threads-batch -C --cpu-mask -Cr --cpu-range --cpu-strict --prio --poll -Cb "
     "--cpu-mask-batch -Crb --cpu-range-batch --cpu-strict-batch --prio-batch --poll-batch --numa",
     kind::without_a_value, llama_cores},
    {"-ngl --gpu-layers --n-gpu-layers", kind::gpu_layers},
    {"-dev --device -ts --tensor-split -mg --main-gpu -ot "
     "--override-tensor -ncmoe --n-cpu-moe --moe-cache-mib -ncffn --n-cpu-ffn",
     kind::without_a_value, gpu_layers},
    {"-cmoe --cpu-moe", kind::without, gpu_layers},
    {"-fit --fit -fitt --fit-target -fitc --fit-ctx -cram --cache-ram", kind::without_a_value,
     why::memory},
    {"--mlock --mmap --no-mmap -dio --direct-io --no-direct-io -ndio", kind::without,
     "weights are mapped from the file"},
    {"-lm --load-mode -lzm --lazy-mode", kind::without_a_value, "weights are mapped from the file"},
    {"--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx "
     "--yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast --override-kv "
     "--chat-template --chat-template-file -dt --defrag-thold",
     kind::without_a_value, why::from_file},
    {"-kvu --kv-unified -no-kvu --no-kv-unified --cache-idle-slots --no-cache-idle-slots "
     "--context-shift --no-context-shift",
     kind::without, slots},
    {"--kv-unified-per-slot -ctxcp --ctx-checkpoints --swa-checkpoints -cms "
     "--checkpoint-min-step --slot-save-path -sps --slot-prompt-similarity --cache-reuse",
     kind::without_a_value, slots},
    {"--rpc", kind::without_a_value, why::machines},
    {"--lora --lora-scaled --control-vector --control-vector-scaled", kind::without_a_value,
     why::adapters},
    {"--control-vector-layer-range", kind::without_values, why::adapters},
    {"--lora-init-without-apply", kind::without, why::adapters},
    {"-mu --model-url -dr --docker-repo -hf -hfr --hf-repo -hff --hf-file -hfv --hf-repo-v -hffv "
     "--hf-file-v -hft --hf-token",
     kind::without_a_value, why::not_downloaded},
    {"--offline", kind::without, why::not_downloaded},
    {"--embd-gemma-default --fim-qwen-1.5b-default --fim-qwen-3b-default --fim-qwen-7b-default "
     "--fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default --gpt-oss-20b-default "
     "--gpt-oss-120b-default --vision-gemma-4b-default --vision-gemma-12b-default",
     kind::without, presets},
    {"--log-disable -v --verbose --log-verbose --log-prefix --no-log-prefix --log-timestamps "
     "--no-log-timestamps --log-jsonl --no-log-jsonl",
     kind::without, why::logs},
    {"--log-file --log-colors -lv --verbosity --log-verbosity --log-prompts-dir",
     kind::without_a_value, why::logs},
    {"-lcs --lookup-cache-static -lcd --lookup-cache-dynamic --spec-draft-n-min --draft-min "
     "--draft-n-min --spec-type --spec-ngram-mod-n-min --spec-ngram-mod-n-max "
     "--spec-ngram-mod-n-match --spec-ngram-simple-size-n --spec-ngram-simple-size-m "
     "--spec-ngram-simple-min-hits --spec-ngram-map-k-size-n --spec-ngram-map-k-size-m "
     "--spec-ngram-map-k-min-hits --spec-ngram-map-k4v-size-n --spec-ngram-map-k4v-size-m "
     "--spec-ngram-map-k4v-min-hits --spec-ngram-size-n --spec-ngram-size-m "
     "--spec-ngram-min-hits --spec-synth-len --spec-synth-rates",
     kind::without_a_value,
     "draft tokens come from the text so far: model.prompt_lookup_max, prompt_lookup_min"},
    {"--spec-default", kind::without, "draft tokens come from the text so far, and are on"},
    {"-md --model-draft --spec-draft-model -hfd -hfrd --hf-repo-draft --spec-draft-hf -td "
     "--threads-draft --spec-draft-threads -tbd --threads-batch-draft "
     "--spec-draft-threads-batch -Cd --cpu-mask-draft --spec-draft-cpu-mask -Crd "
     "--cpu-range-draft --spec-draft-cpu-range --cpu-strict-draft --spec-draft-cpu-strict "
     "--prio-draft --spec-draft-prio --poll-draft --spec-draft-poll -Cbd --cpu-mask-batch-draft "
     "--spec-draft-cpu-mask-batch --cpu-strict-batch-draft --spec-draft-cpu-strict-batch "
     "--prio-batch-draft --spec-draft-prio-batch --poll-batch-draft --spec-draft-poll-batch -otd "
     "--override-tensor-draft --spec-draft-override-tensor --spec-draft-n-cpu-moe "
     "--spec-draft-ncmoe -ncmoed --n-cpu-moe-draft --draft-p-split --spec-draft-p-split "
     "--draft-p-min --spec-draft-p-min --spec-draft-sampling -devd --device-draft "
     "--spec-draft-device -ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl -ctkd "
     "--cache-type-k-draft --spec-draft-type-k -ctvd --cache-type-v-draft --spec-draft-type-v -cd "
     "--ctx-size-draft",
     kind::without_a_value, why::no_draft},
    {"-cmoed --cpu-moe-draft --spec-draft-cpu-moe", kind::without, why::no_draft},
    {"-mm --mmproj -mmu --mmproj-url -mmdev --mmproj-device --image-min-tokens "
     "--image-max-tokens --mtmd-batch-max-tokens --video-fps --video-timestamp-interval "
     "--video-ffmpeg-dir --media-path",
     kind::without_a_value, why::text_only},
    {"--mmproj-auto --no-mmproj --no-mmproj-auto --mmproj-offload --no-mmproj-offload",
     kind::without, why::text_only},
    {"--embedding --embeddings", kind::without, "/v1/embeddings is always available"},
    {"--rerank --reranking", kind::without, "NO ROUTE RANKS TEXTS"},
    {"--embd-normalize", kind::without_a_value, "embeddings have the length 1"},
    {"--tags", kind::without_a_value, "models have names alone"},
    {"--path --api-prefix", kind::without_a_value, "routes begin at /"},
    {"--ui-config --webui-config --ui-config-file --webui-config-file", kind::without_a_value,
     page},
    {"--ui --webui --no-ui --no-webui --ui-mcp-proxy --webui-mcp-proxy --no-ui-mcp-proxy "
     "--no-webui-mcp-proxy",
     kind::without, page},
    {"--tools --tools-runtime --mcp-servers-config --mcp-servers-json", kind::without_a_value,
     no_tools},
    {"-ag --agent -no-ag --no-agent", kind::without, no_tools},
    {"--cors-origins --cors-methods --cors-headers", kind::without_a_value, why::other_pages},
    {"--cors-credentials --no-cors-credentials", kind::without, why::other_pages},
    {"--reuse-port", kind::without, "gateway.processes share the port"},
    {"--sse-ping-interval", kind::without_a_value, "an idle stream stays open"},
    {"--models-preset", kind::without_a_value, one_model},
    {"--models-autoload", kind::without, "the first request always loads its model"},
    {"--no-models-autoload", kind::without, "THE FIRST REQUEST ALWAYS LOADS ITS MODEL"},
    {"--reasoning-format -rea --reasoning --reasoning-budget --reasoning-budget-message",
     kind::without_a_value, why::thoughts},
};

} // namespace

const dialect llama{.name = "llama.cpp",
                    .host = "127.0.0.1",
                    .port = "8080",
                    .variables = "LLAMA_ARG_",
                    .accepts_prefixes = false,
                    .options = llama_options};

} // namespace baton::cluster::start_line
