// Defaults of sampling that a model's own files have, beside those of nodes.toml.
#pragma once

#include "cluster/config/config.hpp"
#include "runtime/model/model_file.hpp"

#include <string>

namespace baton::cluster {

// generation_config.json of a directory, as vLLM reads it, and with transformers' do_sample: false,
// which is greedy; general.sampling.* of a GGUF file, as llama.cpp's converter writes it. Errors:
// bad_model_file (the file, the field and what is wrong), io_failed.
result<sampling_defaults> sampling_of_file(const model::model_file& file);

// With what requests are drawn that do not say.
sampling_defaults sampling_of(const model_config& model);

// "temperature 0.2, top_p 0.9 (nodes.toml); top_k 20 (the model's files)"; empty if there are none.
std::string sampling_line(const model_config& model);

} // namespace baton::cluster
