// Each operator new of ours fails once, while a session with a simulated device loads, runs and goes: an error or
// success, the session works afterwards, and no byte of the device is left.
#include <gtest/gtest.h>

#include <new>
#include <string>

#include "graph/text.h"
#include "memory/memory_calls_testing.h"
#include "session/session_testing.h"
#include "session/sim_provider_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

// Two products with a bias, a branch on the host, and a copy each way.
constexpr const char* kNet = R"(graph(%x: f32[8,16]) {
  %w: f32[16,16] = Expand(0.125, [16, 16])
  %a = MatMul(%x, %w) "/first"
  %b = Relu(%a) "/relu"
  %h = Softmax(%a) "/host"
  %c = MatMul(%b, %w) "/second"
  %y = Add(%c, %h) "/sum"
  return %y
})";
const Dims kDims = {8, 16};

bool on_device(const Graph&, const GraphNode& n) { return n.name != "/host"; }

class DeviceAllocations : public testing::TestWithParam<int> {
 protected:
  DeviceAllocations() {
    SimDeviceOptions o{.index = 5, .greatest_block = 4096, .lanes = GetParam()};
    device_ = SimDevice::make(o).value();
    scope_ = std::make_unique<SimProviderScope>("Failing", device_, on_device);
  }
  static SessionOptions options() {
    SessionOptions o;
    o.intra_op_threads = 1;
    o.optimization_level = OptimizationLevel::disabled;
    return with_provider("Failing", o);
  }
  static StatusOr<std::unique_ptr<Session>> load() {
    ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, graph_from_text(kNet));
    return Session::from_graph(std::move(graph), options());
  }
  Status run(Session& session) {
    outputs_[0] = Value();
    return session.run_ordered(inputs_, outputs_);
  }
  std::vector<float> result() const { return floats(outputs_[0]); }

  const std::vector<Value> inputs_{random_floats(kDims, 1)};
  std::vector<Value> outputs_{Value()};
  std::shared_ptr<SimDevice> device_;
  std::unique_ptr<SimProviderScope> scope_;
};

TEST_P(DeviceAllocations, EachOfOursFailsOnce) {
  ASSERT_TRUE(run(*load().value()).ok());
  const std::vector<float> want = result();
  for (const bool loads : {true, false}) {
    int64_t failed = 0;
    bool more = true;
    for (int64_t n = 1; more; ++n) {
      SCOPED_TRACE(std::string(loads ? "load" : "run") + ", allocation " + std::to_string(n));
      ASSERT_LT(n, 20'000);
      StatusOr<std::unique_ptr<Session>> session = invalid("not loaded");
      if (!loads) {
        session = load();
        ASSERT_TRUE(session.ok()) << session.status();
      }
      Status status;
      {
        const FailAllocation failing(n);
        try {  // the faces of the runtime turn it into an error
          if (loads) {
            session = load();
            status = session.status();
          } else {
            status = run(**session);
          }
        } catch (const std::bad_alloc&) {
          status = exhausted("the system has no memory");
        }
        more = failing.triggered();
      }
      failed += !status.ok();
      if (!status.ok()) {
        EXPECT_TRUE(more) << status;
        EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status << " " << refused_allocation();
      } else if (!loads) {
        EXPECT_EQ(result(), want);
      }
      if (session.ok()) {
        const Status next = run(**session);
        ASSERT_TRUE(next.ok()) << next << " after " << status << " " << refused_allocation();
        EXPECT_EQ(result(), want);
        outputs_[0] = Value();
        (*session)->trim();
      }
      session = invalid("gone");
      EXPECT_EQ(device_->allocator().statistics().live, 0) << status << " " << refused_allocation();
      EXPECT_EQ(device_->counts().streams, 0);
      EXPECT_EQ(device_->counts().freed_in_use, 0);
      if (HasFailure()) return;
    }
    EXPECT_GT(failed, loads ? 50 : 5);
  }
}

INSTANTIATE_TEST_SUITE_P(DeviceLanes, DeviceAllocations, testing::Values(1, 2));

}  // namespace
}  // namespace forethought
