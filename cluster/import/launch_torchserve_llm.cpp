// `python -m ts.llm_launcher`: serves one LLM by TorchServe's APIs, as the model "model".
#include "cluster/import/launch_options.hpp"

#include <array>

namespace baton::cluster::start_line {
namespace {

constexpr std::string_view one_engine = "engines are those of docs/develop/engines.md";

constexpr option torchserve_llm_options[] = {
    {"--model-id", kind::model},
    {"--model-name", kind::name},
    {"--disable-token-auth", kind::no_key},
    {"--vllm-engine.max-num-seqs", kind::number, "model.max_num_seqs", 1, 16'384},
    {"--vllm-engine.max-model-len", kind::tokens, "model.max_model_len", 16, 1 << 24},
    {"--vllm-engine.download-dir", kind::without_a_value, why::not_downloaded},
    {"--model-store", kind::without_a_value, "no archive is made of the model"},
    {"--startup-timeout", kind::without_a_value, "a shard that loads is waited for"},
    {"--engine --trt-llm-engine.max-batch-size --trt-llm-engine.kv-cache-free-gpu-memory-fraction",
     kind::without_a_value, one_engine},
    {"--dtype", kind::without_a_value, why::from_file},
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 2> torchserve_llm_others{
    {{"gateway.torchserve_management", "8081"}, {"gateway.torchserve_metrics", "8082"}}};

} // namespace

const dialect torchserve_llm{.name = "TorchServe",
                             .host = "127.0.0.1",
                             .port = "8080",
                             .variables = "-",
                             .accepts_prefixes = true,
                             .options = torchserve_llm_options,
                             .needs_key = true,
                             .listener = "gateway.torchserve_inference",
                             .others = torchserve_llm_others,
                             .model_name = "model"};

} // namespace baton::cluster::start_line
