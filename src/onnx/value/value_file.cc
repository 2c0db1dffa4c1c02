#include "onnx/value/value_file.h"

#include <cstring>
#include <protozero/pbf_reader.hpp>

#include "absl/strings/str_cat.h"
#include "onnx/import/convert.h"

namespace forethought {
namespace {

// Field numbers of onnx.proto.
enum SequenceField { kSequenceElemType = 2, kSequenceTensors = 3, kSequenceSequences = 5, kSequenceOptionals = 7 };
enum OptionalField { kOptionalElemType = 2, kOptionalTensor = 3, kOptionalSequence = 5, kOptionalOptional = 7 };
constexpr int kMaxDepth = 16;

StatusOr<Value> tensor_value(std::string_view bytes, const BufferRef& owner) {
  ASSIGN_OR_RETURN(const wire::Tensor parsed, wire::parse_tensor(bytes));
  Converter converter(owner, ExternalFiles());
  ASSIGN_OR_RETURN(Tensor t, converter.tensor(parsed));
  const size_t width = static_cast<size_t>(std::max(8, bit_width(t.dtype)) / 8);
  if (t.dtype != DType::kString && reinterpret_cast<uintptr_t>(t.data) % std::min<size_t>(width, 8) != 0) {
    ASSIGN_OR_RETURN(Tensor copy, make_tensor(t.dtype, t.dims));
    std::memcpy(copy.data, t.data, static_cast<size_t>(t.bytes()));
    t = std::move(copy);
  }
  return Value(std::move(t));
}

StatusOr<Value> read(std::string_view bytes, const BufferRef& owner, const ValueType& type, int depth);

StatusOr<Value> sequence_value(std::string_view bytes, const BufferRef& owner, const ValueType& type, int depth) {
  auto sequence = std::make_shared<Sequence>();
  sequence->element = type.inner() ? *type.inner() : ValueType();
  protozero::pbf_reader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    if (reader.tag() == kSequenceTensors || reader.tag() == kSequenceSequences || reader.tag() == kSequenceOptionals) {
      const protozero::data_view item = reader.get_view();
      ASSIGN_OR_RETURN(Value v, read({item.data(), item.size()}, owner, sequence->element, depth + 1));
      sequence->items.push_back(std::move(v));
    } else {
      reader.skip();
    }
  }
  return Value(std::shared_ptr<const Sequence>(std::move(sequence)));
}

StatusOr<Value> optional_value(std::string_view bytes, const BufferRef& owner, const ValueType& type, int depth) {
  protozero::pbf_reader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    if (reader.tag() == kOptionalTensor || reader.tag() == kOptionalSequence || reader.tag() == kOptionalOptional) {
      const protozero::data_view item = reader.get_view();
      return read({item.data(), item.size()}, owner, type.inner() ? *type.inner() : ValueType(), depth + 1);
    }
    reader.skip();
  }
  return Value();
}

StatusOr<Value> read(std::string_view bytes, const BufferRef& owner, const ValueType& type, int depth) {
  if (depth > kMaxDepth) return invalid("the value is nested too deep");
  switch (type.kind()) {
    case ValueType::Kind::sequence:
      return sequence_value(bytes, owner, type, depth);
    case ValueType::Kind::optional:
      return optional_value(bytes, owner, type, depth);
    case ValueType::Kind::tensor:
    case ValueType::Kind::unknown:
      return tensor_value(bytes, owner);
    default:
      return unsupported(absl::StrCat("values of type ", to_string(type), " cannot be read from a file"));
  }
}

}  // namespace

StatusOr<Value> read_value(const ByteSource& source, const ValueType& type) {
  try {
    return read(source.bytes, source.owner, type, 0);
  } catch (const protozero::exception& e) {
    return invalid(absl::StrCat("the bytes are no ", to_string(type), ": ", e.what()));
  }
}

}  // namespace forethought
