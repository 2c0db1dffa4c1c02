// Inputs with strides, seen as a user sees them: public headers alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "api/calls_testing.h"
#include "api/models_testing.h"
#include "forethought/dlpack.h"
#include "forethought/forethought.h"

namespace ft = forethought;

namespace {

using forethought_testing::affine_model;
using forethought_testing::floats;
using forethought_testing::load;
using forethought_testing::read;
using forethought_testing::state_model;
using testing::ElementsAre;
using testing::HasSubstr;

ft::Result<ft::Value> over(std::vector<float>& memory, const std::vector<int64_t>& shape,
                           const std::vector<int64_t>& strides, int64_t first) {
  return ft::Value::borrow_strided(ft::ElementType::f32, shape, strides, first, memory.data(),
                                   memory.size() * sizeof(float));
}

TEST(ApiStrided, C22_RunsReadInputsInAnySteps) {
  std::vector<float> memory = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const ft::Session s = load(affine_model());
  const struct {
    std::vector<int64_t> strides;
    int64_t first;
    std::vector<float> y;
  } rows[] = {
      {{4, 1}, 1, {3, 5, 7, 11, 13, 15}},    // with a gap
      {{-3, 1}, 6, {13, 15, 17, 7, 9, 11}},  // backwards
      {{0, 1}, 2, {5, 7, 9, 5, 7, 9}},       // repeated
      {{1, 2}, 0, {1, 5, 9, 3, 7, 11}},      // by columns
      {{1, 1}, 0, {1, 3, 5, 3, 5, 7}},       // elements that are shared
      {{3, 1}, 0, {1, 3, 5, 7, 9, 11}},      // row-major
  };
  ft::PreparedRun prepared = s.prepare();
  for (const auto& r : rows) {
    const auto x = over(memory, {2, 3}, r.strides, r.first);
    ASSERT_TRUE(x.ok()) << x.status().message();
    EXPECT_THAT(x->strides(), testing::ElementsAreArray(r.strides));
    const auto all = s.run({{"x", *x}});
    ASSERT_TRUE(all.ok()) << all.status().message();
    EXPECT_EQ(read((*all)[0]), r.y);
    ASSERT_TRUE(prepared.bind_input("x", *x).ok());
    ASSERT_TRUE(prepared.run().ok());
    EXPECT_EQ(read(prepared.output(0)), r.y);
  }
  EXPECT_THAT(memory, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(ApiStrided, C22_StridesThatCannotBeSayWhatToDo) {
  std::vector<float> memory(10);
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max(), kLow = std::numeric_limits<int64_t>::min();
  const struct {
    std::vector<int64_t> shape, strides;
    int64_t first;
    const char* says;
  } rows[] = {
      {{2, 3}, {1}, 0, "give one for each dim"},
      {{2, 3},
       {8, 1},
       0,
       "reaches from 0 elements before its first one to 10 behind it; the first is element 0 of "
       "memory that has 10"},
      {{2, 3}, {-3, 1}, 2, "reaches from 3 elements before its first one"},
      {{2, 3}, {3, 1}, 10, "the first is element 10"},
      {{2, 3}, {3, 1}, -1, "the first is element -1"},
      {{2, 3}, {kFar, 1}, 0, "reach farther than memory does"},
      {{2, 3}, {kLow, 1}, 0, "reach farther than memory does"},
      {{2, -3}, {1, 1}, 0, "is impossible"},
  };
  for (const auto& r : rows) {
    const auto x = over(memory, r.shape, r.strides, r.first);
    ASSERT_FALSE(x.ok());
    EXPECT_EQ(x.status().code(), ft::ErrorCode::invalid_argument);
    EXPECT_THAT(std::string(x.status().message()), HasSubstr(r.says));
  }
  EXPECT_FALSE(
      ft::Value::borrow_strided(ft::ElementType::f32, std::vector<int64_t>{2}, std::vector<int64_t>{1}, 0, nullptr, 8)
          .ok());
  EXPECT_FALSE(ft::Value::borrow_strided(ft::ElementType::string, std::vector<int64_t>{2}, std::vector<int64_t>{1}, 0,
                                         memory.data(), 40)
                   .ok());
  EXPECT_TRUE(over(memory, {0, 3}, {kFar, 1}, 77).ok());  // no element, nothing to reach
  EXPECT_TRUE(over(memory, {1, 3}, {kFar, 1}, 7).ok());   // no second row
}

// Such a value is an input and nothing else.
TEST(ApiStrided, C22_ValuesWithStridesServeNothingElse) {
  std::vector<float> memory(10);
  auto lease = ft::Value::tensor(ft::ElementType::f32, std::vector<int64_t>{3})->lease();
  ASSERT_TRUE(lease.ok());
  const ft::Value x = over(memory, {3}, {2}, 0).value();
  EXPECT_FALSE(x.elements<float>().ok());
  EXPECT_FALSE(x.lease().ok());
  EXPECT_FALSE(ft::to_dlpack(x).ok());
  EXPECT_FALSE(ft::Value::sequence(ft::ElementType::f32, std::vector<ft::Value>{x}).ok());
  const ft::Session s = load(state_model());
  ft::PreparedRun run = s.prepare();
  const ft::Status bound = run.bind_output("next", x);
  EXPECT_FALSE(bound.ok());
  EXPECT_THAT(std::string(bound.message()), HasSubstr("has strides; bind memory that is contiguous"));
  // Nor does its memory change places with that of an output.
  ASSERT_TRUE(run.bind_input("h", x).ok() && run.bind_input("x", floats({1, 2, 3}, {3})).ok());
  ASSERT_TRUE(run.bind_output("next", floats({0, 0, 0}, {3})).ok() && run.donate("next", "h").ok());
  ASSERT_TRUE(run.run().ok());
  const ft::Status again = run.run();
  EXPECT_FALSE(again.ok());
  EXPECT_THAT(std::string(again.message()), HasSubstr("which has strides"));
}

}  // namespace
