// If and Loop with bodies written as functions: conditions, trips, states, scan outputs, skipped outputs, inference.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "graph/graph.h"
#include "kernel_api/body_host.h"
#include "ops/op_testing.h"

namespace forethought {
namespace {

struct Body {
  int inputs = 0, outputs = 0;
  std::function<Status(std::span<const Value>, std::span<Value>)> run;
  std::function<StatusOr<std::vector<InferOutput>>(std::span<const InferInput>)> infer;
};

// A node with bodies, bound, inferred, chosen and run as a session would; bodies are the functions above.
class Control final : public BodyHost, public BodyInference {
 public:
  Control(std::string op, std::vector<Value> inputs, int captures, std::vector<bool> wanted, std::vector<Body> bodies)
      : inputs_(std::move(inputs)), outputs_(wanted.size()), args_(wanted.size()), bodies_(std::move(bodies)) {
    std::vector<ValueId> in, out;
    for (size_t i = 0; i + captures < inputs_.size(); ++i)
      in.push_back(inputs_[i].is_none() ? ValueId{} : graph_.add_input("", type_of(inputs_[i]), {}));
    for (bool w : wanted) out.push_back(w ? graph_.add_value("") : ValueId{});
    node_ = graph_.add_node({"", op, 1}, "control", in, out);
    for (int i = 0; i < captures; ++i)
      graph_.add_capture(node_, graph_.add_input("", type_of(inputs_[in.size() + i]), {}));
    for (const Body& b : bodies_) {
      auto g = std::make_unique<Graph>();
      for (int i = 0; i < b.inputs; ++i) g->add_input("", {}, {});
      for (int i = 0; i < b.outputs; ++i) g->add_output(g->add_value(""));
      graph_.node(node_).bodies.emplace_back("body", std::move(g));
    }
    wanted_ = std::move(wanted);
  }

  Status go(bool contents = true) {
    const GraphNode& node = graph_.node(node_);
    ASSIGN_OR_RETURN(op_, operator_library().bind(node));
    std::vector<ValueType> types;
    std::vector<SymShape> shapes;
    for (const Value& v : inputs_) {
      types.push_back(type_of(v));
      shapes.push_back(v.is_tensor() ? SymShape::of(v.tensor().dims) : SymShape());
    }
    std::vector<InferInput> in;
    for (size_t i = 0; i < inputs_.size(); ++i)
      in.push_back({!inputs_[i].is_none(), &types[i], &shapes[i],
                    contents && inputs_[i].is_tensor() ? &inputs_[i].tensor() : nullptr, nullptr});
    inferred.resize(wanted_.size());
    for (size_t i = 0; i < wanted_.size(); ++i) inferred[i].wanted = wanted_[i];
    InferCtx infer(in, inferred, this);
    RETURN_IF_ERROR(op_->infer(infer));
    return run();
  }

  std::vector<InferOutput> inferred;
  KernelFacts facts;
  int adopted = 0, sized = 0, trips = 0, copies = 0;
  bool cancel = false;
  const Value& output(int i) const { return outputs_[i]; }
  template <typename T>
  std::vector<T> elements(int i) const {
    const Tensor& t = outputs_[i].tensor();
    return std::vector<T>(t.as<T>(), t.as<T>() + t.elements());
  }

  // RunHost
  void parallel_for(int64_t blocks, FunctionRef<void(int64_t, int)> f) override {
    for (int64_t b = 0; b < blocks; ++b) f(b, 0);
  }
  int workers() const override { return 1; }
  StatusOr<void*> output(int slot, std::span<const int64_t> dims) override {
    ++sized;
    ASSIGN_OR_RETURN(Tensor t, make_tensor(args_[slot].dtype, dims));
    outputs_[slot] = t;
    args_[slot] = arg_of(outputs_[slot]);
    return t.data;
  }
  Status set_output(int slot, Value v) override {
    ++adopted;
    outputs_[slot] = std::move(v);
    return absl::OkStatus();
  }
  StatusOr<Tensor> make_escaping(DType dtype, std::span<const int64_t> dims) override {
    return make_tensor(dtype, dims);
  }
  StatusOr<Value> escape(int slot) override { return inputs_[slot]; }
  bool body_output_dims(int, std::span<const Value>, int, Dims*) override { return false; }
  void count_copy(int64_t) override { ++copies; }
  Status run_body_in_place(int body, std::span<const Value> in, std::span<Value> out, std::span<int32_t>) override {
    ++trips;
    if (static_cast<int>(in.size()) != bodies_[body].inputs) return internal("wrong number of body inputs");
    std::vector<Value> made(out.size());
    RETURN_IF_ERROR(bodies_[body].run(in, made));
    for (size_t i = 0; i < out.size(); ++i) {
      if (made[i].is_tensor() && out[i].is_tensor() && out[i].tensor().bytes() == made[i].tensor().bytes() &&
          out[i].tensor().data) {
        std::memcpy(out[i].tensor().data, made[i].tensor().data, static_cast<size_t>(made[i].tensor().bytes()));
        void* where = out[i].tensor().data;
        out[i] = made[i];
        out[i].tensor().data = where;
        out[i].tensor().owner.reset();
      } else {
        out[i] = made[i];
      }
    }
    return absl::OkStatus();
  }
  bool cancelled() const override { return cancel; }

  // BodyInference
  int bodies() const override { return static_cast<int>(bodies_.size()); }
  int inputs(int b) const override { return bodies_[b].inputs; }
  int outputs(int b) const override { return bodies_[b].outputs; }
  StatusOr<std::vector<InferOutput>> infer(int b, std::span<const InferInput> in) override {
    return bodies_[b].infer(in);
  }

 private:
  static ValueType type_of(const Value& v) {
    if (v.is_tensor()) return ValueType::tensor(v.tensor().dtype);
    return v.sequence() ? ValueType::sequence(v.sequence()->element) : ValueType();
  }
  static Arg arg_of(Value& v) {
    Arg a;
    a.present = !v.is_none();
    if (!v.is_tensor()) {
      a.object = &v;
      return a;
    }
    Tensor& t = v.tensor();
    a.data = t.data;
    a.dims_data = t.dims.data();
    a.rank = static_cast<int32_t>(t.dims.size());
    a.elements = t.elements();
    a.dtype = t.dtype;
    return a;
  }

  Status run() {
    std::vector<Operand> in_ops(inputs_.size()), out_ops(wanted_.size());
    std::vector<Dims> dims(wanted_.size());
    for (size_t i = 0; i < wanted_.size(); ++i) {
      out_ops[i].present = wanted_[i];
      if (!wanted_[i] || !inferred[i].type.is_tensor()) continue;
      out_ops[i].dtype = inferred[i].type.dtype();
      if (auto n = inferred[i].shape.numbers()) {
        dims[i].assign(n->begin(), n->end());
        out_ops[i].dims = dims[i];
        out_ops[i].known = true;
      }
    }
    ASSIGN_OR_RETURN(facts, op_->kernel()->choose({Isa::scalar, in_ops, out_ops, nullptr}));
    std::vector<Arg> in;
    for (Value& v : inputs_) in.push_back(arg_of(v));
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (out_ops[i].known && out_ops[i].dtype != DType::kString) {
        ASSIGN_OR_RETURN(Tensor t, make_tensor(out_ops[i].dtype, dims[i]));
        outputs_[i] = t;
      }
      args_[i] = arg_of(outputs_[i]);
      args_[i].present = wanted_[i];
      args_[i].dtype = out_ops[i].dtype;
    }
    std::vector<std::byte> scratch(facts.scratch_shared);
    RunCtx ctx;
    ctx.inputs = in;
    ctx.outputs = args_;
    ctx.scratch_data = scratch.data();
    ctx.scratch_shared = scratch.size();
    ctx.host = this;
    const std::vector<const void*> before = places();
    RETURN_IF_ERROR(facts.instance->run(ctx));
    for (size_t i = 0; i < wanted_.size(); ++i)
      if (out_ops[i].known && out_ops[i].dtype != DType::kString && places()[i] != before[i])
        return internal("a planned output moved");
    return absl::OkStatus();
  }
  std::vector<const void*> places() const {
    std::vector<const void*> p;
    for (const Value& v : outputs_) p.push_back(v.is_tensor() ? v.tensor().data : nullptr);
    return p;
  }

  Graph graph_;
  NodeId node_;
  std::shared_ptr<const Operator> op_;
  std::vector<bool> wanted_;
  std::vector<Value> inputs_, outputs_;
  std::vector<Arg> args_;
  std::vector<Body> bodies_;
};

Value flag(bool b) { return tensor_of<bool>({}, {b}); }
Value count(int64_t n) { return tensor_of<int64_t>({}, {n}); }
Value floats(std::vector<float> v) { return tensor_of<float>({static_cast<int64_t>(v.size())}, v); }
InferOutput fact(DType dtype, SymShape shape) {
  InferOutput o;
  o.type = ValueType::tensor(dtype);
  o.shape = std::move(shape);
  return o;
}
SymShape shape_of(std::initializer_list<int64_t> d) { return SymShape::of(Dims(d)); }

// ---- If

Body constant_branch(std::vector<Value> values) {
  return {0, static_cast<int>(values.size()),
          [values](std::span<const Value>, std::span<Value> out) {
            std::copy(values.begin(), values.end(), out.begin());
            return absl::OkStatus();
          },
          [values](std::span<const InferInput>) -> StatusOr<std::vector<InferOutput>> {
            std::vector<InferOutput> r;
            for (const Value& v : values) r.push_back(fact(v.tensor().dtype, SymShape::of(v.tensor().dims)));
            return r;
          }};
}

TEST(If, TakesTheBranchOfTheCondition) {
  for (bool cond : {true, false})
    for (bool contents : {true, false}) {
      Control c("If", {flag(cond)}, 0, {true}, {constant_branch({floats({1, 2})}), constant_branch({floats({3, 4})})});
      ASSERT_TRUE(c.go(contents).ok());
      EXPECT_EQ(c.elements<float>(0), cond ? (std::vector<float>{1, 2}) : (std::vector<float>{3, 4}));
      EXPECT_EQ(c.facts.sized_at_run, 0u);  // both branches give [2]
      EXPECT_EQ(c.trips, 1);
    }
}

// P26 (ii): branches of different shapes; what is known is what they share.
TEST(If, P26BranchesOfDifferentShapes) {
  for (bool cond : {true, false}) {
    Control c("If", {flag(cond)}, 0, {true},
              {constant_branch({floats({1, 2})}), constant_branch({tensor_of<float>({1, 2}, {3, 4})})});
    ASSERT_TRUE(c.go(false).ok());
    EXPECT_FALSE(c.inferred[0].shape.has_rank);
    EXPECT_EQ(c.facts.sized_at_run, 1u);
    EXPECT_EQ(c.output(0).tensor().dims, cond ? (Dims{2}) : (Dims{1, 2}));
    EXPECT_EQ(c.adopted, 1);  // the branch's tensor is handed over, not copied
  }
  Control c("If", {flag(true)}, 0, {true}, {constant_branch({floats({1, 2})}), constant_branch({floats({3})})});
  ASSERT_TRUE(c.go(false).ok());
  EXPECT_EQ(c.inferred[0].shape.rank(), 1);
  EXPECT_TRUE(c.inferred[0].shape.dims[0].is_unknown());
}

// P26 (i): a branch that cannot be right does no harm while it is not taken.
TEST(If, P26BrokenDeadBranch) {
  Body broken = constant_branch({floats({1, 2})});
  broken.infer = [](std::span<const InferInput>) -> StatusOr<std::vector<InferOutput>> {
    return invalid("cannot squeeze");
  };
  for (bool contents : {true, false}) {
    Control c("If", {flag(false)}, 0, {true}, {broken, constant_branch({floats({3, 4})})});
    ASSERT_TRUE(c.go(contents).ok());
    EXPECT_EQ(c.elements<float>(0), (std::vector<float>{3, 4}));
  }
  Control taken("If", {flag(true)}, 0, {true}, {broken, constant_branch({floats({3, 4})})});
  EXPECT_FALSE(taken.go(true).ok());
  Control both("If", {flag(true)}, 0, {true}, {broken, broken});
  EXPECT_FALSE(both.go(false).ok());
}

// P25: the first of two outputs skipped, and the last one left out.
TEST(If, P25SkippedOutputs) {
  const Body branch = constant_branch({floats({1}), floats({2, 3})});
  Control c("If", {flag(true)}, 0, {false, true}, {branch, branch});
  ASSERT_TRUE(c.go().ok());
  EXPECT_EQ(c.elements<float>(1), (std::vector<float>{2, 3}));
  Control d("If", {flag(true)}, 0, {true}, {branch, branch});
  ASSERT_TRUE(d.go().ok());
  EXPECT_EQ(d.elements<float>(0), (std::vector<float>{1}));
}

TEST(If, CapturesReachTheBody) {
  Body same{1, 1,
            [](std::span<const Value> in, std::span<Value> out) {
              out[0] = in[0];
              return absl::OkStatus();
            },
            [](std::span<const InferInput> in) -> StatusOr<std::vector<InferOutput>> {
              return std::vector<InferOutput>{fact(in[0].type->dtype(), SymShape::unknown())};
            }};
  Control c("If", {flag(true), floats({5, 6})}, 1, {true}, {same, same});
  ASSERT_TRUE(c.go().ok());
  EXPECT_EQ(c.elements<float>(0), (std::vector<float>{5, 6}));
  EXPECT_EQ(c.sized, 1);  // a borrowed value is copied
}

TEST(If, Refusals) {
  const Body branch = constant_branch({floats({1})});
  EXPECT_FALSE(Control("If", {flag(true)}, 0, {true}, {branch}).go().ok());
  EXPECT_FALSE(Control("If", {flag(true)}, 0, {true, true}, {branch, branch}).go().ok());
  EXPECT_FALSE(Control("If", {tensor_of<bool>({2}, {true, true})}, 0, {true}, {branch, branch}).go().ok());
  EXPECT_FALSE(Control("If", {flag(true)}, 0, {true}, {branch, constant_branch({count(1)})}).go(false).ok());
}

// ---- Loop: one state s and one scan output: s' = s + 1, scan = 2 · s'; the condition holds while trip + 1 < stop.

Body counting_body(int64_t stop = 1000, bool cond_known = false) {
  return {3, 3,
          [stop](std::span<const Value> in, std::span<Value> out) -> Status {
            const int64_t trip = *in[0].tensor().as<int64_t>();
            const Tensor& s = in[2].tensor();
            ASSIGN_OR_RETURN(Tensor next, make_tensor(DType::kFloat, s.dims));
            ASSIGN_OR_RETURN(Tensor twice, make_tensor(DType::kFloat, s.dims));
            for (int64_t i = 0; i < s.elements(); ++i) {
              next.as<float>()[i] = s.as<float>()[i] + 1;
              twice.as<float>()[i] = 2 * next.as<float>()[i];
            }
            out[0] = flag(trip + 1 < stop);
            out[1] = next;
            out[2] = twice;
            return absl::OkStatus();
          },
          [cond_known](std::span<const InferInput> in) -> StatusOr<std::vector<InferOutput>> {
            std::vector<InferOutput> r = {fact(DType::kBool, SymShape::scalar()), fact(DType::kFloat, *in[2].shape),
                                          fact(DType::kFloat, *in[2].shape)};
            if (cond_known) r[0].has_value = true, r[0].value.ints.push_back(1);
            return r;
          }};
}

struct LoopRow {
  const char* what;
  Value trips, cond;
  int64_t stop;
  int want;  // trips made
};

TEST(Loop, TripsAndConditions) {
  const LoopRow rows[] = {
      {"trips alone: the body's condition is void", count(3), {}, 1, 3},
      {"trips with a condition that holds", count(3), flag(true), 1000, 3},
      {"the condition ends it", count(9), flag(true), 2, 2},
      {"the condition ends it after one", count(9), flag(true), 1, 1},
      {"a condition alone", {}, flag(true), 4, 4},
      {"neither: the body ends it", {}, {}, 5, 5},
      {"zero trips", count(0), flag(true), 1000, 0},
      {"fewer than zero trips", count(-3), {}, 1000, 0},
      {"the condition is false at first", count(4), flag(false), 1000, 0},
  };
  for (const LoopRow& r : rows)
    for (bool contents : {true, false})
      for (bool known : {false, true}) {
        SCOPED_TRACE(r.what);
        if (known && r.stop < 1000 && r.cond.is_tensor()) continue;  // the body's rule would be untrue
        Control c("Loop", {r.trips, r.cond, floats({5, 6})}, 0, {true, true}, {counting_body(r.stop, known)});
        const Status s = c.go(contents);
        ASSERT_TRUE(s.ok()) << s;
        EXPECT_EQ(c.trips, r.want);
        const float n = static_cast<float>(r.want);
        EXPECT_EQ(c.elements<float>(0), (std::vector<float>{5 + n, 6 + n}));
        std::vector<float> scan;
        for (float i = 1; i <= n; ++i) scan.insert(scan.end(), {2 * (5 + i), 2 * (6 + i)});
        EXPECT_EQ(c.elements<float>(1), scan);
        if (r.want) {
          EXPECT_EQ(c.output(1).tensor().dims, (Dims{r.want, 2}));
        }
      }
}

TEST(Loop, TripsThatAreKnownArePlanned) {
  Control c("Loop", {count(3), flag(true), floats({5, 6})}, 0, {true, true}, {counting_body(1000, true)});
  ASSERT_TRUE(c.go().ok());
  EXPECT_EQ(to_string(c.inferred[1].shape), "[3,2]");
  EXPECT_EQ(c.facts.sized_at_run, 0u);
  EXPECT_EQ(c.sized + c.adopted, 0);
  EXPECT_EQ(c.facts.scratch_shared, 64u);
  Control d("Loop", {count(3), flag(true), floats({5, 6})}, 0, {true, true}, {counting_body()});
  ASSERT_TRUE(d.go().ok());
  EXPECT_EQ(to_string(d.inferred[1].shape), "[?,2]");
  EXPECT_EQ(d.facts.sized_at_run, 2u);
}

// P25: skipped state or scan output.
TEST(Loop, P25SkippedOutputs) {
  const Value start = tensor_of<float>({1, 2}, {5, 6});
  Control a("Loop", {count(2), {}, start}, 0, {false, true}, {counting_body()});
  ASSERT_TRUE(a.go().ok());
  EXPECT_EQ(a.elements<float>(1), (std::vector<float>{12, 14, 14, 16}));
  EXPECT_EQ(a.output(1).tensor().dims, (Dims{2, 1, 2}));
  Control b("Loop", {count(2), {}, start}, 0, {true, false}, {counting_body()});
  ASSERT_TRUE(b.go().ok());
  EXPECT_EQ(b.elements<float>(0), (std::vector<float>{7, 8}));
}

// A state that grows: its length is unknown, its rank is not, and the last tensor is handed over.
TEST(Loop, StatesMayChangeTheirShape) {
  Body grow{3, 2,
            [](std::span<const Value> in, std::span<Value> out) {
              const Tensor& s = in[2].tensor();
              std::vector<float> v(s.as<float>(), s.as<float>() + s.elements());
              v.push_back(static_cast<float>(*in[0].tensor().as<int64_t>()));
              out[0] = flag(true);
              out[1] = floats(v);
              return absl::OkStatus();
            },
            [](std::span<const InferInput> in) -> StatusOr<std::vector<InferOutput>> {
              return std::vector<InferOutput>{fact(DType::kBool, SymShape::scalar()),
                                              fact(DType::kFloat, SymShape(true, {in[2].shape->dims[0] + 1}))};
            }};
  Control c("Loop", {count(3), flag(true), floats({9})}, 0, {true}, {grow});
  ASSERT_TRUE(c.go().ok());
  EXPECT_EQ(to_string(c.inferred[0].shape), "[?]");
  EXPECT_EQ(c.elements<float>(0), (std::vector<float>{9, 0, 1, 2}));
  EXPECT_EQ(c.adopted, 1);
}

// A body that gives back what it was given: the trip number must not change under the slices.
TEST(Loop, PassedOnValuesAreKept) {
  Body pass{4, 3,
            [](std::span<const Value> in, std::span<Value> out) {
              out[0] = in[1];
              out[1] = in[2];
              out[2] = in[0];
              return absl::OkStatus();
            },
            [](std::span<const InferInput> in) -> StatusOr<std::vector<InferOutput>> {
              std::vector<InferOutput> r = {fact(DType::kBool, SymShape::scalar()),
                                            fact(DType::kFloat, SymShape::unknown()),
                                            fact(DType::kInt64, SymShape::scalar())};
              if (in[1].value) r[0].has_value = true, r[0].value = *in[1].value;
              return r;
            }};
  Control c("Loop", {count(3), flag(true), floats({4}), floats({7})}, 1, {true, true}, {pass});
  const Status s = c.go();
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_EQ(to_string(c.inferred[1].shape), "[3]");  // the condition that is passed on holds whenever the body runs
  EXPECT_EQ(c.elements<float>(0), (std::vector<float>{4}));
  EXPECT_EQ(c.elements<int64_t>(1), (std::vector<int64_t>{0, 1, 2}));
  Control d("Loop", {count(3), flag(true), floats({4}), floats({7})}, 1, {true, true}, {pass});
  ASSERT_TRUE(d.go(false).ok());
  EXPECT_EQ(d.elements<int64_t>(1), (std::vector<int64_t>{0, 1, 2}));
}

TEST(Loop, SequencesAsState) {
  const ValueType type = ValueType::sequence(ValueType::tensor(DType::kFloat));
  Body append{3, 2,
              [](std::span<const Value> in, std::span<Value> out) {
                auto s = std::make_shared<Sequence>(*in[2].sequence());
                s->items.push_back(floats({static_cast<float>(*in[0].tensor().as<int64_t>())}));
                out[0] = flag(true);
                out[1] = std::shared_ptr<const Sequence>(std::move(s));
                return absl::OkStatus();
              },
              [type](std::span<const InferInput>) -> StatusOr<std::vector<InferOutput>> {
                InferOutput seq;
                seq.type = type;
                return std::vector<InferOutput>{fact(DType::kBool, SymShape::scalar()), seq};
              }};
  auto empty = std::make_shared<Sequence>();
  empty->element = ValueType::tensor(DType::kFloat);
  for (int64_t trips : {0, 3}) {
    Control c("Loop", {count(trips), flag(true), Value(std::shared_ptr<const Sequence>(empty))}, 0, {true}, {append});
    const Status s = c.go();
    ASSERT_TRUE(s.ok()) << s;
    EXPECT_EQ(c.inferred[0].type, type);
    ASSERT_EQ(c.output(0).sequence()->items.size(), static_cast<size_t>(trips));
    if (trips) {
      EXPECT_EQ(c.output(0).sequence()->items[2].tensor().as<float>()[0], 2);
    }
  }
}

TEST(Loop, CancelledRunsEnd) {
  Control c("Loop", {{}, flag(true), floats({1})}, 0, {true, true}, {counting_body(1 << 30)});
  c.cancel = true;
  EXPECT_EQ(c.go().code(), absl::StatusCode::kCancelled);
}

TEST(Loop, Refusals) {
  const auto loop = [](std::vector<Value> in, int outputs, Body body) {
    return std::make_unique<Control>("Loop", std::move(in), 0, std::vector<bool>(outputs, true),
                                     std::vector<Body>{std::move(body)});
  };
  struct {
    std::unique_ptr<Control> c;
    const char* says;
  } rows[] = {
      {loop({count(1), {}}, 1, counting_body()), "takes 3 inputs"},
      {loop({count(1), {}, floats({1})}, 3, counting_body()), "the body gives 2"},
      {loop({flag(true), {}, floats({1})}, 2, counting_body()), "bool"},
      {loop({tensor_of<int64_t>({2}, {1, 2}), {}, floats({1})}, 2, counting_body()), "trip count"},
      {loop({count(1), {}, {}}, 2, counting_body()), "skipped"},
      {loop({count(1), {}, count(1)}, 2, counting_body()), "state 0"},
  };
  for (auto& r : rows) {
    const Status s = r.c->go();
    ASSERT_FALSE(s.ok()) << r.says;
    EXPECT_NE(s.message().find(r.says), std::string::npos) << s;
  }
  // Slices that change their shape.
  Body uneven = counting_body();
  uneven.run = [](std::span<const Value> in, std::span<Value> out) {
    out[0] = flag(true);
    out[1] = in[2];
    out[2] = floats(std::vector<float>(1 + *in[0].tensor().as<int64_t>(), 0));
    return absl::OkStatus();
  };
  uneven.infer = [](std::span<const InferInput>) -> StatusOr<std::vector<InferOutput>> {
    return std::vector<InferOutput>{fact(DType::kBool, SymShape::scalar()), fact(DType::kFloat, shape_of({1})),
                                    fact(DType::kFloat, SymShape::unknown())};
  };
  Control c("Loop", {count(2), {}, floats({1})}, 0, {true, true}, {uneven});
  const Status s = c.go();
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.message().find("slices must have one shape"), std::string::npos) << s;
}

}  // namespace
}  // namespace forethought
