#include "cluster/onnx_file.hpp"

#include "cluster/config_tensors.hpp"
#include "schema/digest.hpp"
#include "schema/limits.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <tuple>
#include <utility>

namespace baton::cluster {
namespace {

using gateway::worker_tensor;

constexpr std::size_t name_bytes_max = 64 << 10;   // while it is read
constexpr std::size_t names_bytes_max = 64u << 20; // all of them
// Nodes and constants of large graphs are tens of thousands.
constexpr std::size_t fields_max = 1u << 20;
constexpr std::size_t kept_bytes_max = 16u << 20; // of all tensors until constants are taken out
constexpr std::uint64_t near_bytes = 4 << 10;

// TensorProto.DataType.
std::string_view datatype_of(std::uint64_t element) {
  constexpr std::string_view names[] = {"",      "FP32",  "UINT8",  "INT8",  "UINT16",
                                        "INT16", "INT32", "INT64",  "BYTES", "BOOL",
                                        "FP16",  "FP64",  "UINT32", "UINT64"};
  return element < std::size(names) ? names[element] : std::string_view();
}

enum class wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct field {
  std::uint64_t number = 0;
  wire type = wire::varint;
  std::uint64_t value = 0; // of a varint
  std::uint64_t end = 0;   // of bytes: where they end
};

// Fields one behind the other; what is not entered is passed over.
class field_reader {
public:
  explicit field_reader(std::istream& in, std::uint64_t size) : in_(in), size_(size) {}

  // The next one before `end`. Nothing: there is none, or the file is refused.
  std::optional<field> next(std::uint64_t end) {
    if (is_broken_ || at_ >= end)
      return std::nullopt;
    if (++fields_ > fields_max) {
      refuse(fmt::format("it has more than {} fields", fields_max));
      return std::nullopt;
    }
    const auto tag = varint(end);
    field f;
    f.number = tag >> 3;
    f.type = wire(tag & 7);
    if (f.number == 0) // as in what is all zeros
      is_broken_ = true;
    if (f.type == wire::varint)
      f.value = varint(end);
    else if (f.type == wire::bytes)
      f.end = varint(end);
    else if (f.type == wire::fixed64 || f.type == wire::fixed32)
      f.end = f.type == wire::fixed64 ? 8 : 4;
    else
      is_broken_ = true;
    if (f.type != wire::varint) {
      is_broken_ = is_broken_ || f.end > end - at_;
      f.end += at_;
    }
    return is_broken_ ? std::nullopt : std::optional(f);
  }
  void leave(const field& f) {
    if (f.type == wire::varint || f.end == at_ || is_broken_)
      return;
    if (f.end - at_ <= near_bytes) // a seek throws away what is read ahead
      in_.ignore(static_cast<std::streamsize>(f.end - at_));
    else
      in_.seekg(static_cast<std::streamoff>(f.end));
    at_ = f.end;
    is_broken_ = !in_;
  }
  // Requires: it can be entered.
  std::string name(const field& f) {
    const auto size = f.end - at_;
    names_bytes_ += size;
    if (size > name_bytes_max || names_bytes_ > names_bytes_max) {
      refuse(fmt::format("a name in it has more than {} bytes, or all have more than {}",
                         name_bytes_max, names_bytes_max));
      return {};
    }
    std::string out(size, '\0');
    in_.read(out.data(), static_cast<std::streamsize>(out.size()));
    at_ = f.end;
    is_broken_ = is_broken_ || !in_;
    return out;
  }
  // Whether a message can be entered.
  bool enters(const field& f, std::uint64_t number) const {
    return f.number == number && f.type == wire::bytes;
  }
  // Nothing more is read.
  void refuse(std::string why) {
    if (!std::exchange(is_broken_, true))
      why_ = std::move(why);
  }
  bool is_broken() const noexcept { return is_broken_; }
  const std::string& why() const noexcept { return why_; }
  std::uint64_t size() const noexcept { return size_; }

private:
  std::uint64_t varint(std::uint64_t end) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = at_ < end ? in_.get() : std::char_traits<char>::eof();
      if (byte == std::char_traits<char>::eof())
        break;
      ++at_;
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0)
        return value;
    }
    is_broken_ = true;
    return 0;
  }

  std::istream& in_;
  std::uint64_t size_;
  std::uint64_t at_ = 0;
  std::size_t fields_ = 0;
  std::uint64_t names_bytes_ = 0;
  bool is_broken_ = false;
  std::string why_ = "it is no ONNX file";
};

struct value_info {
  std::string name;         // empty: none, or longer than a tensor's may be
  std::uint64_t digest = 0; // of all of it
  std::uint64_t element = 0;
  std::optional<std::vector<std::int64_t>> shape; // none: the file does not say it
};

class graph_reader {
public:
  graph_reader(std::istream& in, std::uint64_t size) : in_(in, size) {}

  // ModelProto.graph
  result<onnx_signature> read() {
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
    onnx_signature out;
    for (const auto& [from, to, kind] : {std::tuple(&inputs_, &out.inputs, "input"),
                                         std::tuple(&outputs_, &out.outputs, "output")})
      if (auto ok = tell(*from, *to, kind); !ok)
        return ok.error();
    return out;
  }

private:
  static result<void> tell(const std::vector<value_info>& from, std::vector<worker_tensor>& to,
                           std::string_view kind) {
    if (from.size() > limits::tensors_max)
      return fail(errc::bad_config, "it has {} {}s, at most {} are served", from.size(), kind,
                  limits::tensors_max);
    for (const auto& v : from) {
      if (const auto fault = fault_of_name(v.name); !fault.empty())
        return fail(errc::bad_config, "its {} {}: {}", kind, to.size() + 1, fault);
      if (const auto why = refusal_of(v); !why.empty())
        return fail(errc::bad_config, "its {} '{}' {}: config.pbtxt must say it", kind, v.name,
                    why);
      to.push_back({v.name, std::string(datatype_of(v.element)), *v.shape, false});
    }
    return {};
  }

  static std::string refusal_of(const value_info& v) {
    if (datatype_of(v.element).empty())
      return fmt::format("has the type {}, for which there is no datatype", v.element);
    return v.shape ? std::string() : "has no shape in the file";
  }

  void note_kept(std::size_t bytes) {
    kept_bytes_ += bytes;
    if (kept_bytes_ > kept_bytes_max)
      in_.refuse(
          fmt::format("what it says of its tensors takes more than {} bytes", kept_bytes_max));
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

  // SparseTensorProto.values, whose name is that of both
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

  void read_name(value_info& v, const field& f) {
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
      if (f->number == 1 && f->type == wire::varint)
        v.element = f->value;
      else if (in_.enters(*f, 2))
        v.shape = read_shape(f->end);
      in_.leave(*f);
    }
  }

  // A dimension with a name, or with nothing, is any number.
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
      if (f->number == 1 && f->type == wire::varint)
        extent = std::max<std::int64_t>(static_cast<std::int64_t>(f->value), -1);
      in_.leave(*f);
    }
    return extent;
  }

  field_reader in_;
  std::vector<value_info> inputs_, outputs_;
  std::vector<std::uint64_t> constants_; // digests of their names
  std::size_t kept_bytes_ = 0;
};

} // namespace

result<onnx_signature> read_onnx_signature(std::istream& in, std::uint64_t size) {
  return graph_reader(in, size).read();
}

result<onnx_signature> read_onnx_signature(const std::filesystem::path& file) {
  std::error_code ec;
  if (!std::filesystem::is_regular_file(file, ec)) // others may keep whoever opens them for ever
    return fail(errc::io_failed, "{} is no file that can be read", file.string());
  const auto size = std::filesystem::file_size(file, ec);
  std::ifstream in(file, std::ios::binary);
  if (ec || !in)
    return fail(errc::io_failed, "{} cannot be read", file.string());
  auto read = read_onnx_signature(in, size);
  return read ? std::move(read)
              : result<onnx_signature>(
                    fail(errc::bad_config, "{}: {}", file.string(), read.error().message));
}

} // namespace baton::cluster
