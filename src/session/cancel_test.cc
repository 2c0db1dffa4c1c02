// Every run is cancelled at every step: in one lane and more, on the host and beside a device, with bodies and with
// sizes that only the run tells. Every byte comes back, and the next run is right.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "session/session_testing.h"
#include "session/sim_provider_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

// Branches between two products, with views and a concatenation.
constexpr const char* kBranches = R"(graph(%x: f32[8,8]) {
  %t = MatMul(%x, %x) "t"
  %a1 = MatMul(%t, %x) "a1"
  %a2 = Softmax(%a1) "a2"
  %a3 = MatMul(%a2, %t) "a3"
  %b1 = Tanh(%t) "b1"
  %b2 = MatMul(%b1, %b1) "b2"
  %b3 = Transpose<perm=[1, 0]>(%b2) "b3"
  %c1 = Sigmoid(%x) "c1"
  %c2 = Reshape(%c1, [16, 4]) "c2"
  %c3 = Sigmoid(%c2) "c3"
  %c4 = Reshape(%c3, [8, 8]) "c4"
  %k = Concat<axis=1>(%a3, %b3, %c4) "k"
  %kt = Transpose<perm=[1, 0]>(%k) "kt"
  %y = MatMul(%k, %kt) "y"
  return %y, %b2
})";
// A loop beside a branch whose sizes only the run tells.
constexpr const char* kBodies = R"(graph(%x: f32[8,8]) {
  %r = Relu(%x) "r"
  %n = NonZero(%r) "n"
  %f = Cast<to=1>(%n) "f"
  %p = ReduceSum<keepdims=0>(%f) "p"
  %a = Neg(%x) "a"
  %s, %all = Loop(i64 5, bool true, %a; %x) "loop" {
    body: graph(%i: i64[], %c: bool[], %u: f32[8,8], %w: f32[8,8]) {
      %v = Add(%u, %w)
      %m = MatMul(%v, %w)
      %e = Tanh(%m)
      return %c, %e, %v
    }
  }
  %m = MatMul(%s, %r) "m"
  %q = Softmax(%m) "q"
  return %q, %p, %all
})";

struct Place {
  int lanes, device_lanes;  // of the host; of a device that takes half of the nodes, 0: none
};
constexpr Place kPlaces[] = {{1, 0}, {2, 0}, {4, 0}, {1, 1}, {1, 2}, {2, 1}, {2, 2}};

bool half(const Graph&, const GraphNode& n) { return hash_bytes(n.name.data(), n.name.size()) % 2 == 0; }

class Cancel : public testing::Test {
 protected:
  void load(const char* text, Place place) {
    SessionOptions options;
    options.lanes = place.lanes;
    options.intra_op_threads = 2;
    options.optimization_level = OptimizationLevel::disabled;
    options.validate_plans = true;
    if (place.device_lanes > 0) {
      device_ = SimDevice::make({.lanes = place.device_lanes}).value();
      provider_ = std::make_unique<SimProviderScope>("SimProvider", device_, half);
      options = with_provider("SimProvider", options);
    }
    session_ = session_of(text, options);
    ASSERT_TRUE(session_);
  }
  void unload() {
    session_.reset();
    provider_.reset();
    if (device_) {
      EXPECT_EQ(device_->allocator().statistics().live, 0);
    }
    device_.reset();
  }
  Status run(std::vector<Value>& outputs, const RunOptions& options = {}) {
    outputs.assign(session_->outputs().size(), Value());
    return session_->run_ordered(std::vector{random_floats({8, 8}, 3)}, outputs, options);
  }
  std::string run_bytes() {
    std::vector<Value> outputs;
    const Status status = run(outputs);
    EXPECT_TRUE(status.ok()) << status;
    std::string all;
    for (const Value& v : outputs)
      if (v.is_tensor()) all.append(v.tensor().as<char>(), static_cast<size_t>(v.tensor().bytes()));
    return all;
  }
  void expect_nothing_live(int64_t before) {
    EXPECT_EQ(live_bytes(*session_), before);
    if (!device_) return;
    EXPECT_EQ(device_->counts().kept_buffers, 0);
    EXPECT_EQ(device_->counts().freed_in_use, 0);
  }

  std::shared_ptr<SimDevice> device_;
  std::unique_ptr<SimProviderScope> provider_;
  std::unique_ptr<Session> session_;
};

TEST_F(Cancel, AfterAnyStepGivesEveryByteBack) {
  for (const char* text : {kBranches, kBodies}) {
    for (const Place place : kPlaces) {
      SCOPED_TRACE(absl::StrCat(place.lanes, " lanes, of a device ", place.device_lanes, "\n", text));
      load(text, place);
      if (!session_) return;
      const std::string want = run_bytes();
      const int64_t before = live_bytes(*session_);
      CancelAfter never(-1, CancelFlag());
      RunOptions all;
      all.sink = &never;
      std::vector<Value> outputs;
      ASSERT_TRUE(run(outputs, all).ok());
      if (place.device_lanes > 0) {
        EXPECT_GT(device_->counts().launches, 0);
      }
      EXPECT_GT(session_->summary().lanes, place.lanes > 1 || place.device_lanes > 0 ? 1 : 0);
      int cancelled = 0;
      for (int stop = 0; stop < never.seen; ++stop) {
        RunOptions options;
        CancelAfter sink(stop, options.cancel);
        options.sink = &sink;
        const Status status = run(outputs, options);
        EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << stop << ": " << status;
        if (!status.ok()) {
          ++cancelled;
          for (const Value& v : outputs) EXPECT_TRUE(v.is_none());
        }
        outputs.clear();
        expect_nothing_live(before);
        if (stop % 4 == 0) {
          EXPECT_EQ(run_bytes(), want) << stop;
        }
      }
      // Steps of other lanes may have been all that was left.
      EXPECT_GE(cancelled, never.seen - 2 * (place.lanes + place.device_lanes));
      EXPECT_EQ(run_bytes(), want);
      unload();
    }
  }
}

}  // namespace
}  // namespace forethought
