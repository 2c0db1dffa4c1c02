#include "device/account.h"

#include <map>
#include <mutex>
#include <string>

#include "base/knobs.h"

namespace forethought {
namespace {

// Never destroyed: blocks may come back while the program ends.
struct Accounts {
  std::mutex setting;  // one limit at a time; taken before `mutex`
  std::mutex mutex;    // guards what follows
  int64_t limit = parse_memory_size(knob_string(Knob::kDeviceMemoryLimit)).value_or(MemoryBudget::kUnlimited);
  std::map<std::string, std::shared_ptr<MemoryBudget>> by_device;
};
Accounts& accounts() {
  static auto* const all = new Accounts;
  return *all;
}

}  // namespace

const std::shared_ptr<MemoryBudget>& device_account(Device device) {
  const std::string name = to_string(device);
  const std::lock_guard lock(accounts().mutex);
  std::shared_ptr<MemoryBudget>& account = accounts().by_device[name];
  if (!account) account = std::make_shared<MemoryBudget>(accounts().limit, nullptr, name);
  return account;
}

std::vector<std::shared_ptr<MemoryBudget>> device_accounts() {
  std::vector<std::shared_ptr<MemoryBudget>> list;
  const std::lock_guard lock(accounts().mutex);
  for (const auto& [name, account] : accounts().by_device) list.push_back(account);
  return list;
}

int64_t limit_of_devices() {
  const std::lock_guard lock(accounts().mutex);
  return accounts().limit;
}

void set_limit_of_devices(int64_t limit) {
  const std::lock_guard one(accounts().setting);
  {
    const std::lock_guard lock(accounts().mutex);
    accounts().limit = limit;
  }
  for (const auto& account : device_accounts()) account->set_limit(limit);
}

DeviceMemory device_memory(const MemoryBudget& account) {
  const MemoryStatistics s = account.statistics();
  return {account.device(), s.live, s.retained, s.peak, s.limit};
}

std::vector<DeviceMemory> device_memory_of_process() {
  std::vector<DeviceMemory> list;
  for (const auto& account : device_accounts()) list.push_back(device_memory(*account));
  return list;
}

DeviceUse::DeviceUse(std::shared_ptr<DeviceDriver> d, std::shared_ptr<MemoryBudget> a)
    : driver(std::move(d)), account(a ? std::move(a) : device_account(driver->device())) {}

StatusOr<DeviceBlock> DeviceBlock::take(const DeviceUse& use, MemoryRole role, int64_t bytes, std::string_view who) {
  RETURN_IF_ERROR(use.account->reserve(role, bytes, who));
  const auto data = use.driver->allocator().allocate(bytes, who);
  if (!data.ok()) {
    use.account->release(role, bytes);
    return data.status();
  }
  DeviceBlock block(use, role, bytes, *data);
  block.set_live(true);
  return block;
}

void DeviceBlock::set_live(bool live) {
  if (std::exchange(live_, live) == live) return;
  if (live) {
    use_.account->use(role_, bytes_, 0);
  } else {
    use_.account->unuse(role_, bytes_, 0);
  }
}

DeviceBlock::~DeviceBlock() {
  if (!data_) return;
  set_live(false);
  use_.driver->allocator().free(data_);
  use_.account->release(role_, bytes_);
}

}  // namespace forethought
