// What crosses the public API as memory: leases, DLPack, bound and donated buffers, and calls that cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "api/calls_testing.h"
#include "api/models_testing.h"
#include "forethought/forethought.h"

namespace ft = forethought;

namespace {

using forethought_testing::affine_model;
using forethought_testing::floats;
using forethought_testing::layers_model;
using forethought_testing::load;
using forethought_testing::loop_model;
using forethought_testing::read;
using forethought_testing::state_model;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Shape = std::vector<int64_t>;
const Shape kThree = {3};

TEST(ApiMemory, ALeaseMovesAndIsGivenBackOnce) {
  ft::Lease lease;
  EXPECT_FALSE(lease);
  const void* address = nullptr;
  {
    const ft::Session s = load(affine_model());
    const ft::Value y = s.run({{"x", floats({1, 2, 3}, {1, 3})}}).value()[0];
    lease = y.lease().value();
    address = y.data();
  }
  EXPECT_EQ(lease.data(), address);  // check 13: the pointer is the arena's, whatever holds it
  EXPECT_EQ(lease.bytes(), 12u);
  ft::Lease moved = std::move(lease);
  EXPECT_FALSE(lease);  // NOLINT: that it is empty is the point
  EXPECT_EQ(lease.data(), nullptr);
  EXPECT_THAT(ft::Value::over(std::move(lease), ft::ElementType::f32, kThree).status().message(),
              HasSubstr("empty: it was moved from, or released; lease the memory anew"));
  const ft::Value back = ft::Value::over(std::move(moved), ft::ElementType::f32, kThree).value();
  EXPECT_EQ(back.data(), address);
  EXPECT_THAT(read(back), ElementsAre(3, 5, 7));
  lease = back.lease().value();
  lease.release();
  lease.release();
  EXPECT_FALSE(lease);
  EXPECT_THAT(read(back), ElementsAre(3, 5, 7));
}

TEST(ApiMemory, OwnersAreDroppedWithTheLastLease) {
  auto memory = std::make_shared<std::vector<float>>(3, 5.0f);
  const std::weak_ptr<std::vector<float>> watch = memory;
  std::span<float> span(*memory);
  ft::Value v = ft::Value::borrow<float>(span, kThree, std::move(memory)).value();
  ft::Lease a = v.lease().value(), b = v.lease().value();
  v = {};
  a.release();
  EXPECT_FALSE(watch.expired());
  std::thread([last = std::move(b)] {}).join();
  EXPECT_TRUE(watch.expired());
}

TEST(ApiMemory, Check15_OutputsKeepTheirBitsInAnyOrderOfDropping) {
  struct Kept {
    ft::Lease lease;
    ft::Value value;
    std::vector<float> want;
  };
  std::vector<Kept> kept;
  {
    const ft::Session s = load(affine_model());
    for (int run = 0; run < 1040; ++run) {
      const auto v = static_cast<float>(run);
      auto out = s.run({{"x", floats({v, v + 1, v + 2}, {1, 3})}}).value();
      if (run >= 40) continue;
      kept.push_back({out[0].lease().value(), run % 2 ? out[0] : ft::Value(), {2 * v + 1, 2 * v + 3, 2 * v + 5}});
    }
  }
  std::shuffle(kept.begin(), kept.end(), std::mt19937(3));
  while (!kept.empty()) {
    for (const Kept& k : kept) {
      const auto* floats_there = static_cast<const float*>(k.lease.data());
      ASSERT_EQ(std::vector<float>(floats_there, floats_there + 3), k.want);
    }
    kept.pop_back();
  }
}

TEST(ApiMemory, WhatCannotBeLeased) {
  std::vector<float> mine(3);
  EXPECT_THAT(ft::Value::borrow<float>(mine, kThree).value().lease().status().message(),
              HasSubstr("kept by its caller"));
  EXPECT_THAT(ft::Value().lease().status().message(), HasSubstr("only tensors"));
  ft::Value v = floats({1, 2, 3}, kThree);
  EXPECT_THAT(ft::Value::over(v.lease().value(), ft::ElementType::f32, Shape{4}).status().message(),
              AllOf(HasSubstr("16 bytes"), HasSubstr("the lease has 12")));
  EXPECT_FALSE(ft::Value::over(v.lease().value(), ft::ElementType::f32, Shape{-1}).ok());
  EXPECT_FALSE(ft::Value::over(v.lease().value(), ft::ElementType::string, Shape{0}).ok());
  EXPECT_TRUE(ft::Value::over(v.lease().value(), ft::ElementType::u8, Shape{12}).ok());
}

TEST(ApiMemory, ValuesGoThroughDLPack) {
  DLManagedTensorVersioned* out = nullptr;
  const void* address = nullptr;
  {
    const ft::Value y = load(affine_model()).run({{"x", floats({1, 2, 3}, {1, 3})}}).value()[0];
    out = ft::to_dlpack(y).value();
    address = y.data();
  }
  ft::Value back = ft::from_dlpack(out).value();
  EXPECT_EQ(back.data(), address);
  EXPECT_EQ(back.copied_bytes(), 0u);
  EXPECT_THAT(read(back), ElementsAre(3, 5, 7));
  back = ft::from_dlpack(ft::to_unversioned_dlpack(back).value()).value();
  EXPECT_EQ(back.data(), address);
  EXPECT_THAT(ft::to_dlpack(ft::Value()).status().message(), HasSubstr("only tensors"));
  EXPECT_FALSE(ft::from_dlpack(static_cast<DLManagedTensor*>(nullptr)).ok());
}

// The standard's struct, as a program that has dlpack.h sees it.
struct ForeignTensor {
  uint32_t major = 1, minor = 0;
  void* manager = nullptr;
  void (*deleter)(ForeignTensor*) = [](ForeignTensor* t) { ++*static_cast<int*>(t->manager); };
  uint64_t flags = 0;
  void* data = nullptr;
  int32_t device_type = 1, device_id = 0, ndim = 2;
  uint8_t code = 2, bits = 32;
  uint16_t lanes = 1;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;
  uint64_t byte_offset = 0;

  ft::Result<ft::Value> import() { return ft::from_dlpack(reinterpret_cast<DLManagedTensorVersioned*>(this)); }
};

TEST(ApiMemory, ForeignMemoryForOutputsMustBeWritableAndContiguous) {
  float memory[6] = {};
  int64_t shape[2] = {1, 3}, strides[2] = {6, 2};
  int deleted = 0;
  const ft::Session s = load(affine_model());
  ft::PreparedRun run = s.prepare();
  ASSERT_TRUE(run.bind_input("x", floats({1, 2, 3}, {1, 3})).ok());

  ForeignTensor strided;
  strided.manager = &deleted;
  strided.data = memory;
  strided.shape = shape;
  strided.strides = strides;
  EXPECT_THAT(run.bind_output("y", strided.import().value()).message(),
              AllOf(HasSubstr("'y' is a copy"), HasSubstr("contiguous")));
  EXPECT_EQ(deleted, 1);

  ForeignTensor constant = strided;
  constant.strides = nullptr;
  constant.flags = 1;
  ft::Value v = constant.import().value();
  EXPECT_TRUE(v.read_only());
  EXPECT_EQ(v.mutable_data(), nullptr);
  EXPECT_THAT(v.mutable_elements<float>().status().message(), HasSubstr("read-only"));
  EXPECT_THAT(v.lease().status().message(), HasSubstr("read-only"));
  EXPECT_THAT(ft::to_unversioned_dlpack(v).status().message(), HasSubstr("read-only"));
  EXPECT_THAT(run.bind_output("y", v).message(), HasSubstr("'y' is read-only"));
  v = {};
  EXPECT_EQ(deleted, 2);

  ForeignTensor good = constant;
  good.flags = 0;
  ASSERT_TRUE(run.bind_output("y", good.import().value()).ok());
  ASSERT_TRUE(run.run().ok());
  EXPECT_THAT(std::vector<float>(memory, memory + 3), ElementsAre(3, 5, 7));
  ASSERT_TRUE(run.bind_output("y", {}).ok());
  ASSERT_TRUE(run.run().ok());
  EXPECT_EQ(deleted, 3);

  ForeignTensor elsewhere = good;
  elsewhere.device_type = 2;
  EXPECT_THAT(elsewhere.import().status().message(), HasSubstr("cuda:0, a device that is not here"));
  EXPECT_EQ(deleted, 3);
}

TEST(ApiMemory, AStateTurnsWithoutACopy) {
  const ft::Session s = load(state_model());
  for (const bool bound : {false, true}) {
    SCOPED_TRACE(bound);
    ft::PreparedRun run = s.prepare();
    std::vector<float> first = {0, 0, 0}, second(3);
    ASSERT_TRUE(run.donate("next", "h").ok());
    ASSERT_TRUE(run.bind_input("h", ft::Value::borrow<float>(first, kThree).value()).ok());
    ASSERT_TRUE(run.bind_input("x", floats({1, 2, 3}, kThree)).ok());
    if (bound) {
      ASSERT_TRUE(run.bind_output("next", ft::Value::borrow<float>(second, kThree).value()).ok());
    }
    std::set<const void*> places;
    for (int step = 1; step <= 6; ++step) {
      ASSERT_TRUE(run.run().ok());
      const auto n = static_cast<float>(step);
      EXPECT_THAT(read(run.output("next")), ElementsAre(n, 2 * n, 3 * n));
      EXPECT_THAT(read(run.output("y")), ElementsAre(10 * n, 20 * n, 30 * n));
      places.insert(run.output("next").data());
    }
    if (bound) {
      EXPECT_EQ(places, (std::set<const void*>{first.data(), second.data()}));
    } else {
      EXPECT_LE(places.size(), 3u);  // two of the state, and y's, which has the same size
    }
    // A state of the caller's goes before the last run's.
    ASSERT_TRUE(run.bind_input("h", floats({100, 100, 100}, kThree)).ok());
    ASSERT_TRUE(run.run().ok());
    EXPECT_THAT(read(run.output("next")), ElementsAre(101, 102, 103));
    ASSERT_TRUE(run.run().ok());
    EXPECT_THAT(read(run.output("next")), ElementsAre(102, 104, 106));
  }
}

TEST(ApiMemory, AnOutputThatIsReboundBetweenDonatedRunsGoesThere) {
  const ft::Session s = load(state_model());
  for (const bool bound : {false, true}) {
    SCOPED_TRACE(bound);
    ft::PreparedRun run = s.prepare();
    ASSERT_TRUE(run.donate("next", "h").ok());
    ASSERT_TRUE(run.bind_input("h", floats({0, 0, 0}, kThree)).ok());
    ASSERT_TRUE(run.bind_input("x", floats({1, 2, 3}, kThree)).ok());
    if (bound) {
      ASSERT_TRUE(run.bind_output("next", floats({0, 0, 0}, kThree)).ok());
    }
    float n = 0;
    for (const ft::Value& target : {floats({0, 0, 0}, kThree), ft::Value(), floats({0, 0, 0}, kThree)}) {
      ASSERT_TRUE(run.run().ok());
      ++n;
      ASSERT_TRUE(run.bind_output("next", target).ok());
      ASSERT_TRUE(run.run().ok());
      ++n;
      const ft::Value state = run.output("next");
      EXPECT_THAT(read(state), ElementsAre(n, 2 * n, 3 * n));
      if (!target.is_absent()) {
        EXPECT_EQ(state.data(), target.data());
      }
      ASSERT_TRUE(run.run().ok());  // turns from there on
      ++n;
      EXPECT_THAT(read(run.output("next")), ElementsAre(n, 2 * n, 3 * n));
    }
  }
}

TEST(ApiMemory, MemoryCannotChangePlacesWithAnInputThatHasNone) {
  const ft::Session s = load(state_model());
  ft::PreparedRun run = s.prepare();
  ASSERT_TRUE(run.donate("next", "h").ok());
  ASSERT_TRUE(run.bind_input("x", floats({1, 2, 3}, kThree)).ok());
  ASSERT_TRUE(run.bind_output("next", floats({0, 0, 0}, kThree)).ok());
  EXPECT_THAT(run.run().message(), AllOf(HasSubstr("'next' is bound to memory"), HasSubstr("input 'h'"),
                                         HasSubstr("bind memory to the input, too, or the output to none")));
  // Nor with one whose memory must not be written.
  int deleted = 0;
  float zeros[3] = {};
  int64_t three[1] = {3};
  ForeignTensor constant;
  constant.manager = &deleted;
  constant.data = zeros;
  constant.ndim = 1;
  constant.shape = three;
  constant.flags = 1;
  ASSERT_TRUE(run.bind_input("h", constant.import().value()).ok());
  ASSERT_TRUE(run.run().ok());
  EXPECT_THAT(run.run().message(), HasSubstr("input 'h' after each run, which is read-only: bind memory that can be"));
  ASSERT_TRUE(run.bind_input("h", floats({0, 0, 0}, kThree)).ok());
  for (float n = 1; n < 4; ++n) {
    ASSERT_TRUE(run.run().ok());
    EXPECT_THAT(read(run.output("next")), ElementsAre(n, 2 * n, 3 * n));
  }
}

TEST(ApiMemory, AnOutputThatIsAskedForTwiceIsNotShared) {
  const ft::Session s = load(affine_model());
  const std::vector<ft::NamedValue> feeds = {{"x", floats({1, 2, 3}, {1, 3})}};
  const std::vector<std::string_view> names = {"y", "s", "y"};
  std::vector<ft::Value> out = s.run(feeds, names).value();
  ASSERT_NE(out[0].data(), out[2].data());
  out[0].mutable_elements<float>().value()[0] = 100;
  EXPECT_THAT(read(out[2]), ElementsAre(3, 5, 7));
  EXPECT_EQ(s.memory_stats().leased, 12 + 4 + 12);
  out = s.run_async(feeds, names).value().outputs().value();
  EXPECT_NE(out[0].data(), out[2].data());
}

std::vector<ft::NamedValue> trips(int64_t n) {
  return {{"m", ft::Value::copy_of<int64_t>(std::vector<int64_t>{n}, {}).value()}, {"x", floats({1, 2}, {2})}};
}

TEST(ApiMemory, ALoopThatNeverEndsIsCancelled) {
  const ft::Session s = load(loop_model(false));
  ft::Cancel cancel;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    cancel.cancel();
  });
  const ft::Status ended = s.run(trips(std::numeric_limits<int64_t>::max()), {}, &cancel).status();
  other.join();
  EXPECT_EQ(ended.code(), ft::ErrorCode::cancelled);
  EXPECT_EQ(s.memory_stats().leased, 0);
}

TEST(ApiMemory, TripCountsThatCannotBe) {
  const ft::Session s = load(loop_model(true));
  const ft::Status refused = s.run(trips(std::numeric_limits<int64_t>::max())).status();
  EXPECT_THAT(refused.message(), AllOf(HasSubstr("Loop"), HasSubstr("9223372036854775807")));
  // What 2^63 is in 64 bits is the least number: no trip.
  const auto none = s.run(trips(std::numeric_limits<int64_t>::min())).value();
  EXPECT_THAT(read(none[0]), ElementsAre(1, 2));
  EXPECT_EQ(none[1].shape()[0], 0);
}

TEST(ApiMemory, DonationsThatCannotBe) {
  const ft::Session s = load(state_model());
  ft::PreparedRun run = s.prepare();
  EXPECT_THAT(run.donate("nxt", "h").message(), HasSubstr("did you mean 'next'"));
  EXPECT_THAT(run.donate("next", "hh").message(), HasSubstr("no input 'hh'"));
  ASSERT_TRUE(run.donate("next", "h").ok());
  EXPECT_THAT(run.donate("y", "h").message(), HasSubstr("already"));
  EXPECT_THAT(run.donate("next", "x").message(), HasSubstr("already"));
  const ft::Session a = load(affine_model());
  EXPECT_TRUE(a.prepare().donate("s", "x").ok());  // ranks are looked at when the run comes
}

TEST(ApiMemory, BoundMemoryThatCannotBe) {
  const ft::Session s = load(state_model());
  ft::PreparedRun run = s.prepare();
  std::vector<float> room(9, 1);
  const auto part = [&](size_t first) {
    return ft::Value::borrow<float>(std::span(room).subspan(first, 3), kThree).value();
  };
  EXPECT_THAT(run.bind_output("y", floats({1, 2}, {2})).message(),
              AllOf(HasSubstr("'y' is tensor(float)[2]"), HasSubstr("tensor(float)[3]: bind memory of that")));
  EXPECT_THAT(run.bind_output("y", floats({1, 2, 3}, {1, 3})).message(), HasSubstr("[1,3]"));
  EXPECT_THAT(run.bind_output("y", ft::Value::tensor(ft::ElementType::f64, kThree).value()).message(),
              HasSubstr("tensor(double)[3]"));
  ASSERT_TRUE(run.bind_input("h", part(0)).ok());
  ASSERT_TRUE(run.bind_input("x", part(3)).ok());
  ASSERT_TRUE(run.bind_output("y", part(4)).ok());
  EXPECT_THAT(run.run().message(), AllOf(HasSubstr("output 'y' is that of input 'x'"), HasSubstr("swap the two")));
  ASSERT_TRUE(run.bind_output("y", part(6)).ok());
  ASSERT_TRUE(run.bind_output("next", part(6)).ok());
  EXPECT_THAT(run.run().message(), HasSubstr("'next' and 'y' were given the same memory"));
  ASSERT_TRUE(run.bind_output("next", {}).ok());
  ASSERT_TRUE(run.run().ok());
  EXPECT_EQ(room[6], 20);
}

TEST(ApiMemory, AShapeOverItsBoundSaysWhatToDo) {
  ft::SessionOptions o;
  o.max_dimensions["N"] = 2;
  const ft::Session s = load(affine_model(), o);
  EXPECT_TRUE(s.run({{"x", floats({1, 2, 3, 4, 5, 6}, {2, 3})}}).ok());
  EXPECT_THAT(s.run({{"x", ft::Value::tensor(ft::ElementType::f32, Shape{3, 3}).value()}}).status().message(),
              AllOf(HasSubstr("N at most 2"), HasSubstr("what came has 3. Load the model with a larger bound")));
}

TEST(ApiMemory, AValueThatWasMovedIsAbsentAndSaysSo) {
  const ft::Session s = load(affine_model());
  ft::Value x = floats({1, 2, 3}, {1, 3});
  const ft::Value kept = std::move(x);
  EXPECT_TRUE(x.is_absent());  // NOLINT: the point
  EXPECT_THAT(s.run({{"x", x}}).status().message(), AllOf(HasSubstr("'x' is absent"), HasSubstr("moved from")));
  ft::PreparedRun run = s.prepare();
  ASSERT_TRUE(run.bind_input("x", x).ok());  // unbinds
  EXPECT_THAT(run.run().message(), HasSubstr("'x' is missing"));
  EXPECT_TRUE(s.run({{"x", kept}}).ok());
}

void expect_sums(const ft::MemoryStats& s) {
  EXPECT_EQ(s.live + s.retained + s.padding, s.mapped);
  EXPECT_EQ(s.planned + s.unplanned + s.leased + s.weights + s.packed, s.live);
  EXPECT_LE(s.mapped, s.peak);
}

TEST(ApiMemory, StatisticsAddUpAndTrimTellsWhatWent) {
  const ft::Session s = load(affine_model());
  const ft::Value x = ft::Value::tensor(ft::ElementType::f32, Shape{1000, 3}).value();
  const auto held = s.run({{"x", x}}).value();
  s.run({{"x", x}}).value();
  const ft::MemoryStats before = s.memory_stats();
  expect_sums(before);
  EXPECT_GE(before.leased, 12000);
  EXPECT_GT(before.retained, 0);
  expect_sums(ft::memory_stats());
  EXPECT_GE(ft::memory_stats().leased, before.leased);
  const int64_t freed = s.trim();
  const ft::MemoryStats after = s.memory_stats();
  expect_sums(after);
  EXPECT_EQ(freed, before.retained - after.retained);
  EXPECT_EQ(after.retained, 0);
  EXPECT_EQ(after.leased, before.leased);
  ASSERT_TRUE(s.set_retention({0, 0, 0}).ok());
  s.run({{"x", x}}).value();
  EXPECT_EQ(s.memory_stats().retained, 0);
}

TEST(ApiMemory, LimitsThatCannotBe) {
  const ft::Session s = load(affine_model());
  const ft::Value x = ft::Value::tensor(ft::ElementType::f32, Shape{1000, 3}).value();
  const auto held = s.run({{"x", x}}).value();
  const struct {
    ft::Status status;
    const char* part;
  } rows[] = {
      {s.set_memory_limit(-5), "-5 bytes; 0 stands for none"},
      {s.set_memory_limit(int64_t{1} << 62), "more than any machine has"},
      {s.set_memory_limit(1), "in use"},
      {ft::set_memory_limit(-1), "-1 bytes"},
      {ft::set_memory_limit(1), "in use"},
      {ft::set_device_memory_limit(-1), "on devices › the memory limit is -1 bytes"},
      {ft::set_device_memory_limit(int64_t{1} << 62), "more than any machine has"},
      {s.set_retention({-2, 0, 0}), "cannot keep -2 bytes"},
      {[] {
         ft::SessionOptions o;
         o.memory_limit = -1;
         const std::string m = affine_model();
         return ft::Session::load_bytes(std::as_bytes(std::span(m)), o).status();
       }(),
       "-1 bytes"},
  };
  for (const auto& r : rows) EXPECT_THAT(r.status.message(), HasSubstr(r.part));
  ASSERT_TRUE(ft::set_device_memory_limit(1).ok());  // no device here has memory of its own
  EXPECT_TRUE(s.run({{"x", x}}).ok());
  ASSERT_TRUE(ft::set_device_memory_limit(0).ok());
  ASSERT_TRUE(s.set_memory_limit(s.memory_stats().mapped + 10000).ok());
  const ft::Value big = ft::Value::tensor(ft::ElementType::f32, Shape{100000, 3}).value();
  const ft::Status refused = s.run({{"x", big}}).status();
  EXPECT_EQ(refused.code(), ft::ErrorCode::exhausted);
  EXPECT_THAT(refused.message(), HasSubstr("limit"));
  ASSERT_TRUE(s.set_memory_limit(0).ok());
  EXPECT_TRUE(s.run({{"x", big}}).ok());
}

TEST(ApiMemory, TheReportNamesHoldersAndALimitThatWorks) {
  const ft::Session s = load(affine_model());
  const ft::Value x = ft::Value::tensor(ft::ElementType::f32, Shape{1000, 3}).value();
  const auto held = s.run({{"x", x}}).value();
  const ft::MemoryReport report = s.memory_report();
  ASSERT_FALSE(report.holders.empty());
  EXPECT_EQ(report.holders[0].value, "y");
  EXPECT_EQ(report.holders[0].role, "leased");
  EXPECT_GE(report.holders[0].bytes, 12000);
  EXPECT_FALSE(report.outside.empty());
  EXPECT_THAT(report.text, HasSubstr("y"));
  ASSERT_GT(report.least_limit, 0);
  std::vector<std::string> names;
  for (const ft::MemoryCap& c : report.caps) {
    names.push_back(c.name);
    EXPECT_THAT(report.text, HasSubstr(c.name + " "));
    EXPECT_FALSE(c.follows.empty());
    EXPECT_EQ(c.unit, c.name == "plan_cache" ? "plans" : "bytes");
  }
  EXPECT_THAT(names, ElementsAre("execution_cap", "io_cap", "side_cap", "plan_cache", "instance_cache"));
  EXPECT_EQ(s.memory_stats().caps.size(), names.size());
  EXPECT_TRUE(ft::memory_stats().caps.empty());
  ASSERT_TRUE(s.set_memory_limit(report.least_limit).ok());
  EXPECT_TRUE(s.run({{"x", x}}).ok());
}

TEST(ApiMemory, TheReportOfShapesComesBeforeAnyRun) {
  const std::string model = affine_model();
  const ft::Session s = load(model);
  EXPECT_EQ(s.memory_report().least_limit, 0);
  EXPECT_THAT(s.memory_report().text, HasSubstr("without any run, whose shapes are not known yet"));
  const ft::MemoryReport report = s.memory_report({{"x", {1000, 3}}}).value();
  ASSERT_GT(report.least_limit, 12000);
  ASSERT_TRUE(s.set_memory_limit(report.least_limit - 1).ok());
  const ft::Value x = ft::Value::tensor(ft::ElementType::f32, Shape{1000, 3}).value();
  EXPECT_EQ(s.run({{"x", x}}).status().code(), ft::ErrorCode::exhausted);
  ASSERT_TRUE(s.set_memory_limit(report.least_limit).ok());
  EXPECT_TRUE(s.run({{"x", x}}).ok());
  EXPECT_THAT(s.memory_report({{"z", {1}}}).status().message(), HasSubstr("no input 'z'"));
  EXPECT_THAT(s.memory_report(std::map<std::string, std::vector<int64_t>>{}).status().message(),
              HasSubstr("is not fixed: give one"));
}

TEST(ApiMemory, B2_ConfigEntriesSayHowWeightsAreHeld) {
  const std::string model = layers_model();
  const auto load_with = [&](std::map<std::string, std::string> config) {
    ft::SessionOptions o;
    o.config = std::move(config);
    return ft::Session::load_bytes(std::as_bytes(std::span(model)), o);
  };
  const ft::Value x = floats(std::vector<float>(32, 0.5f), {2, 16});
  const ft::Session packed = load_with({{"session.weights", "resident"}}).value();
  const ft::Session unpacked = load_with({{"session.disable_prepacking", "1"}}).value();
  EXPECT_EQ(read(packed.run({{"x", x}}).value()[1]), read(unpacked.run({{"x", x}}).value()[1]));
  EXPECT_GT(packed.figures().packed_weight_bytes, 0);
  EXPECT_EQ(packed.figures().packs_left_out, 0);
  EXPECT_EQ(unpacked.figures().packed_weight_bytes, 0);
  EXPECT_EQ(unpacked.figures().packs_left_out, 2);
  EXPECT_THAT(packed.memory_report().weights, HasSubstr("resident, as session.weights asks for it"));
  EXPECT_THAT(unpacked.memory_report().weights, HasSubstr("2 packed forms ("));
  const ft::Status refused = load_with({{"session.weights", "here"}}).status();
  EXPECT_EQ(refused.code(), ft::ErrorCode::invalid_argument);
  EXPECT_THAT(refused.message(),
              HasSubstr("session.weights is 'here'; it is to be auto, resident, packed or streamed"));
}

// Counts what it gave, and what came back.
struct CountingAllocator : ft::Allocator {
  void* allocate(size_t bytes, size_t alignment) override {
    ++given;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  void deallocate(void* data, size_t) override {
    ++returned;
    std::free(data);
  }
  std::atomic<int> given{0}, returned{0};
};

TEST(ApiMemory, AllocatorsOfACallerServeBothArenas) {
  auto execution = std::make_shared<CountingAllocator>(), io = std::make_shared<CountingAllocator>();
  std::vector<ft::Value> held;
  {
    ft::SessionOptions o;
    o.execution_allocator = execution;
    o.io_allocator = io;
    o.level = ft::OptimizationLevel::disabled;
    o.plan = ft::PlanMode::off;  // the product has a buffer of its own then, instead of y's
    const ft::Session s = load(affine_model(), o);
    held = s.run({{"x", floats({1, 2, 3}, {1, 3})}}).value();
    EXPECT_EQ(io->given, 2);
    EXPECT_GE(execution->given, 1);
  }
  EXPECT_EQ(execution->returned, execution->given);
  EXPECT_EQ(io->returned, 0);
  EXPECT_THAT(read(held[0]), ElementsAre(3, 5, 7));
  held.clear();
  EXPECT_EQ(io->returned, 2);
}

struct NoAllocator : ft::Allocator {
  void* allocate(size_t, size_t) override { return nullptr; }
  void deallocate(void*, size_t) override {}
};

TEST(ApiMemory, AnAllocatorThatHasNothingIsAnError) {
  ft::SessionOptions o;
  o.io_allocator = std::make_shared<NoAllocator>();
  const ft::Status refused = load(affine_model(), o).run({{"x", floats({1, 2, 3}, {1, 3})}}).status();
  EXPECT_EQ(refused.code(), ft::ErrorCode::exhausted);
}

}  // namespace
