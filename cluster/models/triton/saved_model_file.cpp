#include "cluster/models/triton/saved_model_file.hpp"

#include "cluster/models/triton/protobuf_reader.hpp"
#include "gateway/base/json_text.hpp"

#include <fmt/ranges.h>

#include <map>

namespace baton::cluster {
namespace {

constexpr std::size_t signatures_shown = 8;
constexpr std::size_t tensors_kept_max = 1u << 16; // of all signatures

// tensorflow::DataType.
std::string_view datatype_of_tensorflow(std::uint64_t type) {
  constexpr std::string_view names[] = {"",     "FP32",  "FP64", "INT32", "UINT8",  "INT16",
                                        "INT8", "BYTES", "",     "INT64", "BOOL",   "",
                                        "",     "",      "",     "",      "",       "UINT16",
                                        "",     "FP16",  "",     "",      "UINT32", "UINT64"};
  return type < std::size(names) ? names[type] : std::string_view();
}

using tensors_by_name = std::map<std::string, file_tensor>;

struct named_signature {
  tensors_by_name inputs, outputs;
};

struct graph_of_tags {
  bool has_tag = false;
  std::map<std::string, named_signature> signatures;
};

class saved_model_reader {
public:
  saved_model_reader(std::istream& in, std::uint64_t size, const saved_model_choice& choice)
      : in_(in, size, "it is no SavedModel"), choice_(choice) {}

  // SavedModel.meta_graphs
  result<model_signature> read() {
    std::optional<graph_of_tags> found;
    bool has_graph = false;
    while (const auto f = in_.next(in_.size())) {
      if (in_.enters(*f, 2)) {
        auto graph = read_graph(f->end);
        has_graph = true;
        if (graph.has_tag && !found)
          found = std::move(graph);
      }
      in_.leave(*f);
    }
    if (in_.is_broken() || !has_graph)
      return fail(errc::bad_config, "{}", in_.why());
    if (!found)
      return fail(errc::bad_config, "it has no graph with the tag '{}' (TF_GRAPH_TAG)",
                  choice_.tag);
    return signature_of(*found);
  }

private:
  using field = protobuf_reader::field;

  result<model_signature> signature_of(const graph_of_tags& graph) const {
    const auto* chosen = choose(graph);
    if (!chosen)
      return fail(errc::bad_config, "it has no signature '{}' (TF_SIGNATURE_DEF), but {}",
                  choice_.signature.empty() ? "serving_default" : choice_.signature,
                  names_of(graph));
    auto inputs = declared_tensors(tensors_of(chosen->inputs), "input");
    if (!inputs)
      return inputs.error();
    auto outputs = declared_tensors(tensors_of(chosen->outputs), "output");
    if (!outputs)
      return outputs.error();
    if (outputs->empty())
      return fail(errc::bad_config, "its signature has no output");
    return model_signature{*std::move(inputs), *std::move(outputs)};
  }

  static std::vector<file_tensor> tensors_of(const tensors_by_name& all) {
    std::vector<file_tensor> out;
    for (const auto& [name, tensor] : all)
      out.push_back(tensor);
    return out;
  }

  const named_signature* choose(const graph_of_tags& graph) const {
    const auto& all = graph.signatures;
    const auto at = all.find(choice_.signature.empty() ? "serving_default" : choice_.signature);
    if (at != all.end())
      return &at->second;
    if (choice_.signature.empty())
      for (const auto& [name, one] : all)
        if (name != "__saved_model_init_op" && name != "__saved_model_train_op")
          return &one;
    return nullptr;
  }

  static std::string names_of(const graph_of_tags& graph) {
    std::vector<std::string> names;
    for (const auto& [name, one] : graph.signatures)
      if (names.size() < signatures_shown)
        names.push_back(gateway::shown_member(name));
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
  }

  // MetaGraphDef: meta_info_def, signature_def
  graph_of_tags read_graph(std::uint64_t end) {
    graph_of_tags graph;
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 1))
        graph.has_tag = read_tags(f->end) || graph.has_tag;
      else if (in_.enters(*f, 5))
        read_entry(f->end, graph.signatures, [this](std::uint64_t to) { return read_def(to); });
      in_.leave(*f);
    }
    return graph;
  }

  // MetaInfoDef.tags
  bool read_tags(std::uint64_t end) {
    bool has_tag = false;
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 4))
        has_tag = in_.name(*f) == choice_.tag || has_tag;
      in_.leave(*f);
    }
    return has_tag;
  }

  // A map entry: key, value
  template <class Value, class Read>
  void read_entry(std::uint64_t end, std::map<std::string, Value>& all, Read read) {
    std::string key;
    Value value;
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 1))
        key = in_.name(*f);
      else if (in_.enters(*f, 2))
        value = read(f->end);
      in_.leave(*f);
    }
    all.insert_or_assign(std::move(key), std::move(value));
  }

  // SignatureDef: inputs, outputs
  named_signature read_def(std::uint64_t end) {
    named_signature made;
    const auto tensor = [this](std::uint64_t to) { return read_tensor(to); };
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 1))
        read_entry(f->end, made.inputs, tensor);
      else if (in_.enters(*f, 2))
        read_entry(f->end, made.outputs, tensor);
      in_.leave(*f);
    }
    for (auto* all : {&made.inputs, &made.outputs})
      for (auto& [name, one] : *all)
        one.name = name.size() > tensor_name_bytes_max ? std::string() : name;
    return made;
  }

  // TensorInfo: dtype, tensor_shape; a tensor composed of several tensors has no datatype
  file_tensor read_tensor(std::uint64_t end) {
    if (++tensors_ > tensors_kept_max)
      in_.refuse(fmt::format("its signatures have more than {} tensors", tensors_kept_max));
    file_tensor t;
    bool is_dense = true;
    while (const auto f = in_.next(end)) {
      if (f->number == 2 && f->type == protobuf_reader::wire::varint)
        t.type = f->value;
      else if (in_.enters(*f, 3))
        t.shape = read_shape(f->end);
      else if (f->number == 4 || f->number == 5)
        is_dense = false;
      in_.leave(*f);
    }
    t.datatype = is_dense ? datatype_of_tensorflow(t.type) : std::string_view();
    return t;
  }

  // TensorShapeProto: dim, unknown_rank
  std::optional<std::vector<std::int64_t>> read_shape(std::uint64_t end) {
    std::vector<std::int64_t> shape;
    bool is_known = true;
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 2) && shape.size() <= limits::dimensions_max)
        shape.push_back(read_dimension(f->end));
      else if (f->number == 3 && f->type == protobuf_reader::wire::varint && f->value != 0)
        is_known = false;
      in_.leave(*f);
    }
    return is_known ? std::optional(std::move(shape)) : std::nullopt;
  }

  std::int64_t read_dimension(std::uint64_t end) {
    std::int64_t extent = 0;
    while (const auto f = in_.next(end)) {
      if (f->number == 1 && f->type == protobuf_reader::wire::varint)
        extent = std::max<std::int64_t>(static_cast<std::int64_t>(f->value), -1);
      in_.leave(*f);
    }
    return extent;
  }

  protobuf_reader in_;
  const saved_model_choice& choice_;
  std::size_t tensors_ = 0;
};

} // namespace

result<model_signature> read_saved_model(std::istream& in, std::uint64_t size,
                                         const saved_model_choice& choice) {
  return saved_model_reader(in, size, choice).read();
}

result<model_signature> read_saved_model(const std::filesystem::path& directory,
                                         const saved_model_choice& choice) {
  return read_signature_file(
      directory / "saved_model.pb",
      [&](std::istream& in, std::uint64_t size) { return read_saved_model(in, size, choice); });
}

} // namespace baton::cluster
