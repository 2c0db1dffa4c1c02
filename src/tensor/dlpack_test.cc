// Tensors through DLPack structs: types, strides, refusals, and deleters that run exactly once.
#include "tensor/dlpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace forethought::dlpack {
namespace {

using testing::HasSubstr;

// A foreign library's tensor: counts the calls of its deleter.
template <typename Struct>
struct Foreign {
  Struct managed{};
  std::vector<int64_t> shape, strides;
  std::atomic<int> deleted{0};

  Foreign(void* data, DataType type, std::vector<int64_t> s, std::vector<int64_t> st = {})
      : shape(std::move(s)), strides(std::move(st)) {
    managed.view = {data, {kCpu, 0},    static_cast<int32_t>(shape.size()),
                    type, shape.data(), strides.empty() ? nullptr : strides.data(),
                    0};
    managed.manager = this;
    managed.deleter = [](Struct* s) { ++static_cast<Foreign*>(s->manager)->deleted; };
    if constexpr (std::is_same_v<Struct, ManagedVersioned>) managed.version = kVersion;
  }
};
constexpr DataType kF32{2, 32, 1};

std::vector<float> floats(const Tensor& t) { return {t.as<float>(), t.as<float>() + t.elements()}; }

TEST(DLPack, EveryTypeGoesOutAndComesBackOverTheSameMemory) {
  int through = 0;
  for (int number = 1; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    const Tensor t = make_tensor(dtype, Dims{2, 3}).value();
    const auto out = to_versioned(t);
    if (dtype == DType::kString) {
      EXPECT_THAT(std::string(out.status().message()), HasSubstr("string"));
      continue;
    }
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)->view.data, t.data);
    EXPECT_EQ((*out)->view.strides[0], 3);
    EXPECT_EQ((*out)->view.strides[1], 1);
    const auto in = from_versioned(*out);
    ASSERT_TRUE(in.ok()) << in.status();
    EXPECT_EQ(in->tensor.dtype, dtype);
    EXPECT_EQ(in->tensor.dims, t.dims);
    EXPECT_EQ(in->tensor.data, t.data);
    EXPECT_EQ(in->copied_bytes, 0);
    const auto legacy = to_managed(t);
    ASSERT_TRUE(legacy.ok());
    EXPECT_EQ((*legacy)->view.data, t.data);
    (*legacy)->deleter(*legacy);
    ++through;
  }
  EXPECT_EQ(through, kDTypeCount - 2);
}

TEST(DLPack, AStructKeepsTheMemory) {
  Tensor t = tensor_of<float>({2}, {1, 2});
  ManagedVersioned* out = to_versioned(t, kReadOnly).value();
  t = Tensor();
  EXPECT_EQ(static_cast<float*>(out->view.data)[1], 2);
  auto in = from_versioned(out).value();
  EXPECT_TRUE(in.read_only);
  std::thread other([moved = std::move(in.tensor)]() mutable { const Tensor gone = std::move(moved); });
  other.join();
}

TEST(DLPack, Strides) {
  float m[12];
  for (int i = 0; i < 12; ++i) m[i] = static_cast<float>(i);
  const struct {
    const char* what;
    float* data;
    std::vector<int64_t> shape, strides;
    std::vector<float> want;
    bool copied;
  } rows[] = {
      {"no strides", m, {2, 2}, {}, {0, 1, 2, 3}, false},
      {"row-major", m, {2, 2}, {2, 1}, {0, 1, 2, 3}, false},
      {"dims of one", m, {1, 3, 1}, {77, 1, -5}, {0, 1, 2}, false},
      {"a row", m + 4, {4}, {1}, {4, 5, 6, 7}, false},
      {"nothing", m, {0, 3}, {9, 9}, {}, false},
      {"a scalar", m + 5, {}, {}, {5}, false},
      {"transposed", m, {4, 3}, {1, 4}, {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}, true},
      {"columns of a matrix", m, {3, 2}, {4, 1}, {0, 1, 4, 5, 8, 9}, true},
      {"backwards", m + 3, {4}, {-1}, {3, 2, 1, 0}, true},
      {"broadcast", m + 1, {3, 2}, {0, 1}, {1, 2, 1, 2, 1, 2}, true},
      {"every other", m, {2, 3}, {6, 2}, {0, 2, 4, 6, 8, 10}, true},
  };
  for (const auto& r : rows) {
    SCOPED_TRACE(r.what);
    Foreign<Managed> f(r.data, kF32, r.shape, r.strides);
    {
      const auto in = from_managed(&f.managed);
      ASSERT_TRUE(in.ok()) << in.status();
      EXPECT_EQ(floats(in->tensor), r.want);
      EXPECT_EQ(in->tensor.data == r.data, !r.copied);
      EXPECT_EQ(in->copied_bytes, r.copied ? static_cast<int64_t>(r.want.size() * sizeof(float)) : 0);
      EXPECT_EQ(f.deleted, r.copied ? 1 : 0);
    }
    EXPECT_EQ(f.deleted, 1);
  }
}

TEST(DLPack, ByteOffsetsAlignmentAndPadding) {
  alignas(8) uint8_t raw[32] = {};
  const float value = 2.5f;
  std::memcpy(raw + 8, &value, sizeof value);
  Foreign<ManagedVersioned> offset(raw, kF32, {1});
  offset.managed.view.byte_offset = 8;
  EXPECT_EQ(floats(from_versioned(&offset.managed)->tensor), std::vector<float>{2.5f});
  std::memcpy(raw + 9, &value, sizeof value);
  Foreign<ManagedVersioned> odd(raw + 9, kF32, {1});
  const auto moved = from_versioned(&odd.managed).value();
  EXPECT_EQ(floats(moved.tensor), std::vector<float>{2.5f});
  EXPECT_EQ(moved.copied_bytes, 4);

  uint8_t nibbles[3] = {0x01, 0x0f, 0x02};
  Foreign<ManagedVersioned> padded(nibbles, {0, 4, 1}, {3});
  padded.managed.flags = kPaddedSubByte;
  const auto packed = from_versioned(&padded.managed).value();
  EXPECT_EQ(packed.tensor.as<uint8_t>()[0], 0xf1);
  EXPECT_EQ(packed.tensor.as<uint8_t>()[1], 0x02);
  EXPECT_EQ(padded.deleted, 1);
}

TEST(DLPack, WhatIsRefusedStaysItsMakers) {
  float m[4] = {};
  const auto refused = [&](auto change, const char* part) {
    Foreign<ManagedVersioned> f(m, kF32, {2, 2}, {2, 1});
    change(f);
    const auto in = from_versioned(&f.managed);
    ASSERT_FALSE(in.ok()) << part;
    EXPECT_THAT(std::string(in.status().message()), HasSubstr(part));
    EXPECT_EQ(f.deleted, 0) << part;
  };
  using F = Foreign<ManagedVersioned>;
  refused([](F& f) { f.managed.view.device = {2, 1}; }, "cuda:1, a device that is not here; copy it to the CPU first");
  refused([](F& f) { f.managed.view.device = {99, 0}; }, "device type 99:0");
  refused([](F& f) { f.managed.view.dtype = {2, 32, 4}; }, "4 lanes");
  refused([](F& f) { f.managed.view.dtype = {3, 64, 1}; }, "type code 3");
  refused([](F& f) { f.managed.view.data = nullptr; }, "no memory");
  refused([](F& f) { f.managed.view.ndim = -1; }, "-1 dims");
  refused([](F& f) { f.managed.view.shape = nullptr; }, "no shape");
  refused([](F& f) { f.shape[0] = -2; }, "impossible shape");
  refused(
      [](F& f) {
        f.shape = {int64_t{1} << 40, int64_t{1} << 40}, f.managed.view.shape = f.shape.data();
      },
      "impossible shape");
  refused([](F& f) { f.strides[0] = int64_t{1} << 62; }, "overflow");
  refused([](F& f) { f.managed.version = {2, 0}; }, "DLPack 2.0");
  refused(
      [](F& f) {
        f.managed.view.dtype = {0, 4, 1}, f.strides = {1, 2}, f.managed.view.strides = f.strides.data();
      },
      "make it contiguous");
  EXPECT_FALSE(from_managed(nullptr).ok());
  EXPECT_FALSE(from_versioned(nullptr).ok());
}

}  // namespace
}  // namespace forethought::dlpack
