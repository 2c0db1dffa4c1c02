// Finds or decodes the elements of a TensorProto.
#include "onnx/wire/tensor_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <protozero/pbf_reader.hpp>

#include "base/checked.h"

namespace forethought::wire {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

// The field of TensorProto that holds the elements of a type when raw_data does not.
enum Field : uint32_t {
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kDoubleData = 10,
  kUint64Data = 11
};

Field typed_field(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
    case DType::kComplex64:
      return kFloatData;
    case DType::kDouble:
    case DType::kComplex128:
      return kDoubleData;
    case DType::kInt64:
      return kInt64Data;
    case DType::kUint32:
    case DType::kUint64:
      return kUint64Data;
    case DType::kString:
      return kStringData;
    default:
      return kInt32Data;
  }
}

const char* field_name(Field f) {
  switch (f) {
    case kFloatData:
      return "float_data";
    case kInt32Data:
      return "int32_data";
    case kStringData:
      return "string_data";
    case kInt64Data:
      return "int64_data";
    case kDoubleData:
      return "double_data";
    default:
      return "uint64_data";
  }
}

std::string describe(const Tensor& t, DType dtype) {
  return fmt::format("tensor '{}' ({}[{}])", t.name, name(dtype), fmt::join(t.dims, ","));
}

Status wrong_amount(const Tensor& t, DType dtype, std::string_view field, int64_t found, int64_t wanted,
                    std::string_view unit) {
  return invalid(fmt::format("{} needs {} {} but its {} holds {}", describe(t, dtype), wanted, unit, field, found));
}

pbf_reader message_reader(const Tensor& t) { return pbf_reader(t.message.data(), t.message.size()); }

// The bytes of a fixed-width field where it lies, if it is one packed run; nullopt if it is in several pieces.
std::optional<std::string_view> one_packed_run(const Tensor& t, Field field) {
  std::optional<std::string_view> run;
  for (pbf_reader r = message_reader(t); r.next();) {
    if (r.tag() != field) {
      r.skip();
    } else if (r.wire_type() != pbf_wire_type::length_delimited) {
      return std::nullopt;
    } else {
      const auto v = r.get_view();
      if (run && !run->empty()) return std::nullopt;
      run = std::string_view(v.data(), v.size());
    }
  }
  return run ? run : std::string_view();
}

// All bytes of a fixed-width field, joined; `limit` bytes at most are taken.
std::vector<std::byte> joined_runs(const Tensor& t, Field field, size_t width, size_t limit) {
  std::vector<std::byte> out;
  const auto add = [&](const void* data, size_t size) {
    const auto* p = static_cast<const std::byte*>(data);
    out.insert(out.end(), p, p + std::min(size, limit - out.size()));
  };
  for (pbf_reader r = message_reader(t); r.next();) {
    if (r.tag() != field) {
      r.skip();
    } else if (r.wire_type() == pbf_wire_type::length_delimited) {
      const auto v = r.get_view();
      add(v.data(), v.size());
    } else if (width == 4 && r.wire_type() == pbf_wire_type::fixed32) {
      const uint32_t bits = r.get_fixed32();
      add(&bits, 4);
    } else if (width == 8 && r.wire_type() == pbf_wire_type::fixed64) {
      const uint64_t bits = r.get_fixed64();
      add(&bits, 8);
    } else {
      r.skip();
    }
  }
  return out;
}

// Calls f(uint64_t) for each varint of a field, packed or not. Entries of int32_data arrive sign-extended.
template <typename F>
void for_each_varint(const Tensor& t, Field field, F&& f) {
  for (pbf_reader r = message_reader(t); r.next();) {
    if (r.tag() != field) {
      r.skip();
    } else if (r.wire_type() == pbf_wire_type::length_delimited) {
      for (const uint64_t v : r.get_packed_uint64()) f(v);
    } else if (r.wire_type() == pbf_wire_type::varint) {
      f(r.get_uint64());
    } else {
      r.skip();
    }
  }
}

StatusOr<TensorBytes> varint_elements(const Tensor& t, DType dtype, int64_t bytes) {
  const Field field = typed_field(dtype);
  const size_t width = bit_width(dtype) < 8 ? 1 : static_cast<size_t>(bit_width(dtype) / 8);
  const int64_t entries = bytes / static_cast<int64_t>(width);
  int64_t found = 0;
  if (static_cast<uint64_t>(entries) <= t.message.size()) {
    TensorBytes result;
    result.decoded.resize(static_cast<size_t>(bytes));
    std::byte* out = result.decoded.data();
    for_each_varint(t, field, [&](uint64_t v) {
      if (found < entries) std::memcpy(out + static_cast<size_t>(found) * width, &v, width);
      ++found;
    });
    if (found == entries) return result;
  } else {
    for_each_varint(t, field, [&](uint64_t) { ++found; });
  }
  return wrong_amount(t, dtype, field_name(field), found, entries, "entries");
}

StatusOr<TensorBytes> fixed_elements(const Tensor& t, DType dtype, int64_t bytes) {
  const Field field = typed_field(dtype);
  const auto run = one_packed_run(t, field);
  if (run && static_cast<int64_t>(run->size()) == bytes) return TensorBytes{.file = *run};
  if (run) return wrong_amount(t, dtype, field_name(field), static_cast<int64_t>(run->size()), bytes, "bytes");
  TensorBytes result{.decoded = joined_runs(t, field, field == kFloatData ? 4 : 8, t.message.size())};
  if (static_cast<int64_t>(result.decoded.size()) != bytes) {
    return wrong_amount(t, dtype, field_name(field), static_cast<int64_t>(result.decoded.size()), bytes, "bytes");
  }
  return result;
}

// A bool is read as 0 or 1 everywhere; a file that holds other bytes gets a clean copy.
TensorBytes clean_bools(std::string_view bytes) {
  if (std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0 || c == 1; })) return {.file = bytes};
  TensorBytes result;
  result.decoded.resize(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) result.decoded[i] = std::byte{bytes[i] != 0};
  return result;
}

template <typename F>
auto guarded(const Tensor& t, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const protozero::exception& e) {
    return invalid(fmt::format("tensor '{}' is damaged: {}", t.name, e.what()));
  } catch (const std::bad_alloc&) {
    return exhausted(fmt::format("no memory for tensor '{}'", t.name));
  }
}

}  // namespace

StatusOr<DType> dtype_of_tensor(const Tensor& t) {
  if (t.data_type == 0) return invalid(fmt::format("tensor '{}' has no element type", t.name));
  if (!is_valid_dtype(t.data_type)) {
    return unsupported(
        fmt::format("tensor '{}' has element type number {}, which is not known here", t.name, t.data_type));
  }
  return static_cast<DType>(t.data_type);
}

StatusOr<int64_t> element_count(const Tensor& t) {
  const auto n = checked_product(t.dims);
  if (!n) {
    return invalid(fmt::format("tensor '{}' has impossible dims [{}]: one is negative, or there are too many elements",
                               t.name, fmt::join(t.dims, ",")));
  }
  return *n;
}

StatusOr<TensorBytes> tensor_bytes(const Tensor& t) {
  ASSIGN_OR_RETURN(const DType dtype, dtype_of_tensor(t));
  ASSIGN_OR_RETURN(const int64_t count, element_count(t));
  const auto bytes = byte_size(dtype, count);
  if (!bytes) return invalid(fmt::format("{} is too large or of strings", describe(t, dtype)));
  if (t.has_segment) return unsupported(fmt::format("{} is a segment of a larger tensor", describe(t, dtype)));
  return guarded(t, [&]() -> StatusOr<TensorBytes> {
    TensorBytes found;
    if (t.has_raw && (!t.raw.empty() || !t.has_typed)) {
      const auto size = static_cast<int64_t>(t.raw.size());
      if (size != *bytes) return wrong_amount(t, dtype, "raw_data", size, *bytes, "bytes");
      found.file = t.raw;
    } else if (*bytes == 0 && !t.has_typed) {
      return found;
    } else if (const Field f = typed_field(dtype); f == kFloatData || f == kDoubleData) {
      return fixed_elements(t, dtype, *bytes);
    } else {
      ASSIGN_OR_RETURN(found, varint_elements(t, dtype, *bytes));
    }
    if (dtype != DType::kBool) return found;
    TensorBytes clean = clean_bools(found.bytes());
    return clean.in_place() ? std::move(found) : std::move(clean);
  });
}

StatusOr<std::span<const std::string_view>> tensor_strings(const Tensor& t) {
  ASSIGN_OR_RETURN(const int64_t count, element_count(t));
  if (t.data_type != static_cast<int32_t>(DType::kString)) {
    return invalid(fmt::format("tensor '{}' is not of strings", t.name));
  }
  if (static_cast<int64_t>(t.strings.size()) != count) {
    return wrong_amount(t, DType::kString, "string_data", static_cast<int64_t>(t.strings.size()), count, "strings");
  }
  return std::span(t.strings);
}

}  // namespace forethought::wire
