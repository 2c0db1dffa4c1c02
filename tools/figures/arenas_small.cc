// Checks of routing, caps and statistics on graphs of a few nodes.
#include <fmt/format.h>

#include <random>

#include "graph/text.h"
#include "memory/memory_calls_testing.h"
#include "session/compile.h"
#include "tools/figures/arenas.h"
#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

// Rows of 64; inner values of several times the size of the output.
constexpr const char* kNet = R"(graph(%x: f32[N,64]) {
  %a = Softmax(%x)
  %b = Concat<axis=1>(%a, %x, %a, %x)
  %c = Softmax(%b)
  %d = Transpose<perm=[1,0]>(%c)
  %e = Softmax(%d)
  %y = ReduceSum<keepdims=0>(%e, [0])
  return %y
})";

// A node of whose two outputs one is the graph's and one is not, in either order; Softmax beside it wants scratch.
std::string mixed(bool first) {
  return fmt::format(R"(graph(%x: f32[8,64]) {{
  %s = Softmax<axis=0>(%x)
  %u, %v = Split<axis=1,num_outputs=2>(%s)
  %n = Exp(%{})
  %t = ReduceSum<keepdims=0>(%n, [1])
  return %{}, %t
}})",
                     first ? "v" : "u", first ? "u" : "v");
}

std::unique_ptr<Session> session_of(const std::string& text, SessionOptions options) {
  options.intra_op_threads = 1;
  return must(Session::from_graph(must(graph_from_text(text)), options));
}

Value rows(int64_t n) {
  Tensor t = must(make_tensor(DType::kFloat, Dims{n, 64}));
  for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = static_cast<float>(i % 97) / 97;
  return t;
}

// Check 17.
nlohmann::json check_mixed() {
  bool placed = true;
  int64_t copies = 0, execution_bytes = 0;
  for (const bool first : {true, false}) {
    auto execution = std::make_shared<CountingSource>(0xff), io = std::make_shared<CountingSource>(0xff);
    SessionOptions options;
    options.execution_source = execution;
    options.io_source = io;
    const auto session = session_of(mixed(first), options);
    const std::vector<Value> outputs = must(run_once(*session, {rows(8)}));
    for (const Value& v : outputs) placed = placed && io->holds(v.tensor().data) && !execution->holds(v.tensor().data);
    const auto program = must(session->plan_for(std::vector<Dims>{{8, 64}}));
    copies += static_cast<int64_t>(program->copies.size());
    execution_bytes += execution->bytes();
  }
  return {{"outputs in the I/O arena", placed}, {"migrations", copies}, {"execution arena bytes", execution_bytes}};
}

// Check 18.
nlohmann::json check_bursts() {
  const auto session = session_of(kNet, {});
  const auto retained = [&](MemoryRole role) { return session->memory_statistics().of(role).retained; };
  must(run_once(*session, {rows(100)}));
  must(run_once(*session, {rows(100)}));
  const int64_t execution_before = retained(MemoryRole::planned);
  std::vector<std::vector<Value>> kept;
  for (int run = 0; run < 1000; ++run) kept.push_back(must(run_once(*session, {rows(100)})));
  const int64_t execution_during = retained(MemoryRole::planned),
                leased = session->memory_statistics().of(MemoryRole::leased).live;
  kept.clear();
  const int64_t execution_after = retained(MemoryRole::planned);
  const int64_t io_before = retained(MemoryRole::leased);
  Tensor bound = must(make_tensor(DType::kFloat, Dims{4000}));
  std::vector<Value> outputs = {bound};
  const std::vector<Value> wide = {rows(4000)};
  must(session->run_ordered(wide, outputs));  // planned memory of 40 times the size, no output buffer
  const int64_t spike = retained(MemoryRole::planned);
  const int64_t io_after = retained(MemoryRole::leased);
  return {{"outputs kept", 1000},
          {"their bytes", leased},
          {"execution retained unchanged", execution_before == execution_during && execution_before == execution_after},
          {"spike bytes", spike},
          {"I/O retained unchanged", io_before == io_after}};
}

// Check 19: caps evict at once, what is out stays, trim tells what went.
nlohmann::json check_caps() {
  const auto session = session_of(kNet, {});
  std::vector<Value> held = must(run_once(*session, {rows(1000)}));
  must(run_once(*session, {rows(1000)}));
  must(run_once(*session, {rows(300)}));
  const MemoryStatistics before = session->memory_statistics();
  const int64_t half = session->trim(before.retained / 2);
  const MemoryStatistics middle = session->memory_statistics();
  const int64_t rest = session->trim(0);
  const MemoryStatistics after = session->memory_statistics();
  const bool told = half == before.retained - middle.retained && rest == middle.retained - after.retained;
  const bool live_stays = before.live == after.live && held[0].tensor().elements() == 1000;
  must(run_once(*session, {rows(1000)}));
  must(session->set_retention({0, 0, 0}));
  return {{"trim tells what went", told},
          {"down to the target", middle.retained <= before.retained / 2},
          {"trimmed bytes", half + rest},
          {"retained after trim", after.retained},
          {"live stays", live_stays},
          {"retained after caps of 0", session->memory_statistics().of(MemoryRole::planned).retained}};
}

// Check 20: a random script; at every step the counts add up to what the memory room holds of the system.
nlohmann::json check_sums() {
  constexpr int kSteps = 10000;
  const int64_t others = obtained_bytes();
  int wrong = 0, peaks_below = 0;
  int64_t largest = 0;
  {
    const auto session = session_of(kNet, {});
    std::mt19937 random(20);
    std::vector<std::vector<Value>> kept;
    for (int step = 0; step < kSteps; ++step) {
      switch (random() % 8) {
        case 0:
          session->trim(static_cast<int64_t>(random() % 300000));
          break;
        case 1:
          must(session->set_retention({random() % 2 ? kRetainPlanned : static_cast<int64_t>(random() % 200000),
                                       random() % 2 ? kRetainPlanned : static_cast<int64_t>(random() % 200000),
                                       kRetainPlanned}));
          break;
        case 2:
        case 3:
          if (!kept.empty()) {
            std::swap(kept[random() % kept.size()], kept.back());
            kept.pop_back();
          }
          break;
        default:
          kept.push_back(must(run_once(*session, {rows(1 + static_cast<int64_t>(random() % 400))})));
          if (kept.size() > 60) kept.erase(kept.begin());
      }
      const MemoryStatistics s = session->memory_statistics();
      const bool sums = s.live + s.retained + s.padding == s.mapped && s.mapped == obtained_bytes() - others;
      wrong += !sums;
      peaks_below += s.peak < s.mapped;
      largest = std::max(largest, s.mapped);
    }
  }
  return {{"steps", kSteps},
          {"steps whose counts do not add up", wrong},
          {"steps with a peak below", peaks_below},
          {"most mapped", largest},
          {"left after the session", obtained_bytes() - others}};
}

// Check 22.
nlohmann::json check_control() {
  const auto session = session_of(R"(graph(%x: f32[64,64], %m: i64[], %c: bool[]) {
  %s = Loop(%m, bool true, %x; %x) {
    body: graph(%i: i64[], %k: bool[], %s: f32[64,64], %o: f32[64,64]) {
      %t = Add(%s, %o)
      %u = Mul(%t, 0.5)
      return %k, %u
    }
  }
  %y = If(%c; %s) {
    then_branch: graph(%p: f32[64,64]) { %q = Neg(%p) return %q }
    else_branch: graph(%p: f32[64,64]) { %q = Exp(%p) return %q }
  }
  return %y
})",
                                  {});
  const auto inputs = [&](int64_t trips, bool then) {
    return std::vector<Value>{rows(64), tensor_of<int64_t>({}, {trips}), tensor_of<bool>({}, {then})};
  };
  for (const bool then : {true, false}) must(run_once(*session, inputs(2, then)));
  const int64_t mapped = session->memory_statistics().mapped;
  MemoryCallRecorder recorder;
  std::vector<Value> outputs(1);
  const std::vector<Value> in = inputs(1000, true), out = inputs(1000, false);
  must(session->run_ordered(in, outputs));
  outputs[0] = Value();
  recorder.start();
  const Status first = session->run_ordered(in, outputs);
  outputs[0] = Value();
  const Status second = session->run_ordered(out, outputs);
  recorder.stop();
  must(first);
  must(second);
  const MemoryCalls calls = recorder.ours();
  return {{"trips", 1000},
          {"heap and map calls", calls.allocations + calls.frees + calls.maps + calls.unmaps},
          {"bytes mapped after trip 2", session->memory_statistics().mapped - mapped}};
}

}  // namespace

nlohmann::json check_small() {
  return {{"17", check_mixed()},
          {"18", check_bursts()},
          {"19", check_caps()},
          {"20", check_sums()},
          {"22", check_control()}};
}

}  // namespace forethought
