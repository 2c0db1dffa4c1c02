// Saving: what is saved loads as the same graph, in the opset that it needs, with large tensors beside the model.
#include "onnx/save/save.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "onnx/testing.h"

namespace forethought {
namespace {

using namespace onnx_testing;  // NOLINT
using testing::HasSubstr;

constexpr DType kF = DType::kFloat;

std::unique_ptr<Graph> good(const wire::Model& m, const ImportOptions& options = {}) {
  auto g = import(m, options);
  EXPECT_TRUE(g.ok()) << g.status();
  return g.ok() ? std::move(*g) : std::make_unique<Graph>();
}

// Names, operators, attributes, constants and bodies agree, node by node in order.
void expect_same(const Graph& a, const Graph& b) {
  const auto name = [](const Graph& g, ValueId v) { return v.valid() ? g.value(v).name : std::string("_"); };
  const auto order_a = a.order(), order_b = b.order();
  ASSERT_EQ(order_a.size(), order_b.size());
  for (size_t i = 0; i < order_a.size(); ++i) {
    const GraphNode &m = a.node(order_a[i]), &n = b.node(order_b[i]);
    EXPECT_EQ(m.op, n.op);
    ASSERT_EQ(m.inputs.size(), n.inputs.size()) << to_string(m.op);
    ASSERT_EQ(m.outputs.size(), n.outputs.size()) << to_string(m.op);
    EXPECT_EQ(m.captures, n.captures);
    for (size_t k = 0; k < m.outputs.size(); ++k) EXPECT_EQ(name(a, m.outputs[k]), name(b, n.outputs[k]));
    for (size_t k = 0; k < m.inputs.size(); ++k) {
      ASSERT_EQ(a.is_constant(m.inputs[k]), b.is_constant(n.inputs[k]));
      if (a.is_constant(m.inputs[k])) {
        EXPECT_TRUE(equal(*a.value(m.inputs[k]).constant, *b.value(n.inputs[k]).constant));
      } else {
        EXPECT_EQ(name(a, m.inputs[k]), name(b, n.inputs[k]));
      }
    }
    for (const auto& [key, value] : m.attributes) {
      const AttributeValue* other = n.attributes.find(key);
      ASSERT_NE(other, nullptr) << key;
      EXPECT_TRUE(equal(value, *other)) << key;
    }
    ASSERT_EQ(m.bodies.size(), n.bodies.size());
    for (size_t k = 0; k < m.bodies.size(); ++k) expect_same(*m.bodies[k].second, *n.bodies[k].second);
  }
  ASSERT_EQ(a.inputs().size(), b.inputs().size());
  for (size_t i = 0; i < a.inputs().size(); ++i) EXPECT_EQ(name(a, a.inputs()[i]), name(b, b.inputs()[i]));
  ASSERT_EQ(a.outputs().size(), b.outputs().size());
}

StatusOr<std::unique_ptr<Graph>> reload(const Graph& g) {
  auto bytes = std::make_unique<std::string>();
  ASSIGN_OR_RETURN(*bytes, model_bytes(g));
  const std::string_view view = *bytes;
  return import_model({view, hold(std::move(bytes))});
}

wire::Graph branch(std::string_view result, std::vector<wire::Node> list) {
  wire::Graph g{.name = "branch"};
  g.nodes = std::move(list);
  g.outputs.push_back(value(result, kF, {}, false));
  return g;
}

// Constants of several types, a body that captures, a body that returns an outer value, a default, old forms.
wire::Model rich_model(Models& t, int opset) {
  wire::Model m = model(opset);
  m.producer_name = "tests";
  m.metadata.push_back({"key", "value"});
  m.graph.inputs.push_back(value("c", DType::kBool));
  m.graph.inputs.push_back(value("x", kF, {2, -1}));
  m.graph.inputs.push_back(value("d", kF, {2}));
  m.graph.initializers.push_back(t.tensor<float>("d", {2}, {5, 6}));
  m.graph.initializers.push_back(t.tensor<float>("k", {2, 1}, {1, 2}));
  m.graph.nodes.push_back(node("Clip", {"x"}, {"clipped"}, attrs(attr("max", 3.0f))));
  m.graph.nodes.push_back(node("Softmax", {"clipped"}, {"s"}));
  std::vector<wire::Node> then_nodes;
  then_nodes.push_back(node("Add", {"s", "k"}, {"sum"}));
  then_nodes.push_back(node("Neg", {"sum"}, {"out"}));
  m.graph.nodes.push_back(
      node("If", {"c"}, {"y"},
           attrs(attr("then_branch", branch("out", std::move(then_nodes))), attr("else_branch", branch("s", {})))));
  m.graph.nodes.push_back(node("Mul", {"y", "k"}, {"z"}));
  m.graph.nodes.push_back(node("Cast", {"z"}, {"w"}, attrs(attr("to", int64_t{10}))));
  m.graph.outputs.push_back(value("w", DType::kFloat16));
  m.graph.outputs.push_back(value("d", kF));
  return m;
}

TEST(Save, WhatIsSavedLoadsTheSame) {
  Models t;
  const auto g = good(rich_model(t, 9));
  auto bytes = model_bytes(*g);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  auto again = reload(*g);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(validate(**again).ok()) << validate(**again);
  EXPECT_EQ((*again)->info.opsets[0].version, 9);
  EXPECT_EQ((*again)->info.producer_name, "tests");
  EXPECT_EQ((*again)->info.metadata, g->info.metadata);
  EXPECT_TRUE((*again)->value((*again)->find_value("d")).default_value.has_value());
  // The branch that returned an outer value has an Identity in the file; one more round changes nothing.
  auto third = reload(**again);
  ASSERT_TRUE(third.ok()) << third.status();
  expect_same(**again, **third);
  auto parsed = wire::parse_model(*bytes);
  ASSERT_TRUE(parsed.ok());
  int copies_of_k = 0;
  for (const auto& i : parsed->graph.initializers) copies_of_k += i.name == "k";
  EXPECT_EQ(copies_of_k, 1);
  for (const auto& n : parsed->graph.nodes) {
    for (const auto& a : n.attributes) {
      for (const auto& body : a.graphs) EXPECT_TRUE(body.initializers.empty());
    }
  }
}

TEST(Save, GraphsWithoutBodiesRoundTripExactly) {
  Models t;
  wire::Model m = model(11);
  m.graph.inputs.push_back(value("x", kF, {2, 3, 4, 5}));
  m.graph.initializers.push_back(t.tensor<int64_t>("i", {1}, {2}));
  m.graph.nodes.push_back(node("Slice", {"x", "i", "i", "i"}, {"a"}));
  m.graph.nodes.push_back(node("ReduceMean", {"a"}, {"b"}, attrs(attr("axes", std::vector<int64_t>{1}))));
  m.graph.nodes.push_back(node("Split", {"b"}, {"p", "", "q"}, attrs(attr("split", std::vector<int64_t>{1, 1, 1}))));
  wire::Node strings = node("Constant", {}, {"text"});
  strings.attributes.push_back({.name = "value", .type = static_cast<int32_t>(AttrType::kTensor)});
  strings.attributes[0].tensors.push_back({.dims = {2}, .data_type = 8, .strings = {"a", "bc"}});
  m.graph.nodes.push_back(std::move(strings));
  for (const char* name : {"p", "q", "text"}) m.graph.outputs.push_back({.name = name});
  const auto g = good(m);
  auto again = reload(*g);
  ASSERT_TRUE(again.ok()) << again.status();
  expect_same(*g, **again);
  EXPECT_EQ((*again)->info.opsets[0].version, 11);
  const auto& text = (*again)->value((*again)->find_value("text")).constant;
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(text->strings()[1], "bc");
}

TEST(Save, RaisesTheOpsetAndSpellsOutOldSoftmax) {
  Models t;
  auto g = good(rich_model(t, 9));
  g->info.opsets[0].version = 17;
  auto again = reload(*g);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->info.opsets[0].version, 17);
  bool flatten = false;
  for (const NodeId id : (*again)->order()) {
    const GraphNode& n = (*again)->node(id);
    flatten = flatten || n.op.type == "Flatten";
    EXPECT_EQ(n.attributes.find("_coerce_2d"), nullptr);
  }
  EXPECT_TRUE(flatten);

  wire::Model m = model(13);
  m.graph.inputs.push_back(value("x", kF, {2}));
  m.graph.nodes.push_back(node("Add", {"x", "x"}, {"y"}));
  m.graph.outputs.push_back(value("y", kF));
  auto h = good(m);
  h->info.opsets[0].version = 6;
  const ValueId extra = h->add_value("e", ValueType::tensor(kF));
  h->add_node({"", "Gelu", 20}, "gelu", {h->find_value("y")}, {extra});
  h->add_output(extra);
  auto raised = reload(*h);
  ASSERT_TRUE(raised.ok()) << raised.status();
  EXPECT_EQ((*raised)->info.opsets[0].version, 20);
}

TEST(Save, InternalOperatorsHaveADomainOfTheirOwn) {
  wire::Model m = model(17);
  m.graph.inputs.push_back(value("x", kF, {2}));
  m.graph.nodes.push_back(node("Neg", {"x"}, {"y"}));
  m.graph.outputs.push_back(value("y", kF));
  auto g = good(m);
  const ValueId extra = g->add_value("e", ValueType::tensor(kF));
  Attributes a;
  a.set("steps", std::vector<std::string>{"Add", "Relu"});
  g->add_node({std::string(kInternalDomain), "Fused", 1}, "fused", {g->find_value("y")}, {extra}, std::move(a));
  g->add_output(extra);
  auto again = reload(*g);
  ASSERT_TRUE(again.ok()) << again.status();
  expect_same(*g, **again);
}

TEST(Save, LayoutsAndReordersAreLeftOut) {
  wire::Model m = model(17);
  m.graph.inputs.push_back(value("x", kF, {1, 16, 2, 2}));
  m.graph.nodes.push_back(node("Relu", {"x"}, {"a"}));
  m.graph.nodes.push_back(node("Neg", {"a"}, {"y"}));
  m.graph.outputs.push_back(value("y", kF));
  const auto plain = good(m);
  // x → Reorder → Relu → Neg → Reorder → y, blocked in between.
  auto g = good(m);
  const auto reorder = [&](ValueId from, Layout layout) {
    const ValueId to = g->add_value("reordered", ValueType::tensor(kF), g->value(from).shape);
    g->value(to).layout = layout;
    g->add_node({std::string(kInternalDomain), "Reorder", 1}, "reorder", {from}, {to});
    return to;
  };
  const NodeId relu{0}, neg{1};
  g->set_input(relu, 0, reorder(g->find_value("x"), Layout::blocked(16)));
  const ValueId y = g->find_value("y");
  const ValueId inner = g->add_value("inner", ValueType::tensor(kF));
  g->set_output(neg, 0, inner);
  g->add_node({std::string(kInternalDomain), "Reorder", 1}, "reorder", {inner}, {y});
  for (const char* name : {"a", "inner"}) g->value(g->find_value(name)).layout = Layout::blocked(16);
  ASSERT_TRUE(validate(*g).ok()) << validate(*g);
  auto again = reload(*g);
  ASSERT_TRUE(again.ok()) << again.status();
  expect_same(*plain, **again);
}

TEST(Save, RefusesWhatAFileCannotSay) {
  wire::Model m = model(17);
  m.graph.inputs.push_back(value("x", kF, {2}));
  m.graph.nodes.push_back(node("Neg", {"x"}, {"y"}));
  m.graph.outputs.push_back(value("y", kF));
  auto g = good(m);
  Tensor blocked = make_tensor(kF, std::vector<int64_t>{1, 16, 1, 1}).value();
  blocked.layout = Layout::blocked(16);
  const ValueId extra = g->add_value("e", ValueType::tensor(kF));
  g->add_node({"", "Add", 14}, "add", {g->find_value("y"), g->add_constant("k", blocked)}, {extra});
  g->add_output(extra);
  EXPECT_THAT(std::string(model_bytes(*g).status().message()), HasSubstr("layout"));
  auto h = good(m);
  h->node(NodeId{0}).attributes.set("fused_with", std::string("something"));
  EXPECT_THAT(std::string(model_bytes(*h).status().message()), HasSubstr("cannot be written"));
}

class SaveFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("forethought_save_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(SaveFileTest, LargeTensorsGoBesideTheModel) {
  Models t;
  wire::Model m = model(17);
  m.graph.inputs.push_back(value("x", kF, {64}));
  std::vector<float> large(64), small{1};
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i);
  m.graph.initializers.push_back(t.tensor<float>("a", {64}, large));
  m.graph.initializers.push_back(t.tensor<float>("b", {64}, large));
  m.graph.initializers.push_back(t.tensor<float>("one", {1}, small));
  m.graph.nodes.push_back(node("Sum", {"x", "a", "b", "one"}, {"y"}));
  m.graph.outputs.push_back(value("y", kF));
  const auto g = good(m);
  const std::string path = (folder_ / "m.onnx").string();
  ASSERT_TRUE(save_model(*g, path, {.external_from = 256}).ok());
  EXPECT_EQ(std::filesystem::file_size(folder_ / "m.onnx.data"), 4096u + 256u);
  auto again = load_model(path);
  ASSERT_TRUE(again.ok()) << again.status();
  expect_same(*g, **again);
  const Tensor& a = *(*again)->value((*again)->find_value("a")).constant;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data) % 4096, 0u);
  EXPECT_EQ((*again)->info.copied_bytes, 0);

  // Saved over itself while mapped: the old mapping stays whole, the new file says the same.
  ASSERT_TRUE(save_model(**again, path, {.external_from = 256}).ok());
  EXPECT_EQ(a.as<float>()[63], 63);
  auto third = load_model(path);
  ASSERT_TRUE(third.ok()) << third.status();
  expect_same(**again, **third);

  ASSERT_TRUE(save_model(*g, (folder_ / "inside.onnx").string(), {.external_from = -1}).ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "inside.onnx.data"));
  EXPECT_FALSE(save_model(*g, path, {.external_name = "../escape.bin"}).ok());
  EXPECT_FALSE(save_model(*g, (folder_ / "absent" / "m.onnx").string()).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 3);
}

// One tensor of 256 bytes, which external_from = 256 puts beside the model.
std::unique_ptr<Graph> weighted(float first) {
  Models t;
  wire::Model m = model(17);
  m.graph.inputs.push_back(value("x", kF, {64}));
  std::vector<float> weights(64);
  weights[0] = first;
  m.graph.initializers.push_back(t.tensor<float>("w", {64}, weights));
  m.graph.nodes.push_back(node("Add", {"x", "w"}, {"y"}));
  m.graph.outputs.push_back(value("y", kF));
  return good(m);
}
constexpr SaveOptions kBeside{.external_from = 256};

mode_t mode_of(const std::filesystem::path& path) {
  struct stat facts;
  return ::lstat(path.c_str(), &facts) == 0 ? facts.st_mode : 0;
}

TEST_F(SaveFileTest, ModesAndLinksStay) {
  namespace fs = std::filesystem;
  fs::create_directory(folder_ / "there");
  for (const char* name : {"m.onnx", "m.onnx.data"}) {
    std::ofstream(folder_ / "there" / name) << "old";
    fs::permissions(folder_ / "there" / name, fs::perms(0600));
    fs::create_symlink(fs::path("there") / name, folder_ / name);
  }
  const auto g = weighted(5);
  const std::string path = (folder_ / "m.onnx").string();
  ASSERT_TRUE(save_model(*g, path, kBeside).ok());
  for (const char* name : {"m.onnx", "m.onnx.data"}) {
    EXPECT_TRUE(fs::is_symlink(folder_ / name)) << name;
    EXPECT_EQ(mode_of(folder_ / "there" / name) & 07777, 0600u) << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "there"), {}), 2);
  for (const std::string& from : {path, (folder_ / "there/m.onnx").string()}) {
    auto again = load_model(from);
    ASSERT_TRUE(again.ok()) << again.status();
    expect_same(*g, **again);
  }
}

TEST_F(SaveFileTest, FifosGetAllBytesAndStay) {
  const std::string path = (folder_ / "fifo").string(), link = (folder_ / "link").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::filesystem::create_symlink("fifo", link);
  const auto g = weighted(7);
  for (const std::string& to : {path, link}) {
    const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(reader, 0);
    const Status saved = save_model(*g, to, kBeside);
    EXPECT_TRUE(saved.ok()) << saved;
    auto bytes = std::make_unique<std::string>(1 << 16, '\0');
    bytes->resize(static_cast<size_t>(std::max<ssize_t>(::read(reader, bytes->data(), bytes->size()), 0)));
    ::close(reader);
    const std::string_view view = *bytes;
    auto again = import_model({view, hold(std::move(bytes))});
    ASSERT_TRUE(again.ok()) << again.status();
    expect_same(*g, **again);
  }
  EXPECT_TRUE(S_ISFIFO(mode_of(path)));
  EXPECT_TRUE(S_ISLNK(mode_of(link)));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

TEST_F(SaveFileTest, DevicesStay) {
  const std::string null = (folder_ / "null").string(), full = (folder_ / "full").string();
  if (::mknod(null.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0 ||
      ::mknod(full.c_str(), S_IFCHR | 0600, makedev(1, 7)) != 0 || ::access(null.c_str(), W_OK) != 0)
    GTEST_SKIP() << "only root makes devices";
  const auto g = weighted(7);
  if (const int probe = ::open(null.c_str(), O_WRONLY | O_CLOEXEC); probe >= 0) {
    ::close(probe);
  } else {
    GTEST_SKIP() << "devices in the folder of temporary files cannot be opened";
  }
  const Status saved = save_model(*g, null, kBeside);
  EXPECT_TRUE(saved.ok()) << saved;
  const std::string refused(save_model(*g, full, kBeside).message());
  EXPECT_THAT(refused, AllOf(HasSubstr(full), HasSubstr("No space left")));
  for (const std::string& device : {null, full}) EXPECT_TRUE(S_ISCHR(mode_of(device))) << device;
}

TEST_F(SaveFileTest, WhereNothingCanBeWritten) {
  namespace fs = std::filesystem;
  const auto g = weighted(3);
  const std::string path = (folder_ / "m.onnx").string();
  fs::create_directory(folder_ / "folder");
  fs::create_symlink("nowhere", folder_ / "dangling");
  fs::create_symlink("loop", folder_ / "loop");
  for (const auto& [name, piece] : {std::pair{"folder", "it is a folder"},
                                    {"dangling", "a link to 'nowhere', which is not there; remove the link"},
                                    {"loop", "symbolic links"},
                                    {"absent/m.onnx", "there is no folder '"}}) {
    const std::string refused(save_model(*g, (folder_ / name).string(), kBeside).message());
    EXPECT_THAT(refused, AllOf(HasSubstr("'" + (folder_ / name).string() + "'"), HasSubstr(piece)));
  }
  EXPECT_TRUE(fs::is_symlink(folder_ / "dangling") && fs::is_symlink(folder_ / "loop"));

  // What has the place of the external file is in the way: the model that is there stays as it is.
  ASSERT_TRUE(save_model(*g, path).ok());
  const fs::path data = folder_ / "m.onnx.data";
  ASSERT_EQ(::mkfifo(data.c_str(), 0600), 0);
  const std::string refused(save_model(*weighted(4), path, kBeside).message());
  EXPECT_THAT(refused, AllOf(HasSubstr(data.string()), HasSubstr("regular file")));
  EXPECT_TRUE(S_ISFIFO(mode_of(data)));
  auto again = load_model(path);
  ASSERT_TRUE(again.ok()) << again.status();
  expect_same(*g, **again);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 5);  // nothing unfinished
}

TEST_F(SaveFileTest, ManySaveUnderOneName) {
  const auto g = weighted(9);
  const std::string path = (folder_ / "m.onnx").string();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const Status saved = save_model(*g, path, kBeside);
        ASSERT_TRUE(saved.ok()) << saved;
      }
    });
  for (std::thread& t : threads) t.join();
  auto again = load_model(path);
  ASSERT_TRUE(again.ok()) << again.status();
  expect_same(*g, **again);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

}  // namespace
}  // namespace forethought
