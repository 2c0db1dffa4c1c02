// Loop: runs its body while the trip count and the condition allow, carries states around, and stacks scan outputs.
#include <algorithm>
#include <limits>

#include "ops/control/body_run.h"
#include "ops/control/body_shapes.h"
#include "ops/control/body_values.h"
#include "ops/op.h"

namespace forethought {
namespace {

// Inputs and outputs of node and body. The node reads M, cond, the initial states, captures; the body reads the trip,
// the condition, the states, captures and gives the condition, the states, one slice of each scan output.
struct LoopForm {
  int states = 0, scans = 0, captures = 0;
  Dims trip_dims, cond_dims;     // [] or [1], as the body declares them
  std::vector<Dims> empty_scan;  // what each slice is after zero trips; dims that nobody declared are 0
  bool keeps_cond = false;       // the body gives the condition back as it came, or true
};

// A loop that has neither a trip count nor a condition of its own ends when the body says so; a trip count alone makes
// the body's condition void.
bool body_ends_it(bool has_trips, bool has_cond) { return has_cond || !has_trips; }

class LoopStep final : public Runnable {
 public:
  LoopStep(LoopForm form, StateHomes states, std::vector<StackedForm> scans)
      : form_(std::move(form)), homes_(std::move(states)), scans_(std::move(scans)) {}

  Status run(RunCtx& c) const override {
    int64_t trips = std::numeric_limits<int64_t>::max();
    if (c.has_in(0)) {
      if (c.in(0).elements != 1) return invalid("the trip count is not a single element");
      trips = std::max<int64_t>(0, *c.in_as<int64_t>(0));
    }
    bool go = true;
    if (c.has_in(1)) {
      if (c.in(1).elements != 1) return invalid("the condition is not a single element");
      go = *c.in_as<uint8_t>(1) != 0;
    }
    if (!go) trips = 0;
    const bool may_end = body_ends_it(c.has_in(0), c.has_in(1));
    BodyRuns::Lent lent(runs_);
    BodyRun& r = *lent;
    ASSIGN_OR_RETURN(r.host, BodyHost::of(c));
    int64_t number = 0;
    uint8_t cond = 1, cond_out = 0;
    begin(c, r, trips, c.has_in(0) && !(may_end && !form_.keeps_cond));
    r.in[0] = scalar(DType::kInt64, form_.trip_dims, &number);
    r.in[1] = scalar(DType::kBool, form_.cond_dims, &cond);
    for (; number < trips && go; ++number) {
      if (c.host->cancelled()) return cancelled(absl::StrCat("the run was cancelled in trip ", number, " of a Loop"));
      r.out[0] = scalar(DType::kBool, form_.cond_dims, &cond_out);
      if (Status s = one_trip(c, r, number, trips); !s.ok()) return with_context(s, absl::StrCat("trip ", number));
      if (!may_end) continue;
      const Value& next = r.result(0);
      if (!next.is_tensor() || next.tensor().dtype != DType::kBool || next.tensor().elements() != 1)
        return invalid("the body's condition is not a single bool");
      go = *next.tensor().as<uint8_t>() != 0;
    }
    for (size_t k = 0; k < r.stacked.size(); ++k) {
      Dims slice;
      const bool told = number == 0 && r.asks_dims(c, k, 1 + static_cast<size_t>(form_.states) + k, &slice);
      RETURN_IF_ERROR(r.stacked[k].finish(c, *r.host, number, told ? &slice : nullptr));
    }
    return r.states.finish(c, *r.host);
  }

 private:
  static Tensor scalar(DType dtype, const Dims& dims, void* data) {
    Tensor t;
    t.dtype = dtype;
    t.dims = dims;
    t.data = data;
    return t;
  }

  void begin(const RunCtx& c, BodyRun& r, int64_t trips, bool certain) const {
    const auto states = static_cast<size_t>(form_.states), captures = static_cast<size_t>(form_.captures);
    r.in.resize(2 + states + captures);
    r.out.resize(1 + states + static_cast<size_t>(form_.scans));
    r.stacked.resize(scans_.size());
    for (size_t i = 2; i < r.in.size(); ++i) r.in[i] = borrow(c.inputs[i]);
    r.states.begin(homes_, std::span(r.in).subspan(2, states));
    for (size_t k = 0; k < scans_.size(); ++k) {
      const int64_t known = scans_[k].planned ? c.out(scans_[k].slot).dim(0) : certain ? trips : -1;
      r.stacked[k].begin(scans_[k], known, trips);
    }
  }

  Status one_trip(RunCtx& c, BodyRun& r, int64_t trip, int64_t trips) const {
    const auto states = static_cast<size_t>(form_.states);
    const std::span<Value> out(r.out);
    // The last of a known number of trips writes to the node's outputs.
    r.states.offer(c, (trips - trip) % 2 == 1, out.subspan(1, states));
    for (size_t k = 0; k < r.stacked.size(); ++k) {
      Dims slice;
      const bool told = r.asks_dims(c, k, 1 + states + k, &slice);
      ASSIGN_OR_RETURN(out[1 + states + k], r.stacked[k].offer(c, *r.host, trip, told ? &slice : nullptr));
    }
    RETURN_IF_ERROR(r.once());
    for (size_t k = 0; k < r.stacked.size(); ++k)
      RETURN_IF_ERROR(r.stacked[k].keep(c, *r.host, trip, r.result(1 + states + k)));
    if (form_.states == 0) return absl::OkStatus();
    return r.states.turn(c, *r.host, r.in, 2, out.subspan(1, states), std::span(r.passed).subspan(1, states));
  }

  LoopForm form_;
  StateHomes homes_;
  std::vector<StackedForm> scans_;
  mutable BodyRuns runs_;
};

// Whether the body's condition is the one it was given, or true.
bool keeps_condition(const Graph& body) {
  ValueId v = body.outputs()[0];
  while (body.producer(v).valid() && body.node(body.producer(v)).op.is("Identity"))
    v = body.node(body.producer(v)).inputs[0];
  if (v == body.inputs()[1]) return true;
  if (!body.is_constant(v)) return false;
  const Tensor& t = *body.value(v).constant;
  return t.dtype == DType::kBool && t.elements() == 1 && *t.as<uint8_t>() != 0;
}

}  // namespace

struct Loop {
  LoopForm form;

  static constexpr OpName name{"Loop"};
  static constexpr auto attrs = std::tuple{};
  static constexpr Traits traits{
      .min_inputs = 0, .max_inputs = kVariadic, .min_outputs = 0, .max_outputs = kVariadic, .foldable = false};

  Status init(const GraphNode& node) {
    if (node.bodies.size() != 1) return invalid("needs one body");
    const Graph& body = *node.bodies[0].second;
    if (node.formal_inputs() < 2) return invalid("needs the inputs M and cond, which may be skipped");
    form.states = node.formal_inputs() - 2;
    form.captures = node.captures;
    const int in = static_cast<int>(body.inputs().size()), out = static_cast<int>(body.outputs().size());
    if (in != 2 + form.states + form.captures)
      return invalid(absl::StrCat("the body takes ", in - form.captures, " inputs; trip, condition and ", form.states,
                                  " states are given"));
    if (out < 1 + form.states)
      return invalid(
          absl::StrCat("the body gives ", out, " outputs; the condition and ", form.states, " states are needed"));
    form.scans = out - 1 - form.states;
    if (static_cast<int>(node.outputs.size()) > form.states + form.scans)
      return invalid(absl::StrCat("has ", node.outputs.size(), " outputs; the body gives ", form.states + form.scans));
    for (int s = 0; s < form.states; ++s)
      if (!node.inputs[2 + s].valid()) return invalid(absl::StrCat("input ", 2 + s, ", an initial state, is skipped"));
    const auto one_or_none = [&](int i) {
      const SymShape& s = body.value(body.inputs()[i]).shape;
      return s.has_rank && s.rank() == 1 ? Dims{1} : Dims{};
    };
    form.trip_dims = one_or_none(0);
    form.cond_dims = one_or_none(1);
    form.keeps_cond = keeps_condition(body);
    for (int k = 0; k < form.scans; ++k)
      form.empty_scan.push_back(slice_never_made(body.value(body.outputs()[1 + form.states + k])));
    return absl::OkStatus();
  }

  Status infer(InferCtx& c) const {
    if (!c.bodies()) return internal("bodies are needed to infer Loop");
    if (c.has_in(0)) RETURN_IF_ERROR(c.require(0, DType::kInt64, "M"));
    if (c.has_in(1)) RETURN_IF_ERROR(c.require(1, DType::kBool, "cond"));
    StateFacts states;
    for (int s = 0; s < form.states; ++s) {
      states.shapes.push_back(c.shape(2 + s));
      states.types.push_back(c.type(2 + s));
    }
    ASSIGN_OR_RETURN(const std::vector<InferOutput> out,
                     settle_states(states, 1, [&] { return infer_body(c, states); }));
    for (int s = 0; s < form.states; ++s) set_state(c, s, states, out[1 + s]);
    const Dim trips = trips_of(c, out[0]);
    for (int k = 0; k < form.scans && form.states + k < c.outputs(); ++k)
      RETURN_IF_ERROR(set_stacked(c, form.states + k, out[1 + form.states + k], trips, 0));
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts;
    facts.kernel = "loop";
    facts.host_inputs = 3;
    ASSIGN_OR_RETURN(facts.sized_at_run, sized_at_run(ctx.outputs));
    ASSIGN_OR_RETURN(StateHomes states, StateHomes::plan(ctx.outputs, form.states, &facts.scratch_shared));
    std::vector<StackedForm> scans;
    for (int i = form.states; i < static_cast<int>(ctx.outputs.size()); ++i) {
      scans.push_back({.slot = i, .planned = is_planned(ctx.outputs[i]), .empty = form.empty_scan[i - form.states]});
    }
    facts.instance = std::make_shared<LoopStep>(form, std::move(states), std::move(scans));
    return facts;
  }

 private:
  StatusOr<std::vector<InferOutput>> infer_body(InferCtx& c, const StateFacts& states) const {
    const ValueType trip = ValueType::tensor(DType::kInt64), cond = ValueType::tensor(DType::kBool);
    const auto shape_of = [](const Dims& d) { return SymShape::of(d); };
    const SymShape trip_shape = shape_of(form.trip_dims), cond_shape = shape_of(form.cond_dims);
    SymValue yes;  // the body runs only while the condition holds
    yes.ints.push_back(1);
    std::vector<InferInput> in;
    in.push_back({true, &trip, &trip_shape, nullptr, nullptr});
    in.push_back({true, &cond, &cond_shape, nullptr, body_ends_it(c.has_in(0), c.has_in(1)) ? &yes : nullptr});
    for (int s = 0; s < form.states; ++s) in.push_back({true, &states.types[s], &states.shapes[s], nullptr, nullptr});
    const auto captures = c.all_inputs().subspan(2 + form.states);
    in.insert(in.end(), captures.begin(), captures.end());
    return c.bodies()->infer(0, in);
  }

  // How many there will be; at most the limit, where the body decides.
  Dim trips_of(InferCtx& c, const InferOutput& cond_out) const {
    const std::optional<int64_t> first = c.scalar_int(1);
    if (c.has_in(1) && first && !*first) return 0;
    const SymValue* most = c.value(0);
    if (!most || most->is_float || most->ints.size() != 1 || most->ints[0].is_unknown()) return Dim::unknown();
    const Dim trips = max(most->ints[0], Dim(0));  // may be an expression of symbols: the length of a sequence
    if (!c.has_in(1)) return trips;
    const bool known = cond_out.has_value && cond_out.value.ints.size() == 1 && cond_out.value.ints[0].is_known();
    if (!first || !known) {
      int scan = form.states;
      while (scan < c.outputs() && !c.wants_out(scan)) ++scan;
      return c.data_dim(scan, 0, trips);  // the same for all scan outputs
    }
    return cond_out.value.ints[0] == 0 ? min(trips, Dim(1)) : trips;
  }
};
DEFINE_OP(Loop)

}  // namespace forethought
