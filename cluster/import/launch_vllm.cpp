#include "cluster/config/config.hpp"
#include "cluster/import/launch_options.hpp"

namespace baton::cluster::start_line {
namespace {

constexpr std::string_view vllm_dtypes = "auto half=float16 float16 bfloat16 float=float32 float32";

constexpr option vllm_options[] = {
    {"--model", kind::model},
    {"--served-model-name", kind::name},
    {"--host", kind::host},
    {"--port", kind::port},
    {"--api-key", kind::key},
    {"--ssl-certfile", kind::text, "gateway.tls_certificate"},
    {"--ssl-keyfile", kind::text, "gateway.tls_key"},
    {"--api-server-count -asc", kind::number, "gateway.processes", 1, gateways_max},
    {"--dtype", kind::dtype, "model.dtype", 0, 0, vllm_dtypes},
    {"--max-model-len", kind::tokens, "model.max_model_len", 16, 1 << 24},
    {"--max-num-seqs", kind::number, "model.max_num_seqs", 1, 16'384},
    {"--max-num-batched-tokens", kind::tokens, "model.max_num_batched_tokens", 16, 8192},
    {"--max-num-queued-reqs", kind::number, "model.max_num_queued_reqs", 0, 1 << 20},
    {"--max-num-queued-tokens", kind::tokens, "model.max_num_queued_tokens", 1, 1u << 31},
    {"--tensor-parallel-size -tp", kind::number, "model.tensor_parallel_size", 1, 16},
    {"--pipeline-parallel-size -pp", kind::number, "model.pipeline_parallel_size", 1, 1024},
    {"--data-parallel-size -dp", kind::number, "model.replicas", 1, 64},
    {"--kv-cache-memory-bytes", kind::number, "model.kv_cache_bytes", 1 << 20, 1ull << 46},
    {"--kv-cache-dtype", kind::choice, "model.kv_cache_dtype", 0, 0,
     "auto float16=f16 bfloat16=f16 fp8=q8_0 fp8_e4m3=q8_0 fp8_e5m2=q8_0"},
    {"--swap-space", kind::gib, "model.swap_space", 0, 1 << 16},
    {"--scheduling-policy", kind::choice, "model.scheduling_policy", 0, 0, "fcfs priority"},
    {"--enable-prefix-caching", kind::on, "model.enable_prefix_caching"},
    {"--no-enable-prefix-caching", kind::off, "model.enable_prefix_caching"},
    {"--async-scheduling", kind::on, "model.async_scheduling"},
    {"--no-async-scheduling", kind::off, "model.async_scheduling"},
    {"--shutdown-timeout", kind::number, "cluster.shutdown_timeout", 0, 86'400},
    {"--speculative-config -sc", kind::speculative},
    {"--num-speculative-tokens --spec-tokens", kind::number, "model.num_speculative_tokens", 0, 16},
    {"--ngram-prompt-lookup-max", kind::number, "model.prompt_lookup_max", 1, 16},
    {"--ngram-prompt-lookup-min", kind::number, "model.prompt_lookup_min", 1, 16},
    {"--speculative-disable-by-batch-size", kind::number, "model.speculative_disable_by_batch_size",
     0, 16'384},
    {"--speculative-model --speculative-model-quantization --speculative-max-model-len "
     "--speculative-draft-tensor-parallel-size -spec-draft-tp --spec-decoding-acceptance-method "
     "--typical-acceptance-sampler-posterior-threshold "
     "--typical-acceptance-sampler-posterior-alpha --disable-logprobs-during-spec-decoding "
     "--spec-method --spec-model",
     kind::without_a_value, why::no_draft},
    {"--speculative-disable-mqa-scorer", kind::without, why::no_draft},
    {"--enforce-eager", kind::on, "model.enforce_eager"},
    {"--no-enforce-eager", kind::off, "model.enforce_eager"},
    {"--generation-config", kind::choice, "model.generation_config", 0, 0, "auto vllm=none"},
    {"--override-generation-config", kind::sampling},
    {"--otlp-traces-endpoint", kind::collector, "gateway.otlp_endpoint"},
    {"--collect-detailed-traces", kind::without_values, "spans cover all phases"},
    {"--uvicorn-log-level", kind::without_a_value, why::logs},
    {"--gpu-memory-utilization --gpu-memory-utilisation --device-memory-utilization "
     "--num-gpu-blocks-override",
     kind::without_a_value, why::gpu_memory},
    {"--block-size --prefix-caching-hash-algo --hash-block-size --prefix-match-unit "
     "--prefix-cache-retention-interval",
     kind::without_a_value,
     "blocks have 64 positions, and are found by all tokens before their end"},
    {"--enable-chunked-prefill", kind::without, why::always},
    {"--no-enable-chunked-prefill", kind::without,
     "prompts are computed in chunks of model.prefill_chunk"},
    {"--enable-auto-tool-choice", kind::without, why::always},
    {"--tool-call-parser", kind::without_a_value, why::calls},
    {"--tool-parser-plugin --tool-server --io-processor-plugin --logits-processor-pattern "
     "--worker-cls --worker-extension-cls --scheduler-cls --reasoning-parser-plugin "
     "--mm-processor-plugin --model-class-overrides",
     kind::without_a_value, why::no_hooks},
    {"--middleware --logits-processors", kind::without_values, why::no_hooks},
    {"--reasoning-parser --reasoning-config", kind::without_a_value, why::thoughts},
    {"--enable-reasoning", kind::without, why::thoughts},
    {"--exclude-tools-when-tool-choice-none", kind::without, why::always},
    {"--chat-template --tokenizer --tokenizer-mode --tokenizer-revision --load-format "
     "--config-format --hf-config-path --hf-overrides --rope-scaling --rope-theta --code-revision "
     "--runner --convert --task --model-impl --pooler-config --override-pooler-config "
     "--override-attention-dtype --model-loader-extra-config --safetensors-load-strategy "
     "--pt-load-map-location --chat-template-content-format --safetensors-prefetch-num-threads "
     "--safetensors-prefetch-block-size --diffusion-config -dc --engram-config",
     kind::without_a_value, why::from_file},
    {"--ignore-patterns", kind::without_values, why::from_file},
    {"--disable-sliding-window", kind::without, why::from_file},
    {"--default-chat-template-kwargs", kind::without_a_value,
     "REQUESTS SET IT: chat_template_kwargs"},
    {"--reasoning-effort-map --anthropic-disabled-thinking-effort", kind::without_a_value,
     "REQUESTS SET IT: reasoning_effort, in the words of the chat template"},
    {"--tool-strict-level", kind::without_a_value, "a function's own strict decides"},
    {"--sse-keep-alive-interval", kind::without_a_value,
     "a silent stream gets a comment every 15 s"},
    {"--trust-request-chat-template", kind::without, "the template is the model's own"},
    {"--quantization -q --quantization-param-path --quantization-config", kind::without_a_value,
     why::packed},
    {"--allow-deprecated-quantization", kind::without, why::packed},
    {"--revision --download-dir --hf-token", kind::without_a_value, why::not_downloaded},
    {"--trust-remote-code", kind::without, why::nothing_runs},
    {"--seed", kind::without_a_value, "requests have seeds of their own"},
    {"--max-logprobs --h11-max-incomplete-event-size --h11-max-header-count", kind::without_a_value,
     why::bounded},
    {"--logprobs-mode", kind::without_a_value, "log-probabilities have one form"},
    {"--return-tokens-as-token-ids", kind::without, "requests get texts and bytes of tokens"},
    {"--enable-prompt-tokens-details --enable-force-include-usage --enable-per-request-metrics",
     kind::without, "usage is as the request asks for it"},
    {"--enable-server-load-tracking", kind::without, "/load is always there"},
    {"--enable-request-id-headers", kind::without, "the answer's id names the request"},
    {"--enable-tokenizer-info-endpoint", kind::without, "there is no such route"},
    {"--disable-fastapi-docs --enable-offline-docs", kind::without,
     "/openapi.json is always there, and no page shows it"},
    {"--response-role", kind::without_a_value, "answers are the assistant's"},
    {"--disable-log-requests --enable-log-requests --no-enable-log-requests "
     "--disable-uvicorn-access-log --enable-log-outputs --no-enable-log-outputs "
     "--enable-log-deltas --no-enable-log-deltas",
     kind::without, "texts are never logged; gateway.access_log = false turns the rest off"},
    {"--max-log-len --disable-access-log-for-endpoints", kind::without_a_value, why::access_log},
    {"--disable-log-stats --aggregate-engine-logging --log-error-stack --use-tqdm-on-load "
     "--no-use-tqdm-on-load",
     kind::without, why::logs},
    {"--log-config-file --logging-config --show-hidden-metrics-for-version --jit-monitor-mode",
     kind::without_a_value, why::logs},
    {"--watchdog-config", kind::without_a_value, "shards are watched all the time"},
    {"--enable-logging-iteration-details --jit-monitor-verbose", kind::without, why::logs},
    {"--log-level", kind::choice, "cluster.log_level", 0, 0,
     "CRITICAL=error ERROR=error WARNING=warn INFO=info DEBUG=debug NOTSET=debug"},
    {"--kv-cache-metrics --cudagraph-metrics --enable-mfu-metrics --enable-layerwise-nvtx-tracing",
     kind::without, "/metrics has the numbers of docs/apis/vllm.md"},
    {"--kv-cache-metrics-sample --custom-histogram-buckets --per-request-spec-decode-metrics "
     "--profiler-config",
     kind::without_a_value, "/metrics has the numbers of docs/apis/vllm.md"},
    {"--allowed-origins --allowed-methods --allowed-headers", kind::without_a_value,
     why::other_pages},
    {"--allow-credentials", kind::without, why::other_pages},
    {"--root-path", kind::without_a_value, "routes begin at /: a proxy takes the prefix away"},
    {"--uds", kind::without_a_value, "THE SERVER LISTENS AT gateway.http, not at a socket's path"},
    {"--ssl-ca-certs --ssl-cert-reqs --ssl-ciphers", kind::without_a_value,
     "CLIENTS SHOW KEYS, not certificates"},
    {"--enable-ssl-refresh", kind::without, why::always},
    {"--disable-frontend-multiprocessing", kind::without, "the gateway is a process of its own"},
    {"--distributed-executor-backend --nnodes --node-rank -n -r --master-addr --master-port "
     "--data-parallel-rank -dpn --data-parallel-start-rank -dpr --data-parallel-size-local -dpl "
     "--data-parallel-address -dpa --data-parallel-rpc-port -dpp --data-parallel-backend -dpb "
     "--data-parallel-supervisor-port --dp-supervisor-probe-interval-s "
     "--dp-supervisor-probe-timeout-s --dp-supervisor-probe-failure-threshold "
     "--distributed-timeout-seconds --cpu-distributed-timeout-seconds --dp-sync-interval "
     "--elastic-ep-max-dp-size --fault-tolerance-config",
     kind::without_a_value, why::machines},
    {"--headless --data-parallel-hybrid-lb -dph --data-parallel-external-lb -dpe "
     "--ray-workers-use-nsight --worker-use-ray --engine-use-ray "
     "--data-parallel-multi-port-external-lb -dpm --enable-elastic-ep --enable-fault-tolerance",
     kind::without, why::machines},
    {"--decode-context-parallel-size -dcp --prefill-context-parallel-size -pcp "
     "--max-parallel-loading-workers --dcp-comm-backend --dcp-kv-cache-interleave-size "
     "--cp-kv-cache-interleave-size",
     kind::without_a_value, "a stage's ranks share heads, not positions"},
    {"--dcp-q-replicate --enable-hc-sp --enable-batch-sharded-sampling", kind::without,
     "a stage's ranks share heads, not positions"},
    {"--disable-custom-all-reduce --disable-nccl-for-dp-synchronization --disable-cascade-attn "
     "--no-disable-cascade-attn --use-v2-block-manager --disable-async-output-proc "
     "--enable-dbo --calculate-kv-scales --kv-sharing-fast-prefill "
     "--disable-hybrid-kv-cache-manager --no-disable-hybrid-kv-cache-manager "
     "--enable-flashinfer-autotune --monokernel --use-fp64-gumbel --enable-cumem-allocator "
     "--enable-nccl-comm-suspend --enable-shm-tensor-arena --swa-bounded-replay",
     kind::without, why::kernels},
    {"--compilation-config -O -cc --attention-backend --max-cudagraph-capture-size "
     "--max-seq-len-to-capture --dbo-decode-token-threshold --dbo-prefill-token-threshold "
     "--all2all-backend --optimization-level --performance-mode --attention-config -ac "
     "--kernel-config --moe-backend --linear-backend --gdn-prefill-backend --kda-prefill-backend "
     "--kda-decode-backend --sparse-indexer-topk-backend --ir-op-priority --ubatch-size",
     kind::without_a_value, why::kernels},
    {"--kv-cache-dtype-skip-layers", kind::without_values, "the KV cache has one type"},
    {"--cudagraph-capture-sizes --cuda-graph-sizes", kind::without_values, why::kernels},
    {"--enable-expert-parallel -ep --enable-eplb --eplb-log-balancedness --enable-ep-weight-filter",
     kind::without, why::no_experts},
    {"--eplb-config --expert-placement-strategy --num-redundant-experts --eplb-window-size "
     "--eplb-step-interval",
     kind::without_a_value, why::no_experts},
    {"--max-num-partial-prefills --max-long-partial-prefills --long-prefill-token-threshold "
     "--num-lookahead-slots --num-scheduler-steps --scheduler-delay-factor --preemption-mode "
     "--stream-interval --multi-step-stream-outputs --external-parameters "
     "--prefill-schedule-interval --watermark",
     kind::without_a_value, why::formed},
    {"--max-num-scheduled-tokens --max-num-active-seqs", kind::without_a_value,
     "model.max_num_batched_tokens and model.max_num_seqs bound a step"},
    {"--long-prefill-token-threshold-adaptive --scheduler-reserve-full-isl", kind::without,
     why::formed},
    {"--cpu-offload-gb --kv-offloading-size --kv-offloading-backend --mm-processor-cache-gb "
     "--offload-backend --offload-group-size --offload-num-in-group --offload-prefetch-step",
     kind::without_a_value, why::memory},
    {"--cpu-offload-params --offload-params", kind::without_values, why::memory},
    {"--kv-transfer-config --kv-events-config --ec-transfer-config --ec-manager-config",
     kind::without_a_value, why::whole},
    {"--tokens-only --enable-scale-out", kind::without, why::whole},
    {"--device-ids", kind::devices, "nodes.devices"},
    {"--device", kind::without_a_value, "[[nodes]] names devices"},
    {"--numa-bind", kind::without, "[[nodes]] names cores"},
    {"--numa-bind-nodes --numa-bind-cpus", kind::without_values, "[[nodes]] names cores"},
    {"--watermark-config", kind::without_a_value, "requests set it: TGI's watermark"},
    {"--weight-transfer-config --aux-output-config", kind::without_a_value, why::training},
    {"--enable-return-routed-experts --return-sampling-mask --enable-trace-replay", kind::without,
     why::training},
    {"--guided-decoding-backend --structured-outputs-config "
     "--guided-decoding-disable-additional-properties",
     kind::without_a_value, why::grammar},
    {"--guided-decoding-disable-fallback --guided-decoding-disable-any-whitespace", kind::without,
     why::grammar},
    {"--limit-mm-per-prompt --media-io-kwargs --mm-processor-kwargs --mm-processor-cache-type "
     "--mm-shm-cache-max-object-size-mb --mm-encoder-tp-mode --mm-encoder-attn-backend "
     "--video-pruning-rate --allowed-local-media-path --default-mm-loras --video-pruning-method "
     "--mm-hasher-algorithm --mm-encoder-attn-dtype --mm-encoder-fp8-scale-path "
     "--mm-encoder-fp8-scale-save-path --mm-encoder-fp8-scale-save-margin --mm-tensor-ipc "
     "--mm-processor-device --mm-ipc-gpu-memory-gb",
     kind::without_a_value, why::text_only},
    {"--allowed-media-domains", kind::without_values, why::text_only},
    {"--enable-mm-embeds --interleave-mm-strings --skip-mm-profiling "
     "--disable-mm-preprocessor-cache --disable-chunked-mm-input "
     "--enable-multimodal-encoder-data-parallel --language-model-only "
     "--enable-flash-late-interaction --no-enable-flash-late-interaction --mm-encoder-only "
     "--mm-device-do-normalize --trust-request-mm-kwargs",
     kind::without, why::text_only},
    {"--enable-prompt-embeds --skip-tokenizer-init", kind::without,
     "a prompt is a text or token ids"},
    {"--enable-sleep-mode --sleep-mode-offload-cudagraph", kind::without, "there is no such state"},
    {"--sleep-mode-backend", kind::without_a_value, "there is no such state"},
    {"--sleep-preserve-parameter-names", kind::without_values, "there is no such state"},
    {"--mamba-cache-dtype --mamba-ssm-cache-dtype --mamba-block-size --mamba-cache-mode "
     "--mamba-backend --mamba-ssu-algorithm --mamba-cache-philox-rounds --replayssm-buffer-len",
     kind::without_a_value, why::states},
    {"--enable-mamba-cache-stochastic-rounding --enable-mamba-shared-prefix-checkpoint "
     "--use-replayssm",
     kind::without, why::states},
    {"--enable-lora --no-enable-lora --enable-lora-bias --fully-sharded-loras "
     "--enable-prompt-adapter --enable-tower-connector-lora --specialize-active-lora "
     "--enable-mixed-moe-lora-format --enable-moe-shared-loras",
     kind::without, why::adapters},
    {"--max-loras --max-lora-rank --max-cpu-loras --lora-dtype --lora-extra-vocab-size "
     "--long-lora-scaling-factors --max-prompt-adapters --max-prompt-adapter-token "
     "--qlora-adapter-name-or-path --max-lora-cls-labels",
     kind::without_a_value, why::adapters},
    {"--lora-modules --prompt-adapters --lora-target-modules", kind::without_values, why::adapters},
    {"--tokenizer-pool-size --tokenizer-pool-type --tokenizer-pool-extra-config "
     "--renderer-num-workers",
     kind::without_a_value, "the head has one tokenizer"},
    {"--override-neuron-config --additional-config --fingerprint-mode --fingerprint-value "
     "--cohere-format",
     kind::without_a_value, "it is for devices and clients of that server alone"},
    {"--cohere-is-reasoning-model --no-cohere-is-reasoning-model", kind::without,
     "there is no route of Cohere's"},
    {"--config", kind::without_a_value, "GIVE THE FILE'S LINES AS OPTIONS: it is not read"},
    {"--grpc", kind::without, "gRPC is KServe's: gateway.kserve_grpc"},
    {"--grpc-port", kind::without_a_value, "gRPC is KServe's: gateway.kserve_grpc"},
    {"--fail-on-environ-validation", kind::without, "no variable of VLLM_ is read"},
};

} // namespace

const dialect vllm{.name = "vLLM",
                   .host = "",
                   .port = "8000",
                   .variables = "VLLM_",
                   .accepts_prefixes = true,
                   .options = vllm_options,
                   .has_negations = true};

} // namespace baton::cluster::start_line
