// Helpers of this folder's tests: short tensors, refusals, and inference on symbols alone.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/op_testing.h"

namespace forethought::movement {

inline Tensor i64(const std::vector<int64_t>& v) { return tensor_of<int64_t>({static_cast<int64_t>(v.size())}, v); }

// 0, 1, 2 … in the given shape.
inline Tensor iota(std::initializer_list<int64_t> dims) {
  std::vector<float> v(static_cast<size_t>(element_count(Dims(dims)).value()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  return tensor_of<float>(dims, v);
}

inline std::vector<int64_t> dims_of(const Value& v) {
  return std::vector<int64_t>(v.tensor().dims.begin(), v.tensor().dims.end());
}

// Runs the case with parameters as constants and as run-time values, with and without sharing memory, with sizes known
// before the run and only in it, and expects the same f32 output each time.
inline void expect_floats(OpCase c, const std::vector<int64_t>& dims, const std::vector<float>& want) {
  for (int how : {0, 1, 2})
    for (uint32_t constants : {0u, 0xfffeu}) {
      c.share = how == 1;
      c.sized_late = how == 2;
      c.constants = constants & ((1u << c.inputs.size()) - 1);
      for (size_t i = 0; i < c.inputs.size(); ++i)
        if (c.inputs[i].is_none()) c.constants &= ~(1u << i);
      const auto r = run_case(c);
      ASSERT_TRUE(r.ok()) << c.op << ": " << r.status();
      EXPECT_EQ(dims_of(r->outputs[0]), dims) << c.op << " " << r->facts.kernel;
      EXPECT_EQ(output_of<float>(*r), want) << c.op << " " << r->facts.kernel << " way " << how;
    }
}

inline void expect_refused(const OpCase& c, std::string_view says) {
  const auto r = run_case(c);
  ASSERT_FALSE(r.ok()) << c.op << " should say: " << says;
  EXPECT_NE(r.status().code(), absl::StatusCode::kInternal) << r.status();
  EXPECT_NE(std::string(r.status().message()).find(says), std::string::npos) << r.status() << "\nshould say: " << says;
}

// What is known of an input: "[N,3]" or "?" for the shape, the elements as text if they are followed.
struct Known {
  std::string shape;
  std::vector<std::string> elements = {};
  DType dtype = DType::kFloat;
};
inline Known elements(std::vector<std::string> v) { return {"[" + std::to_string(v.size()) + "]", v, DType::kInt64}; }

inline SymShape shape_from(std::string text) {
  text = text.substr(0, text.find(" = "));
  if (text == "?") return SymShape::unknown();
  SymShape s = SymShape::scalar();
  std::string inside = text.substr(1, text.size() - 2), part;
  int depth = 0;
  const auto flush = [&] {
    if (!part.empty()) s.dims.push_back(dim_from_text(part).value());
    part.clear();
  };
  for (char ch : inside) {
    depth += ch == '(' ? 1 : ch == ')' ? -1 : 0;
    if (ch == ',' && depth == 0)
      flush();
    else
      part += ch;
  }
  flush();
  return s;
}

// Infers one node from what is known. The result reads "[N,3]" or "[2] = {N,3}"; an error reads "error: …".
inline std::string inferred(const std::string& op, const std::vector<Known>& inputs, Attributes attributes = {},
                            int out = 0, int outputs = 1) {
  Graph graph;
  std::vector<ValueId> in_ids, out_ids;
  std::vector<ValueType> types;
  std::vector<SymShape> shapes;
  std::vector<SymValue> values(inputs.size());
  for (const Known& k : inputs) {
    types.push_back(ValueType::tensor(k.dtype));
    in_ids.push_back(graph.add_input("x", types.back(), {}));
    shapes.push_back(shape_from(k.shape));
    for (const std::string& e : k.elements) values[shapes.size() - 1].ints.push_back(dim_from_text(e).value());
  }
  for (int i = 0; i < outputs; ++i) out_ids.push_back(graph.add_value("y"));
  const NodeId id = graph.add_node({"", op, 1}, op, in_ids, out_ids, std::move(attributes));
  const auto bound = operator_library().bind(graph.node(id));
  if (!bound.ok()) return "error: " + std::string(bound.status().message());
  std::vector<InferInput> in;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool followed = !inputs[i].elements.empty() || inputs[i].shape == "[0]";
    in.push_back({true, &types[i], &shapes[i], nullptr, followed ? &values[i] : nullptr});
  }
  std::vector<InferOutput> result(static_cast<size_t>(outputs));
  for (InferOutput& o : result) o.wanted = true;
  InferCtx ctx(in, result);
  if (const Status s = (*bound)->infer(ctx); !s.ok()) return "error: " + std::string(s.message());
  const InferOutput& o = result[static_cast<size_t>(out)];
  std::string text = to_string(o.shape);
  if (o.has_value) {
    text += " = {";
    for (size_t i = 0; i < o.value.ints.size(); ++i) text += (i ? "," : "") + to_string(o.value.ints[i]);
    text += "}";
  }
  return text;
}

}  // namespace forethought::movement
