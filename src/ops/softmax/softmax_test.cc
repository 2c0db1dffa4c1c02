// Softmax and LogSoftmax: axes, the older 2-D form, in place, refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/op_testing.h"

namespace forethought {
namespace {

struct Row {
  std::initializer_list<int64_t> dims;
  int64_t axis, coerce;
  std::vector<int> group;  // of each element: those of one group are normalised together
};

TEST(Softmax, AxesAndTheOlderForm) {
  const Row rows[] = {
      {{2, 3}, -1, 0, {0, 0, 0, 1, 1, 1}},
      {{2, 3}, 0, 0, {0, 1, 2, 0, 1, 2}},
      {{1, 2, 3}, 1, 0, {0, 1, 2, 0, 1, 2}},
      {{1, 2, 3}, 1, 1, {0, 0, 0, 0, 0, 0}},
      {{2, 1, 3}, 1, 1, {0, 0, 0, 1, 1, 1}},
      {{6}, 0, 1, {0, 0, 0, 0, 0, 0}},
      {{0, 3}, 1, 0, {}},
  };
  for (const Row& r : rows)
    for (const char* op : {"Softmax", "LogSoftmax"})
      for (bool share : {false, true}) {
        std::vector<float> x = {1, 2, -1, 0.5f, 3, 0};
        x.resize(r.group.size());
        auto o = run_case({.op = op,
                           .inputs = {tensor_of<float>(r.dims, x)},
                           .attributes = attributes({{"axis", r.axis}, {"_coerce_2d", r.coerce}}),
                           .share = share});
        ASSERT_TRUE(o.ok()) << o.status();
        const auto y = output_of<float>(*o);
        for (size_t i = 0; i < x.size(); ++i) {
          double sum = 0;
          for (size_t j = 0; j < x.size(); ++j)
            if (r.group[j] == r.group[i]) sum += std::exp(double{x[j]});
          const double want = std::exp(double{x[i]}) / sum;
          EXPECT_NEAR(y[i], op[0] == 'S' ? want : std::log(want), 1e-6);
        }
      }
}

TEST(Softmax, ManyBlocks) {
  std::vector<Float16> x(130 * 600);
  for (size_t i = 0; i < x.size(); ++i) x[i] = Float16(static_cast<float>(i % 7));
  for (int64_t axis : {0, 1}) {
    auto o = run_case(
        {.op = "Softmax", .inputs = {tensor_of<Float16>({130, 600}, x)}, .attributes = attributes({{"axis", axis}})});
    ASSERT_TRUE(o.ok()) << o.status();
    const auto y = output_of<Float16>(*o);
    double total = 0;
    for (Float16 v : y) total += static_cast<float>(v);
    EXPECT_NEAR(total, axis == 0 ? 600 : 130, axis == 0 ? 0.6 : 0.13);
  }
}

TEST(Softmax, Refusals) {
  auto o = run_case({.op = "Softmax",
                     .inputs = {tensor_of<float>({2, 3}, {1, 2, 3, 4, 5, 6})},
                     .attributes = attributes({{"axis", int64_t{2}}})});
  ASSERT_FALSE(o.ok());
  EXPECT_NE(o.status().message().find("axis 2"), std::string::npos) << o.status();
  o = run_case({.op = "LogSoftmax", .inputs = {tensor_of<int32_t>({1}, {1})}});
  ASSERT_FALSE(o.ok());
  EXPECT_NE(o.status().message().find("int32"), std::string::npos) << o.status();
}

}  // namespace
}  // namespace forethought
