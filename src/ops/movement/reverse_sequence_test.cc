// ReverseSequence: both orders of axes, lengths of none and all, refusals.
#include <gtest/gtest.h>

#include "ops/op_testing.h"

namespace forethought {
namespace {

StatusOr<OpOutcome> reversed(Value x, std::vector<int64_t> lengths, int64_t batch_axis) {
  return run_case({.op = "ReverseSequence",
                   .inputs = {std::move(x), tensor_of<int64_t>({static_cast<int64_t>(lengths.size())}, lengths)},
                   .attributes = attributes({{"batch_axis", batch_axis}, {"time_axis", 1 - batch_axis}})});
}

TEST(ReverseSequence, BatchesAndSteps) {
  const Tensor x = tensor_of<int32_t>({3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  auto o = reversed(x, {3, 1}, 1);
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(output_of<int32_t>(*o), (std::vector<int32_t>{9, 10, 3, 4, 5, 6, 7, 8, 1, 2, 11, 12}));
  o = reversed(x, {2, 0, 1}, 0);
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(output_of<int32_t>(*o), (std::vector<int32_t>{3, 4, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12}));
  o = reversed(tensor_of<std::string>({1, 3}, {"a", "b", "c"}), {3}, 0);
  ASSERT_TRUE(o.ok()) << o.status();
  EXPECT_EQ(output_of<std::string>(*o), (std::vector<std::string>{"c", "b", "a"}));
}

TEST(ReverseSequence, Refusals) {
  const Tensor x = tensor_of<float>({2, 2}, {1, 2, 3, 4});
  const auto error = [](const StatusOr<OpOutcome>& o) { return o.ok() ? "none" : std::string(o.status().message()); };
  EXPECT_NE(error(reversed(x, {3, 0}, 0)).find("the sequences have 2 steps"), std::string::npos);
  EXPECT_NE(error(reversed(x, {-1, 0}, 1)).find("sequence_lens has -1"), std::string::npos);
  EXPECT_NE(error(reversed(x, {1}, 1)).find("1 lengths for 2"), std::string::npos);
  EXPECT_NE(error(reversed(x, {1, 1}, 2)).find("one must be 0"), std::string::npos);
  EXPECT_NE(error(reversed(tensor_of<float>({2}, {1, 2}), {1, 1}, 1)).find("two dims"), std::string::npos);
}

}  // namespace
}  // namespace forethought
