#include "onnx/upgrade/rewriter.h"

#include <cstring>

#include "graph/schema/schema.h"
#include "onnx/import/types.h"

namespace forethought {

void NodeForm::set_input(size_t i, ValueId v) {
  if (i >= inputs.size()) inputs.resize(i + 1);
  inputs[i] = v;
}

void NodeForm::trim_inputs() {
  while (!inputs.empty() && !inputs.back().valid()) inputs.pop_back();
}

std::optional<std::vector<int64_t>> int_elements(const Tensor& t) {
  if (t.dtype != DType::kInt64 && t.dtype != DType::kInt32) return std::nullopt;
  std::vector<int64_t> out(static_cast<size_t>(t.elements()));
  for (size_t i = 0; i < out.size(); ++i) {
    const auto* p = static_cast<const char*>(t.data);
    if (t.dtype == DType::kInt64) {
      std::memcpy(&out[i], p + i * 8, 8);
    } else {
      int32_t v;
      std::memcpy(&v, p + i * 4, 4);
      out[i] = v;
    }
  }
  return out;
}

std::optional<double> first_element(const Tensor& t) {
  if (t.elements() < 1) return std::nullopt;
  std::optional<double> result;
  dispatch(t.dtype, NumberTypes{}, [&]<typename T>() {
    T v;
    std::memcpy(&v, t.data, sizeof v);
    if constexpr (std::is_arithmetic_v<T>) {
      result = static_cast<double>(v);
    } else {
      result = static_cast<float>(v);
    }
  });
  return result;
}

ValueId Rewriter::ints(const std::vector<int64_t>& values) {
  const int64_t n = static_cast<int64_t>(values.size());
  Tensor t = make_tensor(DType::kInt64, std::span(&n, 1)).value();
  if (n > 0) std::memcpy(t.data, values.data(), values.size() * 8);
  return constant(std::move(t));
}

ValueId Rewriter::scalar(DType dtype, double value) {
  Tensor t = make_tensor(dtype, {}).value();
  const bool known = dispatch(dtype, NumberTypes{}, [&]<typename T>() { *t.as<T>() = static_cast<T>(value); });
  FT_CHECK(known || dtype == DType::kBool);
  if (dtype == DType::kBool) *t.as<bool>() = value != 0;
  return constant(std::move(t));
}

ValueId Rewriter::node(std::string_view type, std::vector<ValueId> inputs, Attributes attributes) {
  const ValueId out = graph_.add_value(name_ + "/" + std::string(type));
  node_into(type, std::move(inputs), out, std::move(attributes));
  return out;
}

void Rewriter::node_into(std::string_view type, std::vector<ValueId> inputs, ValueId output, Attributes attributes) {
  const auto versions = schema_versions("", type);
  FT_CHECK(!versions.empty());
  const NodeId id =
      graph_.add_node({"", std::string(type), versions.back().since_version}, name_ + "/" + std::string(type),
                      std::move(inputs), {output}, std::move(attributes));
  derive_output_types(graph_, id);
  made_.push_back(id);
}

ValueId Rewriter::like(ValueId model) {
  return graph_.add_value(name_ + "/" + graph_.value(model).name, graph_.value(model).type);
}

const Tensor* Rewriter::contents(ValueId v) const {
  return graph_.is_constant(v) ? &*graph_.value(v).constant : nullptr;
}

std::optional<std::vector<int64_t>> Rewriter::int_contents(ValueId v) const {
  const Tensor* t = contents(v);
  return t ? int_elements(*t) : std::nullopt;
}

std::optional<int> Rewriter::rank(ValueId v) const {
  if (!v.valid()) return std::nullopt;
  const GraphValue& value = graph_.value(v);
  if (value.constant) return static_cast<int>(value.constant->dims.size());
  if (value.is_input && value.shape.has_rank) return value.shape.rank();
  return std::nullopt;
}

DType Rewriter::dtype(ValueId v) const {
  if (v.valid() && graph_.value(v).type.is_tensor()) return graph_.value(v).type.dtype();
  const DType hinted = v.valid() ? hint_(v) : DType::kUndefined;
  return hinted == DType::kUndefined ? DType::kFloat : hinted;
}

}  // namespace forethought
