// All operator schemas of ONNX (every domain, every version) as constant data; the table is generated at build time.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace forethought {

// AttributeProto.AttributeType, with its numbers.
enum class AttrType : uint8_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14,
};
constexpr int kAttrTypeCount = 15;
std::string_view name(AttrType type);  // "INTS"

// The types that a formal parameter allows. Bit n of a mask is TensorProto.DataType n.
struct AllowedTypes {
  uint32_t tensor = 0;             // tensor(x)
  uint32_t sequence = 0;           // seq(tensor(x))
  uint32_t optional_tensor = 0;    // optional(tensor(x))
  uint32_t optional_sequence = 0;  // optional(seq(tensor(x)))
  bool map = false;                // some map(...)
  bool sequence_of_maps = false;   // some seq(map(...))

  constexpr bool allows_tensor(DType t) const { return TypeSet(tensor).contains(t); }
};

enum class FormalKind : uint8_t { kSingle, kOptional, kVariadic };

struct FormalParam {
  std::string_view name;
  std::string_view type;  // the name of a type constraint ("T"), or a type ("tensor(int64)")
  const AllowedTypes* allowed;
  FormalKind kind;
  bool homogeneous;   // of a variadic one: all have one type
  uint8_t min_arity;  // of a variadic one
};

struct AttributeSchema {
  std::string_view name;
  AttrType type;
  bool required;
  bool has_default;  // then the member of `type` below holds it
  float f;
  int64_t i;
  std::string_view s;
  std::span<const int64_t> ints;
  std::span<const std::string_view> strings;
};

struct TypeConstraint {
  std::string_view name;
  const AllowedTypes* allowed;
};

// A static function body; `bytes` is a serialized FunctionProto that imports the default domain at `opset`.
struct FunctionBody {
  int opset;
  std::string_view bytes;
};

struct OpSchema {
  std::string_view domain;  // "" is ai.onnx
  std::string_view name;
  int since_version;
  bool deprecated;
  bool non_deterministic;
  bool context_dependent_body;  // has a function body that depends on the node; it is not in this table
  std::span<const FormalParam> inputs, outputs;
  int min_inputs, max_inputs, min_outputs, max_outputs;  // INT32_MAX: any number
  std::span<const AttributeSchema> attributes;           // sorted by name
  std::span<const TypeConstraint> constraints;
  std::span<const FunctionBody> bodies;  // by rising opset

  const AttributeSchema* find_attribute(std::string_view attribute) const;
  // The formal parameter of the index-th actual input (a variadic one repeats); null if there are too many.
  const FormalParam* input(int index) const;
  const FormalParam* output(int index) const;
  // The newest static body whose opset is at most `opset_version`; null if there is none.
  const FunctionBody* body_for(int opset_version) const;
};

// Sorted by domain, name and version.
std::span<const OpSchema> all_schemas();

// "ai.onnx" and "" are one domain; this makes them one string.
constexpr std::string_view canonical_domain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

// The newest version of the operator that the opset has (since_version <= opset_version); null if there is none.
const OpSchema* find_schema(std::string_view domain, std::string_view op, int opset_version);
// All versions of one operator, oldest first; empty if there is no such operator.
std::span<const OpSchema> schema_versions(std::string_view domain, std::string_view op);
bool is_known_domain(std::string_view domain);
// The newest opset version of a domain that the table knows; 0 for an unknown domain.
int newest_opset(std::string_view domain);

// The known operator whose name is most like `op` (edit distance, case apart; `domain` first); null if none is near.
const OpSchema* nearest_schema(std::string_view domain, std::string_view op);
// The most similar of `candidates`, or empty if none is near: for "did you mean" in messages.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace forethought
