// The contract of devices, kept by the CPU and by simulated devices; and what only shows on the latter.
#include <csignal>

#include "device/device_contract_testing.h"
#include "device/host_device.h"
#include "device/sim_device_testing.h"

namespace forethought {
namespace {

std::shared_ptr<SimDevice> sim(const SimDeviceOptions& options = {}) {
  auto made = SimDevice::make(options);
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : nullptr;
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceContract,
                         testing::Values(DeviceMaker{"Cpu", [] { return make_host_device(); }},
                                         DeviceMaker{"Simulated", [] { return sim(); }},
                                         DeviceMaker{"SimulatedTwoLanes", [] { return sim({.lanes = 2}); }},
                                         DeviceMaker{"SimulatedSlow", [] { return sim({.max_delay_us = 300}); }}),
                         name_of);

TEST(SimDeviceDeathTest, HostCodeThatTouchesItsMemoryFails) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto device = sim();
  auto block = device->allocator().allocate(64, "a test");
  ASSERT_TRUE(block.ok());
  auto* bytes = static_cast<volatile char*>(*block);
  EXPECT_DEATH(bytes[0] = 1, "");
  EXPECT_DEATH(static_cast<void>(bytes[1] + 0), "");
  device->allocator().free(*block);
}

TEST(SimDevice, StreamsAreAsynchronousAndAWaitEndsOnlyWithTheWork) {
  auto device = sim();
  auto stream = device->create_stream();
  ASSERT_TRUE(stream.ok());
  auto block = device->allocator().allocate(64, "a test");
  ASSERT_TRUE(block.ok());
  device->pause();
  std::string from(64, 'a');
  ASSERT_TRUE((*stream)->copy({from.data(), Device{}, *block, device->device(), 64}).ok());
  from.assign(64, 'b');  // the stream has not come to it: the bytes of now are what arrives
  EXPECT_EQ(device->counts().copies, 0);
  device->resume();
  ASSERT_TRUE((*stream)->wait().ok());
  EXPECT_EQ(device->counts().copies, 1);
  std::string got(64, '\0');
  ASSERT_TRUE(device->copy({*block, device->device(), got.data(), Device{}, 64}).ok());
  EXPECT_EQ(got, from);
  device->allocator().free(*block);
}

TEST(SimDevice, PausedWorkCanBeDropped) {
  auto device = sim();
  auto stream = device->create_stream();
  ASSERT_TRUE(stream.ok());
  auto block = device->allocator().allocate(64, "a test");
  ASSERT_TRUE(block.ok());
  std::string from(64, 'a');
  device->pause();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*stream)->copy({from.data(), Device{}, *block, device->device(), 64}).ok());
  (*stream)->drop_pending(cancelled("enough"));
  EXPECT_TRUE(absl::IsCancelled((*stream)->wait()));
  EXPECT_EQ(device->counts().copies, 0);
  device->resume();
  device->allocator().free(*block);
}

TEST(SimDevice, FailsWhenToldTo) {
  auto device = sim();
  device->fail_allocation(2);
  auto first = device->allocator().allocate(64, "a test");
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(device->allocator().allocate(64, "a test").ok());
  auto stream = device->create_stream();
  ASSERT_TRUE(stream.ok());
  std::string bytes(64, 'x');
  const CopyJob job{bytes.data(), Device{}, *first, device->device(), 64};
  device->fail_work(2);
  ASSERT_TRUE((*stream)->copy(job).ok() && (*stream)->copy(job).ok() && (*stream)->copy(job).ok());
  EXPECT_NE((*stream)->wait().message().find("failed as it was told to"), std::string::npos);
  EXPECT_EQ(device->counts().copies, 1);
  device->allocator().free(*first);
}

TEST(SimDevice, MemoryThatCameBackIsUsedAgainAndPoisoned) {
  auto device = sim({.memory = 4096});
  DeviceAllocator& a = device->allocator();
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(a.allocate(256, "a test").value());
  EXPECT_FALSE(a.allocate(1, "one more").ok());
  for (int i : {3, 5, 4}) a.free(blocks[i]);
  auto joined = a.allocate(768, "three");
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ(*joined, blocks[3]);
  std::string got(768, '\0');
  ASSERT_TRUE(device->copy({*joined, device->device(), got.data(), Device{}, 768}).ok());
  EXPECT_EQ(got, std::string(768, '\xcd'));
  a.free(*joined);
  for (int i = 0; i < 16; ++i)
    if (i < 3 || i > 5) a.free(blocks[i]);
  EXPECT_EQ(a.statistics().live, 0);
  EXPECT_EQ(a.statistics().peak, 4096);
}

// Two devices, with and without a road of their own between them.
TEST(DeviceSet, CopiesBetweenAnyTwoDevices) {
  for (const bool direct : {false, true}) {
    auto one = sim({.index = 1}), two = sim({.index = 2, .copies_from_other_devices = direct});
    DeviceSet set;
    set.add(DeviceUse(one));
    set.add(DeviceUse(two));
    set.add(DeviceUse(one));
    ASSERT_EQ(set.drivers().size(), 2u);
    EXPECT_EQ(set.find(two->device()), two.get());
    EXPECT_EQ(set.find(Device{}), nullptr);
    void* a = one->allocator().allocate(100, "a").value();
    void* b = two->allocator().allocate(100, "b").value();
    std::string bytes(100, 'q'), got(100, '\0');
    ASSERT_TRUE(set.copy({bytes.data(), Device{}, a, one->device(), 100}).ok());
    ASSERT_TRUE(set.copy({a, one->device(), b, two->device(), 100}).ok());
    ASSERT_TRUE(set.copy({b, two->device(), got.data(), Device{}, 100}).ok());
    EXPECT_EQ(got, bytes);
    EXPECT_EQ(one->counts().synchronous_copies + two->counts().synchronous_copies, direct ? 3 : 4);
    EXPECT_FALSE(set.copy({a, one->device(), b, Device{DeviceKind::gpu, MemoryKind::device, 9}, 100}).ok());
    one->allocator().free(a);
    two->allocator().free(b);
  }
}

}  // namespace
}  // namespace forethought
