// Builds small models for tests: a wire::Model from literals, and the bytes or the graph made of it.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "graph/schema/schema.h"
#include "onnx/import/import.h"
#include "onnx/wire/wire.h"

namespace forethought::onnx_testing {

inline wire::Attribute attr(std::string_view name, int64_t v) {
  return {.name = name, .type = static_cast<int32_t>(AttrType::kInt), .i = v};
}
inline wire::Attribute attr(std::string_view name, float v) {
  return {.name = name, .type = static_cast<int32_t>(AttrType::kFloat), .f = v};
}
inline wire::Attribute attr(std::string_view name, std::string_view v) {
  return {.name = name, .type = static_cast<int32_t>(AttrType::kString), .s = v};
}
inline wire::Attribute attr(std::string_view name, std::vector<int64_t> v) {
  return {.name = name, .type = static_cast<int32_t>(AttrType::kInts), .ints = std::move(v)};
}
inline wire::Attribute attr(std::string_view name, std::vector<float> v) {
  return {.name = name, .type = static_cast<int32_t>(AttrType::kFloats), .floats = std::move(v)};
}
inline wire::Attribute attr(std::string_view name, wire::Graph g) {
  wire::Attribute a{.name = name, .type = static_cast<int32_t>(AttrType::kGraph)};
  a.graphs.push_back(std::move(g));
  return a;
}
inline wire::Attribute attr(std::string_view name, wire::Tensor t) {
  wire::Attribute a{.name = name, .type = static_cast<int32_t>(AttrType::kTensor)};
  a.tensors.push_back(std::move(t));
  return a;
}
inline wire::Attribute ref(std::string_view name, std::string_view to, AttrType type) {
  return {.name = name, .ref_name = to, .type = static_cast<int32_t>(type)};
}

template <typename... A>
std::vector<wire::Attribute> attrs(A&&... a) {
  std::vector<wire::Attribute> list;
  (list.push_back(std::forward<A>(a)), ...);
  return list;
}

inline wire::Node node(std::string_view op, std::vector<std::string_view> inputs, std::vector<std::string_view> outputs,
                       std::vector<wire::Attribute> attributes = {}) {
  return {.name = outputs.empty() ? std::string_view() : outputs[0],
          .op_type = op,
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .attributes = std::move(attributes)};
}

// A negative dim is unknown. `rank_known` false leaves the shape out.
inline wire::ValueInfo value(std::string_view name, DType dtype, std::vector<int64_t> dims = {},
                             bool rank_known = true) {
  wire::Type t{.kind = wire::Type::Kind::kTensor, .elem_type = static_cast<int32_t>(dtype), .has_shape = rank_known};
  for (const int64_t d : dims) {
    t.dims.push_back(d < 0 ? wire::Dim{} : wire::Dim{wire::Dim::Kind::kValue, d, {}});
  }
  return {.name = name, .type = std::move(t)};
}

// Holds the bytes of the tensors that it makes.
class Models {
 public:
  template <typename T>
  wire::Tensor tensor(std::string_view name, std::vector<int64_t> dims, const std::vector<T>& values) {
    const std::string_view bytes =
        kept_.emplace_back(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return {.name = name,
            .dims = std::move(dims),
            .data_type = static_cast<int32_t>(dtype_of<T>),
            .has_raw = true,
            .raw = bytes};
  }
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }

 private:
  std::deque<std::string> kept_;
};

inline wire::Model model(int opset, int64_t ir = 8) {
  wire::Model m{.ir_version = ir};
  m.opsets.push_back({"", opset});
  m.has_graph = true;
  m.graph.name = "g";
  return m;
}

// The graph of a model; it keeps the bytes.
inline StatusOr<std::unique_ptr<Graph>> import(const wire::Model& m, const ImportOptions& options = {}) {
  auto bytes = std::make_unique<std::string>(wire::serialize(m));
  const std::string_view view = *bytes;
  return import_model({view, hold(std::move(bytes))}, options);
}

}  // namespace forethought::onnx_testing
