// What every device has to keep, as a test suite: instantiate DeviceContract with a maker of the device.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "device/device.h"

namespace forethought {

struct DeviceMaker {
  std::string name;
  std::function<std::shared_ptr<DeviceDriver>()> make;  // a device of its own, not used by anybody else
};
inline std::string name_of(const testing::TestParamInfo<DeviceMaker>& info) { return info.param.name; }

class DeviceContract : public testing::TestWithParam<DeviceMaker> {
 protected:
  void SetUp() override;
  void TearDown() override;  // every block and stream is back

  // A block that goes back with the test.
  void* block(int64_t bytes);
  std::unique_ptr<DeviceStream> stream();
  void write(void* to, const std::string& bytes);
  std::string read(const void* from, int64_t bytes);

  std::shared_ptr<DeviceDriver> driver_;
  std::vector<void*> blocks_;
};

}  // namespace forethought
