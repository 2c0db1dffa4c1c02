// The messages of onnx.proto as light structs: text and bytes are views into the file, numbers are decoded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace forethought::wire {

struct StringEntry {
  std::string_view key, value;
};

struct OpsetId {
  std::string_view domain;
  int64_t version = 0;
};

struct Dim {
  enum class Kind : uint8_t { kUnknown, kValue, kParam };
  Kind kind = Kind::kUnknown;
  int64_t value = 0;
  std::string_view param;
};

// TensorProto. Where the elements lie is recorded; tensor_data.h reads them.
struct Tensor {
  std::string_view name, doc;
  std::vector<int64_t> dims;
  int32_t data_type = 0;
  bool external = false;  // data_location is EXTERNAL
  bool has_raw = false;
  bool has_typed = false;    // float_data or another field of numbers was seen
  bool has_segment = false;  // a piece of a larger tensor: no writer is known to make these
  std::string_view raw;
  std::vector<StringEntry> external_data, metadata;
  std::vector<std::string_view> strings;
  std::string_view message;  // the whole TensorProto as read, for the fields of numbers
};

struct SparseTensor {
  Tensor values, indices;
  std::vector<int64_t> dims;
};

struct Type {
  enum class Kind : uint8_t { kNone, kTensor, kSparseTensor, kSequence, kMap, kOptional, kOpaque };
  Kind kind = Kind::kNone;
  int32_t elem_type = 0;  // of tensors; the key type of maps
  bool has_shape = false;
  std::vector<Dim> dims;
  std::unique_ptr<Type> element;  // of sequences and optionals; the value type of maps
};

struct ValueInfo {
  std::string_view name, doc;
  Type type;
};

struct Graph;

struct Attribute {
  std::string_view name, ref_name, doc;
  int32_t type = 0;  // AttrType's numbers; deduced from the fields where a file leaves it out
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
  std::vector<Tensor> tensors;  // one for TENSOR
  std::vector<Graph> graphs;    // one for GRAPH
  std::vector<SparseTensor> sparse_tensors;
  std::vector<Type> types;
};

struct Node {
  std::string_view name, op_type, domain, overload, doc;
  std::vector<std::string_view> inputs, outputs;
  std::vector<Attribute> attributes;
  std::vector<StringEntry> metadata;
};

struct Graph {
  std::string_view name, doc;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<SparseTensor> sparse_initializers;
  std::vector<ValueInfo> inputs, outputs, value_infos;
  std::vector<StringEntry> metadata;
};

struct Function {
  std::string_view name, domain, overload, doc;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes;  // without a default
  std::vector<Attribute> default_attributes;
  std::vector<Node> nodes;
  std::vector<OpsetId> opsets;
  std::vector<ValueInfo> value_infos;
};

struct Model {
  int64_t ir_version = 0;
  int64_t model_version = 0;
  std::string_view producer_name, producer_version, domain, doc;
  std::vector<OpsetId> opsets;
  bool has_graph = false;
  Graph graph;
  std::vector<StringEntry> metadata;
  std::vector<Function> functions;
};

// What a file may ask of the reader before it is refused.
struct Limits {
  int graph_depth = 128;          // graphs within attributes within graphs
  int type_depth = 32;            // sequences of sequences …
  int64_t messages = 16'000'000;  // nodes, attributes, tensors, types … together
};

// Both keep views into `bytes`, which must outlive the result.
StatusOr<Model> parse_model(std::string_view bytes, const Limits& limits = {});
StatusOr<Function> parse_function(std::string_view bytes, const Limits& limits = {});
StatusOr<Tensor> parse_tensor(std::string_view bytes, const Limits& limits = {});
StatusOr<Graph> parse_graph(std::string_view bytes, const Limits& limits = {});

// The message's bytes. Tensors are written with raw_data, string_data or external_data only.
std::string serialize(const Model& model);
std::string serialize(const Tensor& tensor);

}  // namespace forethought::wire
