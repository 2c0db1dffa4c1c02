// Loop: runs its body while the trip count and the condition allow, carries states around, and stacks scan outputs.
#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "ops/control/body_values.h"
#include "ops/op.h"

namespace forethought {
namespace {

// Inputs and outputs of node and body. The node reads M, cond, the initial states, captures; the body reads the trip,
// the condition, the states, captures and gives the condition, the states, one slice of each scan output.
struct LoopForm {
  int states = 0, scans = 0, captures = 0;
  Dims trip_dims, cond_dims;     // [] or [1], as the body declares them
  std::vector<Dims> empty_scan;  // what each scan output is after zero trips; dims that nobody declared are 0
};

// A loop that has neither a trip count nor a condition of its own ends when the body says so; a trip count alone makes
// the body's condition void.
bool body_ends_it(bool has_trips, bool has_cond) { return has_cond || !has_trips; }

// Where a planned state lives: trips write it by turns to the output and to scratch, so that no trip overwrites what it
// reads, and so that the last one of a known number writes to the output.
struct StateHome {
  bool planned = false;
  size_t scratch_offset = 0;
};

class LoopStep final : public Runnable {
 public:
  LoopStep(LoopForm form, std::vector<StateHome> states, std::vector<bool> scans)
      : form_(std::move(form)), states_(std::move(states)), scan_planned_(std::move(scans)) {}

  Status run(RunCtx& c) const override {
    Trip t;
    t.in.resize(static_cast<size_t>(2 + form_.states + form_.captures));
    t.out.resize(static_cast<size_t>(1 + form_.states + form_.scans));
    t.stacked.resize(static_cast<size_t>(form_.scans));
    for (size_t i = 2; i < t.in.size(); ++i) t.in[i] = borrow(c.inputs[i]);
    int64_t trips = std::numeric_limits<int64_t>::max();
    if (c.has_in(0)) {
      if (c.in(0).elements != 1) return invalid("the trip count is not a single element");
      trips = *c.in_as<int64_t>(0);
    }
    bool go = true;
    if (c.has_in(1)) {
      if (c.in(1).elements != 1) return invalid("the condition is not a single element");
      go = *c.in_as<uint8_t>(1) != 0;
    }
    int64_t done = 0;
    for (; done < trips && go; ++done) {
      if (c.host->cancelled()) return cancelled("the run was cancelled inside a Loop");
      RETURN_IF_ERROR(with_context(one_trip(c, t, done, trips), absl::StrCat("trip ", done)));
      if (body_ends_it(c.has_in(0), c.has_in(1))) go = t.next;
    }
    for (int s = 0; s < form_.states; ++s) RETURN_IF_ERROR(deliver(c, s, states_[s].planned, std::move(t.in[2 + s])));
    for (int k = 0; k < form_.scans; ++k) RETURN_IF_ERROR(stack(c, k, done, t.stacked[k]));
    return absl::OkStatus();
  }

 private:
  struct Trip {
    absl::InlinedVector<Value, 8> in, out;
    absl::InlinedVector<std::vector<Value>, 2> stacked;  // slices of scan outputs whose size is not planned
    int64_t number = 0;
    uint8_t cond = 1, cond_out = 0;
    bool next = true;
  };

  static Tensor scalar(DType dtype, const Dims& dims, void* data) {
    Tensor t;
    t.dtype = dtype;
    t.dims = dims;
    t.data = data;
    return t;
  }

  // A value that lives on when the next trip overwrites what the body was given.
  static Status own(RunCtx& c, Value& v) {
    if (!v.is_tensor() || v.tensor().owner) return absl::OkStatus();
    ASSIGN_OR_RETURN(Tensor copy, c.host->make_escaping(v.tensor().dtype, v.tensor().dims));
    copy_elements(v.tensor(), copy.data);
    v = std::move(copy);
    return absl::OkStatus();
  }

  Tensor state_target(const RunCtx& c, int s, int64_t trip, int64_t trips) const {
    Tensor t = c.out(s).tensor();
    if ((trips - trip) % 2 == 0) t.data = c.scratch() + states_[s].scratch_offset;
    return t;
  }

  // The slice of scan output k that trip `trip` writes.
  Tensor slice_target(const RunCtx& c, int k, int64_t trip) const {
    Tensor t = c.out(form_.states + k).tensor();
    t.dims.erase(t.dims.begin());
    t.data = static_cast<std::byte*>(t.data) + trip * t.bytes();
    return t;
  }

  Status one_trip(RunCtx& c, Trip& t, int64_t trip, int64_t trips) const {
    t.number = trip;
    t.in[0] = scalar(DType::kInt64, form_.trip_dims, &t.number);
    t.in[1] = scalar(DType::kBool, form_.cond_dims, &t.cond);
    t.out[0] = scalar(DType::kBool, form_.cond_dims, &t.cond_out);
    for (int s = 0; s < form_.states; ++s)
      t.out[1 + s] = states_[s].planned ? Value(state_target(c, s, trip, trips)) : Value();
    for (int k = 0; k < form_.scans; ++k) {
      Value& v = t.out[1 + form_.states + k];
      v = Value();
      if (!scan_planned_[k]) continue;
      if (trip >= c.out(form_.states + k).dim(0)) return internal("more trips were made than the plan has room for");
      v = slice_target(c, k, trip);
    }
    RETURN_IF_ERROR(c.host->run_body(0, {t.in.data(), t.in.size()}, {t.out.data(), t.out.size()}));

    const Value& cond = t.out[0];
    if (!cond.is_tensor() || cond.tensor().dtype != DType::kBool || cond.tensor().elements() != 1)
      return invalid("the body's condition is not a single bool");
    t.next = *cond.tensor().as<uint8_t>() != 0;
    for (int s = 0; s < form_.states; ++s) {
      if (!states_[s].planned) RETURN_IF_ERROR(own(c, t.out[1 + s]));
      t.in[2 + s] = std::move(t.out[1 + s]);
    }
    for (int k = 0; k < form_.scans; ++k) RETURN_IF_ERROR(keep_slice(c, t, k, trip));
    return absl::OkStatus();
  }

  Status keep_slice(RunCtx& c, Trip& t, int k, int64_t trip) const {
    const int slot = form_.states + k;
    if (!c.has_out(slot)) return absl::OkStatus();
    Value& v = t.out[1 + slot];
    if (!v.is_tensor()) return invalid(absl::StrCat("scan output ", k, " is no tensor"));
    if (scan_planned_[k]) {
      const Tensor want = slice_target(c, k, trip);
      if (v.tensor().dims != want.dims)
        return internal(
            absl::StrCat("scan output ", k, " came as ", to_string(v.tensor().dims), ", not ", to_string(want.dims)));
      copy_elements(v.tensor(), want.data);
      return absl::OkStatus();
    }
    auto& kept = t.stacked[k];
    if (!kept.empty() && kept[0].tensor().dims != v.tensor().dims)
      return invalid(absl::StrCat("scan output ", k, " was ", to_string(kept[0].tensor().dims), " at first and is ",
                                  to_string(v.tensor().dims), " now; slices must have one shape"));
    RETURN_IF_ERROR(own(c, v));
    kept.push_back(std::move(v));
    return absl::OkStatus();
  }

  Status stack(RunCtx& c, int k, int64_t trips, const std::vector<Value>& slices) const {
    const int slot = form_.states + k;
    if (!c.has_out(slot)) return absl::OkStatus();
    if (scan_planned_[k]) {
      if (c.out(slot).dim(0) != trips) return internal("fewer trips were made than the plan has room for");
      return absl::OkStatus();
    }
    Dims dims = {trips};
    const Dims& slice = slices.empty() ? form_.empty_scan[k] : slices[0].tensor().dims;
    dims.insert(dims.end(), slice.begin(), slice.end());
    if (!element_count(dims))
      return exhausted(absl::StrCat("scan output ", k, " would have the shape ", to_string(dims)));
    ASSIGN_OR_RETURN(void* to, c.host->output(slot, dims));
    for (const Value& v : slices) {
      const Tensor& t = v.tensor();
      copy_elements(t, to);
      to = static_cast<std::byte*>(to) + t.bytes();
    }
    return absl::OkStatus();
  }

  LoopForm form_;
  std::vector<StateHome> states_;
  std::vector<bool> scan_planned_;
};

// How many Loop rules are at work on this thread, one inside the other.
thread_local int loops_inferred = 0;
struct LoopDepth {
  LoopDepth() { ++loops_inferred; }
  ~LoopDepth() { --loops_inferred; }
};
// Bodies nested deeper get their states without known dims at once: a second look at each level would double the work
// of all levels below it.
constexpr int kMaxExactDepth = 5;

void forget_dims(SymShape& s) {
  for (Dim& d : s.dims) d = Dim::unknown();
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
    for (int k = 0; k < form.scans; ++k) {
      const GraphValue& v = body.value(body.outputs()[1 + form.states + k]);
      const SymShape& s = v.declared ? *v.declared : v.shape;
      Dims dims;
      for (const Dim& d : s.dims) dims.push_back(d.known().value_or(0));
      form.empty_scan.push_back(std::move(dims));
    }
    return absl::OkStatus();
  }

  Status infer(InferCtx& c) const {
    if (!c.bodies()) return internal("bodies are needed to infer Loop");
    if (c.has_in(0)) RETURN_IF_ERROR(c.require(0, DType::kInt64, "M"));
    if (c.has_in(1)) RETURN_IF_ERROR(c.require(1, DType::kBool, "cond"));
    const LoopDepth depth;
    std::vector<SymShape> shapes;
    std::vector<ValueType> types;
    for (int s = 0; s < form.states; ++s) {
      shapes.push_back(c.shape(2 + s));
      types.push_back(c.type(2 + s));
      if (loops_inferred > kMaxExactDepth) forget_dims(shapes.back());
    }
    std::vector<InferOutput> out;
    // States keep what no trip changes of them. Each round but the last loses something, and the third all dims.
    for (int round = 0;; ++round) {
      ASSIGN_OR_RETURN(out, infer_body(c, types, shapes));
      bool changed = false;
      for (int s = 0; s < form.states; ++s) {
        RETURN_IF_ERROR(merge_type(types[s], out[1 + s].type, "state", s, &types[s]));
        if (!types[s].is_tensor()) continue;
        SymShape merged = merge_shape(shapes[s], out[1 + s].shape);
        const bool lost = loses(shapes[s], merged);
        if (lost && round >= 2) {
          forget_dims(merged);
          if (round >= 4) merged = SymShape::unknown();
        }
        changed |= lost;
        shapes[s] = std::move(merged);
      }
      if (!changed) break;
    }
    for (int s = 0; s < form.states; ++s) {
      if (types[s].is_tensor()) {
        c.set(s, types[s].dtype(), shapes[s]);
      } else if (s < c.outputs()) {
        c.set_type(s, types[s]);
      }
    }
    const Dim trips = known_trips(c, out[0]);
    for (int k = 0; k < form.scans; ++k) {
      const InferOutput& slice = out[1 + form.states + k];
      if (!slice.type.is_tensor()) {
        if (!slice.type.is_unknown())
          return invalid(absl::StrCat("scan output ", k, " is ", to_string(slice.type), ", no tensor"));
        continue;
      }
      SymShape shape = slice.shape;
      if (shape.has_rank) shape.dims.insert(shape.dims.begin(), trips);
      c.set(form.states + k, slice.type.dtype(), std::move(shape));
    }
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts;
    facts.kernel = "loop";
    facts.host_inputs = 3;
    ASSIGN_OR_RETURN(facts.sized_at_run, sized_at_run(ctx.outputs));
    std::vector<StateHome> states(form.states);
    std::vector<bool> scans(form.scans);
    const int outputs = static_cast<int>(ctx.outputs.size());
    for (int i = 0; i < outputs; ++i) {
      const Operand& o = ctx.outputs[i];
      const bool planned = is_planned(o);
      if (i >= form.states) {
        if (o.present && bit_width(o.dtype) % 8 != 0)
          return unsupported(absl::StrCat("scan output ", i - form.states, " is ", forethought::name(o.dtype),
                                          "; slices of packed elements cannot be stacked"));
        scans[i - form.states] = planned;
      } else if (planned) {
        const auto bytes = storage_bytes(o.dtype, o.layout, o.dims);
        if (!bytes) return invalid(absl::StrCat("state ", i, " has no representable size"));
        states[i] = {true, facts.scratch_shared};
        facts.scratch_shared += round_up(static_cast<size_t>(*bytes), 64);
      }
    }
    facts.instance = std::make_shared<LoopStep>(form, std::move(states), std::move(scans));
    return facts;
  }

 private:
  StatusOr<std::vector<InferOutput>> infer_body(InferCtx& c, const std::vector<ValueType>& types,
                                                const std::vector<SymShape>& shapes) const {
    const ValueType trip = ValueType::tensor(DType::kInt64), cond = ValueType::tensor(DType::kBool);
    const auto shape_of = [](const Dims& d) { return SymShape::of(d); };
    const SymShape trip_shape = shape_of(form.trip_dims), cond_shape = shape_of(form.cond_dims);
    SymValue yes;  // the body runs only while the condition holds
    yes.ints.push_back(1);
    std::vector<InferInput> in;
    in.push_back({true, &trip, &trip_shape, nullptr, nullptr});
    in.push_back({true, &cond, &cond_shape, nullptr, body_ends_it(c.has_in(0), c.has_in(1)) ? &yes : nullptr});
    for (int s = 0; s < form.states; ++s) in.push_back({true, &types[s], &shapes[s], nullptr, nullptr});
    const auto captures = c.all_inputs().subspan(2 + form.states);
    in.insert(in.end(), captures.begin(), captures.end());
    return c.bodies()->infer(0, in);
  }

  static bool loses(const SymShape& before, const SymShape& after) {
    if (!before.has_rank) return false;
    if (!after.has_rank) return true;
    for (int i = 0; i < before.rank(); ++i)
      if (!before.dims[i].is_unknown() && after.dims[i].is_unknown()) return true;
    return false;
  }

  Dim known_trips(InferCtx& c, const InferOutput& cond_out) const {
    const std::optional<int64_t> trips = c.scalar_int(0), first = c.scalar_int(1);
    if (c.has_in(1) && first && !*first) return 0;
    if (!c.has_in(0) || !trips) return Dim::unknown();
    if (*trips <= 0) return 0;
    if (!c.has_in(1)) return *trips;
    const bool known = cond_out.has_value && cond_out.value.ints.size() == 1 && cond_out.value.ints[0].is_known();
    if (!first || !known) return Dim::unknown();
    return cond_out.value.ints[0] == 0 ? 1 : *trips;
  }
};
DEFINE_OP(Loop)

}  // namespace forethought
