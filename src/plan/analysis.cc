// Checks a problem and finds who writes each value, when it is first and last touched, and which steps are over by
// when.
#include "plan/analysis.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "absl/strings/str_cat.h"
#include "plan/names.h"

namespace forethought::planning {
namespace {

class Analyser {
 public:
  explicit Analyser(const PlanProblem& p) : p_(p), read_in_(p.values.size(), kNoId) {}

  StatusOr<Analysis> run() {
    RETURN_IF_ERROR(check_values());
    a_.lanes = p_.lanes;
    a_.producer.assign(p_.values.size(), kNoId);
    a_.first.assign(p_.values.size(), kNoId);
    a_.last.assign(p_.values.size(), kNoId);
    RETURN_IF_ERROR(find_producers());
    RETURN_IF_ERROR(find_cycles());
    if (p_.lanes > 1) RETURN_IF_ERROR(run_clocks());
    for (StepNo s = 0; s < steps(); ++s)
      if (Status status = visit(s); !status.ok()) return with_context(std::move(status), step_label(p_, s));
    return std::move(a_);
  }

 private:
  StepNo steps() const { return static_cast<StepNo>(p_.steps.size()); }
  bool known_id(ValueNo v) const { return v >= 0 && static_cast<size_t>(v) < p_.values.size(); }
  std::string label(ValueNo v) const { return value_label(p_, v); }

  Status check_values() const {
    constexpr size_t kMost = std::numeric_limits<int32_t>::max() / 2;
    if (p_.values.size() > kMost || p_.steps.size() > kMost)
      return exhausted("a plan of more than 2^30 values or steps");
    if (p_.lanes < 1) return invalid("a plan needs at least one lane");
    if (!std::has_single_bit(p_.granule)) {
      return invalid(absl::StrCat("the slab's granule ", p_.granule, " is not a power of two"));
    }
    int64_t total = 0;
    std::vector<uint8_t> taken(p_.values.size() * 2);  // numbers of inputs and outputs
    for (ValueNo v = 0; known_id(v); ++v) {
      const PlanValue& value = p_.values[v];
      if (value.role == Role::input || value.role == Role::output) {
        const size_t i = static_cast<size_t>(value.index);
        if (value.index < 0 || i >= p_.values.size() || taken[i * 2 + (value.role == Role::input)]++) {
          return invalid(absl::StrCat("value ", label(v), " is ", name(value.role), " number ", value.index,
                                      ": negative, too large or had twice"));
        }
      }
      if (!std::has_single_bit(value.alignment)) {
        return invalid(absl::StrCat("value ", label(v), " wants alignment ", value.alignment, ", not a power of two"));
      }
      if (value.device < kNoId || value.device >= p_.devices) {
        return invalid(absl::StrCat("value ", label(v), " is on device ", value.device, " of ", p_.devices));
      }
      if (value.bytes < kUnknownSize) return invalid(absl::StrCat("value ", label(v), " has ", value.bytes, " bytes"));
      const int64_t slack = int64_t{value.alignment} + p_.granule;
      if (value.bytes > kMostBytes || (total += std::max<int64_t>(value.bytes, 0) + slack) > kMostBytes) {
        return exhausted(
            absl::StrCat("value ", label(v), " of ", value.bytes, " bytes brings the plan above 2^60 bytes"));
      }
    }
    return {};
  }

  Status find_producers() {
    for (StepNo s = 0; s < steps(); ++s) {
      for (const ValueNo v : p_.steps[s].writes) {
        if (!known_id(v)) return invalid(absl::StrCat(step_label(p_, s), " writes unknown value ", v));
        const Role role = p_.values[v].role;
        if (role == Role::weight || role == Role::input) {
          return invalid(absl::StrCat(step_label(p_, s), " writes ", label(v), ", which is of role ", name(role)));
        }
        if (a_.producer[v] != kNoId) {
          return invalid(absl::StrCat("value ", label(v), " is written by ", step_label(p_, a_.producer[v]), " and by ",
                                      step_label(p_, s)));
        }
        a_.producer[v] = s;
      }
    }
    return {};
  }

  // Follows each view to its source; `seen` holds the walk that met a value first, so all walks together are linear.
  Status find_cycles() const {
    std::vector<ValueNo> source(p_.values.size(), kNoId);
    for (const PlanStep& step : p_.steps) {
      for (const AliasFact& f : step.aliases) {
        if (!known_id(f.out) || !known_id(f.in)) return invalid(absl::StrCat("a view of an unknown value, ", f.in));
        source[f.out] = f.in;
      }
    }
    std::vector<ValueNo> seen(p_.values.size(), kNoId);
    for (ValueNo start = 0; known_id(start); ++start) {
      for (ValueNo v = start; v != kNoId && seen[v] == kNoId; v = source[v]) {
        seen[v] = start;
        if (source[v] != kNoId && seen[source[v]] == start) {
          return invalid(absl::StrCat("cyclic views: ", label(v), " is a view of ", label(source[v]),
                                      ", which is in the end a view of the former"));
        }
      }
    }
    return {};
  }

  // A vector clock per step: what the lane knew before, what each awaited step knew, and that step itself.
  Status run_clocks() {
    const size_t lanes = p_.lanes;
    std::vector<StepNo> tail(lanes, kNoId);
    std::vector<StepNo> signaller;
    if (p_.steps.size() > (size_t{1} << 28) / lanes) return exhausted("too many steps for that many lanes");
    a_.clock.assign(p_.steps.size() * lanes, kNoId);
    const auto learn = [&](StepNo s, StepNo from) {
      for (size_t l = 0; l < lanes; ++l) {
        a_.clock[s * lanes + l] = std::max(a_.clock[s * lanes + l], a_.clock[from * lanes + l]);
      }
      StepNo& own = a_.clock[s * lanes + p_.steps[from].lane];
      own = std::max(own, from);
    };
    size_t signals = 0;
    for (const PlanStep& step : p_.steps) signals += step.signals.size();
    signaller.assign(signals, kNoId);
    for (StepNo s = 0; s < steps(); ++s) {
      const PlanStep& step = p_.steps[s];
      if (step.lane < 0 || step.lane >= p_.lanes) {
        return invalid(absl::StrCat(step_label(p_, s), " is on lane ", step.lane, " of ", p_.lanes));
      }
      if (tail[step.lane] != kNoId) learn(s, tail[step.lane]);
      for (const int32_t n : step.waits) {
        if (n < 0 || static_cast<size_t>(n) >= signals || signaller[n] == kNoId) {
          return invalid(
              absl::StrCat(step_label(p_, s), " waits for notification ", n, ", which no earlier step gives"));
        }
        learn(s, signaller[n]);
      }
      for (const int32_t n : step.signals) {
        if (n < 0 || static_cast<size_t>(n) >= signals || signaller[n] != kNoId) {
          return invalid(absl::StrCat(step_label(p_, s), " gives notification ", n,
                                      ", which is given twice or not one of 0..", signals));
        }
        signaller[n] = s;
      }
      tail[step.lane] = s;
    }
    return {};
  }

  void touch(ValueNo v, StepNo s) {
    if (a_.first[v] == kNoId) a_.first[v] = s;
    a_.last[v] = s;
  }

  Status visit(StepNo s) {
    const PlanStep& step = p_.steps[s];
    if (step.lane < 0 || step.lane >= p_.lanes) return invalid(absl::StrCat("lane ", step.lane, " of ", p_.lanes));
    for (const ValueNo v : step.reads) {
      if (!known_id(v)) return invalid(absl::StrCat("reads unknown value ", v));
      const Role role = p_.values[v].role;
      const StepNo from = a_.producer[v];
      if (role != Role::weight && role != Role::input) {
        if (from == kNoId || from >= s)
          return invalid(absl::StrCat("reads ", label(v), " before a step has written it"));
        if (from > a_.known(s, p_.steps[from].lane)) {
          return invalid(absl::StrCat("reads ", label(v), " of lane ", p_.steps[from].lane, " without waiting for ",
                                      step_label(p_, from)));
        }
      }
      read_in_[v] = s;
      touch(v, s);
    }
    for (const ValueNo v : step.writes) touch(v, s);
    return visit_facts(s);
  }

  Status visit_facts(StepNo s) const {
    const PlanStep& step = p_.steps[s];
    const auto check = [&](ValueNo in, ValueNo out, int64_t offset, const char* what) -> Status {
      if (!known_id(in) || read_in_[in] != s || !known_id(out) || a_.producer[out] != s) {
        return invalid(
            absl::StrCat(what, " of ", label(in), " and ", label(out), ", which are not its input and output"));
      }
      if (offset < 0) return invalid(absl::StrCat(what, " of ", label(in), " and ", label(out), " at offset ", offset));
      return {};
    };
    const auto fits = [&](ValueNo inner, ValueNo outer, int64_t offset) -> Status {
      const int64_t bytes = p_.values[inner].bytes, room = p_.values[outer].bytes;
      if (bytes == kUnknownSize || room == kUnknownSize || (offset <= room && bytes <= room - offset)) return {};
      return invalid(absl::StrCat(label(inner), " of ", bytes, " bytes at offset ", offset, " leaves ", label(outer),
                                  " of ", room, " bytes"));
    };
    for (const AliasFact& f : step.aliases) {
      RETURN_IF_ERROR(check(f.in, f.out, f.byte_offset, "view"));
      RETURN_IF_ERROR(fits(f.out, f.in, f.byte_offset));
    }
    for (const OverwriteFact& f : step.may_overwrite) RETURN_IF_ERROR(check(f.in, f.out, 0, "overwrite"));
    for (const WindowFact& f : step.windows) {
      RETURN_IF_ERROR(check(f.in, f.out, f.byte_offset, "window"));
      RETURN_IF_ERROR(fits(f.in, f.out, f.byte_offset));
    }
    return {};
  }

  const PlanProblem& p_;
  Analysis a_;
  std::vector<StepNo> read_in_;  // the step whose reads were last seen to hold the value
};

}  // namespace

StatusOr<Analysis> analyse(const PlanProblem& problem) { return Analyser(problem).run(); }

}  // namespace forethought::planning
