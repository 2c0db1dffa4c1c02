#include "onnx/import/convert.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "graph/schema/schema.h"
#include "onnx/wire/tensor_data.h"

namespace forethought {
namespace {

// A sparse tensor can ask for any number of zeros in a few bytes: all of a model's together may take this much.
constexpr int64_t kMaxDensifiedBytes = int64_t{1} << 30;

void* writable(std::string_view bytes) { return const_cast<char*>(bytes.data()); }

StatusOr<int64_t> number(const wire::Tensor& t, const wire::StringEntry& e) {
  int64_t v = 0;
  const auto [end, error] = std::from_chars(e.value.data(), e.value.data() + e.value.size(), v);
  if (error != std::errc() || end != e.value.data() + e.value.size() || v < 0) {
    return invalid(
        fmt::format("tensor '{}': the {} of its external data is '{}', not a number from 0", t.name, e.key, e.value));
  }
  return v;
}

Dims dims_of(const std::vector<int64_t>& dims) { return Dims(dims.begin(), dims.end()); }

}  // namespace

StatusOr<Tensor> Converter::tensor(const wire::Tensor& t) {
  ASSIGN_OR_RETURN(const DType dtype, wire::dtype_of_tensor(t));
  ASSIGN_OR_RETURN(const int64_t count, wire::element_count(t));
  if (dtype == DType::kString) return strings(t);
  if (t.external) {
    const auto bytes = byte_size(dtype, count);
    if (!bytes) return invalid(fmt::format("tensor '{}' is too large", t.name));
    return external(t, dtype, *bytes);
  }
  ASSIGN_OR_RETURN(wire::TensorBytes data, wire::tensor_bytes(t));
  Tensor result{.dtype = dtype, .dims = dims_of(t.dims)};
  if (data.in_place()) {
    result.data = writable(data.file);
    result.owner = owner_;
  } else {
    copied_bytes_ += static_cast<int64_t>(data.decoded.size());
    result.data = data.decoded.data();
    result.owner = hold(std::move(data.decoded));
  }
  return result;
}

StatusOr<Tensor> Converter::strings(const wire::Tensor& t) {
  if (t.external) return invalid(fmt::format("tensor '{}' of strings cannot be external", t.name));
  ASSIGN_OR_RETURN(const auto views, wire::tensor_strings(t));
  std::vector<std::string> copies(views.begin(), views.end());
  for (const std::string& s : copies) copied_bytes_ += static_cast<int64_t>(s.size());
  Tensor result{.dtype = DType::kString, .dims = dims_of(t.dims)};
  result.data = copies.data();
  result.owner = hold(std::move(copies));
  return result;
}

StatusOr<Tensor> Converter::external(const wire::Tensor& t, DType dtype, int64_t bytes) {
  std::string_view location;
  int64_t offset = 0;
  std::optional<int64_t> length;
  for (const wire::StringEntry& e : t.external_data) {
    if (e.key == "location") location = e.value;
    if (e.key == "offset") {
      ASSIGN_OR_RETURN(offset, number(t, e));
    }
    if (e.key == "length") {
      ASSIGN_OR_RETURN(length, number(t, e));
    }
  }
  const std::string place = fmt::format("tensor '{}'", t.name);
  if (length && *length != bytes) {
    return invalid(fmt::format("{} needs {} bytes but its external data has length {}", place, bytes, *length));
  }
  auto source = files_.open(location);
  if (!source.ok()) return with_context(source.status(), place);
  const auto size = static_cast<int64_t>(source->bytes.size());
  if (offset > size || bytes > size - offset) {
    return invalid(fmt::format("{} needs bytes {} to {} of '{}', which has {}", place, offset,
                               checked_add(offset, bytes).value_or(std::numeric_limits<int64_t>::max()), location,
                               size));
  }
  Tensor result{.dtype = dtype, .dims = dims_of(t.dims)};
  result.data = writable(source->bytes.substr(static_cast<size_t>(offset)));
  result.owner = source->owner;
  if (dtype == DType::kBool) {
    const auto* p = static_cast<const char*>(result.data);
    bool clean = true;
    for (int64_t i = 0; i < bytes; ++i) clean = clean && (p[i] == 0 || p[i] == 1);
    if (!clean) return invalid(fmt::format("{} is of bool but holds bytes other than 0 and 1", place));
  }
  return result;
}

StatusOr<std::shared_ptr<const SparseTensor>> Converter::sparse(const wire::SparseTensor& s) {
  const std::string place = fmt::format("sparse tensor '{}'", s.values.name);
  if (!checked_product(s.dims)) return invalid(fmt::format("{} has impossible dims", place));
  auto result = std::make_shared<SparseTensor>();
  ASSIGN_OR_RETURN(result->values, tensor(s.values));
  ASSIGN_OR_RETURN(result->indices, tensor(s.indices));
  result->dims = dims_of(s.dims);
  const auto rank = static_cast<int64_t>(s.dims.size());
  const Dims& at = result->indices.dims;
  if (result->values.dims.size() != 1 || result->indices.dtype != DType::kInt64 || at.empty() || at.size() > 2 ||
      at[0] != result->values.dims[0] || (at.size() == 2 && at[1] != rank)) {
    return invalid(fmt::format("{}: values must be [NNZ] and indices int64 [NNZ] or [NNZ, rank]", place));
  }
  return std::shared_ptr<const SparseTensor>(std::move(result));
}

StatusOr<Tensor> Converter::densified(const wire::SparseTensor& s) {
  ASSIGN_OR_RETURN(const auto sparse_tensor, sparse(s));
  const DType dtype = sparse_tensor->values.dtype;
  const int64_t count = *checked_product(s.dims);
  const int width = bit_width(dtype) / 8;
  const auto bytes = byte_size(dtype, count);
  if (!bytes || width == 0) {
    return unsupported(fmt::format("sparse tensor '{}' of {} cannot be made dense", s.values.name, name(dtype)));
  }
  densified_bytes_ += std::min(*bytes, kMaxDensifiedBytes + 1);
  if (densified_bytes_ > kMaxDensifiedBytes) {
    return exhausted(fmt::format("sparse tensor '{}' would need {} bytes as a dense one; all of a model may take {}",
                                 s.values.name, *bytes, kMaxDensifiedBytes));
  }
  ASSIGN_OR_RETURN(Tensor dense, make_tensor(dtype, sparse_tensor->dims));
  copied_bytes_ += *bytes;
  const bool linear = sparse_tensor->indices.dims.size() == 1;
  const auto* index_bytes = static_cast<const char*>(sparse_tensor->indices.data);
  const auto index = [&](int64_t i) {
    int64_t v;
    std::memcpy(&v, index_bytes + i * 8, 8);
    return v;
  };
  const auto rank = static_cast<int64_t>(s.dims.size());
  for (int64_t i = 0; i < sparse_tensor->values.dims[0]; ++i) {
    int64_t flat = linear ? index(i) : 0;
    bool inside = true;
    for (int64_t d = 0; d < rank && !linear; ++d) {
      const int64_t at = index(i * rank + d);
      inside = inside && at >= 0 && at < s.dims[static_cast<size_t>(d)];
      flat = inside ? flat * s.dims[static_cast<size_t>(d)] + at : 0;
    }
    if (!inside || flat < 0 || flat >= count) {
      return invalid(fmt::format("sparse tensor '{}': index {} lies outside its dims", s.values.name, i));
    }
    std::memcpy(static_cast<char*>(dense.data) + flat * width,
                static_cast<const char*>(sparse_tensor->values.data) + i * width, static_cast<size_t>(width));
  }
  return dense;
}

StatusOr<AttributeValue> Converter::attribute(const wire::Attribute& a) {
  switch (static_cast<AttrType>(a.type)) {
    case AttrType::kFloat:
      return AttributeValue(a.f);
    case AttrType::kInt:
      return AttributeValue(a.i);
    case AttrType::kString:
      return AttributeValue(std::string(a.s));
    case AttrType::kFloats:
      return AttributeValue(a.floats);
    case AttrType::kInts:
      return AttributeValue(a.ints);
    case AttrType::kStrings:
      return AttributeValue(std::vector<std::string>(a.strings.begin(), a.strings.end()));
    case AttrType::kTensor: {
      ASSIGN_OR_RETURN(Tensor t, tensor(a.tensors[0]));
      return AttributeValue(std::move(t));
    }
    case AttrType::kTensors: {
      std::vector<Tensor> tensors;
      for (const wire::Tensor& t : a.tensors) {
        ASSIGN_OR_RETURN(tensors.emplace_back(), tensor(t));
      }
      return AttributeValue(std::move(tensors));
    }
    case AttrType::kSparseTensor: {
      ASSIGN_OR_RETURN(auto s, sparse(a.sparse_tensors[0]));
      return AttributeValue(std::move(s));
    }
    case AttrType::kTypeProto: {
      ASSIGN_OR_RETURN(DeclaredType t, type(a.types[0]));
      return AttributeValue(std::move(t.type));
    }
    default:
      return unsupported(fmt::format("attribute '{}' is of kind {}, which no operator here uses", a.name,
                                     name(static_cast<AttrType>(a.type))));
  }
}

StatusOr<DeclaredType> Converter::type(const wire::Type& t) {
  using Kind = wire::Type::Kind;
  const auto element = [&]() -> StatusOr<DType> {
    if (t.elem_type == 0) return DType::kUndefined;
    if (!is_valid_dtype(t.elem_type))
      return unsupported(fmt::format("element type number {} is not known here", t.elem_type));
    return static_cast<DType>(t.elem_type);
  };
  const auto inner = [&]() -> StatusOr<ValueType> {
    DeclaredType d;
    if (t.element) {
      ASSIGN_OR_RETURN(d, type(*t.element));
    }
    if (d.type.is_unknown()) return invalid("a sequence, optional or map type does not say of what");
    return std::move(d.type);
  };
  DeclaredType result;
  switch (t.kind) {
    case Kind::kNone:
      return result;
    case Kind::kOpaque:
      return unsupported("opaque types are not known here");
    case Kind::kTensor:
    case Kind::kSparseTensor: {
      ASSIGN_OR_RETURN(const DType dtype, element());
      if (dtype == DType::kUndefined) return result;
      result.type = t.kind == Kind::kTensor ? ValueType::tensor(dtype) : ValueType::sparse_tensor(dtype);
      break;
    }
    case Kind::kSequence: {
      ASSIGN_OR_RETURN(ValueType of, inner());
      result.type = ValueType::sequence(std::move(of));
      break;
    }
    case Kind::kOptional: {
      ASSIGN_OR_RETURN(ValueType of, inner());
      result.type = ValueType::optional(std::move(of));
      break;
    }
    case Kind::kMap: {
      ASSIGN_OR_RETURN(const DType key, element());
      if (key == DType::kUndefined) return invalid("a map type does not say what its keys are");
      ASSIGN_OR_RETURN(ValueType of, inner());
      result.type = ValueType::map(key, std::move(of));
      break;
    }
  }
  if (!t.has_shape) return result;
  result.shape.has_rank = true;
  for (const wire::Dim& d : t.dims) {
    switch (d.kind) {
      case wire::Dim::Kind::kValue:
        result.shape.dims.push_back(d.value < 0 ? Dim::unknown() : Dim(d.value));
        break;
      case wire::Dim::Kind::kParam:
        result.shape.dims.push_back(d.param.empty() ? Dim::unknown() : Dim::symbol(d.param));
        break;
      case wire::Dim::Kind::kUnknown:
        result.shape.dims.push_back(Dim::unknown());
        break;
    }
  }
  return result;
}

}  // namespace forethought
