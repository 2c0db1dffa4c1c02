// No lock is held over a kernel: two runs of one session are inside the same kernel at the same time.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "ops/op.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

// Where two threads wait for each other.
class Meeting {
 public:
  // False: nobody else came in time.
  bool meet(const std::string& where) {
    std::unique_lock lock(mutex_);
    int& here = came_[where];
    const int both = (here++ / 2 + 1) * 2;
    changed_.notify_all();
    return changed_.wait_until(lock, std::chrono::system_clock::now() + std::chrono::seconds(20),
                               [&] { return here >= both; });
  }
  std::map<std::string, int> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(came_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> came_;
};
Meeting meeting;

// y = x, once another run has come as far.
class Meet final : public Operator, public Kernel {
 public:
  explicit Meet(std::string name) : name_(std::move(name)) {}
  Status infer(InferCtx& c) const override {
    c.set(0, c.dtype(0), c.shape(0));
    return absl::OkStatus();
  }
  const Kernel* kernel() const override { return this; }
  StatusOr<KernelFacts> choose(const ChooseCtx&) const override {
    KernelFacts f;
    f.kernel = "test.meet";
    return f;
  }
  Status run(RunCtx& c) const override {
    if (!meeting.meet(name_)) return internal("no other run came into the kernel in 20 seconds");
    for (int64_t i = 0; i < c.out(0).elements; ++i) c.out_as<float>(0)[i] = c.in_as<float>(0)[i];
    return absl::OkStatus();
  }

 private:
  const std::string name_;
};

// Takes the nodes whose name begins with "meet".
class MeetingProvider final : public Provider {
 public:
  std::string_view name() const override { return "MeetingProvider"; }
  Device device() const override { return {DeviceKind::other, MemoryKind::host_visible, 9}; }
  Capability capability(const Graph& graph, std::span<const NodeId> free) const override {
    Capability can;
    for (NodeId id : free) {
      if (graph.node(id).name.starts_with("meet")) {
        can.claims.push_back({{id}, false, "", "runs meet there"});
      } else {
        can.refusals.push_back({id, "nobody meets there"});
      }
    }
    return can;
  }
  StatusOr<std::shared_ptr<const Operator>> bind(const GraphNode& node) const override {
    return std::shared_ptr<const Operator>(std::make_shared<Meet>(node.name));
  }
};

class Meetings : public testing::Test {
 protected:
  Meetings() {
    EXPECT_TRUE(ProviderRegistry::global()
                    .add("MeetingProvider",
                         [](const ProviderOptions&) -> StatusOr<std::unique_ptr<Provider>> {
                           return std::make_unique<MeetingProvider>();
                         })
                    .ok());
    meeting.take();
  }
  ~Meetings() override { ProviderRegistry::global().remove("MeetingProvider"); }
};

constexpr const char* kText = R"(graph(%x: f32[4,4]) {
  %a = Neg(%x) "meet_first"
  %b = MatMul(%a, %x) "b"
  %c = MatMul(%x, %x) "c"
  %d = Neg(%c) "meet_beside"
  %e = Add(%b, %d) "e"
  %found = NonZero(%e) "found"
  %g = Cast<to=1>(%found) "g"
  %h = Abs(%g) "meet_where_only_the_run_tells_the_size"
  %s = ReduceSum<keepdims=0>(%h) "s"
  %l = Loop(i64 3, bool true, %e) "loop" {
    body: graph(%i: i64[], %go: bool[], %p: f32[4,4]) {
      %q = Neg(%p) "meet_in_a_body"
      %r = Add(%q, 1.0) "r"
      return %go, %r
    }
  }
  %y = Add(%l, %s) "y"
  return %y
})";

TEST_F(Meetings, TwoRunsAreInsideOneKernelAtOnce) {
  for (const int lanes : {1, 2}) {
    for (const int threads : {1, 4}) {
      for (const bool behind : {false, true}) {
        SCOPED_TRACE(absl::StrCat(lanes, " lanes, ", threads, " threads", behind ? ", run_async" : ""));
        SessionOptions options;
        options.optimization_level = OptimizationLevel::disabled;
        options.lanes = lanes;
        options.intra_op_threads = threads;
        options.providers = {{"MeetingProvider", {}}};
        const auto session = session_of(kText, options);
        ASSERT_TRUE(session);
        const Value x = random_floats({4, 4}, 1);
        for (int round = 0; round < 3; ++round) {
          std::vector<Value> outputs[2] = {std::vector<Value>(1), std::vector<Value>(1)};
          Status statuses[2];
          if (behind) {
            std::vector<AsyncRun> runs;
            for (int i = 0; i < 2; ++i) {
              AsyncRequest request;
              request.feeds.emplace_back("x", x);
              auto run = session->run_async(std::move(request));
              ASSERT_TRUE(run.ok()) << run.status();
              runs.push_back(*run);
            }
            for (int i = 0; i < 2; ++i) {
              statuses[i] = runs[i].wait();
              outputs[i] = runs[i].outputs();
            }
          } else {
            std::vector<std::thread> callers;
            for (int i = 0; i < 2; ++i)
              callers.emplace_back([&, i] { statuses[i] = session->run_ordered(std::vector{x}, outputs[i]); });
            for (std::thread& t : callers) t.join();
          }
          for (const Status& status : statuses) ASSERT_TRUE(status.ok()) << status;
          EXPECT_EQ(floats(outputs[0][0]), floats(outputs[1][0]));
          const auto came = meeting.take();
          EXPECT_EQ(came.size(), 4u);
          for (const auto& [where, times] : came) EXPECT_EQ(times, where == "meet_in_a_body" ? 6 : 2) << where;
        }
      }
    }
  }
}

}  // namespace
}  // namespace forethought
