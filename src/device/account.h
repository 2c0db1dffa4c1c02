// Whose memory on a device is counted where, and blocks that are counted as long as they live.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "device/device.h"
#include "memory/budget.h"

namespace forethought {

// The account of all that the process holds on a device: one for each device, never destroyed. Accounts of sessions are
// its children.
const std::shared_ptr<MemoryBudget>& device_account(Device device);
// Those of every device that has had one so far, by name.
std::vector<std::shared_ptr<MemoryBudget>> device_accounts();

// The limit of each of those accounts, also of those to come; 0: none. It comes from FORETHOUGHT_DEVICE_MEMORY_LIMIT at
// the first use, if that is a size (Session::load refuses what is none), and from set_limit_of_devices().
int64_t limit_of_devices();
void set_limit_of_devices(int64_t limit);  // at once gives back what is kept above it

DeviceMemory device_memory(const MemoryBudget& account);
// Of every device that has had an account so far.
std::vector<DeviceMemory> device_memory_of_process();

// A block of a device; it keeps the device, and goes back by itself. Live in the account, unless set aside.
class DeviceBlock {
 public:
  DeviceBlock(DeviceBlock&& o) noexcept
      : use_(std::move(o.use_)),
        role_(o.role_),
        bytes_(o.bytes_),
        data_(std::exchange(o.data_, nullptr)),
        live_(o.live_) {}
  DeviceBlock& operator=(DeviceBlock&& o) noexcept {
    std::swap(use_, o.use_);
    std::swap(role_, o.role_);
    std::swap(bytes_, o.bytes_);
    std::swap(data_, o.data_);
    std::swap(live_, o.live_);
    return *this;
  }
  ~DeviceBlock();

  // Counted before the device is asked; a refusal is one of MemoryBudget::refusal_of.
  static StatusOr<DeviceBlock> take(const DeviceUse& use, MemoryRole role, int64_t bytes, std::string_view who);

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  void set_live(bool live);  // else it is retained

 private:
  DeviceBlock(DeviceUse use, MemoryRole role, int64_t bytes, void* data)
      : use_(std::move(use)), role_(role), bytes_(bytes), data_(data) {}
  DeviceUse use_;
  MemoryRole role_;
  int64_t bytes_;
  void* data_;
  bool live_ = false;
};

}  // namespace forethought
