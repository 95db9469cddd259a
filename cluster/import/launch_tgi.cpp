#include "cluster/import/launch_options.hpp"

namespace baton::cluster::start_line {
namespace {

constexpr option tgi_options[] = {
    {"--model-id", kind::model},
    {"--served-model-name", kind::name},
    {"--hostname", kind::host},
    {"--port -p", kind::port},
    {"--api-key", kind::key},
    {"--prometheus-port", kind::metrics_port},
    {"--num-shard", kind::number, "model.tensor_parallel_size", 1, 16},
    {"--dtype", kind::dtype, "model.dtype", 0, 0, "float16 bfloat16"},
    {"--kv-cache-dtype", kind::choice, "model.kv_cache_dtype", 0, 0,
     "fp8_e4m3fn=q8_0 fp8_e5m2=q8_0"},
    {"--max-concurrent-requests", kind::number, "gateway.max_concurrent_requests", 1, 1 << 20},
    {"--max-total-tokens", kind::tokens, "model.max_model_len", 16, 1 << 24},
    {"--max-batch-prefill-tokens", kind::tokens, "model.max_num_batched_tokens", 16, 8192},
    {"--max-batch-size", kind::number, "model.max_num_seqs", 1, 16'384},
    {"--speculate", kind::number, "model.num_speculative_tokens", 0, 16},
    {"--graceful-termination-timeout -g", kind::number, "cluster.shutdown_timeout", 0, 86'400},
    {"--watermark-gamma", kind::real, "gateway.watermark_gamma"},
    {"--watermark-delta", kind::real, "gateway.watermark_delta"},
    {"--otlp-endpoint", kind::collector, "gateway.otlp_endpoint"},
    {"--otlp-service-name", kind::without_a_value, "the service's name in traces is baton"},
    {"--max-input-tokens --max-input-length", kind::without_a_value,
     "a prompt may be as long as model.max_model_len"},
    {"--max-batch-total-tokens", kind::tokens, "model.max_batch_total_tokens", 16, 1ull << 40},
    {"--max-waiting-tokens --waiting-served-ratio", kind::without_a_value,
     "prompts are computed beside answers"},
    {"--cuda-memory-fraction", kind::without_a_value, why::gpu_memory},
    {"--cuda-graphs", kind::without_a_value,
     "sizes are chosen; model.enforce_eager turns them off"},
    {"--disable-custom-kernels", kind::without, why::kernels},
    {"--sharded", kind::without_a_value, "--num-shard sets it"},
    {"--shard-uds-path", kind::without_a_value, "sockets are in the run directory"},
    {"--master-addr --master-port", kind::without_a_value, why::machines},
    {"--quantize", kind::without_a_value, why::packed},
    {"--rope-scaling --rope-factor --tokenizer-config-path", kind::without_a_value, why::from_file},
    {"--revision --huggingface-hub-cache --weights-cache-override", kind::without_a_value,
     why::not_downloaded},
    {"--trust-remote-code", kind::without, why::nothing_runs},
    {"--max-best-of --max-stop-sequences --max-top-n-tokens --max-client-batch-size "
     "--payload-limit",
     kind::without_a_value, why::bounded},
    {"--enable-prefill-logprobs", kind::without, "decoder_input_details always has them"},
    {"--validation-workers", kind::without_a_value, "the head has one tokenizer"},
    {"--cors-allow-origin", kind::without_a_value, why::other_pages},
    {"--ngrok", kind::without, "no tunnel is opened"},
    {"--ngrok-authtoken --ngrok-edge", kind::without_a_value, "no tunnel is opened"},
    {"--lora-adapters", kind::without_a_value, why::adapters},
    {"--json-output", kind::without, why::logs},
    {"--env -e", kind::without, "`cluster doctor` says what the machine has"},
    {"--usage-stats", kind::without_a_value, "no usage is reported"},
    {"--disable-grammar-support", kind::without,
     "only requests decide whether they have a grammar"},
};

} // namespace

const dialect tgi{.name = "text-generation-inference",
                  .host = "",
                  .port = "3000",
                  .variables = "",
                  .accepts_prefixes = false,
                  .options = tgi_options};

} // namespace baton::cluster::start_line
