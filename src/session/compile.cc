#include "session/compile.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "base/cpu.h"
#include "device/lanes.h"
#include "graph/operator.h"
#include "plan/validator.h"
#include "session/compiling.h"
#include "session/place.h"
#include "session/streaming.h"

namespace forethought {

int32_t Compiling::place_of(Device device) const { return has_devices() ? options.devices->place_of(device) : -1; }

Device Compiling::device_at(int32_t place) const {
  return place < 0 ? Device{} : options.devices->drivers()[static_cast<size_t>(place)]->device();
}

namespace {

// Whether two facts say the same, what dims alone decide apart: instances and the size of scratch.
bool alike(const KernelFacts& a, const KernelFacts& b) {
  return a.kernel == b.kernel && a.reason == b.reason && a.sized_at_run == b.sized_at_run && a.escapes == b.escapes &&
         a.refused == b.refused && a.aliases == b.aliases && a.overwrites == b.overwrites && a.windows == b.windows;
}

// A number that no problem has had.
uint64_t new_version() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

class Compiler {
 public:
  Compiler(const PreparedGraph& graph, const FactTable& facts, const BodySources& bodies, const CompileOptions& options)
      : bodies_(bodies),
        program_(std::make_shared<CompiledProgram>()),
        spare_is_likes_(options.like && options.spare && options.spare_is_likes),
        w_{graph,
           *graph.view,
           facts,
           options,
           options.like,
           *program_,
           options.spare ? *options.spare : own_problem_,
           options.resizes} {
    if (!spare_is_likes_) w_.problem.steps.clear();
    w_.problem.devices = 0;
    w_.problem.lanes = 1;
  }

  StatusOr<std::shared_ptr<CompiledProgram>> run() {
    const bool numbers = w_.options.formulas && std::ranges::all_of(w_.options.formulas->numbers, &Dim::is_known);
    RETURN_IF_ERROR(w_.resizes ? resize_values(w_) : describe_values(w_));
    RETURN_IF_ERROR(take_lent_strides());
    program().graph = w_.options.lists;
    reserve();
    for (const GraphLists::Step& step : w_.options.lists->steps) {
      if (Status s = add_step(step); !s.ok())
        return with_context(std::move(s), absl::StrCat("node ", std::string(step.name)));
    }
    program_->facts = facts_.empty() && w_.like
                          ? w_.like->facts
                          : std::make_shared<const std::vector<std::shared_ptr<const KernelFacts>>>(std::move(facts_));
    tell_of_values();
    program_->resizable =
        numbers && !w_.has_devices() && std::ranges::all_of(program().values, [](const ProgramValue& v) {
          return v.known || v.kind != ValueType::Kind::tensor;
        });
    RETURN_IF_ERROR(plan_lanes(w_));
    if (w_.options.validate) RETURN_IF_ERROR(with_context(validate(w_.problem, program_->plan), "the plan is wrong"));
    place(w_.prepared, w_.step_device, w_.options.workers, *program_);
    plan_streaming(w_.prepared, *program_);
    program_->resolver = w_.options.resolver;
    return program_;
  }

 private:
  Program& program() { return *program_; }

  void reserve() {
    const size_t steps = w_.prepared.order.size();
    program().steps.reserve(steps);
    w_.problem.steps.resize(steps);
    program_->scratch.reserve(steps);
    program_->shared = w_.options.share;
    last_of_kind_.assign(static_cast<size_t>(w_.options.lists->kinds), -1);
    before_of_kind_.assign(steps, -1);
    kept_.assign(steps, 0);
  }

  Operand operand(const PreparedNode& n, int32_t v, size_t slot, bool input) const {
    Operand o;
    if (v < 0) return o;
    const ProgramValue& p = program_->values[v];
    o.present = true;
    o.dtype = p.dtype;
    o.dims = p.dims;
    o.layout = p.layout;
    o.known = p.known;
    if (input) {
      o.strides = p.strides;
      if (has_bit(n.contents, slot)) o.constant = w_.prepared.values[v].constant;
      if (n.is_packed(slot)) o.packed = &n.packed[slot];
    } else {
      o.may_stride = w_.prepared.values[v].may_stride;
      if (!o.may_stride) o.dense_because = w_.prepared.dense_because(v);
    }
    return o;
  }

  // Operands of the step into in_ and out_; whether its inputs are known at run only.
  bool list_operands(const GraphLists::Step& n, const PreparedNode& prepared) {
    in_.clear();
    out_.clear();
    bool dynamic = false;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      const Operand& o = in_.emplace_back(operand(prepared, n.inputs[i], i, true));
      if (!o.present || o.known) continue;
      if (o.dtype != DType::kUndefined || program().values[n.inputs[i]].kind == ValueType::Kind::unknown)
        dynamic = true;
    }
    for (size_t i = 0; i < n.outputs.size(); ++i) out_.push_back(operand(prepared, n.outputs[i], i, false));
    return dynamic;
  }

  // An earlier step of the same kind whose operands have the same types and dims, and that was chosen for; -1: none.
  int32_t twin_of(const GraphLists::Step& n) const {
    constexpr int kMostCompared = 4;
    if (n.kind < 0 || w_.has_devices()) return -1;
    const auto same = [&](int32_t v, int32_t w) {
      if (v < 0 || w < 0) return v < 0 && w < 0;
      const ProgramValue &a = program_->values[v], &b = program_->values[w];
      return a.known == b.known && a.dtype == b.dtype && a.kind == b.kind && std::ranges::equal(a.dims, b.dims);
    };
    const auto same_input = [&](int32_t v, int32_t w) {
      return same(v, w) && (v < 0 || std::ranges::equal(program_->values[v].strides, program_->values[w].strides));
    };
    int32_t t = last_of_kind_[n.kind];
    for (int i = 0; t >= 0 && i < kMostCompared; t = before_of_kind_[t], ++i) {
      const ProgramStep& twin = program_->steps[t];
      if (std::ranges::equal(n.inputs, twin.inputs, same_input) && std::ranges::equal(n.outputs, twin.outputs, same))
        return t;
    }
    return -1;
  }

  // Takes the choice for an earlier step; its facts, or null if they are those of `like` for this one too.
  StatusOr<std::shared_ptr<const KernelFacts>> choose_as(int32_t twin, const GraphLists::Step& n,
                                                         const PreparedNode& prepared, size_t s, ProgramStep* step) {
    const ProgramStep& other = program().steps[twin];
    const std::shared_ptr<const KernelFacts>& facts = facts_.empty() ? (*w_.like->facts)[twin] : facts_[twin];
    if (w_.options.validate) {
      list_operands(n, prepared);
      ASSIGN_OR_RETURN(const KernelFacts own, prepared.kernel->choose({active_isa(), in_, out_, w_.options.cache}));
      RETURN_IF_ERROR(compare(own, *facts, other));
    }
    step->runnable = other.keep ? other.runnable : static_cast<const Runnable*>(prepared.kernel);
    step->keep = other.keep;
    step->scratch_shared = other.scratch_shared;
    step->scratch_per_worker = other.scratch_per_worker;
    step->escapes = other.escapes;
    ++program_->steps_as_others;
    keep(s, kept_[twin] != 0);
    const bool likes = w_.like && (facts == (*w_.like->facts)[s] || alike(*facts, *(*w_.like->facts)[s]));
    return likes ? nullptr : facts;
  }

  // What a step was given without asking its kernel must be what the kernel says now.
  static Status compare(const KernelFacts& now, const KernelFacts& taken, const ProgramStep& step) {
    if (alike(now, taken) && !now.instance == !step.keep &&
        round_up(now.scratch_shared, kValueAlignment) == step.scratch_shared &&
        round_up(now.scratch_per_worker, kValueAlignment) == step.scratch_per_worker)
      return absl::OkStatus();
    return internal(absl::StrCat("the kernel ", now.kernel, " was given a choice that it would not make now"));
  }

  void keep(size_t s, bool kept) {
    kept_[s] = kept;
    program_->steps_kept += kept;
  }

  // Whether the step has the operands that it has in the program `like`, the numbers of their dims apart.
  bool operands_are_likes(const GraphLists::Step& n) const {
    const auto same = [&](int32_t v) {
      if (v < 0) return true;
      const ProgramValue &a = program_->values[v], &b = w_.like->values[v];
      return a.known == b.known && a.dtype == b.dtype && a.kind == b.kind && a.dims.size() == b.dims.size();
    };
    const auto lies_alike = [&](int32_t v) {  // outputs have no strides yet
      return v < 0 || program_->values[v].strides.empty() == w_.like->values[v].strides.empty();
    };
    return std::ranges::all_of(n.inputs, same) && std::ranges::all_of(n.inputs, lies_alike) &&
           std::ranges::all_of(n.outputs, same);
  }

  // The choice for `like` with other dims, if the kernel knows that nothing else is new.
  StatusOr<bool> refit(const GraphLists::Step& n, const PreparedNode& prepared, size_t s, ProgramStep* step) {
    if (!w_.like || w_.has_devices()) return false;
    const ProgramStep& before = w_.like->steps[s];
    if (!before.runnable || before.sized_at_run != 0 || !operands_are_likes(n)) return false;
    const ChooseCtx ctx{active_isa(), in_, out_, w_.options.cache};
    Refit fitted = prepared.kernel->refit(ctx, *(*w_.like->facts)[s], *before.runnable);
    if (!fitted.holds) return false;
    step->keep = std::move(fitted.instance);
    step->runnable = step->keep ? step->keep.get() : static_cast<const Runnable*>(prepared.kernel);
    step->scratch_shared = round_up(fitted.scratch_shared, kValueAlignment);
    step->scratch_per_worker = round_up(fitted.scratch_per_worker, kValueAlignment);
    step->escapes = before.escapes;
    keep(s, true);
    if (w_.options.validate) {
      ASSIGN_OR_RETURN(const KernelFacts facts, prepared.kernel->choose(ctx));
      RETURN_IF_ERROR(compare(facts, *(*w_.like->facts)[s], *step));
    }
    return true;
  }

  // Asks the kernel; facts are empty where the run has to.
  StatusOr<KernelFacts> choose(const GraphLists::Step& n, const PreparedNode& prepared, bool dynamic,
                               ProgramStep* step) {
    const auto at_run = [&] {
      // Outputs of known size have their places all the same, so what reads them is planned.
      for (const int32_t v : n.outputs)
        if (v >= 0 && program().values[v].is_object()) program().values[v].known = false;
      return KernelFacts();
    };
    if (dynamic) return at_run();
    StatusOr<KernelFacts> facts = prepared.kernel->choose({active_isa(), in_, out_, w_.options.cache});
    if (!facts.ok()) return facts;
    for (size_t i = 0; i < out_.size(); ++i) {
      const bool sized_at_run = has_bit(facts->sized_at_run, i);
      const bool tensor = out_[i].present && !program().values[n.outputs[i]].is_object();
      if (tensor && !out_[i].known && !sized_at_run) dynamic = true;
      if (sized_at_run && out_[i].present) program().values[n.outputs[i]].known = false;
    }
    if (dynamic) return at_run();
    step->runnable = facts->instance ? facts->instance.get() : static_cast<const Runnable*>(prepared.kernel);
    step->keep = std::move(facts->instance);
    step->scratch_shared = round_up(facts->scratch_shared, kValueAlignment);
    step->scratch_per_worker = round_up(facts->scratch_per_worker, kValueAlignment);
    step->sized_at_run = facts->sized_at_run;
    step->escapes = facts->escapes;
    return facts;
  }

  Status add_step(const GraphLists::Step& n) {
    const PreparedNode& prepared = w_.prepared.nodes[n.node.index];
    const size_t s = program().steps.size();
    ProgramStep& step = program().steps.emplace_back();
    step.node = static_cast<int32_t>(n.node.index);
    step.name = n.name;
    step.inputs = n.inputs;
    step.outputs = n.outputs;
    step.packed = prepared.packed_bytes;
    w_.step_device.push_back(
        n.outputs.empty() || n.outputs[0] < 0 ? -1 : w_.place_of(w_.prepared.values[n.outputs[0]].device));
    std::shared_ptr<const KernelFacts> facts;  // null: those of `like`
    if (const int32_t twin = twin_of(n); twin >= 0) {
      ASSIGN_OR_RETURN(facts, choose_as(twin, n, prepared, s, &step));
    } else {
      ASSIGN_OR_RETURN(facts, choose_anew(n, prepared, s, &step));
    }
    if (w_.step_device.back() >= 0 && (!step.runnable || step.sized_at_run != 0))
      return unsupported(
          "it runs on a device, but the sizes of its inputs or outputs are known only at run; let the host run it");
    RETURN_IF_ERROR(set_views(step, facts ? *facts : *(*w_.like->facts)[s]));
    if (n.has_bodies) RETURN_IF_ERROR(add_bodies(n.node, &step));
    describe(n, step, s, facts.get());
    w_.costs.push_back(cost(n, step, !w_.problem.steps[s].aliases.empty()));
    keep_facts(s, std::move(facts));
    return absl::OkStatus();
  }

  // By the choice for `like`, or by asking the kernel; the facts, or null if they are those of `like`.
  StatusOr<std::shared_ptr<const KernelFacts>> choose_anew(const GraphLists::Step& n, const PreparedNode& prepared,
                                                           size_t s, ProgramStep* step) {
    const bool dynamic = list_operands(n, prepared);
    bool fits = false;
    if (!dynamic) {
      ASSIGN_OR_RETURN(fits, refit(n, prepared, s, step));
    }
    std::shared_ptr<const KernelFacts> facts;
    if (!fits) {
      ASSIGN_OR_RETURN(KernelFacts chosen, choose(n, prepared, dynamic, step));
      if (w_.has_devices() && is_copy(n.node)) as_device_copy(step, &chosen);
      if (!w_.like || !alike(chosen, *(*w_.like->facts)[s]))
        facts = std::make_shared<const KernelFacts>(std::move(chosen));
    }
    if (n.kind >= 0 && step->runnable && step->sized_at_run == 0) {
      before_of_kind_[s] = last_of_kind_[n.kind];
      last_of_kind_[n.kind] = static_cast<int32_t>(s);
    }
    return facts;
  }

  // How those inputs lie that a caller lends in steps of its own.
  Status take_lent_strides() {
    const auto strided = [](const Value& v) { return v.is_tensor() && !v.tensor().strides.empty(); };
    if (std::ranges::none_of(w_.options.lent, strided)) return absl::OkStatus();
    std::vector<Dims>& all = program_->lent_strides;
    all.resize(w_.options.lent.size());  // values look into it
    for (size_t i = 0; i < all.size(); ++i) {
      if (!strided(w_.options.lent[i])) continue;
      ProgramValue& value = program().values[w_.g.inputs()[i].index];
      all[i] = w_.options.lent[i].tensor().strides;
      if (!describe_strides(all[i], &value))
        return internal(absl::StrCat("input '", std::string(value.name), "' reaches over no number of bytes"));
    }
    return absl::OkStatus();
  }

  // How those outputs lie that are strided views, and the bytes that they reach over.
  Status set_views(const ProgramStep& step, const KernelFacts& facts) {
    for (const Alias& a : facts.aliases) {
      if (!a.strided || step.outputs[a.out] < 0) continue;
      if (!describe_strides(step.runnable->strides(a.out), &program().values[step.outputs[a.out]]))
        return internal(absl::StrCat("output ", a.out, " is a strided view that reaches over no number of bytes"));
    }
    return absl::OkStatus();
  }

  // Whether what the planner was told of the step for `like` is all that there is to tell.
  bool views_are_likes(const ProgramStep& step) const {
    const auto same = [&](int32_t v) { return v < 0 || program_->values[v].first == w_.like->values[v].first; };
    return std::ranges::all_of(step.inputs, same) && std::ranges::all_of(step.outputs, same);
  }

  bool is_copy(NodeId id) const {
    const OpId& op = w_.g.node(id).op;
    return op.domain == kInternalDomain && op.type == "Copy";
  }

  StepCost cost(const GraphLists::Step& n, const ProgramStep& step, bool view) const {
    StepCost unknown;
    unknown.known = false;
    if (!step.runnable || step.sized_at_run != 0 || n.has_bodies) return unknown;
    if (view) return step_cost(0, 0, w_.options.workers);
    double bytes = 0;
    const auto count = [&](int32_t v) { bytes += v >= 0 ? static_cast<double>(program_->values[v].bytes) : 0; };
    std::ranges::for_each(n.inputs, count);
    std::ranges::for_each(n.outputs, count);
    const auto dims = [&](std::span<const int32_t> operands, size_t i) {
      return i < operands.size() && operands[i] >= 0 ? program_->values[operands[i]].dims : std::span<const int64_t>();
    };
    const int64_t elements = n.outputs.empty() ? 0 : element_count(dims(n.outputs, 0)).value_or(0);
    return step_cost(flops_of(n.work, dims(n.inputs, 0), dims(n.inputs, 1), elements), bytes, w_.options.workers);
  }

  // A copy between two devices is work of the device's lane. One whose source is bound where it should go is a view.
  void as_device_copy(ProgramStep* step, KernelFacts* facts) {
    const ProgramValue &in = program().values[step->inputs[0]], &out = program().values[step->outputs[0]];
    if (in.device < 0 && out.device < 0) return;
    w_.step_device.back() = out.device >= 0 ? out.device : in.device;
    step->keep = std::make_shared<DeviceCopy>(w_.device_at(in.device), w_.device_at(out.device));
    step->runnable = step->keep.get();
    step->scratch_shared = step->scratch_per_worker = 0;
    *facts = KernelFacts();
    facts->kernel = absl::StrCat("copy.", to_string(w_.device_at(in.device)), ".", to_string(w_.device_at(out.device)));
    if (in.device == out.device) {
      facts->reason = "bound where it goes";
      facts->aliases.push_back({0, 0, 0});
      return;
    }
    ++program_->device_copies;
    program_->copied_bytes += in.bytes;
  }

  // Bodies whose inputs are known by number get a slab of their own inside this step's scratch.
  Status add_bodies(NodeId id, ProgramStep* step) {
    const GraphNode& n = w_.g.node(id);
    for (int b = 0; b < static_cast<int>(n.bodies.size()); ++b) {
      const std::pair<uint32_t, int> key{id.index, b};
      BodySource* source = bodies_.at(key);
      StepExtras::Body& body = step->extras.write().bodies.emplace_back(StepExtras::Body{.source = source});
      const auto facts = w_.table.bodies.find(key);
      if (facts == w_.table.bodies.end() || !step->runnable) continue;
      ASSIGN_OR_RETURN(auto planned, source->program_for_facts(*facts->second));
      if (!planned) continue;
      body.slab_bytes = planned->slab_bytes;
      program_->bodies[key] = std::move(planned);
    }
    return absl::OkStatus();
  }

  // Scratch layout of a step: the shared block, one block a worker, then the slabs of its bodies one after the other
  // (Loop and Scan have one body; the branches of an If share one place, since one of them runs).
  int64_t scratch_bytes(const ProgramStep& step) const {
    int64_t bytes = own_scratch_bytes(step, w_.options.workers);
    int64_t bodies = 0;
    for (const StepExtras::Body& b : step.extras->bodies) bodies = std::max(bodies, b.slab_bytes);
    return bytes + static_cast<int64_t>(round_up(bodies, kValueAlignment));
  }

  // Tells the planner of the step. Without `facts` they are those of `like`, and what it was told then mostly stands.
  void describe(const GraphLists::Step& n, const ProgramStep& step, size_t s, const KernelFacts* facts) {
    const int64_t bytes = step.runnable ? scratch_bytes(step) : 0;
    ValueNo scratch = kNoId;
    if (bytes > 0 || wants_scratch_inside(s)) {
      scratch = static_cast<ValueNo>(w_.g.value_capacity() + w_.scratch.size());
      w_.scratch.push_back({n.scratch, bytes, w_.step_device.back()});
    }
    program_->scratch.push_back(scratch);
    if (spare_is_likes_ && !facts && scratch == w_.like->scratch[s] && views_are_likes(step)) return;
    told_anew_ = true;
    describe_step(step, facts ? *facts : *(*w_.like->facts)[s], program().values, scratch, w_.options.share,
                  &w_.problem.steps[s]);
  }

  // Whether the step has scratch at the largest sizes: values then have the same numbers here.
  bool wants_scratch_inside(size_t s) const { return w_.options.inside && w_.options.inside->scratch[s] != kNoId; }

  // Once one step has facts of its own, the program has a list of its own.
  void keep_facts(size_t s, std::shared_ptr<const KernelFacts> facts) {
    if (!facts && facts_.empty()) return;
    if (facts_.empty() && s > 0)
      facts_.assign(w_.like->facts->begin(), w_.like->facts->begin() + static_cast<std::ptrdiff_t>(s));
    facts_.push_back(facts ? std::move(facts) : (*w_.like->facts)[s]);
  }

  // Tells the planner of values. The program shares what it heard with that for other sizes, if it is the same but for
  // bytes.
  void tell_of_values() {
    const bool same_steps = spare_is_likes_ && !told_anew_;
    if (w_.resizes && same_steps) {
      w_.told_as_like = true;
      resize_roles(w_);
      program_->plan_values = w_.like->plan_values;
      return;
    }
    const std::vector<PlanValue> before = std::move(w_.problem.values);
    set_roles(w_);
    if (!same_steps || !std::ranges::equal(before, w_.problem.values, same_but_for_bytes))
      w_.problem.version = new_version();
    const auto alike = [](const PlanValue& a, const PlanValue& b) {
      return same_but_for_bytes(a, b) && a.name.data() == b.name.data() && a.most_bytes == b.most_bytes;
    };
    program_->plan_values = w_.like && std::ranges::equal(*w_.like->plan_values, w_.problem.values, alike)
                                ? w_.like->plan_values
                                : std::make_shared<const std::vector<PlanValue>>(w_.problem.values);
  }

  const BodySources& bodies_;
  std::shared_ptr<CompiledProgram> program_;
  PlanProblem own_problem_;    // where nobody lends one
  const bool spare_is_likes_;  // w_.problem holds what the planner was told for `like`
  bool told_anew_ = false;     // of some step: it is another problem now, sizes apart
  Compiling w_;
  std::vector<std::shared_ptr<const KernelFacts>> facts_;  // by step; empty while they are those of `like`
  std::vector<Operand> in_, out_;                          // of the step that is being asked for
  std::vector<int32_t> last_of_kind_;                      // by kind: the last step that was chosen for itself
  std::vector<int32_t> before_of_kind_;                    // by step: the one before it; -1: there is none
  std::vector<uint8_t> kept_;                              // by step: the choice is that of `like` but for dims
};

}  // namespace

StatusOr<std::shared_ptr<CompiledProgram>> compile(const PreparedGraph& graph, const FactTable& facts,
                                                   const BodySources& bodies, const CompileOptions& options) {
  return Compiler(graph, facts, bodies, options).run();
}

}  // namespace forethought
