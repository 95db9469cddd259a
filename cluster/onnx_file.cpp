#include "cluster/onnx_file.hpp"

#include "schema/limits.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <set>
#include <tuple>

namespace baton::cluster {
namespace {

using gateway::worker_tensor;

constexpr std::size_t text_bytes_max = 64 << 10;   // a name, or a whole value's description
constexpr std::size_t initializers_max = 1u << 20; // constants of a graph
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

  // The next one before `end`. Nothing: there is none, or the file is broken.
  std::optional<field> next(std::uint64_t end) {
    if (is_broken_ || at_ >= end)
      return std::nullopt;
    const auto tag = varint(end);
    field f;
    f.number = tag >> 3;
    f.type = wire(tag & 7);
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
  std::string text(const field& f) {
    if (f.type != wire::bytes || f.end - at_ > text_bytes_max) {
      is_broken_ = true;
      return {};
    }
    std::string out(f.end - at_, '\0');
    in_.read(out.data(), static_cast<std::streamsize>(out.size()));
    at_ = f.end;
    is_broken_ = is_broken_ || !in_;
    return out;
  }
  // Whether a message can be entered.
  bool enters(const field& f, std::uint64_t number) const {
    return f.number == number && f.type == wire::bytes;
  }
  bool is_broken() const noexcept { return is_broken_; }
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
  bool is_broken_ = false;
};

struct value_info {
  std::string name;
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
      return fail(errc::bad_config, "it is no ONNX file");
    onnx_signature out;
    std::erase_if(inputs_, [this](const value_info& v) { return constants_.contains(v.name); });
    for (const auto& [from, to, kind] : {std::tuple(&inputs_, &out.inputs, "input"),
                                         std::tuple(&outputs_, &out.outputs, "output")})
      for (const auto& v : *from) {
        if (auto why = refusal_of(v); !why.empty())
          return fail(errc::bad_config, "its {} '{}' {}: config.pbtxt must say it", kind, v.name,
                      why);
        to->push_back({v.name, std::string(datatype_of(v.element)), *v.shape, false});
      }
    return out;
  }

private:
  static std::string refusal_of(const value_info& v) {
    if (datatype_of(v.element).empty())
      return fmt::format("has the type {}, for which there is no datatype", v.element);
    return v.shape ? std::string() : "has no shape in the file";
  }

  // initializer, input, output
  void read_graph(std::uint64_t end) {
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 5))
        read_constant(f->end);
      else if (in_.enters(*f, 11) && inputs_.size() < limits::tensors_max + initializers_max)
        inputs_.push_back(read_value(f->end));
      else if (in_.enters(*f, 12) && outputs_.size() <= limits::tensors_max)
        outputs_.push_back(read_value(f->end));
      in_.leave(*f);
    }
  }

  // TensorProto.name
  void read_constant(std::uint64_t end) {
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 8) && constants_.size() < initializers_max)
        constants_.insert(in_.text(*f));
      in_.leave(*f);
    }
  }

  // ValueInfoProto: name, type.tensor_type
  value_info read_value(std::uint64_t end) {
    value_info v;
    while (const auto f = in_.next(end)) {
      if (in_.enters(*f, 1))
        v.name = in_.text(*f);
      else if (in_.enters(*f, 2))
        read_type(v, f->end);
      in_.leave(*f);
    }
    return v;
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
  std::set<std::string> constants_;
};

} // namespace

result<onnx_signature> read_onnx_signature(const std::filesystem::path& file) {
  std::error_code ec;
  const auto size = std::filesystem::file_size(file, ec);
  std::ifstream in(file, std::ios::binary);
  if (ec || !in)
    return fail(errc::io_failed, "{} cannot be read", file.string());
  auto read = graph_reader(in, size).read();
  return read ? std::move(read)
              : result<onnx_signature>(
                    fail(errc::bad_config, "{}: {}", file.string(), read.error().message));
}

} // namespace baton::cluster
