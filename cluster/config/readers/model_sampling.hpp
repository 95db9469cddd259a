// Sampling defaults from a model's own files and from nodes.toml.
#pragma once

#include "cluster/config/config.hpp"
#include "runtime/model/model_file.hpp"

#include <string>

namespace baton::cluster {

// Reads generation_config.json of a directory as vLLM does, plus transformers' do_sample: false
// (greedy). For a GGUF file, reads general.sampling.* as llama.cpp's converter writes it. Errors:
// bad_model_file (file, field and error), io_failed.
result<sampling_defaults> sampling_of_file(const model::model_file& file);

// The parameters of requests that do not set them.
sampling_defaults sampling_of(const model_config& model);

// "temperature 0.2, top_p 0.9 (nodes.toml); top_k 20 (the model's files)"; empty without defaults.
std::string sampling_text(const model_config& model);

} // namespace baton::cluster
