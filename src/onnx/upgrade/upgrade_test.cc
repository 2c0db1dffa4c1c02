// Each rule: what an old form becomes, and that the newest form goes back to the old one where that can say it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "onnx/testing.h"
#include "onnx/upgrade/rules.h"

namespace forethought {
namespace {

using namespace onnx_testing;  // NOLINT

constexpr DType kF = DType::kFloat;

// Constants lie in the file, at any address.
template <typename T>
T element(const Tensor& t, int64_t i) {
  T x;
  std::memcpy(&x, static_cast<const char*>(t.data) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return x;
}

std::string text_of(const Tensor& t) {
  std::vector<std::string> items;
  for (int64_t i = 0; i < t.elements(); ++i) {
    switch (t.dtype) {
      case DType::kFloat:
        items.push_back(absl::StrCat(element<float>(t, i)));
        break;
      case DType::kInt64:
        items.push_back(absl::StrCat(element<int64_t>(t, i)));
        break;
      case DType::kBool:
        items.push_back(element<uint8_t>(t, i) ? "true" : "false");
        break;
      case DType::kFloat16:
        items.push_back(absl::StrCat(static_cast<float>(element<Float16>(t, i)), "h"));
        break;
      default:
        items.push_back("?");
    }
  }
  return t.dims.empty() ? absl::StrJoin(items, ",") : absl::StrCat("[", absl::StrJoin(items, ","), "]");
}

// "y = Slice(x, [1], [2])": constants by their contents, attributes after a semicolon.
std::string text_of(const Graph& g, NodeId id) {
  const GraphNode& n = g.node(id);
  std::vector<std::string> in, out, attributes;
  for (const ValueId v : n.inputs) {
    in.push_back(!v.valid() ? "_" : g.is_constant(v) ? text_of(*g.value(v).constant) : g.value(v).name);
  }
  for (const ValueId v : n.outputs) out.push_back(v.valid() ? g.value(v).name : "_");
  for (const auto& [name, value] : n.attributes) {
    std::string text = "?";
    if (const auto* i = std::get_if<int64_t>(&value)) text = absl::StrCat(*i);
    if (const auto* f = std::get_if<float>(&value)) text = absl::StrCat(*f);
    if (const auto* s = std::get_if<std::string>(&value)) text = *s;
    if (const auto* is = std::get_if<std::vector<int64_t>>(&value))
      text = absl::StrCat("[", absl::StrJoin(*is, ","), "]");
    if (const auto* t = std::get_if<Tensor>(&value)) text = text_of(*t);
    attributes.push_back(absl::StrCat(name, "=", text));
  }
  return absl::StrCat(absl::StrJoin(out, ", "), " = ", n.op.type, "(", absl::StrJoin(in, ", "),
                      attributes.empty() ? "" : "; ", absl::StrJoin(attributes, ", "), ")");
}
std::string text_of(const Graph& g) {
  std::vector<std::string> lines;
  for (const NodeId id : g.order()) lines.push_back(text_of(g, id));
  return absl::StrJoin(lines, "\n");
}

struct Row {
  int opset;
  std::string_view op;
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::vector<wire::Attribute> attributes;
  std::string expected;  // the graph after import
  int back = 0;          // the opset at which the one node can be written again; 0: it is not one node, or not asked
};

// Inputs by name: x [2,3,4,5] and u (unknown rank) f32, h f16, b [3,4]; constants c [3], s (scalar), k [4] i64.
wire::Model model_of(Models& t, Row& row) {
  wire::Model m = model(row.opset, 4);
  m.graph.inputs.push_back(value("x", kF, {2, 3, 4, 5}));
  m.graph.inputs.push_back(value("u", kF, {}, false));
  m.graph.inputs.push_back(value("h", DType::kFloat16, {2, 3}));
  m.graph.inputs.push_back(value("b", kF, {3, 4}));
  m.graph.inputs.push_back(value("v", DType::kBool, {3, 4}));
  m.graph.inputs.push_back(value("q", kF, {4, 5}));
  m.graph.initializers.push_back(t.tensor<float>("c", {3}, {1, 2, 3}));
  m.graph.initializers.push_back(t.tensor<float>("s", {1}, {0.5f}));
  m.graph.initializers.push_back(t.tensor<float>("scales", {4}, {1, 1, 2, 2}));
  m.graph.initializers.push_back(t.tensor<float>("none", {0}, {}));
  m.graph.initializers.push_back(t.tensor<int64_t>("sizes", {4}, {2, 3, 8, 10}));
  m.graph.initializers.push_back(t.tensor<int64_t>("parts", {2}, {1, 2}));
  wire::Node n = node(row.op, row.inputs, row.outputs, std::move(row.attributes));
  n.name = "n";
  m.graph.nodes.push_back(std::move(n));
  m.graph.outputs.push_back({.name = row.outputs[0]});
  return m;
}

std::vector<Row> rows() {
  using I = std::vector<int64_t>;
  std::vector<Row> r;
  const auto add = [&](int opset, std::string_view op, std::vector<std::string_view> in, std::vector<wire::Attribute> a,
                       std::string expected, int back = 0, std::vector<std::string_view> out = {"y"}) {
    r.push_back({opset, op, std::move(in), std::move(out), std::move(a), std::move(expected), back});
  };
  // Broadcasting before 7.
  add(6, "Add", {"x", "x"}, {}, "y = Add(x, x)", 6);
  add(6, "Add", {"x", "q"}, attrs(attr("broadcast", int64_t{1})), "y = Add(x, q)", 6);
  add(6, "Mul", {"x", "c"}, attrs(attr("broadcast", int64_t{1}), attr("axis", int64_t{1})),
      "n/Unsqueeze = Unsqueeze([1,2,3], [1,2])\ny = Mul(x, n/Unsqueeze)");
  add(6, "Pow", {"x", "b"}, attrs(attr("broadcast", int64_t{1}), attr("axis", int64_t{1})),
      "n/Unsqueeze = Unsqueeze(b, [2])\ny = Pow(x, n/Unsqueeze)");
  add(6, "Sub", {"u", "c"}, attrs(attr("broadcast", int64_t{1}), attr("axis", int64_t{1})),
      "n/Shape = Shape([1,2,3])\n"
      "n/Shape_1 = Shape(u)\n"
      "n/Size = Size(n/Shape_1)\n"
      "n/Size_1 = Size(n/Shape)\n"
      "n/Sub = Sub(n/Size, 1)\n"
      "n/Sub_1 = Sub(n/Sub, n/Size_1)\n"
      "n/Unsqueeze = Unsqueeze(n/Sub_1, [0])\n"
      "n/ConstantOfShape = ConstantOfShape(n/Unsqueeze; value=[1])\n"
      "n/Concat = Concat(n/Shape, n/ConstantOfShape; axis=0)\n"
      "n/Reshape = Reshape([1,2,3], n/Concat; allowzero=1)\n"
      "y = Sub(u, n/Reshape)");
  add(6, "Equal", {"v", "v"}, {}, "y = Equal(v, v)", 6);
  add(1, "Div", {"x", "x"}, attrs(attr("consumed_inputs", I{0, 0})), "y = Div(x, x)", 1);
  add(6, "Gemm", {"b", "q", "c"}, attrs(attr("broadcast", int64_t{1})), "y = Gemm(b, q, [1,2,3])", 6);
  add(6, "PRelu", {"x", "c"}, {}, "n/Unsqueeze = Unsqueeze([1,2,3], [1,2])\ny = PRelu(x, n/Unsqueeze)");
  add(6, "PRelu", {"x", "s"}, {}, "y = PRelu(x, [0.5])", 7);
  // Reductions.
  add(12, "ReduceSum", {"x"}, attrs(attr("axes", I{1, 2}), attr("keepdims", int64_t{0})),
      "y = ReduceSum(x, [1,2]; keepdims=0)", 12);
  add(17, "ReduceMean", {"x"}, attrs(attr("axes", I{-1})), "y = ReduceMean(x, [-1])", 17);
  add(9, "ReduceMax", {"x"}, {}, "y = ReduceMax(x)", 9);
  // Attributes that became inputs.
  add(1, "Reshape", {"x"}, attrs(attr("shape", I{6, -1})), "y = Reshape(x, [6,-1])", 1);
  add(9, "Slice", {"x"}, attrs(attr("starts", I{1, 0}), attr("ends", I{2, 9}), attr("axes", I{1, 2})),
      "y = Slice(x, [1,0], [2,9], [1,2])", 9);
  add(9, "Slice", {"x"}, attrs(attr("starts", I{1}), attr("ends", I{2})), "y = Slice(x, [1], [2])", 9);
  add(11, "Squeeze", {"x"}, attrs(attr("axes", I{0})), "y = Squeeze(x, [0])", 11);
  add(11, "Squeeze", {"x"}, {}, "y = Squeeze(x)", 11);
  add(11, "Unsqueeze", {"x"}, attrs(attr("axes", I{0, 5})), "y = Unsqueeze(x, [0,5])", 11);
  add(2, "Split", {"x"}, attrs(attr("axis", int64_t{1}), attr("split", I{1, 2})), "y, z = Split(x, [1,2]; axis=1)", 2,
      {"y", "z"});
  add(11, "Split", {"x"}, {}, "y, z = Split(x; num_outputs=2)", 11, {"y", "z"});
  add(13, "Split", {"x", "parts"}, attrs(attr("axis", int64_t{1})), "y, z = Split(x, [1,2]; axis=1)", 13, {"y", "z"});
  add(1, "Split", {"x", "parts"}, attrs(attr("axis", int64_t{1})), "y, z = Split(x, [1,2]; axis=1)", 1, {"y", "z"});
  add(1, "Pad", {"x"}, attrs(attr("paddings", I{0, 0, 1, 1, 0, 0, 1, 1})), "y = Pad(x, [0,0,1,1,0,0,1,1])", 1);
  add(2, "Pad", {"x"}, attrs(attr("pads", I{0, 0, 1, 1, 0, 0, 1, 1}), attr("value", 0.5f), attr("mode", "constant")),
      "y = Pad(x, [0,0,1,1,0,0,1,1], 0.5; mode=constant)", 2);
  add(2, "Pad", {"h"}, attrs(attr("pads", I{0, 1, 0, 1}), attr("value", 0.5f)), "y = Pad(h, [0,1,0,1], 0.5h)", 2);
  add(9, "TopK", {"x"}, attrs(attr("k", int64_t{2}), attr("axis", int64_t{3})), "y, z = TopK(x, [2]; axis=3)", 9,
      {"y", "z"});
  // Cast, Clip, Dropout.
  add(5, "Cast", {"x"}, attrs(attr("to", "FLOAT16")), "y = Cast(x; to=10)", 5);
  add(9, "Cast", {"x"}, attrs(attr("to", int64_t{7})), "y = Cast(x; to=7)", 9);
  add(6, "Clip", {"x"}, attrs(attr("min", 0.0f), attr("max", 6.0f)), "y = Clip(x, 0, 6)", 6);
  add(10, "Clip", {"h"}, attrs(attr("max", 6.0f)), "y = Clip(h, _, 6h)", 10);
  add(6, "Clip", {"x"}, {}, "y = Clip(x)", 6);
  add(6, "Dropout", {"x"}, attrs(attr("is_test", int64_t{1}), attr("ratio", 0.25f)), "y = Dropout(x, 0.25)", 6);
  add(6, "Dropout", {"x"}, attrs(attr("ratio", 0.25f)), "y = Dropout(x, 0.25)", 6);
  add(7, "Dropout", {"x"}, {}, "y, n/z = Dropout(x)\nz = Cast(n/z; to=1)", 0, {"y", "z"});
  add(6, "Dropout", {"x"}, {}, "y, n/z = Dropout(x, 0.5, true)\nz = Cast(n/z; to=1)", 0, {"y", "z"});
  add(10, "Dropout", {"x"}, attrs(attr("ratio", 0.25f)), "y, z = Dropout(x, 0.25)", 10, {"y", "z"});
  // Softmax.
  add(11, "Softmax", {"x"}, {}, "y = Softmax(x; _coerce_2d=1, axis=1)", 11);
  add(11, "Softmax", {"x"}, attrs(attr("axis", int64_t{3})), "y = Softmax(x; axis=3)", 11);
  add(9, "LogSoftmax", {"u"}, attrs(attr("axis", int64_t{2})), "y = LogSoftmax(u; _coerce_2d=1, axis=2)", 9);
  add(13, "Softmax", {"x"}, {}, "y = Softmax(x)", 13);
  // BatchNormalization.
  add(6, "BatchNormalization", {"x", "c", "c", "c", "c"}, attrs(attr("is_test", int64_t{1})),
      "y = BatchNormalization(x, [1,2,3], [1,2,3], [1,2,3], [1,2,3])", 6);
  add(9, "BatchNormalization", {"x", "c", "c", "c", "c"}, attrs(attr("epsilon", 0.5f)),
      "y = BatchNormalization(x, [1,2,3], [1,2,3], [1,2,3], [1,2,3]; epsilon=0.5)", 9);
  add(9, "BatchNormalization", {"x", "c", "c", "c", "c"}, {},
      "y, m, v2 = BatchNormalization(x, [1,2,3], [1,2,3], [1,2,3], [1,2,3]; training_mode=1)", 14, {"y", "m", "v2"});
  add(6, "BatchNormalization", {"h", "h", "h", "h", "h"},
      attrs(attr("is_test", int64_t{1}), attr("spatial", int64_t{0})),
      "n/Add = Add(h, 1.00136e-05h)\nn/Sqrt = Sqrt(n/Add)\nn/Sub = Sub(h, h)\nn/Div = Div(n/Sub, n/Sqrt)\n"
      "n/Mul = Mul(n/Div, h)\ny = Add(n/Mul, h)");
  // Resize and its forebears.
  const std::string legacy = "coordinate_transformation_mode=asymmetric, mode=nearest, nearest_mode=floor)";
  add(1, "Upsample", {"x"}, attrs(attr("height_scale", 2.0f), attr("width_scale", 2.0f)),
      "y = Resize(x, _, [1,1,2,2]; " + legacy, 7);
  add(7, "Upsample", {"x"}, attrs(attr("scales", std::vector<float>{1, 1, 2, 2})),
      "y = Resize(x, _, [1,1,2,2]; " + legacy, 7);
  add(9, "Upsample", {"x", "scales"}, attrs(attr("mode", "linear")),
      "y = Resize(x, _, [1,1,2,2]; coordinate_transformation_mode=asymmetric, mode=linear)", 9);
  add(10, "Resize", {"x", "scales"}, {}, "y = Resize(x, _, [1,1,2,2]; " + legacy, 10);
  add(11, "Resize", {"x", "none", "none", "sizes"}, {}, "y = Resize(x, _, _, [2,3,8,10])", 13);
  add(11, "Resize", {"x", "none", "scales"}, {}, "y = Resize(x, _, [1,1,2,2])", 13);
  // Defaults that changed.
  add(1, "Concat", {"x", "x"}, {}, "y = Concat(x, x; axis=1)", 1);
  add(10, "RoiAlign", {"x", "q", "sizes"}, {},
      "y = RoiAlign(x, q, [2,3,8,10]; coordinate_transformation_mode=output_half_pixel)", 16);
  add(13, "Relu", {"x"}, {}, "y = Relu(x)", 13);
  return r;
}

TEST(Upgrade, EachOldFormBecomesTheNewest) {
  for (Row& row : rows()) {
    const std::string what = absl::StrCat(std::string(row.op), "-", row.opset);
    Models t;
    auto g = import(model_of(t, row));
    ASSERT_TRUE(g.ok()) << what << ": " << g.status();
    EXPECT_TRUE(validate(**g).ok()) << what << ": " << validate(**g);
    EXPECT_EQ(text_of(**g), row.expected) << what;
    for (const NodeId id : (*g)->order()) {
      const GraphNode& n = (*g)->node(id);
      EXPECT_EQ(n.op.version, schema_versions("", n.op.type).back().since_version) << what;
    }
  }
}

TEST(Upgrade, TheNewestFormGoesBack) {
  for (Row& row : rows()) {
    if (row.back == 0) continue;
    const std::string what = absl::StrCat(std::string(row.op), "-", row.opset);
    Models t;
    auto g = import(model_of(t, row));
    ASSERT_TRUE(g.ok()) << what << ": " << g.status();
    const auto order = (*g)->order();
    ASSERT_EQ(order.size(), 1u) << what;
    const GraphNode& n = (*g)->node(order[0]);
    NodeForm form{.type = n.op.type, .version = n.op.version, .attributes = n.attributes};
    form.inputs.assign(n.inputs.begin(), n.inputs.end());
    form.outputs.assign(n.outputs.begin(), n.outputs.end());
    EXPECT_EQ(downgrade(**g, form, row.opset), row.back) << what;
    const OpSchema* schema = find_schema("", form.type, row.back);
    ASSERT_NE(schema, nullptr) << what;
    EXPECT_EQ(form.version, schema->since_version) << what;
    EXPECT_LE(static_cast<int>(form.inputs.size()), schema->max_inputs) << what;
    for (const auto& [name, value] : form.attributes) {
      EXPECT_NE(schema->find_attribute(name), nullptr) << what << " " << name;
    }
  }
}

TEST(Upgrade, RefusesWhatNoOldFormMeant) {
  struct Case {
    int opset;
    std::string_view op;
    std::vector<std::string_view> in, out;
    std::vector<wire::Attribute> attributes;
  };
  std::vector<Case> cases;
  const auto add = [&](int opset, std::string_view op, std::vector<std::string_view> in, std::vector<wire::Attribute> a,
                       std::vector<std::string_view> out = {"y"}) {
    cases.push_back({opset, op, std::move(in), std::move(out), std::move(a)});
  };
  add(6, "Add", {"x", "c"}, attrs(attr("broadcast", int64_t{1}), attr("axis", int64_t{9})));
  add(9, "Slice", {"x"}, {});
  add(5, "Cast", {"x"}, attrs(attr("to", "FLOATY")));
  add(7, "Upsample", {"x"}, attrs(attr("mode", "nearest")));
  add(2, "Pad", {"x"}, {});
  add(9, "TopK", {"x"}, {}, {"y", "z"});
  add(9, "BatchNormalization", {"x", "c", "c", "c", "c"}, {}, {"y", "m", "v2", "saved", "saved2"});
  for (Case& c : cases) {
    Models t;
    Row row{c.opset, c.op, c.in, c.out, std::move(c.attributes), "", 0};
    EXPECT_FALSE(import(model_of(t, row)).ok()) << c.op;
  }
}

TEST(Upgrade, NewFormsThatNoOlderOneCanSayRaiseTheOpset) {
  struct Case {
    int opset;
    std::string_view op;
    std::vector<std::string_view> in;
    std::vector<wire::Attribute> attributes;
    int ask, needed;
  };
  std::vector<Case> cases;
  cases.push_back({13, "Add", {"x", "s"}, {}, 6, 7});
  cases.push_back({14, "Reshape", {"x", "sizes"}, attrs(attr("allowzero", int64_t{1})), 5, 14});
  cases.push_back({18, "ReduceMean", {"x", "sizes"}, attrs(attr("noop_with_empty_axes", int64_t{1})), 11, 11});
  cases.push_back({18, "ReduceMean", {"x"}, attrs(attr("noop_with_empty_axes", int64_t{1})), 11, 18});
  cases.push_back({13, "Slice", {"x", "parts", "parts", "parts", "parts"}, {}, 9, 10});
  cases.push_back({11, "Resize", {"x", "none", "scales"}, {}, 10, 13});
  cases.push_back({13, "Softmax", {"x"}, attrs(attr("axis", int64_t{1})), 11, 13});
  cases.push_back({13, "Relu", {"x"}, {}, 1, 1});
  cases.push_back({20, "Gelu", {"x"}, {}, 1, 20});
  for (Case& c : cases) {
    Models t;
    Row row{c.opset, c.op, c.in, {"y"}, std::move(c.attributes), "", 0};
    auto g = import(model_of(t, row));
    ASSERT_TRUE(g.ok()) << g.status();
    const GraphNode& n = (*g)->node((*g)->order()[0]);
    NodeForm form{.type = n.op.type, .version = n.op.version, .attributes = n.attributes};
    form.inputs.assign(n.inputs.begin(), n.inputs.end());
    form.outputs.assign(n.outputs.begin(), n.outputs.end());
    EXPECT_EQ(downgrade(**g, form, c.ask), c.needed) << c.op;
  }
}

}  // namespace
}  // namespace forethought
