// The wire reader and writer: what is written reads back; damaged bytes end as a status.
#include "onnx/wire/wire.h"

#include <gtest/gtest.h>

#include <cstring>
#include <protozero/pbf_writer.hpp>

#include "graph/schema/schema.h"
#include "onnx/wire/tensor_data.h"

namespace forethought::wire {
namespace {

using protozero::pbf_writer;

constexpr int32_t number(AttrType t) { return static_cast<int32_t>(t); }

Type tensor_type(int32_t elem, std::vector<Dim> dims) {
  return {.kind = Type::Kind::kTensor, .elem_type = elem, .has_shape = true, .dims = std::move(dims)};
}

// Every kind of message and field that the structs know.
Model sample_model() {
  Model m{.ir_version = 10,
          .model_version = 3,
          .producer_name = "test",
          .producer_version = "1",
          .domain = "d",
          .doc = "doc"};
  m.opsets = {{"", 21}, {"ai.onnx.ml", 3}};
  m.metadata = {{"key", "value"}, {"empty", ""}};
  m.has_graph = true;
  Graph& g = m.graph;
  g.name = "g";
  g.doc = "graph doc";
  g.inputs.push_back(
      {.name = "x", .type = tensor_type(1, {{Dim::Kind::kParam, 0, "N"}, {}, {Dim::Kind::kValue, 4, {}}})});
  g.inputs.push_back({.name = "scalar", .type = tensor_type(7, {})});
  Type sequence{.kind = Type::Kind::kSequence, .element = std::make_unique<Type>(tensor_type(8, {}))};
  Type map{.kind = Type::Kind::kMap, .elem_type = 7, .element = std::make_unique<Type>(tensor_type(1, {}))};
  g.outputs.push_back({.name = "s", .doc = "out", .type = std::move(sequence)});
  g.outputs.push_back({.name = "m", .type = std::move(map)});
  g.initializers.push_back({.name = "w", .dims = {2}, .data_type = 1, .has_raw = true, .raw = "12345678"});
  g.initializers.push_back(
      {.name = "e", .dims = {2}, .data_type = 1, .external = true, .external_data = {{"location", "w.bin"}}});
  Node n{.name = "n",
         .op_type = "If",
         .domain = "",
         .overload = "o",
         .doc = "node doc",
         .inputs = {"x", ""},
         .outputs = {"y"}};
  n.attributes.push_back({.name = "f", .type = number(AttrType::kFloat), .f = 0.5f});
  n.attributes.push_back({.name = "i", .type = number(AttrType::kInt), .i = -3});
  n.attributes.push_back({.name = "s", .type = number(AttrType::kString), .s = "text"});
  n.attributes.push_back({.name = "fs", .type = number(AttrType::kFloats), .floats = {1, 2.5f}});
  n.attributes.push_back({.name = "is", .type = number(AttrType::kInts), .ints = {-1, 1LL << 40}});
  n.attributes.push_back({.name = "ss", .type = number(AttrType::kStrings), .strings = {"a", "", "c"}});
  n.attributes.push_back({.name = "ref", .ref_name = "outer", .type = number(AttrType::kInt)});
  Attribute t{.name = "t", .type = number(AttrType::kTensor)};
  t.tensors.push_back({.dims = {}, .data_type = 8, .strings = {"hello"}});
  n.attributes.push_back(std::move(t));
  Attribute branch{.name = "then_branch", .type = number(AttrType::kGraph)};
  branch.graphs.emplace_back().name = "inner";
  n.attributes.push_back(std::move(branch));
  n.metadata = {{"k", "v"}};
  g.nodes.push_back(std::move(n));
  Function f{.name = "fn", .domain = "local", .inputs = {"a"}, .outputs = {"b"}, .attributes = {"alpha"}};
  f.opsets = {{"", 18}};
  f.nodes.push_back({.op_type = "Relu", .inputs = {"a"}, .outputs = {"b"}});
  m.functions.push_back(std::move(f));
  return m;
}

TEST(Wire, RoundTrip) {
  const std::string bytes = serialize(sample_model());
  auto parsed = parse_model(bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(serialize(*parsed), bytes);
  const Model& m = *parsed;
  ASSERT_EQ(m.graph.inputs.size(), 2u);
  EXPECT_EQ(m.graph.inputs[0].type.dims[0].param, "N");
  EXPECT_EQ(m.graph.inputs[0].type.dims[1].kind, Dim::Kind::kUnknown);
  EXPECT_EQ(m.graph.inputs[0].type.dims[2].value, 4);
  EXPECT_TRUE(m.graph.inputs[1].type.has_shape);
  EXPECT_EQ(m.graph.outputs[0].type.element->elem_type, 8);
  ASSERT_EQ(m.graph.nodes.size(), 1u);
  EXPECT_EQ(m.graph.nodes[0].inputs, (std::vector<std::string_view>{"x", ""}));
  EXPECT_EQ(m.graph.nodes[0].attributes[4].ints, (std::vector<int64_t>{-1, 1LL << 40}));
  EXPECT_EQ(m.graph.nodes[0].attributes[8].graphs[0].name, "inner");
  EXPECT_EQ(m.functions[0].nodes[0].op_type, "Relu");
}

TEST(Wire, RawDataIsReadWhereItLies) {
  const std::string bytes = serialize(sample_model());
  auto m = parse_model(bytes);
  ASSERT_TRUE(m.ok());
  auto data = tensor_bytes(m->graph.initializers[0]);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_TRUE(data->in_place());
  EXPECT_GE(data->bytes().data(), bytes.data());
  EXPECT_LE(data->bytes().data() + 8, bytes.data() + bytes.size());
}

TEST(Wire, EveryTruncationAndEveryFlippedByteIsHandled) {
  const std::string bytes = serialize(sample_model());
  for (size_t n = 0; n < bytes.size(); ++n) (void)parse_model(std::string_view(bytes).substr(0, n));
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const unsigned char flip : {0x01, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      auto m = parse_model(changed);
      if (!m.ok()) continue;
      for (const Tensor& t : m->graph.initializers) (void)tensor_bytes(t);
    }
  }
  EXPECT_FALSE(parse_model("").ok());
  EXPECT_FALSE(parse_model("this is no model").ok());
  EXPECT_FALSE(parse_model(std::string_view(bytes).substr(0, bytes.size() / 2)).ok());
}

TEST(Wire, ErrorsTellThePlace) {
  std::string node;
  pbf_writer(node).add_string(4, "Relu");
  node += "\x2a\x7f";  // an attribute that claims 127 bytes
  std::string graph, model;
  pbf_writer(graph).add_message(1, node);
  pbf_writer(model).add_message(7, graph);
  const Status s = parse_model(model).status();
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(s.ToString().find("graph › node 0"), std::string::npos) << s;
}

TEST(Wire, DepthIsLimited) {
  const auto nested = [](int depth) {
    std::string graph;
    pbf_writer(graph).add_string(2, "leaf");
    for (int i = 1; i < depth; ++i) {
      std::string attribute, node, outer;
      pbf_writer a(attribute);
      a.add_message(6, graph);
      a.add_int32(20, 5);
      pbf_writer(node).add_message(5, attribute);
      pbf_writer(outer).add_message(1, node);
      graph = outer;
    }
    return graph;
  };
  EXPECT_TRUE(parse_graph(nested(128)).ok());
  EXPECT_FALSE(parse_graph(nested(129)).ok());
  EXPECT_FALSE(parse_graph(nested(5000)).ok());

  std::string type;
  for (int i = 0; i < 100; ++i) {
    std::string sequence, outer;
    pbf_writer(sequence).add_message(1, type);
    pbf_writer(outer).add_message(4, sequence);
    type = outer;
  }
  std::string info, graph;
  pbf_writer(info).add_message(2, type);
  pbf_writer(graph).add_message(11, info);
  EXPECT_FALSE(parse_graph(graph).ok());
  EXPECT_FALSE(parse_graph(nested(50), {.messages = 20}).ok());
}

TEST(Wire, AttributeTypesAreDeducedAndChecked) {
  struct Case {
    std::string fields;
    int32_t type;
    bool ok;
  };
  static constexpr int64_t kPair[] = {1, 2};
  const auto fields = [](auto f) {
    std::string s;
    pbf_writer w(s);
    f(w);
    return s;
  };
  const Case cases[] = {
      {fields([](auto& w) { w.add_int64(3, 7); }), number(AttrType::kInt), true},
      {fields([](auto& w) { w.add_float(2, 7); }), number(AttrType::kFloat), true},
      {fields([](auto& w) { w.add_packed_int64(8, std::begin(kPair), std::end(kPair)); }), number(AttrType::kInts),
       true},
      {fields([](auto& w) { w.add_int32(20, number(AttrType::kInt)); }), number(AttrType::kInt), true},
      {fields([](auto& w) { w.add_int32(20, number(AttrType::kTensor)); }), 0, false},
      {fields([](auto& w) { w.add_int32(20, 99); }), 0, false},
      {fields([](auto& w) { w.add_int32(20, -1); }), 0, false},
  };
  for (const Case& c : cases) {
    std::string node, graph;
    pbf_writer(node).add_message(5, c.fields);
    pbf_writer(graph).add_message(1, node);
    auto g = parse_graph(graph);
    EXPECT_EQ(g.ok(), c.ok) << g.status();
    if (g.ok()) {
      EXPECT_EQ(g->nodes[0].attributes[0].type, c.type);
    }
  }
}

std::string hex(std::string_view bytes) {
  std::string s;
  for (const unsigned char c : bytes) {
    char two[3];
    std::snprintf(two, 3, "%02x", c);
    s += two;
  }
  return s;
}

// Typed fields of each element type, packed and not, against the little-endian bytes that they mean.
TEST(TensorData, TypedFields) {
  struct Case {
    DType dtype;
    std::vector<int64_t> dims;
    uint32_t field;
    std::vector<int64_t> entries;
    const char* expected;
  };
  const Case cases[] = {
      {DType::kInt32, {2}, 5, {1, -1}, "01000000ffffffff"},
      {DType::kInt8, {2}, 5, {-2, 3}, "fe03"},
      {DType::kUint8, {2}, 5, {255, 3}, "ff03"},
      {DType::kInt16, {1}, 5, {-2}, "feff"},
      {DType::kUint16, {1}, 5, {65535}, "ffff"},
      {DType::kBool, {3}, 5, {1, 0, 5}, "010001"},
      {DType::kFloat16, {2}, 5, {0x3c00, 0xbc00}, "003c00bc"},
      {DType::kBFloat16, {1}, 5, {0x3f80}, "803f"},
      {DType::kFloat8E4M3FN, {2}, 5, {0x38, 0xb8}, "38b8"},
      {DType::kInt4, {3}, 5, {0x21, 0x03}, "2103"},
      {DType::kUint2, {5}, 5, {0xe4, 0x01}, "e401"},
      {DType::kInt64, {2}, 7, {-1, 1LL << 40}, "ffffffffffffffff0000000000010000"},
      {DType::kUint32, {1}, 11, {4294967295}, "ffffffff"},
      {DType::kUint64, {1}, 11, {-1}, "ffffffffffffffff"},
      {DType::kInt64, {}, 7, {5}, "0500000000000000"},
      {DType::kInt64, {0, 3}, 7, {}, ""},
  };
  for (const Case& c : cases) {
    for (const bool packed : {false, true}) {
      std::string bytes;
      pbf_writer w(bytes);
      for (const int64_t d : c.dims) w.add_int64(1, d);
      w.add_int32(2, static_cast<int32_t>(c.dtype));
      if (packed) w.add_packed_int64(c.field, c.entries.begin(), c.entries.end());
      for (const int64_t e : c.entries) {
        if (!packed) w.add_int64(c.field, e);
      }
      auto t = parse_tensor(bytes);
      ASSERT_TRUE(t.ok());
      auto data = tensor_bytes(*t);
      ASSERT_TRUE(data.ok()) << data.status();
      EXPECT_EQ(hex(data->bytes()), c.expected) << name(c.dtype) << " packed " << packed;
      t->dims.push_back(7);  // more elements than the file has
      if (!c.entries.empty()) {
        EXPECT_FALSE(tensor_bytes(*t).ok()) << name(c.dtype);
      }
    }
  }
}

TEST(TensorData, FloatsLieInPlaceOrAreJoined) {
  const float values[] = {1.5f, -2.0f};
  std::string packed, loose, pieces;
  for (std::string* s : {&packed, &loose, &pieces}) {
    pbf_writer w(*s);
    w.add_int64(1, 2);
    w.add_int32(2, 1);
    if (s == &packed) w.add_packed_float(4, values, values + 2);
    if (s != &packed) {
      for (const float v : values) s == &loose ? w.add_float(4, v) : w.add_packed_float(4, &v, &v + 1);
    }
    auto t = parse_tensor(*s);
    ASSERT_TRUE(t.ok());
    auto data = tensor_bytes(*t);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ(data->in_place(), s == &packed);
    EXPECT_EQ(std::memcmp(data->bytes().data(), values, sizeof values), 0);
  }
}

TEST(TensorData, LyingSizesAreRefusedBeforeAnyAllocation) {
  const auto status = [](std::vector<int64_t> dims, int32_t dtype, std::string_view raw) {
    Tensor t{.name = "w", .dims = std::move(dims), .data_type = dtype, .has_raw = true, .raw = raw};
    return tensor_bytes(t).status();
  };
  EXPECT_TRUE(status({2}, 1, "12345678").ok());
  EXPECT_FALSE(status({3}, 1, "12345678").ok());
  EXPECT_FALSE(status({-2}, 1, "12345678").ok());
  EXPECT_FALSE(status({1LL << 40, 1LL << 40}, 1, "12345678").ok());
  EXPECT_FALSE(status({1LL << 62}, 11, "").ok());
  EXPECT_TRUE(status({0, 1LL << 40}, 1, "").ok());
  EXPECT_FALSE(status({2}, 0, "12345678").ok());
  EXPECT_FALSE(status({2}, 99, "12345678").ok());
  EXPECT_FALSE(status({2}, -5, "12345678").ok());
  EXPECT_TRUE(status({3}, 22, "ab").ok());  // three int4 in two bytes

  std::string huge;
  pbf_writer w(huge);
  w.add_int64(1, 1LL << 40);
  w.add_int32(2, 7);
  w.add_int64(7, 1);
  EXPECT_FALSE(tensor_bytes(parse_tensor(huge).value()).ok());
}

TEST(TensorData, OddBoolsAreCleaned) {
  Tensor t{.dims = {3}, .data_type = 9, .has_raw = true, .raw = std::string_view("\0\2\1", 3)};
  auto data = tensor_bytes(t);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(hex(data->bytes()), "000101");
}

TEST(TensorData, Strings) {
  Tensor t{.dims = {2}, .data_type = 8, .strings = {"a", ""}};
  const std::string bytes = serialize(t);
  auto parsed = parse_tensor(bytes);
  ASSERT_TRUE(parsed.ok());
  auto strings = tensor_strings(*parsed);
  ASSERT_TRUE(strings.ok()) << strings.status();
  EXPECT_EQ(std::vector(strings->begin(), strings->end()), (std::vector<std::string_view>{"a", ""}));
  parsed->dims = {3};
  EXPECT_FALSE(tensor_strings(*parsed).ok());
}

}  // namespace
}  // namespace forethought::wire
