// Random planner problems for tests and benchmarks: views, overwrites, windows, lanes, unknown sizes, scratch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "base/hash.h"
#include "plan/problem.h"

namespace forethought {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix64(seed + 1)) {}
  int64_t below(int64_t n) {
    return static_cast<int64_t>(mix64(state_ += 0x9e3779b97f4a7c15ull) % static_cast<uint64_t>(n));
  }
  bool one_in(int64_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

// How many random cases a test takes: `usual`, or what FORETHOUGHT_RANDOM_GRAPHS asks for if that is more.
inline uint64_t random_cases(uint64_t usual) {
  const char* const asked = std::getenv("FORETHOUGHT_RANDOM_GRAPHS");
  return asked ? std::max(usual, static_cast<uint64_t>(std::strtoull(asked, nullptr, 10))) : usual;
}

struct RandomProblemOptions {
  uint64_t seed = 0;
  int steps = 30;
  int lanes = 1;
  int reach = 12;        // how far back a step finds its inputs, in values
  int devices = 0;       // beside the host
  bool facts = true;     // views, overwrites and windows
  bool apart = true;     // unknown sizes, escaping values and objects
  bool regions = false;  // slabs are made of regions, hardly larger than the largest value
};

// A problem without fault: every read is ordered after its write, also across lanes.
class RandomProblem {
 public:
  explicit RandomProblem(const RandomProblemOptions& o) : o_(o), rng_(o.seed) {}

  PlanProblem make() {
    p_.lanes = o_.lanes;
    p_.devices = o_.devices;
    for (int i = 0; i < 2; ++i) readable_.push_back(add(Role::weight, size(), i));
    for (int i = 0; i < 2; ++i) readable_.push_back(add(Role::input, size(), i));
    for (int s = 0; s < o_.steps; ++s) add_step(s);
    int outputs = 0;
    for (ValueNo v = 4; v < static_cast<ValueNo>(p_.values.size()); ++v) {
      if (p_.values[v].role == Role::execution && (rng_.one_in(12) || v + 3 > static_cast<ValueNo>(p_.values.size()))) {
        p_.values[v].role = Role::output;
        p_.values[v].index = outputs++;
      }
    }
    if (o_.regions) set_regions();
    return std::move(p_);
  }

 private:
  // Some slabs have none.
  void set_regions() {
    for (int32_t device = kNoId; device < o_.devices; ++device) {
      int64_t largest = 64;
      for (const PlanValue& v : p_.values)
        if (v.device == device) largest = std::max(largest, (v.bytes + 63) / 64 * 64);
      p_.region_bytes.push_back(rng_.one_in(5) ? 0 : largest + 64 * rng_.below(1 + largest / 64));
    }
  }

  int64_t size() { return rng_.one_in(20) ? 0 : (rng_.below(40) + 1) * (rng_.one_in(3) ? 4 : 64); }

  ValueNo add(Role role, int64_t bytes, int32_t index = kNoId) {
    PlanValue v;
    v.bytes = bytes;
    v.role = role;
    v.index = index;
    v.alignment = rng_.one_in(3) ? 4 : 64;
    if (o_.devices > 0) v.device = static_cast<int32_t>(rng_.below(o_.devices + 1)) - 1;
    p_.values.push_back(v);
    producer_.push_back(kNoId);
    return static_cast<ValueNo>(p_.values.size()) - 1;
  }

  ValueNo some_input() {
    const int64_t n = static_cast<int64_t>(readable_.size());
    return readable_[rng_.one_in(10) ? rng_.below(n) : n - 1 - rng_.below(std::min<int64_t>(n, o_.reach))];
  }

  ValueNo write(PlanStep& step, int s, Role role, int64_t bytes) {
    const ValueNo v = add(role, bytes);
    producer_[v] = s;
    step.writes.push_back(v);
    return v;
  }

  void add_step(int s) {
    PlanStep step;
    step.lane = static_cast<int32_t>(rng_.below(o_.lanes));
    const int kind = static_cast<int>(rng_.below(10));
    const int reads = kind == 9 ? 2 + static_cast<int>(rng_.below(4)) : 1 + static_cast<int>(rng_.below(2));
    for (int i = 0; i < reads; ++i) step.reads.push_back(some_input());
    if (o_.facts && kind == 9) {
      join(step, s);
    } else if (o_.facts && kind >= 7) {
      view(step, s);
    } else if (o_.apart && rng_.one_in(12)) {
      readable_.push_back(
          write(step, s, rng_.one_in(3) ? Role::object : Role::data_dependent, rng_.one_in(2) ? kUnknownSize : size()));
    } else {
      compute(step, s);
    }
    if (rng_.one_in(4)) write(step, s, Role::scratch, size());
    order_after_producers(step, s);
    p_.steps.push_back(std::move(step));
  }

  void compute(PlanStep& step, int s) {
    const int64_t in = p_.values[step.reads[0]].bytes;
    const int64_t bytes = o_.apart && rng_.one_in(25) ? kUnknownSize : in >= 0 && !rng_.one_in(3) ? in : size();
    const ValueNo out = write(step, s, Role::execution, bytes);
    for (const ValueNo r : step.reads) {
      if (o_.facts) step.may_overwrite.push_back({out, r});
    }
    readable_.push_back(out);
    if (rng_.one_in(6)) {  // a second output, seldom read
      const ValueNo second = write(step, s, Role::execution, size());
      if (o_.facts) step.may_overwrite.push_back({second, step.reads.back()});
      if (rng_.one_in(2)) readable_.push_back(second);
    }
  }

  void view(PlanStep& step, int s) {
    const ValueNo in = step.reads[0];
    const int64_t bytes = p_.values[in].bytes;
    const int64_t whole = std::max<int64_t>(bytes, 0);
    const int64_t offset = rng_.one_in(2) ? 0 : whole / 2 / 4 * 4;
    const int64_t rest = whole - offset;
    const ValueNo out = write(step, s, Role::execution, bytes < 0 ? bytes : rng_.one_in(3) ? rest / 2 : rest);
    if (p_.values[in].role == Role::object) p_.values[out].bytes = size();
    step.aliases.push_back({out, in, offset});
    if (rng_.one_in(4)) step.may_overwrite.push_back({out, in});
    if (p_.values[in].role == Role::object) step.aliases.clear();
    readable_.push_back(out);
  }

  void join(PlanStep& step, int s) {
    int64_t bytes = 0;
    WindowFacts windows;
    for (const ValueNo r : step.reads) {
      if (p_.values[r].bytes < 0 || p_.values[r].role == Role::object) continue;
      windows.push_back({r, kNoId, bytes});
      bytes += p_.values[r].bytes;
    }
    const ValueNo out = write(step, s, Role::execution, bytes + (rng_.one_in(4) ? size() : 0));
    for (WindowFact& w : windows) w.out = out;
    if (rng_.one_in(3) && windows.size() > 1) windows.pop_back();
    step.windows = std::move(windows);
    readable_.push_back(out);
  }

  void order_after_producers(PlanStep& step, int s) {
    const auto wait_for = [&](int from) {
      if (p_.steps[from].lane == step.lane) return;
      p_.steps[from].signals.push_back(notifications_);
      step.waits.push_back(notifications_++);
    };
    for (const ValueNo r : step.reads) {
      if (producer_[r] != kNoId) wait_for(producer_[r]);
    }
    if (s > 0 && rng_.one_in(5)) wait_for(static_cast<int>(rng_.below(s)));
  }

  RandomProblemOptions o_;
  Random rng_;
  PlanProblem p_;
  std::vector<int> producer_;
  std::vector<ValueNo> readable_;
  int32_t notifications_ = 0;
};

inline PlanProblem random_problem(const RandomProblemOptions& options) { return RandomProblem(options).make(); }

// About `values` values, like those of everyday graphs: short lifetimes, some long ones, views, overwrites, windows and
// scratch.
inline PlanProblem net_like_problem(int64_t values, int lanes = 1) {
  RandomProblemOptions o;
  o.seed = 7;
  o.steps = static_cast<int>(values * 10 / 13);
  o.lanes = lanes;
  o.reach = 6;
  return random_problem(o);
}

// Lifetimes with uniformly random ends: the most conflicts.
inline PlanProblem long_lived_problem(int64_t values) {
  Random rng(3);
  PlanProblem p;
  p.values.resize(values);
  p.steps.resize(2 * values);
  for (int64_t v = 0; v < values; ++v) {
    p.values[v].bytes = 64 * (1 + rng.below(1000));
    const int64_t a = rng.below(2 * values), b = rng.below(2 * values);
    p.steps[std::min(a, b)].writes.push_back(static_cast<ValueNo>(v));
    if (a != b) p.steps[std::max(a, b)].reads.push_back(static_cast<ValueNo>(v));
  }
  return p;
}

// All sizes, and the offsets of facts, so many times as large.
inline PlanProblem scaled(PlanProblem p, int64_t factor) {
  for (PlanValue& v : p.values)
    if (v.bytes != kUnknownSize) v.bytes *= factor;
  for (PlanStep& s : p.steps) {
    for (AliasFact& f : s.aliases) f.byte_offset *= factor;
    for (WindowFact& f : s.windows) f.byte_offset *= factor;
  }
  return p;
}

// Small and in one lane: of all kinds of facts and values, by the seed.
inline PlanProblem one_lane_problem(uint64_t seed) {
  RandomProblemOptions o;
  o.seed = seed;
  o.steps = 4 + static_cast<int>(seed % 50);
  o.reach = 2 + static_cast<int>(seed % 11);
  o.facts = seed % 5 != 0;
  o.apart = seed % 3 != 0;
  return random_problem(o);
}

}  // namespace forethought
