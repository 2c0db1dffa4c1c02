// Runs between guard pages, cancelled at every step, and with each request to the system failing once.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>

#include "exec/profile.h"
#include "graph/text.h"
#include "memory/system.h"
#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

struct Net {
  const char* name;
  std::string text;
  std::vector<Value> inputs;
};

std::vector<Net> nets() {
  const char* const loop = R"(graph(%x: f32[3,5], %m: i64[]) {
    %a = Neg(%x)
    %y, %all = Loop(%m, bool true, %a; %x) {
      body: graph(%i: i64[], %c: bool[], %s: f32[3,5], %x2: f32[3,5]) {
        %t = Add(%s, %x2)
        %u = Mul(%t, %t)
        return %c, %t, %u
      }
    }
    return %y, %all
  })";
  return {{"small net", small_net(), {random_floats({1, 3, 20, 20}, 1)}},
          {"plain net", plain_net(), {random_floats({4, 64}, 2)}},
          {"loop", loop, {random_floats({3, 5}, 3), tensor_of<int64_t>({}, {4})}}};
}

// Whole pages between two that nobody may touch; the data lies against the one or the other.
class Guarded {
 public:
  Guarded(size_t bytes, bool at_end) {
    const auto page = static_cast<size_t>(page_size());
    const size_t inner = (bytes + page - 1) / page * page;
    size_ = inner + 2 * page;
    all_ = static_cast<std::byte*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    inner_ = all_ + page;
    inner_size_ = inner;
    allow(PROT_READ | PROT_WRITE);
    data = inner_ + (at_end ? inner - bytes : 0);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(all_, size_); }
  void allow(int access) const { mprotect(inner_, inner_size_, access); }
  std::byte* data;

 private:
  std::byte *all_, *inner_;
  size_t size_, inner_size_;
};

// The same value in guarded pages.
Value moved_to(const Guarded& pages, const Tensor& tensor) {
  Tensor t = tensor;
  t.data = pages.data;
  t.owner = BufferRef();
  return Value(std::move(t));
}

std::vector<Value> plain_run(Session& session, const std::vector<Value>& inputs) {
  std::vector<Value> outputs(session.outputs().size());
  const Status status = session.run_ordered(inputs, outputs);
  EXPECT_TRUE(status.ok()) << status;
  return outputs;
}

bool same_bits(const std::vector<Value>& a, const std::vector<Value>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const Tensor &x = a[i].tensor(), &y = b[i].tensor();
    if (x.bytes() != y.bytes() || std::memcmp(x.data, y.data, static_cast<size_t>(x.bytes())) != 0) return false;
  }
  return true;
}

TEST(GuardedRuns, Check21_NothingOutsideInputsAndOutputsIsTouched) {
  for (const Net& net : nets()) {
    for (const bool at_end : {false, true}) {
      SCOPED_TRACE(std::string(net.name) + (at_end ? " against the upper page" : " against the lower page"));
      auto session = session_of(net.text);
      ASSERT_TRUE(session);
      const std::vector<Value> want = plain_run(*session, net.inputs);
      std::vector<std::unique_ptr<Guarded>> pages;
      std::vector<Value> inputs, outputs;
      for (const Value& v : net.inputs) {
        const auto bytes = static_cast<size_t>(v.tensor().bytes());
        pages.push_back(std::make_unique<Guarded>(bytes, at_end));
        std::memcpy(pages.back()->data, v.tensor().data, bytes);
        pages.back()->allow(PROT_READ);
        inputs.push_back(moved_to(*pages.back(), v.tensor()));
      }
      for (const Value& v : want) {
        pages.push_back(std::make_unique<Guarded>(static_cast<size_t>(v.tensor().bytes()), at_end));
        outputs.push_back(moved_to(*pages.back(), v.tensor()));
      }
      const std::vector<Value> given = outputs;
      for (int round = 0; round < 2; ++round) {
        const Status status = session->run_ordered(inputs, outputs);
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_TRUE(same_bits(outputs, want));
        for (size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(outputs[i].tensor().data, given[i].tensor().data);
      }
    }
  }
}

TEST(GuardedRuns, EachRequestOfARunFailsOnce) {
  for (const Net& net : nets()) {
    SCOPED_TRACE(net.name);
    auto reference = session_of(net.text);
    ASSERT_TRUE(reference);
    const std::vector<Value> want = plain_run(*reference, net.inputs);
    bool failed = true;
    int failures = 0;
    for (int64_t n = 1; failed; ++n) {
      ASSERT_LT(n, 1000);
      auto session = session_of(net.text);  // a new one each time: its pools are empty
      ASSERT_TRUE(session);
      const int64_t before = live_bytes(*session);
      {
        const FailSystemRequests failing(n);
        std::vector<Value> outputs(session->outputs().size());
        const Status status = session->run_ordered(net.inputs, outputs);
        failed = failing.triggered();
        EXPECT_TRUE(failed || status.ok()) << status;
        if (status.ok()) {
          EXPECT_TRUE(same_bits(outputs, want)) << n;
        } else {
          EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
          for (const Value& v : outputs) EXPECT_TRUE(v.is_none());
        }
        failures += !status.ok();
      }
      EXPECT_EQ(live_bytes(*session), before) << n;
      EXPECT_TRUE(same_bits(plain_run(*session, net.inputs), want)) << n;
    }
    EXPECT_GT(failures, 0);
  }
}

TEST(GuardedRuns, EachRequestOfALoadFailsOnce) {
  for (const Net& net : nets()) {
    SCOPED_TRACE(net.name);
    bool failed = true;
    for (int64_t n = 1; failed; ++n) {
      ASSERT_LT(n, 1000);
      auto graph = graph_from_text(net.text);
      ASSERT_TRUE(graph.ok());
      const FailSystemRequests failing(n);
      const auto session = Session::from_graph(std::move(*graph));
      failed = failing.triggered();
      if (!session.ok()) {
        EXPECT_TRUE(failed) << session.status();
        EXPECT_EQ(session.status().code(), absl::StatusCode::kResourceExhausted) << session.status();
      }
    }
    auto session = session_of(net.text);
    ASSERT_TRUE(session);
    plain_run(*session, net.inputs);
  }
}

TEST(GuardedRuns, ACancelledRunLeavesNothingLive) {
  for (const Net& net : nets()) {
    SCOPED_TRACE(net.name);
    auto session = session_of(net.text);
    ASSERT_TRUE(session);
    const std::vector<Value> want = plain_run(*session, net.inputs);
    std::vector<Value> outputs(session->outputs().size());
    const int64_t before = live_bytes(*session);  // with `want` held
    CancelAfter never(-1, CancelFlag());
    RunOptions all;
    all.sink = &never;
    ASSERT_TRUE(session->run_ordered(net.inputs, outputs, all).ok());
    for (int stop = 1; stop < never.seen; ++stop) {
      for (Value& v : outputs) v = Value();
      RunOptions options;
      CancelAfter sink(stop, options.cancel);
      options.sink = &sink;
      const Status status = session->run_ordered(net.inputs, outputs, options);
      if (status.ok()) {  // the last trip of a loop that is the last node: nothing was left to cancel
        EXPECT_EQ(stop, never.seen - 1);
        for (Value& v : outputs) v = Value();
      } else {
        EXPECT_TRUE(absl::IsCancelled(status)) << stop << ": " << status;
      }
      EXPECT_EQ(live_bytes(*session), before) << stop;
    }
    EXPECT_TRUE(same_bits(plain_run(*session, net.inputs), want));
  }
}

}  // namespace
}  // namespace forethought
