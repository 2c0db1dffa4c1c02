// figure_lanes FOLDER BLOCKS RUNS: time, processor time and memory of runs in one lane, in two that were asked for, and
// in as many as the cost model takes, by turns: RUNS of each a block.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

double processor_ns() {
  rusage u;
  getrusage(RUSAGE_SELF, &u);
  const auto ns = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_usec) * 1e3;
  };
  return ns(u.ru_utime) + ns(u.ru_stime);
}

struct Way {
  const char* name;
  int lanes;
  LoadedModel model;
  std::vector<double> ns, cpu_ns;  // by block: of the fastest run, and of all its runs, each
};

int lanes(const std::string& folder, int blocks, int runs) {
  std::vector<Way> ways;
  for (const auto& [name, count] : {std::pair("one", 1), std::pair("two", 2), std::pair("auto", 0)}) {
    SessionOptions options;
    options.lanes = count;
    ways.push_back({name, count, must(load_folder(folder, options)), {}, {}});
  }
  const std::vector<Value> expected = must(run_once(*ways[0].model.session, ways[0].model.inputs));
  std::vector<Value> outputs(expected.size());
  bool equal = true;
  for (int b = 0; b <= blocks; ++b) {
    for (size_t w = 0; w < ways.size(); ++w) {
      Way& way = ways[(w + static_cast<size_t>(b)) % ways.size()];
      double least = 1e300;
      const double cpu = processor_ns();
      for (int r = 0; r < runs; ++r) {
        for (Value& v : outputs) v = Value();
        const double start = now_ns();
        must(way.model.session->run_ordered(way.model.inputs, outputs));
        least = std::min(least, now_ns() - start);
      }
      equal = equal && same_bits(outputs, expected);
      if (b == 0) continue;  // the first block warms up
      way.ns.push_back(least);
      way.cpu_ns.push_back((processor_ns() - cpu) / runs);
    }
  }
  nlohmann::json j = {{"equal", equal}};
  for (const Way& way : ways) {
    const SessionSummary s = way.model.session->summary();
    j[way.name] = {{"lanes", s.lanes},      {"reason", s.lanes_reason}, {"waits", s.waits},
                   {"edges", s.wait_edges}, {"peak", s.peak},           {"ns", way.ns},
                   {"cpu ns", way.cpu_ns}};
  }
  fmt::print("{}\n", j.dump());
  return 0;
}

}  // namespace
}  // namespace forethought

int main(int argc, char** argv) {
  if (argc != 4) return fmt::print(stderr, "figure_lanes FOLDER BLOCKS RUNS\n"), 2;
  return forethought::lanes(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
}
