#include "session/compile.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "base/cpu.h"
#include "graph/operator.h"
#include "plan/validator.h"
#include "session/compile_choices.h"
#include "session/place.h"
#include "session/streaming.h"

namespace forethought {

int32_t Compiling::place_of(Device device) const { return has_devices() ? options.devices->place_of(device) : -1; }

Device Compiling::device_at(int32_t place) const {
  return place < 0 ? Device{} : options.devices->drivers()[static_cast<size_t>(place)]->device();
}

namespace {

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
    program_->facts = choices_.take_facts();
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
    choices_.reserve(steps);
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
    RETURN_IF_ERROR(choices_.choose(n, prepared));
    if (w_.step_device.back() >= 0 && (!step.runnable || step.sized_at_run != 0))
      return unsupported(
          "it runs on a device, but the sizes of its inputs or outputs are known only at run; let the host run it");
    RETURN_IF_ERROR(set_views(step, choices_.last()));
    if (n.has_bodies) RETURN_IF_ERROR(add_bodies(n.node, &step));
    describe(n, step, s);
    w_.costs.push_back(cost(n, step, !w_.problem.steps[s].aliases.empty()));
    return absl::OkStatus();
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

  // Tells the planner of the step. Where facts are those of `like`, what it was told then mostly stands.
  void describe(const GraphLists::Step& n, const ProgramStep& step, size_t s) {
    const int64_t bytes = step.runnable ? scratch_bytes(step) : 0;
    ValueNo scratch = kNoId;
    if (bytes > 0 || wants_scratch_inside(s)) {
      scratch = static_cast<ValueNo>(w_.g.value_capacity() + w_.scratch.size());
      w_.scratch.push_back({n.scratch, bytes, w_.step_device.back()});
    }
    program_->scratch.push_back(scratch);
    if (spare_is_likes_ && choices_.last_is_likes() && scratch == w_.like->scratch[s] && views_are_likes(step)) return;
    told_anew_ = true;
    describe_step(step, choices_.last(), program().values, scratch, w_.options.share, &w_.problem.steps[s]);
  }

  // Whether the step has scratch at the largest sizes: values then have the same numbers here.
  bool wants_scratch_inside(size_t s) const { return w_.options.inside && w_.options.inside->scratch[s] != kNoId; }

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
  Choices choices_{w_};
};

}  // namespace

StatusOr<std::shared_ptr<CompiledProgram>> compile(const PreparedGraph& graph, const FactTable& facts,
                                                   const BodySources& bodies, const CompileOptions& options) {
  return Compiler(graph, facts, bodies, options).run();
}

}  // namespace forethought
