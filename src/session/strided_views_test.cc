// Strided views against copies: the same bits, wherever a reader steps over its source.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "exec/shadow.h"
#include "session/plan_report.h"
#include "session/random_graph_testing.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

// A graph with the input x of these dims, and which of its values are strided views then.
struct Case {
  const char* name;
  const char* text;
  Dims dims;
  std::vector<std::string> strided;
};

const Case kCases[] = {
    {"Split of columns into sums",
     "graph(%x: f32[N,M]) {\n  %a, %b = Split<axis=1, num_outputs=2>(%x)\n  %s = Sub(%a, %b)\n  %y = Mul(%s, %b)\n"
     "  return %y\n}",
     {5, 64},
     {"a", "b"}},
    {"one reader of many wants rows",
     "graph(%x: f32[N,M]) {\n  %a, %b = Split<axis=1, num_outputs=2>(%x)\n  %s = Softmax(%a)\n  %y = Mul(%s, %b)\n"
     "  %z = Add(%a, 1.0)\n  return %y, %z\n}",
     {5, 64},
     {"b"}},
    {"slices of columns, by one, backwards, and far apart",
     "graph(%x: f32[N,M]) {\n  %a = Slice(%x, [1], [-1], [1])\n  %b = Slice(%x, [-2], [0], [1], [-1])\n"
     "  %c = Slice(%x, [0], [1000], [1], [3])\n  %y = Add(%a, 2.0)\n  %z = Relu(%b)\n  %w = Neg(%c)\n"
     "  return %y, %z, %w\n}",
     {3, 40},
     {"a", "b"}},
    {"backwards rows and every second",
     "graph(%x: f32[N,M,K]) {\n  %a = Slice(%x, [-1, 0], [-1000, 1000], [0, 1], [-1, 2])\n"
     "  %t = Concat<axis=1>(%a, %x)\n  %y = Add(%t, 2.0)\n  return %y\n}",
     {3, 4, 40},
     {"a"}},
    {"heads of attention",
     "graph(%x: f32[B,S,96]) {\n  %q, %k, %v = Split<axis=2, num_outputs=3>(%x)\n"
     "  %a = Reshape(%q, [0, 0, 4, 8])\n  %b = Reshape(%k, [0, 0, 4, 8])\n  %c = Reshape(%v, [0, 0, 4, 8])\n"
     "  %qh = Transpose<perm=[0, 2, 1, 3]>(%a)\n  %kh = Transpose<perm=[0, 2, 3, 1]>(%b)\n"
     "  %vh = Transpose<perm=[0, 2, 1, 3]>(%c)\n  %s = MatMul(%qh, %kh)\n  %p = Softmax<axis=-1>(%s)\n"
     "  %m = MatMul(%p, %vh)\n  %o = Transpose<perm=[0, 2, 1, 3]>(%m)\n  %y = Reshape(%o, [0, 0, 32])\n  return %y\n}",
     {2, 17, 96},
     {"a", "b", "c", "k", "kh", "o", "q", "qh", "v", "vh"}},
    {"keys shared by groups of heads",
     "graph(%x: f32[B,H,S,16], %k: f32[B,G,16,S]) {\n  %one = Unsqueeze(%k, [2])\n"
     "  %all = Expand(%one, [1, 1, 3, 1, 1])\n  %heads = Reshape(%x, [0, 2, 3, 5, 16])\n  %y = MatMul(%heads, %all)\n"
     "  return %y\n}",
     {2, 6, 5, 16},
     {"all"}},
    {"both operands by columns",
     "graph(%x: f32[N,K]) {\n  %a = Neg(%x)\n  %t = Transpose<perm=[1, 0]>(%x)\n  %u = Transpose<perm=[1, 0]>(%a)\n"
     "  %s = MatMul(%t, %a)\n  %v = Transpose<perm=[1, 0]>(%x)\n  %z = Gemm<transA=1, alpha=0.5>(%u, %v)\n"
     "  return %s, %z\n}",
     {33, 21},
     {"t", "u", "v"}},
    {"a view of a view",
     "graph(%x: f32[N,4,K]) {\n  %t = Transpose<perm=[1, 0, 2]>(%x)\n  %a = Slice(%t, [1], [1000], [2])\n"
     "  %b = Unsqueeze(%a, [0])\n  %c, %d = Split<axis=1>(%b, [1, 3])\n  %y = Add(%c, %d)\n  return %y\n}",
     {6, 4, 9},
     {"a", "b", "c", "d", "t"}},
    {"a source that dies with the step that reads it twice",
     "graph(%x: f32[N,N]) {\n  %s = Exp(%x)\n  %r = Slice(%s, [-1], [-1000], [0], [-1])\n\n"
     "  %y = Add(%s, %r)\n  %q = Split<axis=1, num_outputs=1>(%y)\n  %h, %i = Split<axis=1, num_outputs=2>(%q)\n"
     "  %z = Sub(%h, %i)\n  return %z\n}",
     {8, 8},
     {"h", "i", "r"}},
    {"a view that dies with its only reader, over which nothing may be written",
     "graph(%x: f32[N,100]) {\n  %s = Exp(%x)\n  %r = Slice(%s, [-1], [-1000], [0], [-1])\n  %y = Neg(%r)\n"
     "  %z = Exp(%y)\n  return %z\n}",
     {64, 100},
     {"r"}},
    {"other types",
     "graph(%x: f32[N,M]) {\n  %h = Cast<to=10>(%x)\n  %t = Transpose<perm=[1, 0]>(%h)\n  %m = MatMul(%t, %h)\n"
     "  %d = Cast<to=11>(%x)\n  %a, %b = Split<axis=1, num_outputs=2>(%d)\n  %s = Add(%a, %b)\n"
     "  %l = Cast<to=7>(%x)\n  %i, %j = Split<axis=1, num_outputs=2>(%l)\n  %g = Less(%i, %j)\n"
     "  %w = Where(%g, %i, %j)\n  return %m, %s, %w\n}",
     {7, 22},
     {"a", "b", "i", "j", "t"}},
};

std::vector<Value> inputs_of(const Session& session, const Dims& x, uint64_t seed) {
  std::vector<Value> inputs = {random_floats(x, seed)};
  if (session.inputs().size() > 1) inputs.push_back(random_floats({x[0], 2, 16, x[2]}, seed + 1));
  return inputs;
}

std::vector<std::string> run(Session& session, const std::vector<Value>& inputs, const RunOptions& options = {}) {
  std::vector<Value> outputs(session.outputs().size());
  const Status status = session.run_ordered(inputs, outputs, options);
  EXPECT_TRUE(status.ok()) << status;
  return bytes_of(outputs);
}

std::shared_ptr<const CompiledProgram> program_of(Session& session, const std::vector<Value>& inputs) {
  std::vector<Dims> dims;
  for (const Value& v : inputs) dims.push_back(v.tensor().dims);
  return session.plan_for(dims).value();
}

// Names of values that are strided views in bytes of others.
std::vector<std::string> strided(const CompiledProgram& p) {
  std::vector<std::string> names;
  for (size_t v = 0; v < p.values.size(); ++v)
    if (!p.values[v].strides.empty() && p.plan.values[v].place == Place::view) names.emplace_back(p.values[v].name);
  std::ranges::sort(names);
  return names;
}

SessionOptions copies(SessionOptions o) {
  o.strided_views = false;
  return o;
}

TEST(StridedViews, B17_ReadersStepOverTheSourceAndGiveTheBitsOfACopy) {
  for (const Case& c : kCases) {
    for (const OptimizationLevel level : {OptimizationLevel::disabled, OptimizationLevel::all}) {
      for (const int lanes : {1, 2}) {
        SCOPED_TRACE(absl::StrCat(c.name, ", level ", static_cast<int>(level), ", ", lanes, " lanes"));
        SessionOptions o;
        o.optimization_level = level;
        o.validate_plans = true;
        o.lanes = lanes;
        const auto with = session_of(c.text, o), without = session_of(c.text, copies(o));
        ASSERT_TRUE(with && without);
        const std::vector<Value> inputs = inputs_of(*with, c.dims, 7);
        EXPECT_EQ(strided(*program_of(*without, inputs)), std::vector<std::string>());
        if (level == OptimizationLevel::disabled) {
          EXPECT_EQ(strided(*program_of(*with, inputs)), c.strided);
        }
        const auto want = run(*without, inputs);
        EXPECT_EQ(run(*with, inputs), want);
        for (const auto poison : {std::byte{0xff}, std::byte{0x5a}}) {
          ShadowSink shadow(poison);
          RunOptions watched;
          watched.sink = &shadow;
          EXPECT_EQ(run(*with, inputs, watched), want) << "watched";
          EXPECT_TRUE(shadow.faults().empty()) << shadow.faults().front();
        }
      }
    }
  }
}

// Plans for other sizes start from those before: views become runs of bytes and views again, offsets and spans move.
TEST(StridedViews, B17_SizesComeAndGo) {
  const int64_t kSizes[] = {17, 1, 40, 2, 17, 1, 1, 3, 64, 5};
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    if (std::string_view(c.name) == "keys shared by groups of heads") continue;  // of five queries
    for (const bool bounded : {false, true}) {
      SessionOptions o;
      o.validate_plans = true;
      const auto open = session_of(c.text);
      ASSERT_TRUE(open);
      if (bounded)
        for (const NodeArg& input : open->inputs())
          for (const Dim& d : input.shape.dims)
            if (!d.is_known()) o.max_dimensions[to_string(d)] = 96;
      const auto with = session_of(c.text, o), without = session_of(c.text, copies(o));
      ASSERT_TRUE(with && without);
      for (const int64_t n : kSizes) {
        Dims dims = c.dims;
        dims[dims.size() == 3 && dims[2] == 96 ? 1 : 0] = n;
        if (std::string_view(c.text).find("[N,N]") != std::string_view::npos) dims[1] = dims[0] = n + n % 2;
        SCOPED_TRACE(absl::StrCat(to_string(dims), bounded ? " bounded" : ""));
        const std::vector<Value> inputs = inputs_of(*with, dims, static_cast<uint64_t>(n));
        EXPECT_EQ(run(*with, inputs), run(*without, inputs));
      }
    }
  }
}

// A view that becomes one run of bytes keeps nothing of the steps that it had.
TEST(StridedViews, B17_AViewBecomesARunOfBytes) {
  const char* graph =
      "graph(%x: f32[N,G,8]) {\n  %t = Transpose<perm=[1, 0, 2]>(%x)\n  %y = Add(%t, 1.0)\n  return %y\n}";
  for (const bool validate : {false, true}) {
    SessionOptions o;
    o.validate_plans = validate;
    const auto with = session_of(graph, o), without = session_of(graph, copies(o));
    ASSERT_TRUE(with && without);
    // Sizes come from formulas where an extent of 1 has been there before.
    for (const Dims& dims : {Dims{3, 4, 8}, Dims{5, 2, 8}, Dims{7, 1, 8}, Dims{1, 6, 8}, Dims{5, 2, 8}, Dims{6, 1, 8},
                             Dims{4, 3, 8}, Dims{1, 9, 8}, Dims{9, 1, 8}}) {
      const std::vector<Value> inputs = {random_floats(dims, 9)};
      EXPECT_EQ(run(*with, inputs), run(*without, inputs)) << to_string(dims);
    }
  }
}

// What reads a strided view may itself be chosen only at run.
TEST(StridedViews, B17_StepsThatAreChosenAtRunTakeThemToo) {
  const char* text =
      "graph(%x: f32[4,12]) {\n  %a, %b = Split<axis=1, num_outputs=2>(%x)\n  %r = ReduceMax<keepdims=0>(%x)\n"
      "  %i = Cast<to=7>(%r)\n  %rows = Range(i64 0, %i, i64 1)\n  %f = Cast<to=1>(%rows)\n"
      "  %u = Unsqueeze(%f, [1, 2])\n  %s = Add(%u, %a)\n  %c = Concat<axis=0>(%b, %b)\n"
      "  return %s, %c\n}";
  const auto with = session_of(text), without = session_of(text, copies({}));
  ASSERT_TRUE(with && without);
  Value x = random_floats({4, 12}, 3);
  x.tensor().as<float>()[5] = 3;
  const std::vector<Value> inputs = {x};
  EXPECT_FALSE(strided(*program_of(*with, inputs)).empty());
  EXPECT_EQ(run(*with, inputs), run(*without, inputs));
}

TEST(StridedViews, B17_BodiesHaveThemToo) {
  const char* text =
      "graph(%x: f32[4,8]) {\n  %l = Loop(i64 3, bool true, %x) {\nbody: graph(%t: i64[], %c: bool[], %s: f32[4,8]) {\n"
      "  %a, %b = Split<axis=1, num_outputs=2>(%s)\n  %d = Sub(%a, %b)\n  %n = Concat<axis=1>(%d, %b)\n"
      "  return %c, %n\n}\n}\n  return %l\n}";
  const auto with = session_of(text), without = session_of(text, copies({}));
  ASSERT_TRUE(with && without);
  const std::vector<Value> inputs = {random_floats({4, 8}, 11)};
  const auto program = program_of(*with, inputs);
  ASSERT_EQ(program->bodies.size(), 1u);
  EXPECT_EQ(strided(*program->bodies.begin()->second), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(run(*with, inputs), run(*without, inputs));
}

// The report says of a value that it is one, and of a copy why it is none.
TEST(StridedViews, B17_ReportsSayWhatIsOneAndWhyNot) {
  const auto session = session_of(
      "graph(%x: f32[6,8]) {\n  %a, %b = Split<axis=1, num_outputs=2>(%x) \"halves\"\n  %s = Softmax(%a) \"soft\"\n"
      "  %t = Transpose<perm=[1, 0]>(%x) \"turn\"\n  %r = Relu(%t) \"relu\"\n  %y = Mul(%s, %b)\n"
      "  return %y, %r\n}");
  ASSERT_TRUE(session);
  const std::vector<Value> inputs = {random_floats({6, 8}, 1)};
  const std::string text = plan_text(session->prepared(), *program_of(*session, inputs));
  EXPECT_NE(text.find("strided views\n"), std::string::npos) << text;
  EXPECT_NE(text.find("b: [6,4], steps of [8,1] elements"), std::string::npos) << text;
  EXPECT_NE(text.find("refused: split.view: its reader Softmax takes no strided view"), std::string::npos) << text;
  EXPECT_NE(text.find("refused: transpose.view: its reader Relu would read single elements far apart"),
            std::string::npos)
      << text;
  const std::string json = plan_json(session->prepared(), *program_of(*session, inputs));
  EXPECT_NE(json.find("\"strides\":[8,1]"), std::string::npos) << json;
}

}  // namespace
}  // namespace forethought
