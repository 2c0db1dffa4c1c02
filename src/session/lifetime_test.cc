// Outputs keep their bits whatever comes later, in any order of dropping; inputs are only read.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "session/session_testing.h"
#include "session/small_net_testing.h"

namespace forethought {
namespace {

constexpr int kKept = 24, kLater = 1000;

std::vector<std::byte> bytes_of(const Value& v) {
  const auto* const data = static_cast<const std::byte*>(v.tensor().data);
  return {data, data + v.tensor().bytes()};
}

struct Kept {
  std::vector<Value> values;
  std::vector<std::vector<std::byte>> bytes;

  bool intact() const {
    for (size_t i = 0; i < values.size(); ++i)
      if (!values[i].is_none() && bytes_of(values[i]) != bytes[i]) return false;
    return true;
  }
};

Kept keep_some(Session& session, const Dims& dims) {
  Kept kept;
  for (int k = 0; k < kKept; ++k) {
    std::vector<Value> outputs(session.outputs().size());
    const std::vector<Value> inputs = {random_floats(dims, static_cast<uint64_t>(k))};
    const Status status = session.run_ordered(inputs, outputs);
    EXPECT_TRUE(status.ok()) << status;
    for (Value& v : outputs) {
      kept.bytes.push_back(bytes_of(v));
      kept.values.push_back(std::move(v));
    }
  }
  return kept;
}

struct Net {
  std::string text;
  Dims dims;
};
std::vector<Net> nets() { return {{small_net(), {1, 3, 20, 20}}, {plain_net(), {4, 64}}}; }

TEST(Lifetime, C5_OutputsSurviveLaterRunsAndTheSession) {
  for (const Net& net : nets()) {
    SessionOptions options;
    options.intra_op_threads = 2;
    auto session = session_of(net.text, options);
    ASSERT_TRUE(session);
    Kept kept = keep_some(*session, net.dims);
    EXPECT_NE(kept.bytes[0], kept.bytes[session->outputs().size()]) << "runs must differ for this to show anything";
    const std::vector<Value> inputs = {random_floats(net.dims, 999)};
    for (int r = 0; r < kLater; ++r) {
      std::vector<Value> outputs(session->outputs().size());
      ASSERT_TRUE(session->run_ordered(inputs, outputs).ok());
    }
    EXPECT_TRUE(kept.intact());
    session.reset();
    EXPECT_TRUE(kept.intact());
    std::vector<size_t> order(kept.values.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(5));
    for (const size_t i : order) {
      kept.values[i] = Value();
      ASSERT_TRUE(kept.intact());
    }
  }
}

TEST(Lifetime, OutputsMayBeDroppedOnOtherThreadsWhileTheSessionEnds) {
  for (const Net& net : nets()) {
    auto session = session_of(net.text);
    ASSERT_TRUE(session);
    Kept kept = keep_some(*session, net.dims);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 3; ++t) {
      threads.emplace_back([&kept, t] {
        for (size_t i = t; i < kept.values.size(); i += 3) {
          EXPECT_EQ(bytes_of(kept.values[i]), kept.bytes[i]);
          kept.values[i] = Value();
        }
      });
    }
    session.reset();
    for (std::thread& t : threads) t.join();
  }
}

TEST(Lifetime, C22_InputsMappedReadOnlySurvive) {
  for (const Net& net : nets()) {
    auto session = session_of(net.text);
    ASSERT_TRUE(session);
    const Value source = random_floats(net.dims, 1);
    const auto bytes = static_cast<size_t>(source.tensor().bytes());
    void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    std::memcpy(pages, source.tensor().data, bytes);
    ASSERT_EQ(mprotect(pages, bytes, PROT_READ), 0);
    Tensor borrowed = source.tensor();
    borrowed.data = pages;
    borrowed.owner = BufferRef();
    const std::vector<Value> from_pages = {Value(std::move(borrowed))}, from_heap = {source};
    std::vector<Value> got(session->outputs().size()), want(session->outputs().size());
    ASSERT_TRUE(session->run_ordered(from_pages, got).ok());
    munmap(pages, bytes);
    ASSERT_TRUE(session->run_ordered(from_heap, want).ok());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(bytes_of(got[i]), bytes_of(want[i]));
  }
}

}  // namespace
}  // namespace forethought
