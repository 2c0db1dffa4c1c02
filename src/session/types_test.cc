// Every operator with every element type: what is refused is refused at load, whether dims are known there or not, and
// what loads runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "graph/text.h"
#include "ops/op.h"
#include "session/session_testing.h"

namespace forethought {
namespace {

// A node: "T[2,3]" and "i64[2]" are inputs, T being the type that is varied; all else is as in the text form. Or a
// whole graph.
const char* const kForms[] = {
    "Abs(T[2,3])",
    "Add(T[2,3], T[3])",
    "And(T[2,3], T[3])",
    "ArgMax(T[2,3])",
    "ArgMin(T[2,3])",
    "AveragePool<kernel_shape=[2,2]>(T[1,2,3,3])",
    "BatchNormalization(T[1,2,3], T[2], T[2], T[2], T[2])",
    "BitShift<direction=\"LEFT\">(T[2,3], T[3])",
    "BitwiseAnd(T[2,3], T[3])",
    "BitwiseNot(T[2,3])",
    "BitwiseOr(T[2,3], T[3])",
    "BitwiseXor(T[2,3], T[3])",
    "Cast<to=1>(T[2,3])",
    "Cast<to=8>(T[2,3])",
    "Cast<to=9>(T[2,3])",
    "CastLike(f32[2,3], T[2])",
    "CastLike(T[2,3], f32[2])",
    "Ceil(T[2,3])",
    "Clip(T[2,3])",
    "Clip(T[2,3], T[], T[])",
    "Compress<axis=0>(T[2,3], bool[2])",
    "Concat<axis=0>(T[2,3], T[1,3])",
    "Constant<value_float=1.0>()",
    "ConstantOfShape(T[2])",
    "Conv(T[1,2,3,3], T[4,2,2,2], T[4])",
    "ConvTranspose(T[1,2,3,3], T[2,4,2,2], T[4])",
    "DepthToSpace<blocksize=2>(T[1,4,2,2])",
    "DequantizeLinear(T[2,3], f32[], T[])",
    "DequantizeLinear(u8[2,3], T[], u8[])",
    "Div(T[2,3], T[3])",
    "Dropout(T[2,3])",
    "Dropout(T[2,3], 0.5, bool[])",
    "Dropout(f32[2,3], 0.5, T[])",
    "Dropout(T[2,3], T[], bool false)",
    "Elu(T[2,3])",
    "Equal(T[2,3], T[3])",
    "Erf(T[2,3])",
    "Exp(T[2,3])",
    "Expand(T[3], [2,3])",
    "Flatten(T[2,3])",
    "Floor(T[2,3])",
    "Gather(T[2,3], i64[2])",
    "Gather(f32[2,3], T[2])",
    "GatherElements(T[2,3], i64[2,3])",
    "GatherND(T[2,3], i64[2,1])",
    "Gemm(T[2,3], T[3,4], T[4])",
    "GlobalAveragePool(T[1,2,3,3])",
    "GlobalMaxPool(T[1,2,3,3])",
    "Greater(T[2,3], T[3])",
    "GreaterOrEqual(T[2,3], T[3])",
    "HardSigmoid(T[2,3])",
    "HardSwish(T[2,3])",
    "Identity(T[2,3])",
    "Identity(T[])",
    "graph(%x: T[2,3], %c: bool[]) { %y = If(%c; %x) { then_branch: graph(%a: T[2,3]) { %p = Identity(%a) return %p } "
    "else_branch: graph(%a: T[2,3]) { return %a } } return %y }",
    "InstanceNormalization(T[1,2,3], T[2], T[2])",
    "LRN<size=3>(T[1,2,3,3])",
    "LeakyRelu(T[2,3])",
    "Less(T[2,3], T[3])",
    "LessOrEqual(T[2,3], T[3])",
    "Log(T[2,3])",
    "LogSoftmax(T[2,3])",
    "graph(%x: T[2,3], %m: i64[]) { %y, %z = Loop(%m, bool true, %x) { body: graph(%i: i64[], %c: bool[], %s: T[2,3]) "
    "{ %t = Identity(%s) return %c, %t, %t } } return %y, %z }",
    "graph(%x: T[2,3], %m: i64[]) { %y = Loop(%m, bool true, %x) { body: graph(%i: i64[], %c: bool[], %s: T[2,3]) "
    "{ %t = Identity(%s) return %c, %t } } return %y }",
    "MatMul(T[2,3], T[3,4])",
    "Max(T[2,3])",
    "Max(T[2,3], T[3], T[2,1])",
    "MaxPool<kernel_shape=[2,2]>(T[1,2,3,3])",
    "Mean(T[2,3], T[3])",
    "Min(T[2,3])",
    "Min(T[2,3], T[3])",
    "Mish(T[2,3])",
    "Mod(T[2,3], T[3])",
    "Mod<fmod=1>(T[2,3], T[3])",
    "Mul(T[2,3], T[3])",
    "Neg(T[2,3])",
    "NonMaxSuppression(T[1,2,4], T[1,1,2], [2])",
    "NonZero(T[2,3])",
    "Not(T[2,3])",
    "graph(%x: T[2,3]) { %o = Optional(%x) %h = OptionalHasElement(%o) %y = OptionalGetElement(%o) return %h, %y }",
    "Or(T[2,3], T[3])",
    "PRelu(T[2,3], T[3])",
    "Pad(T[2,3], [1,1,1,1], T[])",
    "Pad(T[2,3], [1,1,1,1])",
    "Pad<mode=\"reflect\">(T[2,3], [1,1,1,1])",
    "Pow(T[2,3], T[3])",
    "Pow(f32[2,3], T[3])",
    "QuantizeLinear(T[2,3], T[], u8[])",
    "QuantizeLinear(f32[2,3], f32[], T[])",
    "Range(T[], T[], T[])",
    "Reciprocal(T[2,3])",
    "ReduceMax(T[2,3], [1])",
    "ReduceMean(T[2,3], [1])",
    "ReduceMin(T[2,3], [1])",
    "ReduceSum(T[2,3], [1])",
    "Relu(T[2,3])",
    "Reshape(T[2,3], [3,2])",
    "Reshape(f32[1,1], T[2])",
    "Resize<mode=\"nearest\">(T[1,1,2,2], _, [1.0,1.0,2.0,2.0])",
    "Resize<mode=\"linear\">(T[1,1,2,2], _, [1.0,1.0,2.0,2.0])",
    "Resize<mode=\"cubic\">(T[1,1,2,2], _, [1.0,1.0,2.0,2.0])",
    "ReverseSequence(T[2,3], i64[3])",
    "graph(%s: T[3], %x: T[2,3]) { %y, %z = Scan<num_scan_inputs=1>(%s, %x) { body: graph(%a: T[3], %e: T[3]) { "
    "%b = Identity(%e) return %a, %b } } return %y, %z }",
    "Selu(T[2,3])",
    "graph(%x: T[2,3], %i: i64[]) { %e = SequenceEmpty() %q = SequenceConstruct(%x, %x) %r = SequenceInsert(%q, %x) "
    "%s = SequenceErase(%r) %n = SequenceLength(%s) %y = SequenceAt(%s, %i) %c = ConcatFromSequence<axis=0>(%s) "
    "return %e, %n, %y, %c }",
    "graph(%x: f32[2,3], %i: T[]) { %q = SequenceConstruct(%x, %x) %y = SequenceAt(%q, %i) return %y }",
    "graph(%x: T[2,3]) { %q = SequenceConstruct(%x, %x) %m = SequenceMap(%q) { body: graph(%e: T[2,3]) { "
    "%t = Identity(%e) return %t } } return %m }",
    "Shape(T[2,3])",
    "Sigmoid(T[2,3])",
    "Size(T[2,3])",
    "Slice(T[2,3], [0], [1])",
    "Slice(f32[2,3], T[1], T[1])",
    "Softmax(T[2,3])",
    "Softplus(T[2,3])",
    "Softsign(T[2,3])",
    "SpaceToDepth<blocksize=2>(T[1,1,4,4])",
    "Split<axis=1, num_outputs=1>(T[2,3])",
    "graph(%x: T[2,3]) { %q = SplitToSequence<axis=1>(%x) return %q }",
    "Sqrt(T[2,3])",
    "Squeeze(T[2,1], [1])",
    "Sub(T[2,3], T[3])",
    "Sum(T[2,3])",
    "Sum(T[2,3], T[3])",
    "Tanh(T[2,3])",
    "Tile(T[2,3], [2,1])",
    "TopK(T[2,3], [1])",
    "Transpose(T[2,3])",
    "Transpose(T[2])",
    "Unique(T[2,3])",
    "Unsqueeze(T[2,3], [0])",
    "Where(T[2,3], f32[2,3], f32[3])",
    "Where(bool[2,3], T[2,3], T[3])",
    "Xor(T[2,3], T[3])",
};

bool is_typed(std::string_view arg) {
  const size_t bracket = arg.find('[');
  return bracket != arg.npos && bracket > 0 && arg.find(' ') == arg.npos;
}

// The form as a graph in text, with T still in it.
std::string graph_of(std::string_view form) {
  if (form.starts_with("graph(")) return std::string(form);
  const size_t open = form.find('(');
  std::string inputs, args;
  int depth = 0, count = 0;
  std::string arg;
  const auto add = [&] {
    while (arg.starts_with(' ')) arg.erase(0, 1);
    if (is_typed(arg)) {
      absl::StrAppend(&inputs, count > 0 ? ", " : "", "%x", count, ": ", arg);
      arg = absl::StrCat("%x", count++);
    }
    absl::StrAppend(&args, args.empty() ? "" : ", ", arg);
    arg.clear();
  };
  for (const char c : form.substr(open + 1, form.size() - open - 2)) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    c == ',' && depth == 0 ? add() : arg.push_back(c);
  }
  if (!arg.empty()) add();
  return absl::StrCat("graph(", inputs, ") { %y = ", std::string(form.substr(0, open)), "(", args, ") return %y }");
}

Value ones(DType dtype, const Dims& dims) {
  Tensor t = make_tensor(dtype, dims).value();
  if (dtype == DType::kString) {
    for (int64_t i = 0; i < t.elements(); ++i) t.as<std::string>()[i] = "1";
    return Value(t);
  }
  std::memset(t.data, 0, static_cast<size_t>(t.bytes()));
  if (dtype == DType::kBool) std::memset(t.data, 1, static_cast<size_t>(t.bytes()));
  dispatch(dtype, NumberTypes{}, [&]<typename T>() { std::fill_n(t.as<T>(), t.elements(), static_cast<T>(1.0f)); });
  return Value(t);
}

struct Outcome {
  Status load, run;
};

Outcome outcome_of(const Graph& graph, bool open, OptimizationLevel level) {
  auto copy = graph.clone();
  std::vector<Value> feeds;
  for (const ValueId id : copy->inputs()) {
    GraphValue& v = copy->value(id);
    feeds.push_back(ones(v.type.dtype(), *v.shape.numbers()));
    for (Dim& d : v.shape.dims)
      if (open) d = Dim::unknown();
  }
  SessionOptions options;
  options.optimization_level = level;
  options.intra_op_threads = 1;
  auto session = Session::from_graph(std::move(copy), options);
  if (!session.ok()) return {session.status(), {}};
  std::vector<Value> outputs((*session)->outputs().size());
  return {absl::OkStatus(), (*session)->run_ordered(feeds, outputs)};
}

// All types of one form: T everywhere, then in one input alone while the others have a type that works.
class Sweep {
 public:
  explicit Sweep(std::string_view form) : text_(graph_of(form)) {}

  void run() {
    DType works = DType::kUndefined;
    for (int d = 1; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      const auto graph = with(dtype);
      ASSERT_TRUE(graph);
      if (check(*graph, name(dtype)) && works == DType::kUndefined) works = dtype;
    }
    EXPECT_NE(works, DType::kUndefined) << text_;
    const auto graph = with(works);
    if (!graph->node(graph->order().front()).bodies.empty()) return;  // which say the type too
    for (size_t i = 0; graph->inputs().size() > 1 && i < graph->inputs().size(); ++i) {
      for (int d = 1; d < kDTypeCount; ++d) {
        const auto mixed = graph->clone();
        mixed->value(mixed->inputs()[i]).type = ValueType::tensor(static_cast<DType>(d));
        check(*mixed, absl::StrCat("input ", i, " alone ", name(static_cast<DType>(d))));
      }
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::unique_ptr<Graph> with(DType dtype) const {
    return graph_from_text(absl::StrReplaceAll(text_, {{" T[", absl::StrCat(" ", name(dtype), "[")}})).value();
  }
  bool check(const Graph& graph, std::string_view what) const {
    bool loads = false;
    for (const OptimizationLevel level : {OptimizationLevel::disabled, OptimizationLevel::all}) {
      const Outcome fixed = outcome_of(graph, false, level), open = outcome_of(graph, true, level);
      const std::string where = absl::StrCat(text_, "\n", std::string(what), " at level ", static_cast<int>(level));
      EXPECT_EQ(fixed.load.ok(), open.load.ok()) << where << "\n" << fixed.load << "\n" << open.load;
      EXPECT_TRUE(fixed.run.ok()) << where << ", fixed dims\n" << fixed.run;
      EXPECT_TRUE(open.run.ok()) << where << ", open dims\n" << open.run;
      for (const Status& s : {fixed.load, open.load}) EXPECT_FALSE(absl::IsInternal(s)) << where << "\n" << s;
      loads = fixed.load.ok();
    }
    return loads;
  }

  std::string text_;
};

TEST(Types, WhatIsRefusedIsRefusedAtLoadWhetherDimsAreKnownOrNot) {
  std::set<std::string> missing;
  for (const OpDef* def : op_defs())
    if (def->name.domain.empty()) missing.emplace(def->name.type);
  for (const char* form : kForms) {
    Sweep sweep(form);
    SCOPED_TRACE(form);
    sweep.run();
    const auto graph = graph_from_text(absl::StrReplaceAll(sweep.text(), {{" T[", " f32["}})).value();
    for (const NodeId id : graph->order()) missing.erase(graph->node(id).op.type);
  }
  EXPECT_THAT(missing, testing::IsEmpty()) << "give each operator a form";
}

// What keeps elements in their order moves packed ones as bytes, also where the last byte is not full.
TEST(Types, PackedElementsGoThroughWhatKeepsTheirOrder) {
  for (const DType dtype : {DType::kInt4, DType::kUint4, DType::kFloat4E2M1, DType::kInt2, DType::kUint2})
    for (const char* dims : {"N,5", "3,5"}) {
      Tensor x = make_tensor(dtype, Dims{3, 5}).value();
      for (int64_t i = 0; i < x.bytes(); ++i)
        static_cast<unsigned char*>(x.data)[i] = static_cast<unsigned char>(37 * i + 9);
      const std::string text = absl::StrReplaceAll(R"(graph(%x: T[dims], %c: bool[], %m: i64[]) {
        %i = Identity(%x)
        %r = Reshape(%i, [-1])
        %u = Unsqueeze(%r, [0])
        %f = Flatten(%u)
        %s = Squeeze(%f, [0])
        %y = If(%c; %s) {
          then_branch: graph(%a: T[K]) { %p = Identity(%a) return %p }
          else_branch: graph(%a: T[K]) { %p = Reshape(%a, [-1]) return %p }
        }
        %z = Loop(%m, bool true, %y) {
          body: graph(%t: i64[], %d: bool[], %b: T[K]) { %q = Identity(%b) return %d, %q }
        }
        return %i, %s, %y, %z
      })",
                                                   {{"T[", absl::StrCat(name(dtype), "[")}, {"dims", dims}});
      for (const bool yes : {true, false}) {
        const auto out = run_everywhere(text, {Value(x), tensor_of<bool>({}, {yes}), tensor_of<int64_t>({}, {3})});
        ASSERT_EQ(out.size(), 4u) << text;
        EXPECT_EQ(dims_of(out[0]), (Dims{3, 5}));
        EXPECT_EQ(dims_of(out[3]), (Dims{15}));
        for (const Value& v : out) {
          EXPECT_EQ(v.tensor().dtype, dtype);
          EXPECT_EQ(std::memcmp(v.tensor().data, x.data, static_cast<size_t>(x.bytes())), 0) << name(dtype);
        }
      }
    }
}

}  // namespace
}  // namespace forethought
