#include "cluster/import/launch_options.hpp"

namespace baton::cluster::start_line {
namespace {

constexpr std::string_view buckets = "histograms have buckets of their own";
constexpr std::string_view highest_first = "PRIORITIES ARE VLLM'S: lower numbers are served first";
constexpr std::string_view offload = "model.swap_space takes KV that has no room";

constexpr option sglang_options[] = {
    {"--model-path --model", kind::model},
    {"--served-model-name", kind::name},
    {"--host", kind::host},
    {"--port", kind::port},
    {"--api-key", kind::key},
    {"--admin-api-key", kind::key},
    {"--ssl-certfile", kind::text, "gateway.tls_certificate"},
    {"--ssl-keyfile", kind::text, "gateway.tls_key"},
    {"--dtype", kind::dtype, "model.dtype", 0, 0,
     "auto half=float16 float16 bfloat16 float=float32 float32"},
    {"--kv-cache-dtype", kind::choice, "model.kv_cache_dtype", 0, 0,
     "auto bf16=f16 bfloat16=f16 fp8_e5m2=q8_0 fp8_e4m3=q8_0 fp4_e2m1=q8_0"},
    {"--context-length", kind::tokens, "model.max_model_len", 16, 1 << 24},
    {"--max-running-requests", kind::number, "model.max_num_seqs", 1, 16'384},
    {"--max-queued-requests", kind::number, "model.max_num_queued_reqs", 0, 1 << 20},
    {"--chunked-prefill-size", kind::unless, "model.prefill_chunk", 16, 8192},
    {"--max-prefill-tokens", kind::tokens, "model.max_num_batched_tokens", 16, 8192},
    {"--tensor-parallel-size --tp-size --tp", kind::number, "model.tensor_parallel_size", 1, 16},
    {"--pipeline-parallel-size --pp-size --pp", kind::number, "model.pipeline_parallel_size", 1,
     1024},
    {"--data-parallel-size --dp-size --dp", kind::number, "model.replicas", 1, 64},
    {"--disable-radix-cache", kind::off, "model.enable_prefix_caching"},
    {"--disable-overlap-schedule", kind::off, "model.async_scheduling"},
    {"--disable-cuda-graph", kind::on, "model.enforce_eager"},
    {"--speculative-num-draft-tokens", kind::number, "model.num_speculative_tokens", 0, 16},
    {"--sampling-defaults", kind::choice, "model.generation_config", 0, 0,
     "model=auto openai=none"},
    {"--log-level", kind::choice, "cluster.log_level", 0, 0,
     "debug info warning=warn error critical=error"},
    {"--otlp-traces-endpoint", kind::collector, "gateway.otlp_endpoint"},
    {"--enable-trace", kind::without, "gateway.otlp_endpoint turns traces on"},
    {"--enable-metrics --enable-metrics-for-all-schedulers --enable-mfu-metrics "
     "--collect-tokens-histogram",
     kind::without, why::metrics},
    {"--tokenizer-metrics-custom-labels-header", kind::without_a_value, buckets},
    {"--bucket-time-to-first-token --bucket-inter-token-latency --bucket-e2e-request-latency "
     "--prompt-tokens-buckets --generation-tokens-buckets "
     "--tokenizer-metrics-allowed-custom-labels --prefill-delayer-forward-passes-buckets "
     "--prefill-delayer-wait-seconds-buckets",
     kind::without_values, buckets},
    {"--mem-fraction-static --max-total-tokens --page-size --swa-full-tokens-ratio "
     "--num-reserved-decode-tokens",
     kind::without_a_value, why::gpu_memory},
    {"--schedule-policy --schedule-conservativeness --prefill-max-requests "
     "--pp-max-micro-batch-size --pp-async-batch-depth --stream-interval "
     "--num-continuous-decode-steps --scheduler-recv-interval "
     "--prefill-delayer-max-delay-passes --prefill-delayer-token-usage-low-watermark "
     "--prefill-delayer-queue-min-ratio --prefill-delayer-max-delay-ms --radix-eviction-policy",
     kind::without_a_value, why::formed},
    {"--enable-mixed-chunk --enable-dynamic-chunking --enable-prefill-delayer "
     "--enable-two-batch-overlap --enable-single-batch-overlap --enable-dynamic-batch-tokenizer "
     "--disable-hybrid-swa-memory --disable-chunked-prefix-cache",
     kind::without, why::formed},
    {"--enable-priority-scheduling --schedule-low-priority-values-first "
     "--abort-on-priority-when-disabled",
     kind::without, highest_first},
    {"--priority-scheduling-preemption-threshold", kind::without_a_value, highest_first},
    {"--tokenizer-path --tokenizer-mode --load-format --model-loader-extra-config --model-impl "
     "--chat-template --hf-chat-template-name --completion-template "
     "--json-model-override-args --model-checksum --weight-version",
     kind::without_a_value, why::from_file},
    {"--preferred-sampling-params", kind::without_a_value, "THE TABLE [model.sampling] SETS IT"},
    {"--tokenizer-worker-num --dynamic-batch-tokenizer-batch-size "
     "--dynamic-batch-tokenizer-batch-timeout",
     kind::without_a_value, "the head has one tokenizer"},
    {"--skip-tokenizer-init --enable-tokenizer-batch-encode --disable-tokenizer-batch-decode",
     kind::without, "the head has one tokenizer"},
    {"--trust-remote-code", kind::without, why::nothing_runs},
    {"--enable-custom-logit-processor", kind::without, why::no_hooks},
    {"--custom-sigquit-handler --forward-hooks --tool-server", kind::without_a_value,
     why::no_hooks},
    {"--custom-weight-loader", kind::without_values, why::no_hooks},
    {"--is-embedding", kind::without, "/v1/embeddings is always available"},
    {"--revision --download-dir", kind::without_a_value, why::not_downloaded},
    {"--fastapi-root-path", kind::without_a_value,
     "routes begin at /: a proxy takes the prefix away"},
    {"--grpc-mode", kind::without, "gRPC is KServe's: gateway.kserve_grpc"},
    {"--skip-server-warmup --checkpoint-engine-wait-weights-before-ready --sleep-on-idle "
     "--delete-ckpt-after-loading",
     kind::without, why::start_up},
    {"--warmups --nccl-port --watchdog-timeout --soft-watchdog-timeout --dist-timeout "
     "--gc-warning-threshold-secs",
     kind::without_a_value, why::start_up},
    {"--numa-node", kind::without_values, why::start_up},
    {"--quantization --quantization-param-path --modelopt-quant "
     "--modelopt-checkpoint-restore-path --modelopt-checkpoint-save-path --modelopt-export-path "
     "--rl-quant-profile --torchao-config",
     kind::without_a_value, why::packed},
    {"--quantize-and-serve --enable-quant-communications --enable-fp32-lm-head", kind::without,
     why::packed},
    {"--device --base-gpu-id --gpu-id-step", kind::without_a_value, "[[nodes]] names devices"},
    {"--random-seed", kind::without_a_value, "requests have seeds of their own"},
    {"--incremental-streaming-output", kind::without, why::always},
    {"--constrained-json-whitespace-pattern --grammar-backend", kind::without_a_value,
     why::grammar},
    {"--constrained-json-disable-any-whitespace --disable-outlines-disk-cache", kind::without,
     why::grammar},
    {"--log-level-http --log-requests-level --log-requests-format --crash-dump-folder "
     "--decode-log-interval --export-metrics-to-file-dir",
     kind::without_a_value, why::logs},
    {"--log-requests-target --uvicorn-access-log-exclude-prefixes", kind::without_values,
     why::logs},
    {"--log-requests --show-time-cost --enable-request-time-stats-logging "
     "--export-metrics-to-file",
     kind::without, "texts are never logged"},
    {"--file-storage-path", kind::without_a_value, "there are no routes of files"},
    {"--enable-cache-report", kind::without, "usage is as the request asks for it"},
    {"--tool-call-parser", kind::without_a_value,
     "the chat template defines how a model calls tools"},
    {"--reasoning-parser", kind::without_a_value, why::thoughts},
    {"--load-balance-method", kind::without_a_value, "the head shares requests out among replicas"},
    {"--dist-init-addr --nccl-init-addr --nnodes --node-rank", kind::without_a_value,
     why::machines},
    {"--enable-lora --enable-lora-overlap-loading", kind::without, why::adapters},
    {"--max-lora-rank --max-loras-per-batch --max-loaded-loras --lora-eviction-policy "
     "--lora-backend --max-lora-chunk-size --lora-drain-wait-threshold",
     kind::without_a_value, why::adapters},
    {"--lora-target-modules --lora-paths", kind::without_values, why::adapters},
    {"--attention-backend --prefill-attention-backend --decode-attention-backend "
     "--sampling-backend --mm-attention-backend --dsa-prefill-backend --dsa-decode-backend "
     "--nsa-prefill-backend --nsa-decode-backend --fp8-gemm-backend --fp4-gemm-backend "
     "--attention-context-parallel-size --attn-cp-size --cuda-graph-max-bs "
     "--tbo-token-distribution-threshold --piecewise-cuda-graph-compiler "
     "--piecewise-cuda-graph-max-tokens --torch-compile-max-bs --triton-attention-num-kv-splits "
     "--triton-attention-split-tile-size --dsa-prefill-cp-mode --nsa-prefill-cp-mode "
     "--rl-on-policy-target",
     kind::without_a_value, why::kernels},
    {"--cuda-graph-bs --piecewise-cuda-graph-tokens", kind::without_values, why::kernels},
    {"--disable-flashinfer-autotune --disable-cuda-graph-padding --enable-profile-cuda-graph "
     "--enable-cudagraph-gc --enable-layerwise-nvtx-marker --enable-nccl-nvls --enable-symm-mem "
     "--disable-custom-all-reduce --enable-mscclpp --enable-torch-symm-mem --enable-dp-attention "
     "--enable-dp-lm-head --enable-torch-compile --enable-torch-compile-debug-mode "
     "--disable-piecewise-cuda-graph --enforce-piecewise-cuda-graph --enable-p2p-check "
     "--triton-attention-reduce-in-fp32 --flashinfer-mla-disable-ragged "
     "--enable-deterministic-inference --enable-attn-tp-input-scattered "
     "--enable-dsa-prefill-context-parallel --enable-nsa-prefill-context-parallel "
     "--enable-fused-qk-norm-rope --enable-flashinfer-allreduce-fusion "
     "--enable-aiter-allreduce-fusion --enable-nan-detection",
     kind::without, why::kernels},
    {"--speculative-algorithm --speculative-draft-model-path --speculative-draft-model "
     "--speculative-draft-model-revision --speculative-draft-load-format --speculative-num-steps "
     "--speculative-eagle-topk --speculative-accept-threshold-single "
     "--speculative-accept-threshold-acc --speculative-token-map --speculative-attention-mode "
     "--speculative-draft-attention-backend --speculative-moe-runner-backend "
     "--speculative-moe-a2a-backend --speculative-draft-model-quantization "
     "--speculative-ngram-min-bfs-breadth --speculative-ngram-max-bfs-breadth "
     "--speculative-ngram-match-type --speculative-ngram-max-trie-depth "
     "--speculative-ngram-capacity",
     kind::without_a_value, why::no_draft},
    {"--enable-multi-layer-eagle", kind::without, why::no_draft},
    {"--expert-parallel-size --ep-size --ep --moe-a2a-backend --moe-runner-backend "
     "--moe-data-parallel-size --moe-dp-size --flashinfer-mxfp4-moe-precision --deepep-mode "
     "--deepep-dispatcher-output-dtype --ep-num-redundant-experts --ep-dispatch-algorithm "
     "--init-expert-location --eplb-algorithm --eplb-rebalance-num-iterations "
     "--eplb-rebalance-layers-per-chunk --eplb-min-rebalancing-utilization-threshold "
     "--expert-distribution-recorder-mode --expert-distribution-recorder-buffer-size "
     "--deepep-config --moe-dense-tp-size --elastic-ep-backend --mooncake-ib-device "
     "--kt-weight-path --kt-method --kt-cpuinfer --kt-threadpool-count --kt-num-gpu-experts "
     "--kt-max-deferred-experts-per-token",
     kind::without_a_value, why::no_experts},
    {"--enable-eplb --enable-fused-grouped-gemm-combine --enable-expert-distribution-metrics "
     "--enable-elastic-expert-backup --enable-deepep-waterfill --elastic-ep-rejoin "
     "--disable-shared-experts-fusion --disable-flashinfer-cutlass-moe-fp4-allgather "
     "--enable-return-routed-experts",
     kind::without, why::no_experts},
    {"--max-mamba-cache-size --mamba-ssm-dtype --mamba-full-memory-ratio "
     "--mamba-scheduler-strategy --mamba-track-interval",
     kind::without_a_value, why::states},
    {"--hicache-ratio --hicache-size --hicache-write-policy --hicache-io-backend "
     "--hicache-mem-layout --hicache-storage-backend --hicache-storage-prefetch-policy "
     "--hicache-storage-backend-extra-config --hierarchical-sparse-attention-extra-config",
     kind::without_a_value, offload},
    {"--enable-hierarchical-cache --enable-lmcache", kind::without, offload},
    {"--dllm-algorithm --dllm-algorithm-config", kind::without_a_value,
     "models write one token after the other"},
    {"--cpu-offload-gb --offload-group-size --offload-num-in-group --offload-prefetch-step "
     "--offload-mode",
     kind::without_a_value, why::memory},
    {"--enable-memory-saver --enable-weights-cpu-backup --enable-draft-weights-cpu-backup",
     kind::without, why::memory},
    {"--multi-item-scoring-delimiter", kind::without_a_value, "NO ROUTE RANKS TEXTS"},
    {"--allow-auto-truncate", kind::without, "REQUESTS SET IT: truncate_prompt_tokens"},
    {"--enable-return-hidden-states", kind::without, "no route gives hidden states"},
    {"--disable-fast-image-processor --keep-mm-feature-on-device --enable-multimodal "
     "--enable-precise-embedding-interpolation --encoder-only --language-only",
     kind::without, why::text_only},
    {"--encoder-transfer-backend", kind::without_a_value, why::text_only},
    {"--encoder-urls", kind::without_values, why::text_only},
    {"--debug-tensor-dump-output-folder --debug-tensor-dump-input-file --debug-tensor-dump-inject",
     kind::without_a_value, why::debugging},
    {"--debug-tensor-dump-layers", kind::without_values, why::debugging},
    {"--disaggregation-mode --disaggregation-transfer-backend --disaggregation-bootstrap-port "
     "--disaggregation-ib-device --disaggregation-decode-polling-interval --kv-events-config",
     kind::without_a_value, why::whole},
    {"--disaggregation-decode-enable-offload-kvcache", kind::without, why::whole},
    {"--weight-loader-prefetch-num-threads --remote-instance-weight-loader-seed-instance-ip "
     "--remote-instance-weight-loader-seed-instance-service-port "
     "--remote-instance-weight-loader-send-weights-group-ports "
     "--remote-instance-weight-loader-backend --decrypted-config-file "
     "--decrypted-draft-config-file",
     kind::without_a_value, "weights are mapped from the file"},
    {"--weight-loader-disable-mmap --weight-loader-prefetch-checkpoints "
     "--remote-instance-weight-loader-start-seed-via-transfer-engine",
     kind::without, "weights are mapped from the file"},
    {"--enable-pdmux", kind::without, why::whole},
    {"--pdmux-config-path --sm-group-num", kind::without_a_value, why::whole},
    {"--mm-max-concurrent-calls --mm-per-request-timeout --mm-process-config "
     "--limit-mm-data-per-request",
     kind::without_a_value, why::text_only},
    {"--enable-broadcast-mm-inputs-process --mm-enable-dp-encoder --enable-mm-global-cache "
     "--enable-prefix-mm-cache",
     kind::without, why::text_only},
    {"--msprobe-dump-config --load-watch-interval --hybrid-kvcache-ratio --nsa-prefill "
     "--nsa-decode --crash-on-nan",
     kind::without_a_value, why::debugging},
    {"--enable-ep-moe --enable-deepep-moe --prefill-round-robin-balance "
     "--enable-flashinfer-cutlass-moe --enable-flashinfer-cutedsl-moe "
     "--enable-flashinfer-trtllm-moe --enable-triton-kernel-moe --enable-flashinfer-mxfp4-moe",
     kind::without, why::no_experts},
    {"--config", kind::without_a_value, "GIVE THE FILE'S LINES AS OPTIONS: it is not read"},
};

} // namespace

const dialect sglang{.name = "SGLang",
                     .host = "127.0.0.1",
                     .port = "30000",
                     .variables = "-",
                     .accepts_prefixes = true,
                     .options = sglang_options};

} // namespace baton::cluster::start_line
