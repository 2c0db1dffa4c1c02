// Random graphs with control flow and sizes that only the data tells, on the host and on simulated devices, in one to
// four lanes, with delays: validator, shadow and results agree, and each fault seeded into their programs is caught.
// FORETHOUGHT_RANDOM_GRAPHS asks for more of them, FORETHOUGHT_RANDOM_FIRST leaves out those before a seed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "exec/program_builder_for_tests.h"
#include "exec/shadow.h"
#include "plan/random_problem_for_tests.h"
#include "session/random_graph_testing.h"
#include "session/session_testing.h"
#include "session/sim_provider_testing.h"

namespace forethought {
namespace {

// Each value in a buffer of its own, one step after the other.
SessionOptions plain(OptimizationLevel level) {
  SessionOptions o;
  o.optimization_level = level;
  o.plan = PlanMode::off;
  o.share = false;
  o.lanes = 1;
  o.intra_op_threads = 1;
  return o;
}

// What the graphs of a test had between them.
struct Seen {
  int64_t lanes[5] = {}, waits = 0, dynamic = 0, bodies = 0, views = 0, overwrites = 0, launches = 0;
  void add(const CompiledProgram& p) {
    waits += p.waits.waits;
    views += std::ranges::count(p.plan.aliases, 1);
    for (const ValuePlace& v : p.plan.values) overwrites += v.overwrites != kNoId;
    for (const ProgramStep& step : p.steps) {
      dynamic += !step.runnable;
      bodies += static_cast<int64_t>(step.extras->bodies.size());
    }
    ++lanes[std::min(p.host_lanes.lanes, 4)];
  }
};

// Steps and places, to read where a graph fails.
std::string text_of(const Program& p) {
  std::string text;
  for (const ProgramStep& s : p.steps) {
    text += fmt::format("{} lane {} waits [{}] signals [{}] reads [{}] writes [{}]\n", s.name, s.lane,
                        fmt::join(s.extras->waits, " "), fmt::join(s.extras->signals, " "), fmt::join(s.inputs, " "),
                        fmt::join(s.outputs, " "));
  }
  for (size_t v = 0; v < p.values.size(); ++v) {
    const ProgramValue& value = p.values[v];
    text += fmt::format("{} '{}' base {} device {} index {} at {}, {} bytes\n", v, value.name,
                        static_cast<int>(value.base), value.device, value.index, value.offset, value.bytes);
  }
  return text;
}

uint64_t first_case() {
  const char* const asked = std::getenv("FORETHOUGHT_RANDOM_FIRST");
  return asked ? std::strtoull(asked, nullptr, 10) : 0;
}

class RandomGraphs : public testing::Test {
 protected:
  // Runs of a graph planned in lanes; on devices too, as the seed has it.
  void check(uint64_t seed) {
    const RandomGraph graph = random_graph(seed);
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", graph.text));
    const int devices = seed % 3 == 0 ? 1 + static_cast<int>(seed % 2) : 0;
    constexpr OptimizationLevel kLevels[] = {OptimizationLevel::disabled, OptimizationLevel::basic,
                                             OptimizationLevel::extended, OptimizationLevel::all};
    // A device runs the same kernels as the host only where none were packed or merged.
    const OptimizationLevel level = devices ? OptimizationLevel::disabled : kLevels[seed % 4];
    const auto reference = session_of(graph.text, plain(level));
    ASSERT_TRUE(reference);
    const auto want = run(*reference, graph.inputs);
    ASSERT_TRUE(want);

    SessionOptions options;
    options.optimization_level = level;
    options.lanes = 1 + static_cast<int>(seed / 2 % 4);
    options.intra_op_threads = 1 + static_cast<int>(seed / 5 % 3);
    options.validate_plans = true;
    std::vector<std::shared_ptr<SimDevice>> made;
    std::vector<std::unique_ptr<SimProviderScope>> providers;
    for (int d = 0; d < devices; ++d) {
      SimDeviceOptions o{.index = static_cast<uint16_t>(d + 1), .lanes = 1 + static_cast<int>(seed / 6 % 2)};
      o.max_delay_us = seed % 4 ? 0 : 60;
      o.seed = static_cast<uint32_t>(seed);
      o.waits_for_other_devices = o.copies_from_other_devices = seed / 6 % 4 == 0;
      made.push_back(SimDevice::make(o).value());
      const std::string name = absl::StrCat("Provider", d);
      providers.push_back(
          std::make_unique<SimProviderScope>(name, made.back(), some_nodes(seed + 99 * static_cast<uint64_t>(d), 50)));
      options = with_provider(name, options);
    }
    {
      const auto session = session_of(graph.text, options);
      ASSERT_TRUE(session);
      std::vector<Dims> dims;
      for (const Value& v : graph.inputs) dims.push_back(v.tensor().dims);
      const auto program = session->plan_for(dims);
      ASSERT_TRUE(program.ok()) << program.status();
      seen_.add(**program);
      EXPECT_EQ(run(*session, graph.inputs), want) << "not watched";
      for (const auto poison : {std::byte{0xff}, std::byte{0x5a}}) {
        ShadowSink shadow(poison);
        RunOptions watched;
        watched.sink = &shadow;
        EXPECT_EQ(run(*session, graph.inputs, watched), want) << "watched";
        EXPECT_TRUE(shadow.faults().empty()) << shadow.faults().front() << "\n" << text_of(**program);
      }
      for (const auto& d : made) d->fail_work(1 + static_cast<int64_t>(seed % 7));
      for (const auto& d : made) {
        std::vector<Value> outputs(session->outputs().size());
        session->run_ordered(graph.inputs, outputs).IgnoreError();
        d->fail_work(0);
      }
      if (devices > 0) {
        EXPECT_EQ(run(*session, graph.inputs), want) << "after a run that failed";
      }
      EXPECT_EQ(live_bytes(*session), live_bytes(*reference)) << "constants only";
    }
    for (const auto& d : made) {
      seen_.launches += d->counts().launches;
      EXPECT_EQ(d->counts().freed_in_use, 0);
      EXPECT_EQ(d->allocator().statistics().live, 0);
    }
  }
  static std::optional<std::vector<std::string>> run(Session& session, const std::vector<Value>& inputs,
                                                     const RunOptions& options = {}) {
    std::vector<Value> outputs(session.outputs().size());
    const Status status = session.run_ordered(inputs, outputs, options);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return std::nullopt;
    return bytes_of(outputs);
  }
  Seen seen_;
};

TEST_F(RandomGraphs, Check28_ValidatorShadowAndResultsAgree) {
  const uint64_t count = random_cases(400);
  for (uint64_t seed = first_case(); seed < count && !HasFailure(); ++seed) check(seed);
  if (first_case() > 0) return;
  for (int lanes = 1; lanes <= 4; ++lanes) EXPECT_GT(seen_.lanes[lanes], 0) << lanes;
  for (const int64_t some : {seen_.waits, seen_.dynamic, seen_.bodies, seen_.views, seen_.overwrites, seen_.launches})
    EXPECT_GT(some, 50);
}

// --- Faults seeded into the programs of such graphs.

// Which steps are surely over before which others begin, by lanes and notifications; plain and slow.
class Order {
 public:
  explicit Order(const Program& p) : before_(p.steps.size(), std::vector<bool>(p.steps.size())) {
    for (size_t b = 0; b < p.steps.size(); ++b) {
      for (size_t a = 0; a < b; ++a) {
        bool edge = p.steps[a].lane == p.steps[b].lane;
        for (const int32_t w : p.steps[b].extras->waits)
          edge = edge || std::ranges::count(p.steps[a].extras->signals, w) > 0;
        if (!edge) continue;
        before_[b][a] = true;
        for (size_t s = 0; s < a; ++s) before_[b][s] = before_[b][s] || before_[a][s];
      }
    }
  }
  bool operator()(int32_t a, int32_t b) const { return before_[static_cast<size_t>(b)][static_cast<size_t>(a)]; }

 private:
  std::vector<std::vector<bool>> before_;  // of a step: those before it
};

struct Uses {
  int32_t writer = -1;
  std::vector<int32_t> readers;
};
std::vector<Uses> uses_of(const Program& p) {
  std::vector<Uses> all(p.values.size());
  for (size_t s = 0; s < p.steps.size(); ++s) {
    for (const int32_t v : p.steps[s].inputs)
      if (v >= 0) all[v].readers.push_back(static_cast<int32_t>(s));
    for (const int32_t v : p.steps[s].outputs)
      if (v >= 0) all[v].writer = static_cast<int32_t>(s);
  }
  return all;
}

bool meet(const ProgramValue& a, const ProgramValue& b) {
  return a.base == Base::slab && b.base == Base::slab && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}
// A value of the slab that shares bytes with no other that is read.
bool alone(const Program& p, const std::vector<Uses>& uses, size_t v) {
  if (p.values[v].base != Base::slab || p.values[v].bytes < 8 || uses[v].writer < 0 || uses[v].readers.empty())
    return false;
  for (size_t o = 0; o < p.values.size(); ++o)
    if (o != v && uses[o].writer >= 0 && meet(p.values[v], p.values[o])) return false;
  return true;
}

// What a step does, beside its work, just before it is over.
struct Spoiler {
  int32_t step = -1;
  void (*act)(const RunCtx&) = nullptr;
};

// Each changes a program, or gives a step something to spoil, and returns true; or it returns false where the program
// offers no place for the fault. None makes a step touch memory that is not there, or read it while it goes.
using Fault = bool (*)(Program&, Spoiler&, Random&);

// A value on top of one that is read later, or, in another lane, at any time.
bool overlap(Program& p, Spoiler&, Random& rng) {
  const std::vector<Uses> uses = uses_of(p);
  const Order before(p);
  for (int tries = 0; tries < 60; ++tries) {
    const auto n = static_cast<int64_t>(p.values.size());
    const auto victim = static_cast<size_t>(rng.below(n)), mover = static_cast<size_t>(rng.below(n));
    if (victim == mover || !alone(p, uses, victim) || !alone(p, uses, mover)) continue;
    if (p.values[victim].offset + p.values[mover].bytes > p.slab_bytes) continue;
    const int32_t writes = uses[mover].writer;
    if (before(writes, uses[victim].writer) || writes == uses[victim].writer) continue;
    if (std::ranges::count(uses[victim].readers, writes) > 0) continue;  // it may write the very bytes that it reads
    const bool read_first = std::ranges::all_of(uses[victim].readers, [&](int32_t r) { return before(r, writes); });
    if (read_first && before(uses[victim].writer, writes)) continue;
    p.values[mover].offset = p.values[victim].offset;
    return true;
  }
  return false;
}
// Whether all memory that comes and goes while the steps run is there for all who name it.
bool memory_is_there(const Program& p, const std::vector<Uses>& uses) {
  const Order before(p);
  for (size_t s = 0; s < p.steps.size(); ++s) {
    const auto step = static_cast<int32_t>(s);
    for (const int32_t v : p.steps[s].inputs)
      if (v >= 0 && uses[v].writer >= 0 && p.values[v].base != Base::slab && !before(uses[v].writer, step))
        return false;
    for (const int32_t v : p.steps[s].extras->release_after) {
      for (size_t view = 0; view < p.values.size(); ++view) {
        if (static_cast<int32_t>(view) != v && p.values[view].root != v) continue;
        for (const int32_t r : uses[view].readers)
          if (r != step && !before(r, step)) return false;
      }
    }
  }
  return true;
}
// A step that reads what another lane makes, without the wait.
bool missing_wait(Program& p, Spoiler&, Random& rng) {
  const std::vector<Uses> uses = uses_of(p);
  const size_t n = p.steps.size(), start = static_cast<size_t>(rng.below(static_cast<int64_t>(n)));
  for (size_t i = 0; i < n; ++i) {
    const auto s = static_cast<int32_t>((start + i) % n);
    const auto waits = p.steps[s].extras->waits;
    if (waits.empty()) continue;
    p.steps[s].extras.write().waits.clear();
    const Order before(p);
    const bool misses = std::ranges::any_of(
        p.steps[s].inputs, [&](int32_t v) { return v >= 0 && uses[v].writer >= 0 && !before(uses[v].writer, s); });
    if (misses && memory_is_there(p, uses)) return true;
    p.steps[s].extras.write().waits = waits;
  }
  return false;
}
// A buffer of a size that only the run tells goes back while others still have to read it.
bool early_release(Program& p, Spoiler&, Random&) {
  const std::vector<Uses> uses = uses_of(p);
  const Order before(p);
  for (ProgramStep& step : p.steps) {
    for (size_t i = 0; i < step.extras->release_after.size(); ++i) {
      const int32_t v = step.extras->release_after[i];
      const Uses& u = uses[v];
      if (u.readers.size() < 2 || p.values[v].base != Base::side) continue;
      const int32_t first = u.readers.front();
      if (!std::ranges::all_of(u.readers, [&](int32_t r) { return r == first || before(first, r); })) continue;
      if (&p.steps[first] == &step) continue;
      auto& released = step.extras.write().release_after;
      released.erase(released.begin() + static_cast<std::ptrdiff_t>(i));
      p.steps[first].extras.write().release_after.push_back(v);
      return true;
    }
  }
  return false;
}

// A step that spoils something, where one fits.
bool spoil(const Program& p, Random& rng, Spoiler& spoiler, void (*act)(const RunCtx&),
           const std::function<bool(int32_t)>& fits) {
  const size_t n = p.steps.size(), start = static_cast<size_t>(rng.below(static_cast<int64_t>(n)));
  for (size_t i = 0; i < n; ++i) {
    const auto s = static_cast<int32_t>((start + i) % n);
    if (!p.steps[s].runnable || !fits(s)) continue;
    spoiler = {s, act};
    return true;
  }
  return false;
}
const ProgramValue* first(const Program& p, std::span<const int32_t> list) {
  return list.empty() || list[0] < 0 ? nullptr : &p.values[list[0]];
}
// A kernel that spoils what it reads.
bool spoilt_input(Program& p, Spoiler& spoiler, Random& rng) {
  const auto act = [](const RunCtx& c) {
    ++*static_cast<uint8_t*>(const_cast<void*>(static_cast<const void*>(c.in(0).data)));
  };
  return spoil(p, rng, spoiler, act, [&](int32_t s) {
    const ProgramValue *in = first(p, p.steps[s].inputs), *out = first(p, p.steps[s].outputs);
    return in && out && in->base == Base::slab && in->bytes > 0 && !meet(*in, *out) && out->base != Base::none;
  });
}
// Whether another step, in no order with this one, may write the byte: then nobody can tell who did.
bool others_may_write(const Program& p, const Order& before, int32_t step, int64_t byte) {
  const auto within = [&](int64_t offset, int64_t bytes) { return offset <= byte && byte < offset + bytes; };
  for (int32_t s = 0; s < static_cast<int32_t>(p.steps.size()); ++s) {
    if (s == step || before(s, step) || before(step, s)) continue;
    const ProgramStep& other = p.steps[s];
    for (const int32_t v : other.outputs)
      if (v >= 0 && p.values[v].base == Base::slab && within(p.values[v].offset, p.values[v].bytes)) return true;
    if (other.scratch_shared + other.scratch_per_worker > 0 || !other.extras->bodies.empty()) return true;
  }
  return false;
}
// A kernel that writes behind its output.
bool stray_write(Program& p, Spoiler& spoiler, Random& rng) {
  p.slab_bytes += 64;
  const Order before(p);
  const auto act = [](const RunCtx& c) {
    const Arg& y = c.out(0);
    ++static_cast<uint8_t*>(y.data)[storage_bytes(y.dtype, y.layout, y.dims()).value_or(0)];
  };
  return spoil(p, rng, spoiler, act, [&](int32_t s) {
    const ProgramStep& step = p.steps[s];
    const ProgramValue* out = first(p, step.outputs);
    return step.outputs.size() == 1 && out && out->base == Base::slab && out->bytes > 0 &&
           step.extras->bodies.empty() && step.scratch_shared + step.scratch_per_worker == 0 &&
           !others_may_write(p, before, s, out->offset + out->bytes);
  });
}
// A step that runs before what it reads is made.
bool swapped(Program& p, Spoiler&, Random& rng) {
  if (p.lanes > 1 || p.steps.size() < 2) return false;
  const std::vector<Uses> uses = uses_of(p);
  const size_t n = p.steps.size() - 1, start = static_cast<size_t>(rng.below(static_cast<int64_t>(n)));
  for (size_t i = 0; i < n; ++i) {
    const size_t s = (start + i) % n;
    const bool fed = std::ranges::any_of(p.steps[s + 1].inputs, [&](int32_t v) {
      return v >= 0 && uses[v].writer == static_cast<int32_t>(s) && p.values[v].base == Base::slab &&
             p.values[v].bytes > 0;
    });
    if (!fed || !p.steps[s].runnable || !p.steps[s + 1].runnable) continue;
    std::swap(p.steps[s], p.steps[s + 1]);
    if (memory_is_there(p, uses_of(p))) return true;
    std::swap(p.steps[s], p.steps[s + 1]);
  }
  return false;
}

// A shadow, and a step that spoils something just before the shadow looks.
class SpoiltRun final : public StepSink {
 public:
  SpoiltRun(const Program& program, Spoiler spoiler) : program_(program), spoiler_(spoiler) {}
  void on_run(const Program& program, int32_t depth, std::byte* slab) override { shadow.on_run(program, depth, slab); }
  void on_begin(const StepEvent& event) override { shadow.on_begin(event); }
  void on_step(const StepEvent& event) override {
    if (event.program == &program_ && event.step == spoiler_.step && event.ctx) spoiler_.act(*event.ctx);
    shadow.on_step(event);
  }
  ShadowSink shadow{std::byte{0x5a}};

 private:
  const Program& program_;
  const Spoiler spoiler_;
};

constexpr struct {
  const char* name;
  Fault seed;
} kFaults[] = {{"overlap", overlap},           {"missing wait", missing_wait}, {"early release", early_release},
               {"spoilt input", spoilt_input}, {"stray write", stray_write},   {"swapped", swapped}};

TEST_F(RandomGraphs, EachSeededFaultIsCaught) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends such programs before the shadow can speak";
#endif
  std::map<std::string, int> seeded;
  const uint64_t count = random_cases(200);
  for (uint64_t seed = first_case(); seed < count && !HasFailure(); ++seed) {
    const RandomGraph graph = random_graph(seed);
    SessionOptions options;
    options.optimization_level = OptimizationLevel::disabled;
    options.lanes = 1 + static_cast<int>(seed % 3);
    options.intra_op_threads = 2;
    const auto session = session_of(graph.text, options);
    ASSERT_TRUE(session);
    std::vector<Dims> dims;
    for (const Value& v : graph.inputs) dims.push_back(v.tensor().dims);
    const auto compiled = session->plan_for(dims);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    if ((*compiled)->steps.empty()) continue;  // the graph gives its inputs back
    for (const auto& fault : kFaults) {
      SCOPED_TRACE(absl::StrCat(fault.name, ", seed ", seed, "\n", graph.text));
      const auto program = std::make_shared<Program>(static_cast<const Program&>(**compiled));
      Random rng(seed);
      Spoiler spoiler;
      if (!fault.seed(*program, spoiler, rng)) continue;
      ++seeded[fault.name];
      // One thread goes through all lanes: what steps would do that meet by chance is not for a test to wait for.
      TestExecutor e(1);
      SpoiltRun sink(*program, spoiler);
      ExecOptions watched;
      watched.sink = &sink;
      std::vector<Value> outputs(program->outputs.size());
      const Status status = e.executor->run(program, graph.inputs, outputs, watched);
      EXPECT_TRUE(!sink.shadow.faults().empty() || !status.ok()) << text_of(*program);
    }
  }
  if (first_case() > 0) return;
  for (const auto& fault : kFaults) EXPECT_GT(seeded[fault.name], 5) << fault.name;
}

}  // namespace
}  // namespace forethought
