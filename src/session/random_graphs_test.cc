// Random graphs with control flow and sizes that only the data tells, on the host and on simulated devices, in one to
// four lanes, with delays: validator, shadow and results agree, and each fault seeded into their programs is caught.
// FORETHOUGHT_RANDOM_GRAPHS asks for more of them, FORETHOUGHT_RANDOM_FIRST leaves out those before a seed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "device/lanes.h"
#include "exec/program_builder_for_tests.h"
#include "exec/shadow.h"
#include "graph/text.h"
#include "memory/slab.h"
#include "plan/random_problem_for_tests.h"
#include "session/random_graph_testing.h"
#include "session/session_testing.h"
#include "session/sim_provider_testing.h"

namespace forethought {
namespace {

constexpr int64_t kGreatestBlock = 1 << 10;  // of a device: less than many slabs, enough for every value

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

// How a graph is run: each option drawn by itself, so that all come together with all others.
struct Draw {
  explicit Draw(uint64_t seed) : rng(seed + 0x5eed'0000) {
    for (int64_t d = rng.below(3); d > 0; --d) device_lanes.push_back(1 + static_cast<int>(rng.below(2)));
    lanes = 1 + static_cast<int>(rng.below(4));
    threads = 1 + static_cast<int>(rng.below(3));
    constexpr OptimizationLevel kLevels[] = {OptimizationLevel::disabled, OptimizationLevel::basic,
                                             OptimizationLevel::extended, OptimizationLevel::all};
    level = kLevels[rng.below(4)];
    plan = rng.one_in(8) ? PlanMode::off : PlanMode::packed;
    share = !rng.one_in(5);
    delays = rng.one_in(2);
    events = rng.one_in(2);
    wide = !rng.one_in(3);
    percent = rng.one_in(2) ? 5 + static_cast<int>(rng.below(15)) : 20 + static_cast<int>(rng.below(70));
    fails = 1 + rng.below(7);
    regions = rng.one_in(3);
    if (plan == PlanMode::packed && rng.one_in(6)) plan = PlanMode::slots;
  }
  bool two_device_lanes() const { return std::ranges::count(device_lanes, 2) > 0; }
  std::string text() const {
    return fmt::format(
        "{} lanes, {} threads, level {}, plan {}, share {}, device lanes [{}], delays {}, events {}, regions {}, {} %",
        lanes, threads, static_cast<int>(level), name(plan), share, fmt::join(device_lanes, " "), delays, events,
        regions, percent);
  }

  Random rng;
  std::vector<int> device_lanes;  // by device
  int lanes = 1, threads = 1, percent = 0;
  OptimizationLevel level{};
  PlanMode plan{};
  bool wide = false, share = true, delays = false, events = false;
  bool regions = false;  // no device gives a block that would hold a whole slab
  int64_t fails = 0;     // which piece of a device's work
};

// The devices of a draw, with a provider for each.
class Devices {
 public:
  Devices(const Draw& draw, uint64_t seed) {
    for (size_t d = 0; d < draw.device_lanes.size(); ++d) {
      SimDeviceOptions o{.index = static_cast<uint16_t>(d + 1), .lanes = draw.device_lanes[d]};
      o.max_delay_us = draw.delays ? 60 : 0;
      o.seed = static_cast<uint32_t>(seed);
      o.waits_for_other_devices = o.copies_from_other_devices = draw.events;
      o.greatest_block = draw.regions ? kGreatestBlock : 0;
      all.push_back(SimDevice::make(o).value());
      names_.push_back(absl::StrCat("Provider", d));
      providers_.push_back(
          std::make_unique<SimProviderScope>(names_.back(), all.back(), some_nodes(seed + 99 * d, draw.percent)));
    }
  }
  SessionOptions with(SessionOptions options) const {
    for (const std::string& name : names_) options = with_provider(name, options);
    return options;
  }
  std::vector<std::shared_ptr<SimDevice>> all;

 private:
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<SimProviderScope>> providers_;
};

// The draw of a seed; without regions where some value is larger than one.
Draw drawn(uint64_t seed) {
  Draw draw(seed);
  if (!draw.regions || draw.device_lanes.empty()) return draw;
  const Devices devices(draw, seed);
  for (const OptimizationLevel level : {draw.level, OptimizationLevel::disabled}) {
    SessionOptions options = devices.with(plain(level));
    options.intra_op_threads = 3;  // each takes scratch
    auto graph = graph_from_text(random_graph(seed, draw.wide).text).value();
    draw.regions = draw.regions && Session::from_graph(std::move(graph), options).ok();
  }
  return draw;
}

// What the graphs of a test had between them.
struct Seen {
  int64_t lanes[5] = {}, waits = 0, dynamic = 0, bodies = 0, views = 0, strided = 0, overwrites = 0, launches = 0;
  int64_t device_regions = 0, slots = 0;
  // By lanes of the host, devices, whether one has two lanes, delays: of programs that have so many lanes.
  std::map<std::array<int, 4>, int64_t> together;
  void add(const CompiledProgram& p, const Draw& draw) {
    waits += p.waits.waits;
    views += std::ranges::count(p.plan.aliases, 1);
    for (const ProgramValue& v : p.values) strided += !v.strides.empty();
    slots += p.plan.slots > 1;
    for (const SlabFigures& f : p.plan.devices) device_regions += f.regions() > 1;
    for (const ValuePlace& v : p.plan.values) overwrites += v.overwrites != kNoId;
    for (const ProgramStep& step : p.steps) {
      dynamic += !step.runnable;
      bodies += static_cast<int64_t>(step.extras->bodies.size());
    }
    const int host_lanes = std::min(p.host_lanes.lanes, 4);
    ++lanes[host_lanes];
    ++together[{host_lanes, static_cast<int>(draw.device_lanes.size()), draw.two_device_lanes(), draw.delays}];
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
  // Runs of a graph planned in lanes, on devices too, as it is drawn.
  void check(uint64_t seed) {
    const Draw draw = drawn(seed);
    const RandomGraph graph = random_graph(seed, draw.wide);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", draw.text(), "\n", graph.text));
    const Devices devices(draw, seed);
    // A device runs the same kernels as the host only where none were packed or merged; else the devices, one step
    // after the other, say what is right.
    const bool by_host = devices.all.empty() || draw.level == OptimizationLevel::disabled;
    auto reference = session_of(graph.text, by_host ? plain(draw.level) : devices.with(plain(draw.level)));
    ASSERT_TRUE(reference);
    const auto want = run(*reference, graph.inputs);
    ASSERT_TRUE(want);
    reference.reset();

    SessionOptions options;
    options.optimization_level = draw.level;
    options.lanes = draw.lanes;
    options.intra_op_threads = draw.threads;
    options.plan = draw.plan;
    options.share = draw.share;
    options.validate_plans = true;
    options = devices.with(options);
    {
      const auto session = session_of(graph.text, options);
      ASSERT_TRUE(session);
      std::vector<Dims> dims;
      for (const Value& v : graph.inputs) dims.push_back(v.tensor().dims);
      const auto program = session->plan_for(dims);
      ASSERT_TRUE(program.ok()) << program.status();
      seen_.add(**program, draw);
      const int64_t live_at_load = live_bytes(*session);
      EXPECT_EQ(run(*session, graph.inputs), want) << "not watched";
      for (const auto poison : {std::byte{0xff}, std::byte{0x5a}}) {
        ShadowSink shadow(poison);
        RunOptions watched;
        watched.sink = &shadow;
        EXPECT_EQ(run(*session, graph.inputs, watched), want) << "watched";
        EXPECT_TRUE(shadow.faults().empty()) << shadow.faults().front() << "\n" << text_of(**program);
      }
      for (const auto& d : devices.all) d->fail_work(draw.fails);
      for (const auto& d : devices.all) {
        std::vector<Value> outputs(session->outputs().size());
        session->run_ordered(graph.inputs, outputs).IgnoreError();
        d->fail_work(0);
      }
      if (!devices.all.empty()) {
        EXPECT_EQ(run(*session, graph.inputs), want) << "after a run that failed";
      }
      EXPECT_EQ(live_bytes(*session), live_at_load) << "constants only";
    }
    for (const auto& d : devices.all) {
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
  if (first_case() > 0 || HasFailure()) return;
  for (int lanes = 1; lanes <= 4; ++lanes) EXPECT_GT(seen_.lanes[lanes], 0) << lanes;
  // No device; one or two devices, with and without two lanes; each with and without delays, in one to four lanes.
  EXPECT_GE(seen_.together.size(), count < 4000 ? 36u : 40u);
  for (const int64_t some : {seen_.waits, seen_.dynamic, seen_.bodies, seen_.views, seen_.overwrites, seen_.launches})
    EXPECT_GT(some, 50);
  EXPECT_GT(seen_.strided, 20);
  for (const int64_t some : {seen_.slots, seen_.device_regions}) EXPECT_GT(some, 3);
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

bool on_host(const Program& p, int32_t step) {
  const auto lane = static_cast<size_t>(p.steps[step].lane);
  return lane >= p.lane_device.size() || p.lane_device[lane] < 0;
}

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
  return a.base == Base::slab && b.base == Base::slab && a.device == b.device && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
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
  for (int tries = 0; tries < 400; ++tries) {
    const auto n = static_cast<int64_t>(p.values.size());
    const auto victim = static_cast<size_t>(rng.below(n)), mover = static_cast<size_t>(rng.below(n));
    if (victim == mover || !alone(p, uses, victim) || !alone(p, uses, mover)) continue;
    const int32_t device = p.values[victim].device;
    const int64_t room = device < 0 ? p.slab_bytes : p.device_slab_bytes[static_cast<size_t>(device)];
    if (p.values[mover].device != device || p.values[victim].offset + p.values[mover].bytes > room) continue;
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
      if (!std::ranges::all_of(u.readers, [&](int32_t r) { return on_host(p, r); }))
        continue;  // the host's may be gone
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
    if (!p.steps[s].runnable || !on_host(p, s) || !fits(s)) continue;
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
    return in && out && in->base == Base::slab && in->device < 0 && in->bytes > 0 && !meet(*in, *out) &&
           out->base != Base::none;
  });
}
// Whether another step, in no order with this one, may write the byte: then nobody can tell who did.
bool others_may_write(const Program& p, const Order& before, int32_t step, int64_t byte) {
  const auto within = [&](int64_t offset, int64_t bytes) { return offset <= byte && byte < offset + bytes; };
  for (int32_t s = 0; s < static_cast<int32_t>(p.steps.size()); ++s) {
    if (s == step || before(s, step) || before(step, s)) continue;
    const ProgramStep& other = p.steps[s];
    for (const int32_t v : other.outputs)
      if (v >= 0 && p.values[v].base == Base::slab && p.values[v].device < 0 &&
          within(p.values[v].offset, p.values[v].bytes))
        return true;
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
    return step.outputs.size() == 1 && out && out->base == Base::slab && out->device < 0 && out->bytes > 0 &&
           out->strides.empty() && step.extras->bodies.empty() && step.scratch_shared + step.scratch_per_worker == 0 &&
           !others_may_write(p, before, s, out->offset + out->bytes);
  });
}
// A step that runs before what it reads is made.
bool swapped(Program& p, Spoiler&, Random& rng) {
  if (p.steps.size() < 2) return false;
  const std::vector<Uses> uses = uses_of(p);
  const size_t n = p.steps.size() - 1, start = static_cast<size_t>(rng.below(static_cast<int64_t>(n)));
  for (size_t i = 0; i < n; ++i) {
    const size_t s = (start + i) % n;
    const bool fed = std::ranges::any_of(p.steps[s + 1].inputs, [&](int32_t v) {
      return v >= 0 && uses[v].writer == static_cast<int32_t>(s) && p.values[v].base == Base::slab &&
             p.values[v].bytes > 0;
    });
    if (!fed || !p.steps[s].runnable || !p.steps[s + 1].runnable || p.steps[s].lane != p.steps[s + 1].lane) continue;
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
  void on_run(const Program& program, int32_t depth, const SlabPlace& slab) override {
    shadow.on_run(program, depth, slab);
  }
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

// An executor with lanes on the devices of a session.
struct FaultyRun : TestExecutor {
  explicit FaultyRun(const Session& session) : TestExecutor(1) {
    ExecEnvironment environment{&pool, io.get(), side.get(), budget, {}};
    for (size_t d = 0; d < session.devices().drivers().size(); ++d) {
      lanes.push_back(make_stream_lanes(session.devices().use(d)));
      environment.devices.push_back(lanes.back().get());
    }
    executor = std::make_unique<Executor>(std::move(environment));
  }
  ~FaultyRun() { executor.reset(); }
  std::vector<std::shared_ptr<StreamLanes>> lanes;
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
  std::map<std::pair<std::string, bool>, int> seeded;  // by fault, and whether there are devices
  std::map<std::string, int> in_lanes;                 // of devices and several host lanes together
  const uint64_t count = random_cases(250);
  for (uint64_t seed = first_case(); seed < count && !HasFailure(); ++seed) {
    const Draw draw = drawn(seed);
    const RandomGraph graph = random_graph(seed, draw.wide);
    const Devices devices(draw, seed);
    SessionOptions options;
    options.optimization_level = OptimizationLevel::disabled;
    options.lanes = draw.lanes;
    options.intra_op_threads = 2;
    const auto session = session_of(graph.text, devices.with(options));
    ASSERT_TRUE(session);
    std::vector<Dims> dims;
    for (const Value& v : graph.inputs) dims.push_back(v.tensor().dims);
    const auto compiled = session->plan_for(dims);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    if ((*compiled)->steps.empty()) continue;  // the graph gives its inputs back
    const bool on_devices = !(*compiled)->lane_device.empty() && (*compiled)->lane_device.back() >= 0;
    for (const auto& fault : kFaults) {
      SCOPED_TRACE(absl::StrCat(fault.name, ", seed ", seed, ": ", draw.text(), "\n", graph.text));
      const auto program = std::make_shared<Program>(static_cast<const Program&>(**compiled));
      Random rng(seed);
      Spoiler spoiler;
      if (!fault.seed(*program, spoiler, rng)) continue;
      ++seeded[{fault.name, on_devices}];
      in_lanes[fault.name] += on_devices && (*compiled)->host_lanes.lanes > 1;
      // One thread goes through the host's lanes: what steps would do that meet by chance is not for a test to wait
      // for.
      FaultyRun e(*session);
      SpoiltRun sink(*program, spoiler);
      ExecOptions watched;
      watched.sink = &sink;
      std::vector<Value> outputs(program->outputs.size());
      const Status status = e.executor->run(program, graph.inputs, outputs, watched);
      EXPECT_TRUE(!sink.shadow.faults().empty() || !status.ok()) << text_of(*program);
    }
  }
  if (first_case() > 0 || HasFailure()) return;
  for (const auto& fault : kFaults) {
    EXPECT_GT((seeded[{fault.name, false}]), 2) << fault.name;
    EXPECT_GT((seeded[{fault.name, true}]), 2) << fault.name << " with devices";
    EXPECT_GT(in_lanes[fault.name], 0) << fault.name << " with devices and lanes";
  }
}

}  // namespace
}  // namespace forethought
