// The backends and platforms of Triton that a worker serves: one row for each kind of model file.
// https://github.com/triton-inference-server/backend/blob/main/README.md#backends
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace baton::gateway {

struct triton_platform {
  std::string_view backend;
  std::string_view name;   // `platform` of config.pbtxt; empty: the backend has none
  std::string_view file;   // default_model_filename
  std::string_view module; // of Python, which serves the file
  // Served if config.pbtxt names the backend and no platform, as in Triton.
  bool is_default = false;
  // A file of this name defines the platform.
  bool is_found_by_file = true;
  bool is_directory = false;
  // The file does not declare its inputs and outputs: config.pbtxt must.
  bool needs_config = false;
  bool reads_optimization = false, reads_operations = false; // fields of config.pbtxt
};

// In the order in which files are looked for.
inline constexpr std::array triton_platforms{
    triton_platform{.backend = "tensorflow",
                    .name = "tensorflow_savedmodel",
                    .file = "model.savedmodel",
                    .module = "baton_worker.tensorflow",
                    .is_default = true,
                    .is_directory = true,
                    .reads_optimization = true,
                    .reads_operations = true},
    triton_platform{.backend = "tensorflow",
                    .name = "tensorflow_graphdef",
                    .file = "model.graphdef",
                    .module = "baton_worker.tensorflow",
                    .needs_config = true,
                    .reads_optimization = true,
                    .reads_operations = true},
    triton_platform{.backend = "onnxruntime",
                    .name = "onnxruntime_onnx",
                    .file = "model.onnx",
                    .module = "baton_worker.onnx",
                    .is_default = true,
                    .reads_optimization = true},
    triton_platform{.backend = "python",
                    .name = "",
                    .file = "model.py",
                    .module = "baton_worker.triton",
                    .is_default = true},
    triton_platform{.backend = "pytorch",
                    .name = "pytorch_libtorch",
                    .file = "model.pt",
                    .module = "baton_worker.torchscript",
                    .is_default = true,
                    .needs_config = true},
    triton_platform{.backend = "pytorch",
                    .name = "torch_aoti",
                    .file = "model.pt2",
                    .module = "baton_worker.torchscript",
                    .is_found_by_file = false,
                    .needs_config = true},
};

// By the fields `backend` and `platform` of config.pbtxt, either of which may be empty. Null: no
// worker serves it.
constexpr const triton_platform* find_triton_platform(std::string_view backend,
                                                      std::string_view name) {
  const auto* row =
      std::find_if(triton_platforms.begin(), triton_platforms.end(), [&](const auto& p) {
        return name.empty() ? p.is_default && p.backend == backend
                            : p.name == name && (backend.empty() || p.backend == backend);
      });
  return row == triton_platforms.end() ? nullptr : row;
}

} // namespace baton::gateway
