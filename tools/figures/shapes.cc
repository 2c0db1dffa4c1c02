// figure_shapes MODEL LENGTHS THREADS: runs a model at each length of a file, in order, and tells what a new shape
// costs and what is kept, as one line of JSON. A length stands for every symbol in the inputs' shapes but the first of
// rank 4 (a batch), which is 1.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "memory/memory_calls_testing.h"
#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

std::vector<int64_t> read_lengths(const char* path) {
  std::ifstream in(path);
  std::vector<int64_t> lengths;
  for (int64_t n = 0; in >> n;) lengths.push_back(n);
  return lengths;
}

Value input_of(const NodeArg& input, int64_t length) {
  Dims dims;
  for (size_t d = 0; d < input.shape.dims.size(); ++d) {
    const Dim& dim = input.shape.dims[d];
    const bool batch = d == 0 && input.shape.dims.size() == 4;
    dims.push_back(dim.is_known() ? dim.value() : batch ? 1 : length);
  }
  Tensor t = must(make_tensor(input.type.dtype(), dims));
  for (int64_t i = 0; i < t.elements(); ++i) {
    if (t.dtype == DType::kInt64) {
      t.as<int64_t>()[i] = i * 7 % 97;
    } else {
      t.as<float>()[i] = std::sin(static_cast<float>(i));
    }
  }
  return Value(std::move(t));
}

nlohmann::json quantiles(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const auto at = [&](double q) {
    return v.empty() ? 0.0 : v[static_cast<size_t>(q * static_cast<double>(v.size() - 1))];
  };
  return {{"p50", at(0.5)}, {"p99", at(0.99)}, {"max", at(1)}};
}

struct Looked {
  std::vector<double> planning_ms, planning_ms_per_1000, making_ms, first_ms, first_faults;
  std::set<int64_t> seen;
  int64_t largest_plan = 0, largest_outputs = 0, values = 0;
};

int64_t page_faults() {
  rusage u;
  getrusage(RUSAGE_SELF, &u);
  return u.ru_minflt;
}

constexpr size_t kTurns = 8;  // shapes that come by turns

double timed_run(Session& session, const std::vector<Value>& inputs, std::vector<Value>* outputs) {
  for (Value& v : *outputs) v = Value();
  const double start = now_ns();
  must(session.run_ordered(inputs, *outputs));
  return (now_ns() - start) / 1e6;
}

void look(Session& session, int64_t length, std::vector<Value>* outputs, Looked* l) {
  std::vector<Value> inputs;
  for (const NodeArg& a : session.inputs()) inputs.push_back(input_of(a, length));
  const SessionSummary before = session.summary();
  const int64_t faults = page_faults();
  const double ms = timed_run(session, inputs, outputs);
  const int64_t more_faults = page_faults() - faults;
  const SessionSummary after = session.summary();
  l->largest_plan = std::max(l->largest_plan, after.peak);
  int64_t bytes = 0;
  for (const Value& v : *outputs) bytes += v.is_tensor() ? v.tensor().bytes() : 0;
  l->largest_outputs = std::max(l->largest_outputs, bytes);
  if (!l->seen.insert(length).second) return;
  const double making = static_cast<double>(after.instances.making_ns - before.instances.making_ns) / 1e6;
  const double planning = static_cast<double>(after.plans.planning_ns - before.plans.planning_ns) / 1e6 - making;
  const int64_t values = after.plans.values - before.plans.values;
  l->first_ms.push_back(ms);
  l->first_faults.push_back(static_cast<double>(more_faults));
  l->making_ms.push_back(making);
  if (values == 0) return;  // planned before: what is bounded once is not planned again
  l->values = values;
  l->planning_ms.push_back(planning);
  l->planning_ms_per_1000.push_back(planning * 1000 / static_cast<double>(values));
}

int64_t kept(const Session& session) {
  const MemoryStatistics s = session.memory_statistics();
  return s.of(MemoryRole::planned).live + s.of(MemoryRole::planned).retained + s.of(MemoryRole::unplanned).live +
         s.of(MemoryRole::unplanned).retained;
}

// Heap and page calls of a run of a shape that has just been.
int64_t calls_of_repeat(Session& session, int64_t length) {
  std::vector<Value> inputs, outputs(session.outputs().size());
  for (const NodeArg& a : session.inputs()) inputs.push_back(input_of(a, length));
  for (int warm = 0; warm < 2; ++warm) timed_run(session, inputs, &outputs);
  MemoryCallRecorder recorder;
  recorder.start();
  timed_run(session, inputs, &outputs);
  recorder.stop();
  const MemoryCalls c = recorder.ours();
  return c.allocations + c.maps;
}

// The same of the last `count` lengths by turns, each seen count - 1 others ago: of one round, after a few.
int64_t calls_of_turns(Session& session, const std::vector<int64_t>& lengths, size_t count) {
  std::vector<std::vector<Value>> inputs;
  std::set<int64_t> taken;
  for (size_t i = lengths.size(); i-- > 0 && taken.size() < count;) {
    if (!taken.insert(lengths[i]).second) continue;
    inputs.emplace_back();
    for (const NodeArg& a : session.inputs()) inputs.back().push_back(input_of(a, lengths[i]));
  }
  std::vector<Value> outputs(session.outputs().size());
  MemoryCallRecorder recorder;
  for (int round = 0; round < 5; ++round) {
    if (round == 4) recorder.start();
    for (const std::vector<Value>& in : inputs) timed_run(session, in, &outputs);
  }
  recorder.stop();
  const MemoryCalls c = recorder.ours();
  return c.allocations + c.maps;
}

int run(const std::string& model, const char* lengths_file, int threads) {
  SessionOptions options;
  options.intra_op_threads = threads;
  auto session = must(Session::load(model, options));
  const std::vector<int64_t> lengths = read_lengths(lengths_file);
  std::vector<Value> outputs(session->outputs().size());
  Looked l;
  const size_t warm = lengths.size() / 5;
  int64_t after_warm_up = 0, largest_at_warm_up = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    look(*session, lengths[i], &outputs, &l);
    if (i == warm) after_warm_up = kept(*session), largest_at_warm_up = l.largest_plan;
  }
  const SessionSummary s = session->summary();
  for (Value& v : outputs) v = Value();
  nlohmann::json j = {
      {"lengths", lengths.size()},
      {"different", l.seen.size()},
      {"values", l.values},
      {"kept", kept(*session)},
      {"kept after warm-up", after_warm_up},
      {"kept by the I/O arena", session->memory_statistics().of(MemoryRole::leased).retained},
      {"largest outputs", l.largest_outputs},
      {"largest plan", l.largest_plan},
      {"largest plan at warm-up", largest_at_warm_up},
      {"planning ms", quantiles(l.planning_ms)},
      {"planning ms per 1000 values", quantiles(l.planning_ms_per_1000)},
      {"instances ms", quantiles(l.making_ms)},
      {"first run ms", quantiles(l.first_ms)},
      {"first run page faults", quantiles(l.first_faults)},
      {"plans",
       {{"hits", s.plans.hits},
        {"misses", s.plans.misses},
        {"evicted", s.plans.evicted},
        {"sized by formula", s.plans.by_formula},
        {"placed by order", s.plans.by_order}}},
      {"steps",
       {{"planned", s.plans.steps}, {"kept but for dims", s.plans.steps_kept}, {"as others", s.plans.steps_as_others}}},
      {"formulas refused", s.formulas_refused},
      {"instances",
       {{"kept", s.instances.size},
        {"bytes", s.instances.bytes},
        {"made", s.instances.misses},
        {"evicted", s.instances.evicted}}},
      {"calls of a repeated shape", calls_of_repeat(*session, lengths.back())},
      {"calls of shapes by turns", calls_of_turns(*session, lengths, kTurns)},
  };
  fmt::print("{}\n", j.dump());
  return 0;
}

}  // namespace
}  // namespace forethought

int main(int argc, char** argv) {
  if (argc != 4) return fmt::print(stderr, "figure_shapes MODEL LENGTHS THREADS\n"), 2;
  return forethought::run(argv[1], argv[2], std::atoi(argv[3]));
}
