// Each start of a thread that a session makes fails once: the pool's, the idle trimmer's, those of a device's streams
// and of runs behind the caller's back.
#include <gtest/gtest.h>

#include <optional>

#include "graph/text.h"
#include "session/session_testing.h"
#include "session/sim_provider_testing.h"
#include "session/small_net_testing.h"
#include "threading/thread_starts_testing.h"

namespace forethought {
namespace {

constexpr const char* kText = R"(graph(%x: f32[64,64]) {
  %a = MatMul(%x, %x) "a"
  %d = Softmax(%a) "device_d"
  %e = Tanh(%d) "device_e"
  %f = Sigmoid(%x) "device_f"
  %g = MatMul(%a, %a) "g"
  %h = MatMul(%x, %a) "h"
  %i = Add(%e, %f) "device_i"
  %j = Add(%g, %h) "j"
  %y = Add(%i, %j) "y"
  return %y
})";

bool on_device(const Graph&, const GraphNode& n) { return n.name.starts_with("device"); }

SessionOptions options() {
  SessionOptions o;
  o.intra_op_threads = 3;
  o.lanes = 2;
  o.idle_trim_ms = 60'000;
  o.optimization_level = OptimizationLevel::disabled;
  return with_provider("SimProvider", o);
}

Status run(Session& session, std::string* bytes) {
  std::vector<Value> outputs(1);
  RETURN_IF_ERROR(session.run_ordered(std::vector{random_floats({64, 64}, 1)}, outputs));
  bytes->assign(outputs[0].tensor().as<char>(), static_cast<size_t>(outputs[0].tensor().bytes()));
  return absl::OkStatus();
}

Status run_behind(Session& session, std::string* bytes) {
  AsyncRequest request;
  request.feeds.emplace_back("x", random_floats({64, 64}, 1));
  ASSIGN_OR_RETURN(const AsyncRun started, session.run_async(std::move(request)));
  RETURN_IF_ERROR(started.wait());
  const Tensor& y = started.outputs()[0].tensor();
  bytes->assign(y.as<char>(), static_cast<size_t>(y.bytes()));
  return absl::OkStatus();
}

TEST(ThreadStartsOfASession, EachFailsOnce) {
  std::string want;
  int loads = 0, runs = 0, asyncs = 0, with_fewer = 0;  // refused, and those that got by
  bool failed = true;
  for (int64_t n = 0; failed; ++n) {
    ASSERT_LT(n, 50);
    SCOPED_TRACE(n);
    const auto device = SimDevice::make({.lanes = 2}).value();
    const SimProviderScope provider("SimProvider", device, on_device);
    auto graph = graph_from_text(kText);
    ASSERT_TRUE(graph.ok()) << graph.status();
    std::optional<FailThreadStart> failing;
    if (n > 0) failing.emplace(n);
    const auto session = Session::from_graph(std::move(*graph), options());
    std::string bytes, behind;
    const Status ran = session.ok() ? run(**session, &bytes) : session.status();
    const Status ran_behind = ran.ok() ? run_behind(**session, &behind) : ran;
    failed = n == 0 || failing->triggered();
    failing.reset();
    if (n == 0) want = bytes;
    if (ran_behind.ok()) {
      EXPECT_EQ(bytes, want);
      EXPECT_EQ(behind, want);
      with_fewer += failed;
    } else {
      EXPECT_TRUE(failed);
      EXPECT_EQ(ran_behind.code(), absl::StatusCode::kResourceExhausted) << ran_behind;
      EXPECT_NE(ran_behind.message().find("thread"), std::string::npos) << ran_behind;
      ++(!session.ok() ? loads : !ran.ok() ? runs : asyncs);
    }
    if (session.ok()) {
      EXPECT_TRUE(run(**session, &bytes).ok() && run_behind(**session, &behind).ok());
      EXPECT_EQ(bytes, want);
      EXPECT_EQ(behind, want);
      EXPECT_EQ(live_bytes(**session), 0);
    }
  }
  EXPECT_EQ(loads, 1) << "the idle trimmer";
  EXPECT_EQ(runs, 2) << "the streams";
  EXPECT_EQ(asyncs, 1) << "the thread of the runs behind";
  EXPECT_GE(with_fewer, 1) << "the pool";
}

}  // namespace
}  // namespace forethought
