// When two tensors share bytes: only addresses of one space can be compared.
#include "session/bound_memory.h"

#include <gtest/gtest.h>

namespace forethought {
namespace {

TEST(BoundMemory, TensorsOverlapInOneSpaceOnly) {
  const Device host, gpu{DeviceKind::gpu, MemoryKind::device, 0}, other{DeviceKind::gpu, MemoryKind::device, 1},
      visible{DeviceKind::gpu, MemoryKind::host_visible, 0};
  alignas(8) std::byte memory[64];
  const auto at = [&](Device device, int64_t from, int64_t floats) {
    Tensor t;
    t.dtype = DType::kFloat;
    t.dims = {floats};
    t.device = device;
    t.data = memory + from;
    return t;
  };
  const struct {
    Tensor a, b;
    bool overlap;
  } rows[] = {
      {at(host, 0, 4), at(host, 0, 4), true},    {at(host, 0, 4), at(host, 12, 4), true},
      {at(host, 0, 4), at(host, 16, 4), false},  {at(gpu, 0, 4), at(gpu, 12, 1), true},
      {at(gpu, 0, 4), at(gpu, 16, 4), false},    {at(gpu, 0, 4), at(host, 0, 4), false},
      {at(gpu, 0, 4), at(other, 0, 4), false},   {at(visible, 0, 4), at(host, 0, 4), true},
      {at(visible, 0, 4), at(gpu, 0, 4), false}, {at(host, 8, 0), at(host, 8, 4), false},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(overlap(row.a, row.b), row.overlap) << &row - rows;
    EXPECT_EQ(overlap(row.b, row.a), row.overlap) << &row - rows;
  }
  EXPECT_FALSE(overlap(Tensor(), at(host, 0, 4)));
}

}  // namespace
}  // namespace forethought
