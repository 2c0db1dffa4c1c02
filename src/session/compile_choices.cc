// How each step's runnable is found: by asking its kernel, or from what was chosen before.
#include "session/compile_choices.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "base/cpu.h"
#include "device/lanes.h"
#include "graph/operator.h"
#include "session/prepared.h"

namespace forethought {
namespace {

// Whether two facts say the same, what dims alone decide apart: instances and the size of scratch.
bool alike(const KernelFacts& a, const KernelFacts& b) {
  return a.kernel == b.kernel && a.reason == b.reason && a.sized_at_run == b.sized_at_run && a.escapes == b.escapes &&
         a.refused == b.refused && a.aliases == b.aliases && a.overwrites == b.overwrites && a.windows == b.windows;
}

// What a step was given without asking its kernel must be what the kernel says now.
Status compare(const KernelFacts& now, const KernelFacts& taken, const ProgramStep& step) {
  if (alike(now, taken) && !now.instance == !step.keep &&
      round_up(now.scratch_shared, kValueAlignment) == step.scratch_shared &&
      round_up(now.scratch_per_worker, kValueAlignment) == step.scratch_per_worker)
    return absl::OkStatus();
  return internal(absl::StrCat("the kernel ", now.kernel, " was given a choice that it would not make now"));
}

bool is_copy(const OpId& op) { return op.domain == kInternalDomain && op.type == "Copy"; }

}  // namespace

void Choices::reserve(size_t steps) {
  last_of_kind_.assign(static_cast<size_t>(w_.options.lists->kinds), -1);
  before_of_kind_.assign(steps, -1);
  kept_.assign(steps, 0);
}

Status Choices::choose(const GraphLists::Step& n, const PreparedNode& prepared) {
  ProgramStep& step = w_.program.steps.back();
  step_ = w_.program.steps.size() - 1;
  const int32_t twin = twin_of(n);
  ASSIGN_OR_RETURN(last_, twin >= 0 ? choose_as(twin, n, prepared, &step) : choose_anew(n, prepared, &step));
  if (!last_ && facts_.empty()) return absl::OkStatus();
  // Once one step has facts of its own, the program has a list of its own.
  if (facts_.empty() && step_ > 0)
    facts_.assign(w_.like->facts->begin(), w_.like->facts->begin() + static_cast<std::ptrdiff_t>(step_));
  facts_.push_back(last_ ? last_ : (*w_.like->facts)[step_]);
  return absl::OkStatus();
}

std::shared_ptr<const Choices::Facts> Choices::take_facts() {
  if (facts_.empty() && w_.like) return w_.like->facts;
  return std::make_shared<const Facts>(std::move(facts_));
}

Operand Choices::operand(const PreparedNode& n, int32_t v, size_t slot, bool input) const {
  Operand o;
  if (v < 0) return o;
  const ProgramValue& p = w_.program.values[v];
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

bool Choices::list_operands(const GraphLists::Step& n, const PreparedNode& prepared) {
  in_.clear();
  out_.clear();
  bool dynamic = false;
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const Operand& o = in_.emplace_back(operand(prepared, n.inputs[i], i, true));
    if (!o.present || o.known) continue;
    if (o.dtype != DType::kUndefined || w_.program.values[n.inputs[i]].kind == ValueType::Kind::unknown) dynamic = true;
  }
  for (size_t i = 0; i < n.outputs.size(); ++i) out_.push_back(operand(prepared, n.outputs[i], i, false));
  return dynamic;
}

int32_t Choices::twin_of(const GraphLists::Step& n) const {
  constexpr int kMostCompared = 4;
  if (n.kind < 0 || w_.has_devices()) return -1;
  const auto same = [&](int32_t v, int32_t w) {
    if (v < 0 || w < 0) return v < 0 && w < 0;
    const ProgramValue &a = w_.program.values[v], &b = w_.program.values[w];
    return a.known == b.known && a.dtype == b.dtype && a.kind == b.kind && std::ranges::equal(a.dims, b.dims);
  };
  const auto same_input = [&](int32_t v, int32_t w) {
    return same(v, w) && (v < 0 || std::ranges::equal(w_.program.values[v].strides, w_.program.values[w].strides));
  };
  int32_t t = last_of_kind_[n.kind];
  for (int i = 0; t >= 0 && i < kMostCompared; t = before_of_kind_[t], ++i) {
    const ProgramStep& twin = w_.program.steps[t];
    if (std::ranges::equal(n.inputs, twin.inputs, same_input) && std::ranges::equal(n.outputs, twin.outputs, same))
      return t;
  }
  return -1;
}

Choices::Found Choices::choose_as(int32_t twin, const GraphLists::Step& n, const PreparedNode& prepared,
                                  ProgramStep* step) {
  const ProgramStep& other = w_.program.steps[twin];
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
  ++w_.program.steps_as_others;
  keep(kept_[twin] != 0);
  const bool likes = w_.like && (facts == (*w_.like->facts)[step_] || alike(*facts, *(*w_.like->facts)[step_]));
  return likes ? nullptr : facts;
}

void Choices::keep(bool kept) {
  kept_[step_] = kept;
  w_.program.steps_kept += kept;
}

bool Choices::operands_are_likes(const GraphLists::Step& n) const {
  const auto same = [&](int32_t v) {
    if (v < 0) return true;
    const ProgramValue &a = w_.program.values[v], &b = w_.like->values[v];
    return a.known == b.known && a.dtype == b.dtype && a.kind == b.kind && a.dims.size() == b.dims.size();
  };
  const auto lies_alike = [&](int32_t v) {  // outputs have no strides yet
    return v < 0 || w_.program.values[v].strides.empty() == w_.like->values[v].strides.empty();
  };
  return std::ranges::all_of(n.inputs, same) && std::ranges::all_of(n.inputs, lies_alike) &&
         std::ranges::all_of(n.outputs, same);
}

StatusOr<bool> Choices::refit(const GraphLists::Step& n, const PreparedNode& prepared, ProgramStep* step) {
  if (!w_.like || w_.has_devices()) return false;
  const ProgramStep& before = w_.like->steps[step_];
  if (!before.runnable || before.sized_at_run != 0 || !operands_are_likes(n)) return false;
  const ChooseCtx ctx{active_isa(), in_, out_, w_.options.cache};
  Refit fitted = prepared.kernel->refit(ctx, *(*w_.like->facts)[step_], *before.runnable);
  if (!fitted.holds) return false;
  step->keep = std::move(fitted.instance);
  step->runnable = step->keep ? step->keep.get() : static_cast<const Runnable*>(prepared.kernel);
  step->scratch_shared = round_up(fitted.scratch_shared, kValueAlignment);
  step->scratch_per_worker = round_up(fitted.scratch_per_worker, kValueAlignment);
  step->escapes = before.escapes;
  keep(true);
  if (w_.options.validate) {
    ASSIGN_OR_RETURN(const KernelFacts facts, prepared.kernel->choose(ctx));
    RETURN_IF_ERROR(compare(facts, *(*w_.like->facts)[step_], *step));
  }
  return true;
}

StatusOr<KernelFacts> Choices::ask(const GraphLists::Step& n, const PreparedNode& prepared, bool dynamic,
                                   ProgramStep* step) {
  const auto at_run = [&] {
    // Outputs of known size have their places all the same, so what reads them is planned.
    for (const int32_t v : n.outputs)
      if (v >= 0 && w_.program.values[v].is_object()) w_.program.values[v].known = false;
    return KernelFacts();
  };
  if (dynamic) return at_run();
  StatusOr<KernelFacts> facts = prepared.kernel->choose({active_isa(), in_, out_, w_.options.cache});
  if (!facts.ok()) return facts;
  for (size_t i = 0; i < out_.size(); ++i) {
    const bool sized_at_run = has_bit(facts->sized_at_run, i);
    const bool tensor = out_[i].present && !w_.program.values[n.outputs[i]].is_object();
    if (tensor && !out_[i].known && !sized_at_run) dynamic = true;
    if (sized_at_run && out_[i].present) w_.program.values[n.outputs[i]].known = false;
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

Choices::Found Choices::choose_anew(const GraphLists::Step& n, const PreparedNode& prepared, ProgramStep* step) {
  const bool dynamic = list_operands(n, prepared);
  bool fits = false;
  if (!dynamic) {
    ASSIGN_OR_RETURN(fits, refit(n, prepared, step));
  }
  std::shared_ptr<const KernelFacts> facts;
  if (!fits) {
    ASSIGN_OR_RETURN(KernelFacts chosen, ask(n, prepared, dynamic, step));
    if (w_.has_devices() && is_copy(w_.g.node(n.node).op)) as_device_copy(step, &chosen);
    if (!w_.like || !alike(chosen, *(*w_.like->facts)[step_]))
      facts = std::make_shared<const KernelFacts>(std::move(chosen));
  }
  if (n.kind >= 0 && step->runnable && step->sized_at_run == 0) {
    before_of_kind_[step_] = last_of_kind_[n.kind];
    last_of_kind_[n.kind] = static_cast<int32_t>(step_);
  }
  return facts;
}

void Choices::as_device_copy(ProgramStep* step, KernelFacts* facts) {
  const ProgramValue &in = w_.program.values[step->inputs[0]], &out = w_.program.values[step->outputs[0]];
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
  ++w_.program.device_copies;
  w_.program.copied_bytes += in.bytes;
}

}  // namespace forethought
