// Pooling operators: known answers, layouts, types, the tail rules of ceil_mode, refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "kernels/onednn/onednn.h"
#include "ops/op_testing.h"

namespace forethought {
namespace {

using Ints = std::vector<int64_t>;

Tensor random(const Ints& dims) {
  std::mt19937 rng(5);
  std::uniform_real_distribution<float> u(-1, 1);
  Tensor t = make_tensor(DType::kFloat, dims).value();
  for (int64_t i = 0; i < t.elements(); ++i) t.as<float>()[i] = static_cast<float>(BFloat16(u(rng)));
  return t;
}

template <typename T>
Tensor as(const Tensor& t) {
  Tensor r = make_tensor(dtype_of<T>, t.dims).value();
  for (int64_t i = 0; i < t.elements(); ++i) r.as<T>()[i] = static_cast<T>(t.as<float>()[i]);
  return r;
}

Tensor to_blocked(const Tensor& t, int64_t b) {
  const int64_t n = t.dims[0], c = t.dims[1], blocks = (c + b - 1) / b, spatial = t.elements() / (n * c);
  Tensor r = make_tensor(t.dtype, Ints{n * blocks * b * spatial}).value();
  for (int64_t i = 0; i < t.elements(); ++i) {
    const int64_t s = i % spatial, ch = i / spatial % c, img = i / spatial / c;
    r.as<float>()[((img * blocks + ch / b) * spatial + s) * b + ch % b] = t.as<float>()[i];
  }
  r.dims = t.dims;
  r.layout = Layout::blocked(static_cast<uint8_t>(b));
  return r;
}

Ints dims_of(const OpOutcome& o, int i = 0) {
  const Dims& d = o.outputs[i].tensor().dims;
  return Ints(d.begin(), d.end());
}

TEST(MaxPool, KnownAnswersWithIndices) {
  const Tensor x = tensor_of<float>({1, 1, 3, 3}, {1, 9, 2, 8, 3, 7, 4, 6, 5});
  for (int64_t order : {0, 1}) {
    const auto r = run_case({.op = "MaxPool",
                             .inputs = {x},
                             .attributes = attributes({{"kernel_shape", Ints{2, 2}}, {"storage_order", order}}),
                             .outputs = 2});
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_EQ(output_of<float>(*r), (std::vector<float>{9, 9, 8, 7}));
    EXPECT_EQ(output_of<int64_t>(*r, 1), order == 0 ? (Ints{1, 1, 3, 5}) : (Ints{3, 3, 1, 7}));
  }
}

TEST(Pool, OutputSizes) {
  const struct {
    Ints in;
    std::vector<std::pair<std::string, AttributeValue>> attributes;
    Ints want;
  } cases[] = {
      {{1, 1, 4, 4}, {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}}, {1, 1, 2, 2}},
      {{1, 1, 2, 2}, {{"kernel_shape", Ints{1, 1}}, {"strides", Ints{2, 2}}, {"ceil_mode", int64_t{1}}}, {1, 1, 1, 1}},
      {{1, 1, 5}, {{"kernel_shape", Ints{2}}, {"auto_pad", std::string("SAME_UPPER")}}, {1, 1, 5}},
      {{1, 1, 5},
       {{"kernel_shape", Ints{2}}, {"strides", Ints{3}}, {"auto_pad", std::string("SAME_LOWER")}},
       {1, 1, 2}},
      {{1, 1, 5},
       {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"auto_pad", std::string("VALID")}, {"ceil_mode", int64_t{1}}},
       {1, 1, 3}},
      {{2, 3, 5}, {{"kernel_shape", Ints{2}}, {"dilations", Ints{3}}}, {2, 3, 2}},
      {{0, 3, 5}, {{"kernel_shape", Ints{2}}}, {0, 3, 4}},
  };
  for (const char* op : {"MaxPool", "AveragePool"})
    for (const auto& c : cases) {
      const auto r = run_case({.op = op, .inputs = {random(c.in)}, .attributes = attributes(c.attributes)});
      ASSERT_TRUE(r.ok()) << op << r.status();
      EXPECT_EQ(dims_of(*r), c.want) << op;
    }
}

// Pitfall 7: a last window that would lie wholly in the padding on the right is left out.
TEST(MaxPool, Pitfall7TailOfCeilMode) {
  const Tensor x = random({1, 2, 3, 6, 5});
  const auto r = run_case({.op = "MaxPool",
                           .inputs = {x},
                           .attributes = attributes({{"kernel_shape", Ints{3, 3, 3}},
                                                     {"strides", Ints{3, 3, 3}},
                                                     {"pads", Ints{1, 1, 1, 1, 1, 1}},
                                                     {"ceil_mode", int64_t{1}}})});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(dims_of(*r), (Ints{1, 2, 2, 3, 2}));
  const std::set<float> values(x.as<float>(), x.as<float>() + x.elements());
  for (float v : output_of<float>(*r)) EXPECT_TRUE(values.count(v)) << v;
}

TEST(AveragePool, DividesByWhatItCounts) {
  const Tensor x = tensor_of<float>({1, 1, 4}, {1, 2, 3, 4});
  for (int64_t count : {0, 1}) {
    const auto r = run_case({.op = "AveragePool",
                             .inputs = {x},
                             .attributes = attributes({{"kernel_shape", Ints{3}},
                                                       {"strides", Ints{2}},
                                                       {"pads", Ints{1, 0}},
                                                       {"ceil_mode", int64_t{1}},
                                                       {"count_include_pad", count}})});
    ASSERT_TRUE(r.ok()) << r.status();
    // Windows [pad,1,2], [2,3,4]; a third would start at 4 + pad and is left out or not by size: (4+1-3)/2 is whole.
    EXPECT_EQ(output_of<float>(*r), count ? (std::vector<float>{1, 3}) : (std::vector<float>{1.5f, 3}));
  }
}

TEST(Pool, TypesAndLayoutsAgree) {
  const int64_t block = kernels::onednn::channel_block(active_isa());
  const Tensor x = random({2, 19, 7, 6});
  const auto window = attributes({{"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 1}}});
  for (const char* op : {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"}) {
    const bool global = std::string(op).find("Global") == 0;
    const auto run = [&](const Tensor& t, Layout in, Layout out) {
      return run_case({.op = op,
                       .inputs = {t},
                       .attributes = global ? Attributes() : window,
                       .input_layouts = {in},
                       .output_layouts = {out}});
    };
    const auto f64 = run(as<double>(x), {}, {});
    ASSERT_TRUE(f64.ok()) << f64.status();
    const auto want = output_of<double>(*f64);
    const auto f32 = run(x, {}, {});
    ASSERT_TRUE(f32.ok()) << f32.status();
    const auto got = output_of<float>(*f32);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << op << " at " << i;
    const auto f16 = run(as<Float16>(x), {}, {}), bf16 = run(as<BFloat16>(x), {}, {});
    ASSERT_TRUE(f16.ok() && bf16.ok());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(static_cast<float>(output_of<Float16>(*f16)[i]), want[i], 2e-3) << op;
      EXPECT_NEAR(static_cast<float>(output_of<BFloat16>(*bf16)[i]), want[i], 1e-2) << op;
    }
    if (active_isa() == Isa::scalar) continue;
    const Layout blocked = Layout::blocked(static_cast<uint8_t>(block));
    const auto b = run(to_blocked(x, block), blocked, global ? Layout() : blocked);
    ASSERT_TRUE(b.ok()) << b.status();
    const Tensor expected = global ? f32->outputs[0].tensor() : to_blocked(f32->outputs[0].tensor(), block);
    const int64_t n = storage_elements(expected.layout, expected.dims).value();
    for (int64_t i = 0; i < n; ++i)
      ASSERT_NEAR(b->outputs[0].tensor().as<float>()[i], expected.as<float>()[i], 1e-6) << op << " blocked at " << i;
  }
}

TEST(MaxPool, SmallIntegers) {
  const auto r = run_case({.op = "MaxPool",
                           .inputs = {tensor_of<int8_t>({1, 1, 4}, {-128, -5, -6, 7})},
                           .attributes = attributes({{"kernel_shape", Ints{2}}, {"strides", Ints{2}}})});
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(output_of<int8_t>(*r), (std::vector<int8_t>{-5, 7}));
}

TEST(Pool, Refuses) {
  const Tensor x = random({1, 2, 5, 5});
  const struct {
    OpCase c;
    const char* expected;
  } cases[] = {
      {{.op = "MaxPool", .inputs = {x}}, "kernel_shape"},
      {{.op = "MaxPool", .inputs = {x}, .attributes = attributes({{"kernel_shape", Ints{2}}})}, "rank"},
      {{.op = "MaxPool", .inputs = {x}, .attributes = attributes({{"kernel_shape", Ints{6, 6}}})}, "reaches"},
      {{.op = "MaxPool",
        .inputs = {x},
        .attributes = attributes({{"kernel_shape", Ints{2, 2}}, {"storage_order", int64_t{2}}})},
       "storage_order"},
      {{.op = "AveragePool",
        .inputs = {x},
        .attributes = attributes({{"kernel_shape", Ints{2, 2}}, {"pads", Ints{1, 1, 1}}})},
       "pads"},
      {{.op = "AveragePool", .inputs = {x}, .attributes = attributes({{"kernel_shape", Ints{2, -2}}})}, "kernel_shape"},
      {{.op = "AveragePool",
        .inputs = {tensor_of<int8_t>({1, 1, 1}, {1})},
        .attributes = attributes({{"kernel_shape", Ints{1}}})},
       "int8"},
      {{.op = "GlobalMaxPool", .inputs = {tensor_of<float>({1}, {1})}}, "channel"},
  };
  for (const auto& c : cases) {
    const auto r = run_case(c.c);
    ASSERT_FALSE(r.ok()) << c.expected;
    EXPECT_NE(r.status().message().find(c.expected), std::string::npos) << r.status();
  }
}

}  // namespace
}  // namespace forethought
