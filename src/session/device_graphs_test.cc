// Random graphs split between the CPU and one or two simulated devices, with delays: the bits of the CPU alone.
// FORETHOUGHT_RANDOM_GRAPHS asks for more of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "plan/random_problem_for_tests.h"
#include "session/random_graph_testing.h"
#include "session/session_testing.h"
#include "session/sim_provider_testing.h"

namespace forethought {
namespace {

TEST(DeviceGraphs, Check28_RandomGraphsWithDelaysGiveTheBitsOfTheCpu) {
  const int count = static_cast<int>(random_cases(200));
  int64_t launches = 0, copies = 0, edges = 0, waits = 0, views = 0;
  for (int seed = 0; seed < count; ++seed) {
    const auto [text, in] = random_graph(static_cast<uint64_t>(seed) + 50'000);
    SessionOptions plain;
    plain.optimization_level = OptimizationLevel::disabled;
    plain.validate_plans = true;
    auto cpu = session_of(text, plain);
    ASSERT_TRUE(cpu) << "seed " << seed << "\n" << text;
    std::vector<Value> out(cpu->outputs().size());
    ASSERT_TRUE(cpu->run_ordered(in, out).ok()) << seed;
    const auto want = bytes_of(out);

    SimDeviceOptions first{.index = 1, .lanes = 1 + seed % 2, .max_delay_us = seed % 3 ? 60 : 0};
    first.seed = static_cast<uint32_t>(seed);
    first.waits_for_other_devices = first.copies_from_other_devices = seed % 4 == 0;
    SimDeviceOptions second = first;
    second.index = 2;
    auto one = SimDevice::make(first).value(), two = SimDevice::make(second).value();
    {
      SimProviderScope provider_one("OneProvider", one, some_nodes(static_cast<uint64_t>(seed), 30 + seed % 60));
      SimProviderScope provider_two("TwoProvider", two, some_nodes(static_cast<uint64_t>(seed) + 99, 50));
      SessionOptions options = seed % 5 == 0 ? with_provider("TwoProvider", plain) : plain;
      options.intra_op_threads = 1 + seed % 2;
      options = with_provider("OneProvider", options);
      auto split = session_of(text, options);
      ASSERT_TRUE(split) << "seed " << seed << "\n" << text;
      std::vector<Dims> dims;
      for (const Value& v : in) dims.push_back(v.tensor().dims);
      const auto program = split->plan_for(dims);
      ASSERT_TRUE(program.ok()) << program.status();
      edges += (*program)->waits.edges;
      waits += (*program)->waits.waits;
      views += std::ranges::count((*program)->plan.aliases, 1);
      for (int round = 0; round < 3; ++round) {
        std::vector<Value> got(out.size());
        const Status status = split->run_ordered(in, got);
        ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status << "\n" << text;
        ASSERT_EQ(bytes_of(got), want) << "seed " << seed << " round " << round << "\n" << text;
      }
      // In the middle of a run, the device fails or the run is cancelled; the next run is right.
      RunOptions cancel;
      std::atomic<int> pieces{0};
      if (seed % 2) {
        one->fail_work(1 + seed % 7);
      } else {
        one->on_work([&](int64_t) {
          if (++pieces == 1 + seed % 7) cancel.cancel.cancel();
        });
      }
      std::vector<Value> got(out.size());
      split->run_ordered(in, got, cancel).IgnoreError();
      one->fail_work(0);
      one->on_work({});
      got.assign(out.size(), Value());
      const Status status = split->run_ordered(in, got);
      ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status;
      ASSERT_EQ(bytes_of(got), want) << "seed " << seed << " after a run that ended early\n" << text;
    }
    for (const auto& d : {one, two}) {
      launches += d->counts().launches;
      copies += d->counts().copies;
      EXPECT_EQ(d->counts().freed_in_use, 0) << seed;
      EXPECT_EQ(d->allocator().statistics().live, 0) << seed;
    }
  }
  EXPECT_GT(launches, count);
  EXPECT_GT(copies, count);
  EXPECT_GT(views, 0);
  EXPECT_LT(waits, edges);
}

}  // namespace
}  // namespace forethought
