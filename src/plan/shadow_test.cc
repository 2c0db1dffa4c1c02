// Runs plans on shadow memory: every byte remembers what it holds, steps run in random legal orders, and each step must
// find in every input what was last made there for it. Knows neither planner nor validator.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "plan/planner.h"
#include "plan/random_problem_for_tests.h"

namespace forethought {
namespace {

// What a byte holds: byte `at` of the content that step-written value `of` was given.
struct Tag {
  int32_t of = -1;
  int64_t at = 0;
  bool operator==(const Tag&) const = default;
};

class Shadow {
 public:
  Shadow(const PlanProblem& p, const Plan& plan) : p_(p), plan_(plan), content_(p.values.size()) {
    for (size_t v = 0; v < p.values.size(); ++v) {
      const Role role = p.values[v].role;
      if (role == Role::weight || role == Role::input) make(static_cast<ValueNo>(v));
    }
  }

  // An empty string, or what a step found wrong.
  std::string run(Random& rng) {
    std::vector<StepNo> next(p_.lanes, 0);  // where to look for the lane's next step
    std::vector<bool> given(p_.steps.size() * 8 + 8), done(p_.steps.size());
    for (size_t count = 0; count < p_.steps.size(); ++count) {
      std::vector<StepNo> ready;
      for (int lane = 0; lane < p_.lanes; ++lane) {
        StepNo& s = next[lane];
        while (s < steps() && (done[s] || p_.steps[s].lane != lane)) ++s;
        if (s == steps()) continue;
        const auto& waits = p_.steps[s].waits;
        if (std::all_of(waits.begin(), waits.end(), [&](int32_t n) { return given[n]; })) ready.push_back(s);
      }
      if (ready.empty()) return "no step can run";
      const StepNo s = ready[rng.below(static_cast<int64_t>(ready.size()))];
      if (std::string wrong = step(s); !wrong.empty()) return wrong;
      done[s] = true;
      for (const int32_t n : p_.steps[s].signals) given[n] = true;
    }
    for (size_t v = 0; v < p_.values.size(); ++v) {
      const Role role = p_.values[v].role;
      const bool lasting = role == Role::output || role == Role::weight || role == Role::input;
      if (lasting && !intact(static_cast<ValueNo>(v))) return "value " + std::to_string(v) + " is spoilt at the end";
    }
    return "";
  }

 private:
  StepNo steps() const { return static_cast<StepNo>(p_.steps.size()); }
  bool tracked(ValueNo v) const { return p_.values[v].bytes >= 0 && plan_.values[v].arena != ArenaKind::none; }
  Tag* bytes_of(ValueNo v) {
    const ValuePlace& pl = plan_.values[v];
    auto& buffer = memory_[{pl.arena, pl.arena == ArenaKind::weights ? pl.root : pl.index}];
    const size_t end = static_cast<size_t>(pl.offset + p_.values[v].bytes);
    if (buffer.size() < end) buffer.resize(end);
    return buffer.data() + pl.offset;
  }

  bool intact(ValueNo v) {
    if (!tracked(v)) return true;
    return std::equal(content_[v].begin(), content_[v].end(), bytes_of(v));
  }

  // Fills a value with content of its own.
  void make(ValueNo v) {
    if (!tracked(v)) return;
    content_[v].resize(p_.values[v].bytes);
    for (int64_t i = 0; i < p_.values[v].bytes; ++i) content_[v][i] = {v, i};
    std::copy(content_[v].begin(), content_[v].end(), bytes_of(v));
  }

  std::string step(StepNo s) {
    const PlanStep& step = p_.steps[s];
    for (const ValueNo v : step.reads) {
      if (!intact(v)) return "step " + std::to_string(s) + " finds value " + std::to_string(v) + " spoilt";
    }
    for (const ValueNo v : step.writes) {
      if (p_.values[v].role == Role::scratch) write(s, v);
    }
    for (const ValueNo v : step.reads) {  // scratch must not meet inputs
      if (!intact(v)) return "scratch of step " + std::to_string(s) + " spoils value " + std::to_string(v);
    }
    std::vector<ValueNo> taken;  // inputs that outputs replace
    for (const ValueNo v : step.writes) {
      if (p_.values[v].role == Role::scratch) continue;
      write(s, v);
      taken.push_back(plan_.values[v].overwrites);
      for (const ValueNo r : step.reads) {
        if (std::find(taken.begin(), taken.end(), r) == taken.end() && !intact(r)) {
          return "step " + std::to_string(s) + " writes " + std::to_string(v) + " over its input " + std::to_string(r);
        }
      }
    }
    for (const ValueNo v : step.writes) {
      if (!intact(v)) return "outputs of step " + std::to_string(s) + " spoil " + std::to_string(v);
    }
    return "";
  }

  void write(StepNo s, ValueNo v) {
    if (!tracked(v)) return;
    const PlanStep& step = p_.steps[s];
    for (size_t i = 0; i < step.aliases.size(); ++i) {
      const AliasFact& f = step.aliases[i];
      if (f.out != v || !plan_.alias_honoured(s, i) || !tracked(f.in)) continue;
      content_[v].assign(content_[f.in].begin() + f.byte_offset,
                         content_[f.in].begin() + f.byte_offset + p_.values[v].bytes);
      return;  // nothing is written: the bytes must be there
    }
    content_[v].assign(p_.values[v].bytes, Tag());
    std::vector<bool> in_window(p_.values[v].bytes);
    for (size_t i = 0; i < step.windows.size(); ++i) {
      const WindowFact& f = step.windows[i];
      if (f.out != v || !plan_.window_honoured(s, i)) continue;
      for (int64_t b = 0; b < p_.values[f.in].bytes; ++b) {
        content_[v][f.byte_offset + b] = content_[f.in][b];
        in_window[f.byte_offset + b] = true;
      }
    }
    Tag* bytes = bytes_of(v);
    for (int64_t b = 0; b < p_.values[v].bytes; ++b) {
      if (!in_window[b]) bytes[b] = content_[v][b] = {v, b};
    }
  }

  const PlanProblem& p_;
  const Plan& plan_;
  std::vector<std::vector<Tag>> content_;  // what each value consists of, by its bytes
  std::map<std::pair<ArenaKind, int32_t>, std::vector<Tag>> memory_;
};

TEST(ShadowMemory, NoStepFindsSpoiltBytesInAnyOrder) {
  for (uint64_t seed = 0; seed < random_cases(300); ++seed) {
    RandomProblemOptions o;
    o.seed = 10'000 + seed;
    o.steps = 5 + static_cast<int>(seed % 35);
    o.lanes = static_cast<int>(seed % 4) + 1;
    o.reach = 2 + static_cast<int>(seed % 9);
    o.devices = seed % 5 == 0 ? 2 : 0;
    const PlanProblem problem = random_problem(o);
    const auto made = plan(problem, seed % 10 == 0 ? Effort::load : Effort::replan);
    ASSERT_TRUE(made.ok()) << made.status();
    Random rng(seed);
    for (int order = 0; order < (o.lanes == 1 ? 1 : 3); ++order) {
      EXPECT_EQ(Shadow(problem, *made).run(rng), "") << "seed " << seed;
    }
  }
}

// The shadow notices: a value that is moved onto a live one spoils it.
TEST(ShadowMemory, NoticesAWrongOffset) {
  PlanProblem p;
  p.values.resize(3);
  for (PlanValue& v : p.values) v.bytes = 64;
  p.values[2].role = Role::output;
  p.values[2].index = 0;
  p.steps.resize(3);
  p.steps[0].writes = {0};
  p.steps[1].writes = {1};
  p.steps[2].reads = {0, 1};
  p.steps[2].writes = {2};
  auto made = plan(p, Effort::replan);
  ASSERT_TRUE(made.ok());
  Random rng(1);
  EXPECT_EQ(Shadow(p, *made).run(rng), "");
  made->values[1].offset = made->values[0].offset;
  EXPECT_EQ(Shadow(p, *made).run(rng), "step 2 finds value 0 spoilt");
}

}  // namespace
}  // namespace forethought
