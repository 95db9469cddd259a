#include "cluster/models/triton/onnx_file.hpp"

#include "cluster/models/triton/protobuf_reader.hpp"
#include "schema/digest.hpp"

#include <algorithm>
#include <optional>

namespace baton::cluster {
namespace {

constexpr std::size_t kept_bytes_max = 16u << 20; // of all tensors, before constants are removed

// TensorProto.DataType.
std::string_view datatype_of(std::uint64_t element) {
  constexpr std::string_view names[] = {"",      "FP32",  "UINT8",  "INT8",  "UINT16",
                                        "INT16", "INT32", "INT64",  "BYTES", "BOOL",
                                        "FP16",  "FP64",  "UINT32", "UINT64"};
  return element < std::size(names) ? names[element] : std::string_view();
}

struct value_info : file_tensor {
  std::uint64_t digest = 0; // of the whole name
};

class graph_reader {
public:
  graph_reader(std::istream& in, std::uint64_t size) : in_(in, size, "it is no ONNX file") {}

  // ModelProto.graph
  result<model_signature> read() {
    while (const auto f = in_.next(in_.size())) {
      if (in_.enters(*f, 7))
        read_graph(f->end);
      in_.leave(*f);
    }
    if (in_.is_broken() || outputs_.empty())
      return fail(errc::bad_config, "{}", in_.why());
    std::sort(constants_.begin(), constants_.end());
    std::erase_if(inputs_, [this](const value_info& v) {
      return std::binary_search(constants_.begin(), constants_.end(), v.digest);
    });
    auto inputs = declared_tensors(inputs_, "input");
    if (!inputs)
      return inputs.error();
    auto outputs = declared_tensors(outputs_, "output");
    if (!outputs)
      return outputs.error();
    return model_signature{*std::move(inputs), *std::move(outputs)};
  }

private:
  void note_kept(std::size_t bytes) {
    kept_bytes_ += bytes;
    if (kept_bytes_ > kept_bytes_max)
      in_.refuse(fmt::format("its tensor declarations take more than {} bytes", kept_bytes_max));
  }

  void keep(std::vector<value_info>& all, value_info v) {
    note_kept(sizeof v + v.name.size() +
              (v.shape ? v.shape->size() * sizeof(std::int64_t) : std::size_t{0}));
    all.push_back(std::move(v));
  }

  // initializer, input, output, sparse_initializer
  void read_graph(std::uint64_t end) {
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 5))
        read_constant(f->end);
      else if (in_.enters(*f, 11))
        keep(inputs_, read_value(f->end));
      else if (in_.enters(*f, 12))
        keep(outputs_, read_value(f->end));
      else if (in_.enters(*f, 15))
        read_sparse(f->end);
      in_.leave(*f);
    }
  }

  // TensorProto.name
  void read_constant(std::uint64_t end) {
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 8)) {
        constants_.push_back(digest_of(in_.name(*f)));
        note_kept(sizeof constants_.back());
      }
      in_.leave(*f);
    }
  }

  // SparseTensorProto.values, whose name is the tensor's name
  void read_sparse(std::uint64_t end) {
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 1))
        read_constant(f->end);
      in_.leave(*f);
    }
  }

  // ValueInfoProto: name, type.tensor_type
  value_info read_value(std::uint64_t end) {
    value_info v;
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 1))
        read_name(v, *f);
      else if (in_.enters(*f, 2))
        read_type(v, f->end);
      in_.leave(*f);
    }
    return v;
  }

  void read_name(value_info& v, const protobuf_reader::field& f) {
    const auto name = in_.name(f);
    v.digest = digest_of(name);
    v.name = name.size() > tensor_name_bytes_max ? std::string() : name;
  }

  void read_type(value_info& v, std::uint64_t end) {
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 1))
        read_tensor_type(v, f->end);
      in_.leave(*f);
    }
  }

  // elem_type, shape
  void read_tensor_type(value_info& v, std::uint64_t end) {
    while (const auto f = in_.next(end)) {
      if (f->number == 1 && f->type == protobuf_reader::wire::varint)
        v.datatype = datatype_of(v.type = f->value);
      else if (in_.enters(*f, 2))
        v.shape = read_shape(f->end);
      in_.leave(*f);
    }
  }

  // A dimension that has a name or no value has any size.
  std::vector<std::int64_t> read_shape(std::uint64_t end) {
    std::vector<std::int64_t> shape;
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 1) && shape.size() <= limits::dimensions_max)
        shape.push_back(read_dimension(f->end));
      in_.leave(*f);
    }
    return shape;
  }

  std::int64_t read_dimension(std::uint64_t end) {
    std::int64_t extent = -1;
    while (const auto f = in_.next(end)) {
      if (f->number == 1 && f->type == protobuf_reader::wire::varint)
        extent = std::max<std::int64_t>(static_cast<std::int64_t>(f->value), -1);
      in_.leave(*f);
    }
    return extent;
  }

  protobuf_reader in_;
  std::vector<value_info> inputs_, outputs_;
  std::vector<std::uint64_t> constants_; // digests of their names
  std::size_t kept_bytes_ = 0;
};

} // namespace

result<model_signature> read_onnx_signature(std::istream& in, std::uint64_t size) {
  return graph_reader(in, size).read();
}

result<model_signature> read_onnx_signature(const std::filesystem::path& file) {
  return read_signature_file(
      file, [](std::istream& in, std::uint64_t size) { return read_onnx_signature(in, size); });
}

} // namespace baton::cluster
