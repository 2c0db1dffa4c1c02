#include "session/compile.h"

#include <algorithm>
#include <atomic>
#include <deque>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "base/cpu.h"
#include "device/lanes.h"
#include "graph/operator.h"
#include "plan/validator.h"
#include "session/device_lanes.h"
#include "session/place.h"

namespace forethought {
namespace {

constexpr int64_t kAlignment = 64;
constexpr double kMostPeak = 1.2;  // of a plan for several lanes that nobody asked for, over that for one

// Whether two facts say the same, what dims alone decide apart: instances and the size of scratch.
bool alike(const KernelFacts& a, const KernelFacts& b) {
  const auto same = [](const auto& x, const auto& y, auto equal) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), equal);
  };
  return a.kernel == b.kernel && a.reason == b.reason && a.sized_at_run == b.sized_at_run && a.escapes == b.escapes &&
         same(a.refused, b.refused,
              [](const Refusal& x, const Refusal& y) { return x.kernel == y.kernel && x.reason == y.reason; }) &&
         same(a.aliases, b.aliases,
              [](const Alias& x, const Alias& y) {
                return x.out == y.out && x.in == y.in && x.byte_offset == y.byte_offset;
              }) &&
         same(a.overwrites, b.overwrites,
              [](const Overwrite& x, const Overwrite& y) { return x.out == y.out && x.in == y.in; }) &&
         same(a.windows, b.windows, [](const Window& x, const Window& y) {
           return x.out == y.out && x.in == y.in && x.byte_offset == y.byte_offset;
         });
}

// A number that no problem has had.
uint64_t new_version() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

class Compiler {
 public:
  Compiler(const PreparedGraph& graph, const FactTable& facts, const BodySources& bodies, const CompileOptions& options)
      : prepared_(graph),
        g_(*graph.view),
        table_(facts),
        bodies_(bodies),
        options_(options),
        like_(options.like),
        program_(std::make_shared<CompiledProgram>()),
        problem_(options.spare ? *options.spare : own_problem_),
        spare_is_likes_(like_ && options.spare && options.spare_is_likes) {
    if (!spare_is_likes_) problem_.steps.clear();
    problem_.devices = 0;
    problem_.lanes = 1;
  }

  StatusOr<std::shared_ptr<CompiledProgram>> run() {
    const bool numbers = options_.formulas && std::ranges::all_of(options_.formulas->numbers, &Dim::is_known);
    resizes_ = options_.resizes && numbers && !has_devices();
    RETURN_IF_ERROR(resizes_ ? resize_values() : describe_values());
    program().graph = options_.lists;
    reserve();
    for (const GraphLists::Step& step : options_.lists->steps) {
      if (Status s = add_step(step); !s.ok())
        return with_context(std::move(s), absl::StrCat("node ", std::string(step.name)));
    }
    program_->facts = facts_.empty() && like_
                          ? like_->facts
                          : std::make_shared<const std::vector<std::shared_ptr<const KernelFacts>>>(std::move(facts_));
    const bool same_steps = spare_is_likes_ && !told_anew_;
    if (resizes_ && same_steps) {
      resize_roles();
    } else {
      const std::vector<PlanValue> before = std::move(problem_.values);
      set_roles();
      if (!same_steps || !std::ranges::equal(before, problem_.values, same_but_for_bytes)) problem_.version = new_version();
    }
    program_->resizable = numbers && std::ranges::all_of(program().values, [](const ProgramValue& v) {
      return v.known || v.kind != ValueType::Kind::tensor;
    });
    RETURN_IF_ERROR(plan_lanes());
    if (options_.validate) RETURN_IF_ERROR(with_context(validate(problem_, program_->plan), "the plan is wrong"));
    keep_values();
    place(prepared_, step_device_, options_.workers, *program_);
    program_->resolver = options_.resolver;
    return program_;
  }

 private:
  Program& program() { return *program_; }
  bool has_devices() const { return options_.devices && !options_.devices->empty(); }

  // Its place among the devices with memory of their own; -1: the host works with it.
  int32_t device_index(Device device) const {
    if (!has_devices() || device.is_host()) return -1;
    const auto drivers = options_.devices->drivers();
    for (size_t d = 0; d < drivers.size(); ++d)
      if (drivers[d]->device() == device) return static_cast<int32_t>(d);
    return -1;
  }
  Device device_at(int32_t index) const {
    return index < 0 ? Device{} : options_.devices->drivers()[static_cast<size_t>(index)]->device();
  }

  void reserve() {
    const size_t steps = prepared_.order.size();
    program().steps.reserve(steps);
    problem_.steps.resize(steps);
    program_->scratch.reserve(steps);
    program_->shared = options_.share;
  }

  Status plan_memory() {
    if (options_.inside && options_.effort != Effort::off) {
      ASSIGN_OR_RETURN(std::optional<Plan> inside,
                       plan_inside(problem_, *options_.inside_problem, options_.inside->plan));
      program_->inside = inside.has_value();
      if (inside) {
        program_->plan = *std::move(inside);
        return absl::OkStatus();
      }
    }
    if (options_.order && options_.effort == Effort::replan) {
      std::optional<Plan> ordered = options_.order->plan_for(problem_);
      program_->by_order = ordered.has_value();
      if (ordered) {
        program_->plan = *std::move(ordered);
        return absl::OkStatus();
      }
    }
    ASSIGN_OR_RETURN(program_->plan, forethought::plan(problem_, options_.effort));
    return absl::OkStatus();
  }

  // Types, numbers and byte sizes of every value.
  Status describe_values() {
    program().values.resize(g_.value_capacity());
    int64_t* dims = room_for_dims();
    for (uint32_t i = 0; i < g_.value_capacity(); ++i) {
      const PreparedValue& v = prepared_.values[i];
      if (v.removed) continue;
      ProgramValue& p = program().values[i];
      const ValueFact& f = table_.values[i];
      p.name = options_.lists->values[i];
      p.kind = f.type.kind();
      p.layout = v.layout;
      p.device = device_index(v.device);
      if (!f.type.is_tensor()) continue;
      p.dtype = f.type.dtype();
      const int64_t* const first = dims;
      if (!append_numbers(f.shape, &dims)) continue;
      p.dims = {first, dims};
      const auto bytes = storage_bytes(p.dtype, p.layout, p.dims);
      if (!bytes || !checked_add(*bytes, kAlignment)) return too_large(p);
      p.known = true;
      p.bytes = *bytes;
    }
    for (size_t i = 0; i < options_.bound.inputs.size(); ++i)
      program().values[g_.inputs()[i].index].device = options_.bound.inputs[i];
    for (size_t i = 0; i < options_.bound.outputs.size(); ++i)
      program().values[g_.outputs()[i].index].device = options_.bound.outputs[i];
    return absl::OkStatus();
  }

  // As describe_values(), from the values of `like`.
  Status resize_values() {
    auto& values = program().values = like_->values;
    size_t count = 0;
    for (const ProgramValue& p : values) count += p.dims.size();
    const std::shared_ptr<int64_t[]> room(new int64_t[count]);
    program().dims = room;
    int64_t* at = room.get();
    for (ProgramValue& p : values) {
      const int64_t* const first = at;
      at = std::ranges::copy(p.dims, at).out;
      p.dims = {first, at};
      p.root = -1;
    }
    const auto resized = [&](uint32_t v) {
      ProgramValue& p = values[v];
      const auto bytes = storage_bytes(p.dtype, p.layout, p.dims);
      if (!bytes || !checked_add(*bytes, kAlignment)) return too_large(p);
      p.bytes = *bytes;
      return absl::OkStatus();
    };
    const auto dims_of = [&](uint32_t v) { return room.get() + (values[v].dims.data() - room.get()); };
    for (const ValueId v : g_.inputs()) {
      int64_t* dims = dims_of(v.index);
      if (!values[v.index].known || !append_numbers(table_[v].shape, &dims)) continue;
      RETURN_IF_ERROR(resized(v.index));
    }
    const auto& [places, numbers] = *options_.formulas;
    for (size_t i = 0; i < places.size(); ++i) {
      const auto& [v, axis, formula] = places[i];
      dims_of(v)[axis] = numbers[formula].value();
      if (i + 1 == places.size() || places[i + 1].value != v) RETURN_IF_ERROR(resized(v));
    }
    return options_.validate ? compare_with_facts() : absl::OkStatus();
  }

  Status compare_with_facts() const {
    for (uint32_t i = 0; i < g_.value_capacity(); ++i) {
      const ProgramValue& p = program_->values[i];
      const ValueFact& f = table_.values[i];
      const auto dims = f.shape.numbers();
      if (prepared_.values[i].removed || !f.type.is_tensor()) continue;
      if (!dims || !std::ranges::equal(*dims, p.dims) || p.dtype != f.type.dtype() || p.kind != f.type.kind())
        return internal(absl::StrCat("value '", std::string(p.name), "' has ", to_string(p.dims),
                                     " by the program for other sizes, by the facts ", to_string(f.shape)));
    }
    return absl::OkStatus();
  }

  static Status too_large(const ProgramValue& p) {
    return invalid(absl::StrCat("value '", std::string(p.name), "' of ", name(p.dtype), to_string(p.dims),
                                " has no representable size"));
  }

  // Memory for the dims of all values; the program keeps it.
  int64_t* room_for_dims() {
    size_t most = 0;
    for (const ValueFact& f : table_.values) most += f.shape.dims.size();
    const std::shared_ptr<int64_t[]> room(new int64_t[most]);
    program().dims = room;
    return room.get();
  }

  // Writes the dims and moves on behind them, if all are numbers.
  static bool append_numbers(const SymShape& shape, int64_t** to) {
    if (!shape.has_rank) return false;
    int64_t* at = *to;
    for (const Dim& d : shape.dims) {
      const std::optional<int64_t> number = d.known();
      if (!number) return false;
      *at++ = *number;
    }
    *to = at;
    return true;
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
      o.constant = prepared_.values[v].constant;
      if (n.is_packed(slot)) o.packed = &n.packed[slot];
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

  // Whether the step has the operands that it has in the program `like`, the numbers of their dims apart.
  bool operands_are_likes(const GraphLists::Step& n) const {
    const auto same = [&](int32_t v) {
      if (v < 0) return true;
      const ProgramValue &a = program_->values[v], &b = like_->values[v];
      return a.known == b.known && a.dtype == b.dtype && a.kind == b.kind && a.dims.size() == b.dims.size();
    };
    return std::ranges::all_of(n.inputs, same) && std::ranges::all_of(n.outputs, same);
  }

  // The choice for `like` with other dims, if the kernel knows that nothing else is new.
  StatusOr<bool> refit(const GraphLists::Step& n, const PreparedNode& prepared, size_t s, ProgramStep* step) {
    if (!like_ || has_devices()) return false;
    const ProgramStep& before = like_->steps[s];
    if (!before.runnable || before.sized_at_run != 0 || !operands_are_likes(n)) return false;
    const ChooseCtx ctx{active_isa(), in_, out_, options_.cache};
    Refit fitted = prepared.kernel->refit(ctx, *(*like_->facts)[s], *before.runnable);
    if (!fitted.holds) return false;
    if (options_.validate) {
      ASSIGN_OR_RETURN(const KernelFacts facts, prepared.kernel->choose(ctx));
      if (!alike(facts, *(*like_->facts)[s]) || !facts.instance != !fitted.instance ||
          facts.scratch_shared != fitted.scratch_shared ||
          facts.scratch_per_worker != fitted.scratch_per_worker)
        return internal(absl::StrCat("the kernel ", facts.kernel, " keeps a choice that it would not make now"));
    }
    step->keep = std::move(fitted.instance);
    step->runnable = step->keep ? step->keep.get() : static_cast<const Runnable*>(prepared.kernel);
    step->scratch_shared = round_up(fitted.scratch_shared, kAlignment);
    step->scratch_per_worker = round_up(fitted.scratch_per_worker, kAlignment);
    step->escapes = before.escapes;
    ++program_->steps_kept;
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
    StatusOr<KernelFacts> facts = prepared.kernel->choose({active_isa(), in_, out_, options_.cache});
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
    step->scratch_shared = round_up(facts->scratch_shared, kAlignment);
    step->scratch_per_worker = round_up(facts->scratch_per_worker, kAlignment);
    step->sized_at_run = facts->sized_at_run;
    step->escapes = facts->escapes;
    return facts;
  }

  Status add_step(const GraphLists::Step& n) {
    const PreparedNode& prepared = prepared_.nodes[n.node.index];
    const size_t s = program().steps.size();
    ProgramStep& step = program().steps.emplace_back();
    step.node = static_cast<int32_t>(n.node.index);
    step.name = n.name;
    step.inputs = n.inputs;
    step.outputs = n.outputs;
    step.packed = prepared.packed_bytes;
    step_device_.push_back(n.outputs.empty() || n.outputs[0] < 0 ? -1
                                                                 : device_index(prepared_.values[n.outputs[0]].device));
    const bool dynamic = list_operands(n, prepared);
    bool fits = false;
    if (!dynamic) {
      ASSIGN_OR_RETURN(fits, refit(n, prepared, s, &step));
    }
    std::shared_ptr<const KernelFacts> facts;  // null: those of `like`
    if (!fits) {
      ASSIGN_OR_RETURN(KernelFacts chosen, choose(n, prepared, dynamic, &step));
      if (has_devices() && is_copy(n.node)) as_device_copy(&step, &chosen);
      if (!like_ || !alike(chosen, *(*like_->facts)[s]))
        facts = std::make_shared<const KernelFacts>(std::move(chosen));
    }
    if (step_device_.back() >= 0 && (!step.runnable || step.sized_at_run != 0))
      return unsupported(
          "it runs on a device, but the sizes of its inputs or outputs are known only at run; let the host run it");
    if (n.has_bodies) RETURN_IF_ERROR(add_bodies(n.node, &step));
    describe(n, step, s, facts.get());
    costs_.push_back(cost(n, step, !problem_.steps[s].aliases.empty()));
    keep_facts(s, std::move(facts));
    return absl::OkStatus();
  }

  bool is_copy(NodeId id) const {
    const OpId& op = g_.node(id).op;
    return op.domain == kInternalDomain && op.type == "Copy";
  }

  StepCost cost(const GraphLists::Step& n, const ProgramStep& step, bool view) const {
    StepCost unknown;
    unknown.known = false;
    if (!step.runnable || step.sized_at_run != 0 || n.has_bodies) return unknown;
    if (view) return step_cost(0, 0, options_.workers);
    double bytes = 0;
    const auto count = [&](int32_t v) { bytes += v >= 0 ? static_cast<double>(program_->values[v].bytes) : 0; };
    std::ranges::for_each(n.inputs, count);
    std::ranges::for_each(n.outputs, count);
    const auto dims = [&](size_t i) { return i < in_.size() ? in_[i].dims : std::span<const int64_t>(); };
    const int64_t elements = out_.empty() ? 0 : element_count(out_[0].dims).value_or(0);
    return step_cost(flops_of(n.work, dims(0), dims(1), elements), bytes, options_.workers);
  }

  // A copy between two devices is work of the device's lane. One whose source is bound where it should go is a view.
  void as_device_copy(ProgramStep* step, KernelFacts* facts) {
    const ProgramValue &in = program().values[step->inputs[0]], &out = program().values[step->outputs[0]];
    if (in.device < 0 && out.device < 0) return;
    step_device_.back() = out.device >= 0 ? out.device : in.device;
    step->keep = std::make_shared<DeviceCopy>(device_at(in.device), device_at(out.device));
    step->runnable = step->keep.get();
    step->scratch_shared = step->scratch_per_worker = 0;
    *facts = KernelFacts();
    facts->kernel = absl::StrCat("copy.", to_string(device_at(in.device)), ".", to_string(device_at(out.device)));
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
    const GraphNode& n = g_.node(id);
    for (int b = 0; b < static_cast<int>(n.bodies.size()); ++b) {
      const std::pair<uint32_t, int> key{id.index, b};
      BodySource* source = bodies_.at(key);
      StepExtras::Body& body = step->extras.write().bodies.emplace_back(StepExtras::Body{.source = source});
      const auto facts = table_.bodies.find(key);
      if (facts == table_.bodies.end() || !step->runnable) continue;
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
    int64_t bytes = own_scratch_bytes(step, options_.workers);
    int64_t bodies = 0;
    for (const StepExtras::Body& b : step.extras->bodies) bodies = std::max(bodies, b.slab_bytes);
    return bytes + static_cast<int64_t>(round_up(bodies, kAlignment));
  }

  // Tells the planner of the step. Without `facts` they are those of `like`, and what it was told then mostly stands.
  void describe(const GraphLists::Step& n, const ProgramStep& step, size_t s, const KernelFacts* facts) {
    const int64_t bytes = step.runnable ? scratch_bytes(step) : 0;
    ValueNo scratch = kNoId;
    if (bytes > 0 || wants_scratch_inside(s)) {
      scratch = static_cast<ValueNo>(g_.value_capacity() + scratch_sizes_.size());
      scratch_sizes_.push_back(bytes);
      scratch_names_.push_back(n.scratch);
      scratch_devices_.push_back(step_device_.back());
    }
    program_->scratch.push_back(scratch);
    if (spare_is_likes_ && !facts && scratch == like_->scratch[s]) return;
    told_anew_ = true;
    describe_step(step, facts ? *facts : *(*like_->facts)[s], scratch, options_.share, &problem_.steps[s]);
  }

  // Whether the step has scratch at the largest sizes: values then have the same numbers here.
  bool wants_scratch_inside(size_t s) const { return options_.inside && options_.inside->scratch[s] != kNoId; }

  // Once one step has facts of its own, the program has a list of its own.
  void keep_facts(size_t s, std::shared_ptr<const KernelFacts> facts) {
    if (!facts && facts_.empty()) return;
    if (facts_.empty() && s > 0) facts_.assign(like_->facts->begin(), like_->facts->begin() + static_cast<std::ptrdiff_t>(s));
    facts_.push_back(facts ? std::move(facts) : (*like_->facts)[s]);
  }

  // The planner's values, shared with the program for other sizes if nothing but sizes has changed.
  void keep_values() {
    const auto alike = [](const PlanValue& a, const PlanValue& b) {
      return same_but_for_bytes(a, b) && a.name.data() == b.name.data() && a.most_bytes == b.most_bytes;
    };
    if (like_ && (resized_roles_ || std::ranges::equal(*like_->plan_values, problem_.values, alike))) {
      program_->plan_values = like_->plan_values;
    } else {
      program_->plan_values = std::make_shared<const std::vector<PlanValue>>(problem_.values);
    }
  }

  // What a tensor takes at most of which only the run tells the size; kUnknownSize where nothing bounds it.
  int64_t most_bytes(const ProgramValue& p, const SymShape& shape) const {
    if (resizes_ || !shape.has_rank || p.dtype == DType::kUndefined) return kUnknownSize;
    Dims most;
    for (const Dim& d : shape.dims) {
      const std::optional<int64_t> bound = upper_bound(d).known();
      if (!bound) return kUnknownSize;
      most.push_back(*bound);
    }
    return storage_bytes(p.dtype, p.layout, most).value_or(kUnknownSize);
  }

  // As set_roles(), in the problem of `like`.
  void resize_roles() {
    resized_roles_ = true;
    for (uint32_t i = 0; i < g_.value_capacity(); ++i) {
      const ProgramValue& p = program().values[i];
      problem_.values[i].bytes = p.is_object() ? 0 : p.bytes;
    }
    for (size_t i = 0; i < scratch_sizes_.size(); ++i) problem_.values[g_.value_capacity() + i].bytes = scratch_sizes_[i];
    program().inputs = like_->inputs;
    program().outputs = like_->outputs;
    program().copies = like_->copies;
  }

  // Which values may live in the slab, and which live elsewhere.
  void set_roles() {
    auto& values = problem_.values;
    values.clear();
    values.reserve(g_.value_capacity() + scratch_sizes_.size());
    values.resize(g_.value_capacity());
    for (uint32_t i = 0; i < g_.value_capacity(); ++i) {
      const PreparedValue& v = prepared_.values[i];
      const ProgramValue& p = program().values[i];
      PlanValue& q = values[i];
      q.name = p.name;
      q.alignment = kAlignment;
      q.device = p.device;
      q.bytes = p.is_object() ? 0 : p.known ? p.bytes : kUnknownSize;
      if (q.bytes == kUnknownSize) q.most_bytes = most_bytes(p, table_.values[i].shape);
      if (v.constant) {
        q.role = Role::weight;
        q.index = v.weight;
      } else if (v.removed || p.is_object()) {
        q.role = Role::object;
      } else if (!p.known) {
        q.role = Role::data_dependent;
      } else {
        q.role = Role::execution;
      }
    }
    for (size_t i = 0; i < g_.inputs().size(); ++i) {
      PlanValue& q = values[g_.inputs()[i].index];
      program().inputs.push_back(static_cast<int32_t>(g_.inputs()[i].index));
      q.role = Role::input;
      q.index = static_cast<int32_t>(i);
    }
    // Tensors that enter an object live in counted buffers of their own; what a device makes is copied there.
    std::vector<uint8_t> of_device(values.size(), 0);
    for (size_t i = 0; has_devices() && i < program().steps.size(); ++i)
      for (const int32_t v : program().steps[i].outputs)
        if (v >= 0 && step_device_[i] >= 0) of_device[v] = 1;
    for (const ProgramStep& s : program().steps)
      for (size_t i = 0; i < s.inputs.size() && i < 32; ++i)
        if (s.inputs[i] >= 0 && has_bit(s.escapes, i) && values[s.inputs[i]].role == Role::execution &&
            !of_device[s.inputs[i]])
          values[s.inputs[i]].role = Role::data_dependent;
    for (size_t i = 0; i < g_.outputs().size(); ++i) {
      const int32_t v = static_cast<int32_t>(g_.outputs()[i].index);
      const auto& listed = program().outputs;
      const bool again = std::find(listed.begin(), listed.end(), v) != listed.end();
      program().outputs.push_back(v);
      if (again || !g_.value(g_.outputs()[i]).producer.valid()) {
        program().copies.push_back({static_cast<int32_t>(i), v});
        continue;
      }
      PlanValue& q = values[v];
      if (q.role != Role::execution && q.role != Role::data_dependent) continue;
      q.index = static_cast<int32_t>(i);
      if (q.role == Role::execution) q.role = Role::output;
    }
    for (size_t i = 0; i < scratch_sizes_.size(); ++i) {
      PlanValue q;
      q.name = scratch_names_[i];
      q.bytes = scratch_sizes_[i];
      q.alignment = kAlignment;
      q.role = Role::scratch;
      q.device = scratch_devices_[i];
      values.push_back(q);
    }
  }

  // Lanes and the plan for them. A plan for more lanes of nobody's asking must not take much more memory.
  Status plan_lanes() {
    const auto choose = [&](int wanted) {
      return choose_host_lanes(problem_, costs_, step_device_, wanted, options_.workers);
    };
    if (options_.inside) {  // whose places hold for its lanes
      set_lanes(options_.inside->host_lanes);
      return plan_memory();
    }
    set_lanes(choose(options_.lanes));
    RETURN_IF_ERROR(plan_memory());
    if (options_.lanes != 0 || program_->host_lanes.lanes == 1) return absl::OkStatus();
    Plan more = std::move(program_->plan);
    HostLanes lanes = program_->host_lanes;
    set_lanes(choose(1));
    RETURN_IF_ERROR(plan_memory());
    if (static_cast<double>(more.peak) > kMostPeak * static_cast<double>(program_->plan.peak)) {
      program_->host_lanes.reason =
          absl::StrCat(lanes.reason, ", but ", more.peak, " bytes instead of ", program_->plan.peak, ": too many");
      return absl::OkStatus();
    }
    set_lanes(std::move(lanes));
    program_->plan = std::move(more);
    return absl::OkStatus();
  }

  // Those of the host, then those of devices, and what they wait for.
  void set_lanes(HostLanes host) {
    PlanProblem& problem = problem_;
    problem.lanes = host.lanes;
    for (size_t s = 0; s < problem.steps.size(); ++s) problem.steps[s].lane = host.lane[s];
    program().lane_device.assign(static_cast<size_t>(host.lanes), -1);
    if (has_devices()) {
      problem.devices = static_cast<int32_t>(options_.devices->drivers().size());
      program().lane_device = add_device_lanes(problem, step_device_, *options_.devices);
      program_->lane_device_names.clear();
      for (const int32_t d : program().lane_device) program_->lane_device_names.push_back(to_string(device_at(d)));
    }
    program_->host_lanes = std::move(host);
    program_->waits = add_waits(problem);
    program().lanes = problem.lanes;
    program().notifications = program_->waits.notifications;
    for (size_t s = 0; s < problem.steps.size(); ++s) {
      program().steps[s].lane = problem.steps[s].lane;
      const PlanStep& planned = problem.steps[s];
      if (planned.waits.empty() && planned.signals.empty() && program().steps[s].extras->waits.empty() &&
          program().steps[s].extras->signals.empty())
        continue;
      StepExtras& extras = program().steps[s].extras.write();
      extras.waits = planned.waits;
      extras.signals = planned.signals;
    }
  }

  const PreparedGraph& prepared_;
  const Graph& g_;
  const FactTable& table_;
  const BodySources& bodies_;
  const CompileOptions& options_;
  const CompiledProgram* const like_;
  std::shared_ptr<CompiledProgram> program_;
  PlanProblem own_problem_;
  PlanProblem& problem_;  // steps have neither names nor lanes yet
  const bool spare_is_likes_;  // problem_ has the steps that the planner was told for `like`
  bool told_anew_ = false;     // of some step: it is another problem now, sizes apart
  bool resizes_ = false;       // values are those of `like` with other dims
  bool resized_roles_ = false;  // and so is what the planner hears of them
  std::vector<std::shared_ptr<const KernelFacts>> facts_;  // by step; empty while they are those of `like`
  std::vector<int64_t> scratch_sizes_;
  std::vector<std::string_view> scratch_names_;
  std::vector<int32_t> scratch_devices_;
  std::vector<StepCost> costs_;       // by step
  std::vector<int32_t> step_device_;  // by step: a place in the devices; -1: the host
  std::vector<Operand> in_, out_;     // of the step that is being added
};

}  // namespace

StatusOr<std::shared_ptr<CompiledProgram>> compile(const PreparedGraph& graph, const FactTable& facts,
                                                   const BodySources& bodies, const CompileOptions& options) {
  return Compiler(graph, facts, bodies, options).run();
}

}  // namespace forethought
