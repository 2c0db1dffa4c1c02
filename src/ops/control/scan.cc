// Scan: runs its body once for each slice of the scan inputs, carries states around, and stacks scan outputs.
#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/control/body_run.h"
#include "ops/control/body_shapes.h"
#include "ops/control/body_values.h"
#include "ops/op.h"

namespace forethought {
namespace {

// The node reads the initial states, the scan inputs, captures; the body reads the states, a slice of each scan input,
// captures and gives the states, a slice of each scan output.
struct ScanForm {
  int states = 0, inputs = 0, outputs = 0, captures = 0;
  std::vector<int64_t> input_axes, output_axes;
  std::vector<bool> input_backwards, output_backwards;
  std::vector<Dims> empty;  // what each slice is after zero trips; dims that nobody declared are 0
};

int at_axis(int64_t axis, int64_t rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// Slices of one scan input. Along the first axis they are read where they lie; else each is gathered first.
class Slices {
 public:
  Slices(const Arg& from, int64_t axis, bool backwards) : from_(from), backwards_(backwards) {
    const int at = at_axis(axis, from.rank);
    extent_ = from.dim(at);
    for (int d = 0; d < at; ++d) outer_ *= from.dim(d);
    slice_.dtype = from.dtype;
    slice_.dims.assign(from.dims().begin(), from.dims().end());
    slice_.dims.erase(slice_.dims.begin() + at);
    const int64_t width = from.dtype == DType::kString ? sizeof(std::string) : bit_width(from.dtype) / 8;
    piece_ = outer_ > 0 ? element_count(slice_.dims).value_or(0) / outer_ * width : 0;
  }

  // A slice without contents.
  Value empty() const { return Value(slice_); }

  StatusOr<Value> of(RunCtx& c, int64_t trip) {
    const int64_t at = backwards_ ? extent_ - 1 - trip : trip;
    auto* const base = static_cast<std::byte*>(from_.data);
    if (outer_ == 1) {
      slice_.data = base + at * piece_;
      return Value(slice_);
    }
    if (!slice_.owner) {
      ASSIGN_OR_RETURN(slice_, c.host->make_escaping(slice_.dtype, slice_.dims));
    }
    for (int64_t o = 0; o < outer_; ++o) {
      const std::byte* source = base + (o * extent_ + at) * piece_;
      std::byte* target = static_cast<std::byte*>(slice_.data) + o * piece_;
      if (slice_.dtype == DType::kString) {
        std::copy_n(reinterpret_cast<const std::string*>(source), piece_ / static_cast<int64_t>(sizeof(std::string)),
                    reinterpret_cast<std::string*>(target));
      } else {
        std::memcpy(target, source, static_cast<size_t>(piece_));
      }
    }
    // Lent, not counted: the next trip gathers into the same memory.
    Tensor lent = slice_;
    lent.owner.reset();
    return Value(std::move(lent));
  }

 private:
  const Arg& from_;
  bool backwards_;
  int64_t extent_ = 0, outer_ = 1, piece_ = 0;  // bytes of a piece
  Tensor slice_;
};

class ScanStep final : public Runnable {
 public:
  ScanStep(ScanForm form, StateHomes states, std::vector<StackedForm> scans)
      : form_(std::move(form)), homes_(std::move(states)), scans_(std::move(scans)) {}

  Status run(RunCtx& c) const override {
    ASSIGN_OR_RETURN(const int64_t trips, count_trips(c));
    const auto states = static_cast<size_t>(form_.states), inputs = static_cast<size_t>(form_.inputs);
    BodyRuns::Lent lent(runs_);
    BodyRun& r = *lent;
    ASSIGN_OR_RETURN(r.host, BodyHost::of(c));
    r.in.resize(states + inputs + static_cast<size_t>(form_.captures));
    r.out.resize(states + static_cast<size_t>(form_.outputs));
    r.stacked.resize(scans_.size());
    absl::InlinedVector<Slices, 4> slices;
    for (size_t i = 0; i < r.in.size(); ++i) {
      const bool sliced = i >= states && i < states + inputs;
      if (!sliced) r.in[i] = borrow(c.inputs[i]);
      if (sliced) slices.emplace_back(c.inputs[i], form_.input_axes[i - states], form_.input_backwards[i - states]);
    }
    r.states.begin(homes_, std::span(r.in).first(states));
    for (size_t k = 0; k < scans_.size(); ++k) r.stacked[k].begin(scans_[k], trips, trips);
    for (size_t i = 0; trips == 0 && i < inputs; ++i) r.in[states + i] = slices[i].empty();
    for (int64_t trip = 0; trip < trips; ++trip) {
      if (c.host->cancelled()) return cancelled(absl::StrCat("the run was cancelled in trip ", trip, " of a Scan"));
      for (size_t i = 0; i < inputs; ++i) {
        ASSIGN_OR_RETURN(r.in[states + i], slices[i].of(c, trip));
      }
      if (Status s = one_trip(c, r, trip, trips); !s.ok()) return with_context(s, absl::StrCat("trip ", trip));
    }
    for (size_t k = 0; k < r.stacked.size(); ++k) {
      Dims slice;
      const bool told = trips == 0 && r.asks_dims(c, k, states + k, &slice);
      RETURN_IF_ERROR(r.stacked[k].finish(c, *r.host, trips, told ? &slice : nullptr));
    }
    return r.states.finish(c, *r.host);
  }

 private:
  StatusOr<int64_t> count_trips(const RunCtx& c) const {
    int64_t trips = -1;
    for (int i = 0; i < form_.inputs; ++i) {
      const Arg& x = c.in(form_.states + i);
      const int64_t axis = form_.input_axes[i];
      if (axis < -x.rank || axis >= x.rank)
        return invalid(absl::StrCat("scan input ", i, " of rank ", x.rank, " has no axis ", axis));
      const int64_t extent = x.dim(at_axis(axis, x.rank));
      if (trips >= 0 && extent != trips)
        return invalid(absl::StrCat("scan input ", i, " has ", extent, " slices, the first one has ", trips));
      trips = extent;
    }
    return trips;
  }

  Status one_trip(RunCtx& c, BodyRun& r, int64_t trip, int64_t trips) const {
    const auto states = static_cast<size_t>(form_.states);
    const std::span<Value> out(r.out);
    r.states.offer(c, (trips - trip) % 2 == 1, out.first(states));
    for (size_t k = 0; k < r.stacked.size(); ++k) {
      Dims slice;
      const bool told = r.asks_dims(c, k, states + k, &slice);
      ASSIGN_OR_RETURN(out[states + k], r.stacked[k].offer(c, *r.host, trip, told ? &slice : nullptr));
    }
    RETURN_IF_ERROR(r.once());
    for (size_t k = 0; k < r.stacked.size(); ++k)
      RETURN_IF_ERROR(r.stacked[k].keep(c, *r.host, trip, r.result(states + k)));
    // A state that is a slice, given back as it is, is copied: the next trip may gather over it.
    for (size_t s = 0; s < states; ++s) {
      const int32_t from = r.passed[s];
      if (from < form_.states || from >= form_.states + form_.inputs) continue;
      Value copy = r.in[static_cast<size_t>(from)];
      RETURN_IF_ERROR(own(*r.host, copy));
      out[s] = std::move(copy);
      r.passed[s] = BodyHost::kWritten;
    }
    if (form_.states == 0) return absl::OkStatus();
    return r.states.turn(c, *r.host, r.in, 0, out.first(states), std::span(r.passed).first(states));
  }

  ScanForm form_;
  StateHomes homes_;
  std::vector<StackedForm> scans_;
  mutable BodyRuns runs_;
};

}  // namespace

struct Scan {
  int64_t num_scan_inputs = 0;
  std::vector<int64_t> scan_input_axes, scan_input_directions, scan_output_axes, scan_output_directions;
  ScanForm form;

  static constexpr OpName name{"Scan"};
  static constexpr auto attrs = std::tuple{
      required("num_scan_inputs", &Scan::num_scan_inputs), attr("scan_input_axes", &Scan::scan_input_axes),
      attr("scan_input_directions", &Scan::scan_input_directions), attr("scan_output_axes", &Scan::scan_output_axes),
      attr("scan_output_directions", &Scan::scan_output_directions)};
  static constexpr Traits traits{.max_inputs = kVariadic, .max_outputs = kVariadic, .foldable = false};

  Status init(const GraphNode& node) {
    if (node.bodies.size() != 1) return invalid("needs one body");
    const Graph& body = *node.bodies[0].second;
    const int given = node.formal_inputs();
    if (num_scan_inputs < 1 || num_scan_inputs > given)
      return invalid(
          absl::StrCat("attribute 'num_scan_inputs' is ", num_scan_inputs, "; ", given, " inputs are given"));
    form.inputs = static_cast<int>(num_scan_inputs);
    form.states = given - form.inputs;
    form.captures = node.captures;
    const int in = static_cast<int>(body.inputs().size()), out = static_cast<int>(body.outputs().size());
    if (in != given + form.captures)
      return invalid(absl::StrCat("the body takes ", in - form.captures, " inputs; ", form.states, " states and ",
                                  form.inputs, " slices are given"));
    if (out < form.states)
      return invalid(absl::StrCat("the body gives ", out, " outputs; ", form.states, " states are needed"));
    form.outputs = out - form.states;
    if (static_cast<int>(node.outputs.size()) > out)
      return invalid(absl::StrCat("has ", node.outputs.size(), " outputs; the body gives ", out));
    for (int i = 0; i < given; ++i)
      if (!node.inputs[i].valid()) return invalid(absl::StrCat("input ", i, " is skipped"));
    RETURN_IF_ERROR(axes(scan_input_axes, form.inputs, "scan_input_axes", &form.input_axes));
    RETURN_IF_ERROR(axes(scan_output_axes, form.outputs, "scan_output_axes", &form.output_axes));
    RETURN_IF_ERROR(ways(scan_input_directions, form.inputs, "scan_input_directions", &form.input_backwards));
    RETURN_IF_ERROR(ways(scan_output_directions, form.outputs, "scan_output_directions", &form.output_backwards));
    for (int k = 0; k < form.outputs; ++k)
      form.empty.push_back(slice_never_made(body.value(body.outputs()[form.states + k])));
    return absl::OkStatus();
  }

  Status infer(InferCtx& c) const {
    if (!c.bodies()) return internal("bodies are needed to infer Scan");
    std::vector<SymShape> slices;
    Dim trips = Dim::unknown();
    for (int i = 0; i < form.inputs; ++i) {
      const DType dtype = c.dtype(form.states + i);
      if (bit_width(dtype) % 8 != 0)
        return unsupported(absl::StrCat("scan input ", i, " is ", forethought::name(dtype),
                                        "; packed elements have no slices of whole bytes"));
      SymShape s = c.shape(form.states + i);
      if (s.has_rank) {
        ASSIGN_OR_RETURN(const int at, c.axis(form.input_axes[i], s.rank()));
        const Dim extent = s.dims[at];
        if (trips.is_known() && extent.is_known() && trips.value() != extent.value())
          return invalid(
              absl::StrCat("scan input ", i, " has ", extent.value(), " slices, another one has ", trips.value()));
        if (trips.is_unknown() || extent.is_known()) trips = extent;
        s.dims.erase(s.dims.begin() + at);
      }
      slices.push_back(std::move(s));
    }
    StateFacts states;
    for (int s = 0; s < form.states; ++s) {
      states.shapes.push_back(c.shape(s));
      states.types.push_back(c.type(s));
    }
    ASSIGN_OR_RETURN(const std::vector<InferOutput> out,
                     settle_states(states, 0, [&] { return infer_body(c, states, slices); }));
    for (int s = 0; s < form.states; ++s) set_state(c, s, states, out[s]);
    for (int k = 0; k < form.outputs && form.states + k < c.outputs(); ++k)
      RETURN_IF_ERROR(set_stacked(c, form.states + k, out[form.states + k], trips, form.output_axes[k]));
    return absl::OkStatus();
  }

  StatusOr<KernelFacts> choose(const ChooseCtx& ctx) const {
    KernelFacts facts;
    facts.kernel = "scan";
    ASSIGN_OR_RETURN(facts.sized_at_run, sized_at_run(ctx.outputs));
    ASSIGN_OR_RETURN(StateHomes states, StateHomes::plan(ctx.outputs, form.states, &facts.scratch_shared));
    std::vector<StackedForm> scans;
    for (int i = form.states; i < static_cast<int>(ctx.outputs.size()); ++i) {
      const int k = i - form.states;
      scans.push_back({i, form.output_axes[k], form.output_backwards[k], is_planned(ctx.outputs[i]), form.empty[k]});
    }
    facts.instance = std::make_shared<ScanStep>(form, std::move(states), std::move(scans));
    return facts;
  }

 private:
  static Status axes(const std::vector<int64_t>& given, int count, const char* what, std::vector<int64_t>* out) {
    if (!given.empty() && given.size() != static_cast<size_t>(count))
      return invalid(absl::StrCat("attribute '", what, "' has ", given.size(), " entries for ", count, " values"));
    *out = given;
    out->resize(static_cast<size_t>(count), 0);
    return absl::OkStatus();
  }
  static Status ways(const std::vector<int64_t>& given, int count, const char* what, std::vector<bool>* out) {
    std::vector<int64_t> all;
    RETURN_IF_ERROR(axes(given, count, what, &all));
    for (const int64_t way : all) {
      if (way != 0 && way != 1) return invalid(absl::StrCat("attribute '", what, "' holds ", way, "; 0 or 1 is meant"));
      out->push_back(way == 1);
    }
    return absl::OkStatus();
  }

  StatusOr<std::vector<InferOutput>> infer_body(InferCtx& c, const StateFacts& states,
                                                const std::vector<SymShape>& slices) const {
    std::vector<InferInput> in;
    for (int s = 0; s < form.states; ++s) in.push_back({true, &states.types[s], &states.shapes[s], nullptr, nullptr});
    for (int i = 0; i < form.inputs; ++i) in.push_back({true, &c.type(form.states + i), &slices[i], nullptr, nullptr});
    const auto captures = c.all_inputs().subspan(form.states + form.inputs);
    in.insert(in.end(), captures.begin(), captures.end());
    return c.bodies()->infer(0, in);
  }
};
DEFINE_OP(Scan)

}  // namespace forethought
