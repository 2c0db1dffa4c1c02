#include "device/device.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace forethought {

void DeviceSet::add(DeviceUse device) {
  if (find(device.driver->device())) return;
  accounts_.push_back(std::move(device.account));
  drivers_.push_back(std::move(device.driver));
}

int32_t DeviceSet::place_of(Device device) const {
  const auto found = std::ranges::find_if(drivers_, [&](const auto& d) { return d->device() == device; });
  return found == drivers_.end() ? -1 : static_cast<int32_t>(found - drivers_.begin());
}

DeviceDriver* DeviceSet::find(Device device) const {
  const int32_t place = place_of(device);
  return place < 0 ? nullptr : drivers_[static_cast<size_t>(place)].get();
}

std::optional<DeviceUse> DeviceSet::use(Device device) const {
  const int32_t place = place_of(device);
  return place < 0 ? std::nullopt : std::optional(use(static_cast<size_t>(place)));
}

DeviceDriver* DeviceSet::copier(Device from, Device to) const {
  for (const Device end : {to, from}) {
    DeviceDriver* driver = find(end);
    if (driver && driver->can_copy(from, to)) return driver;
  }
  return nullptr;
}

Status DeviceSet::copy(const CopyJob& job) const {
  RETURN_IF_ERROR(check_copy(job));
  if (job.bytes == 0) return absl::OkStatus();
  if (DeviceDriver* driver = copier(job.from_device, job.to_device)) return driver->copy(job);
  DeviceDriver* source = find(job.from_device);
  DeviceDriver* target = find(job.to_device);
  if (!source && !target) {  // the host's memory, or such as the host works with
    std::memmove(job.to, job.from, static_cast<size_t>(job.bytes));
    return absl::OkStatus();
  }
  if (!source || !target) {
    return unsupported(absl::StrCat("no device copies from ", to_string(job.from_device), " to ",
                                    to_string(job.to_device), "; every device must copy from and to the host"));
  }
  std::vector<std::byte> between(static_cast<size_t>(job.bytes));
  CopyJob first = job, second = job;
  first.to = between.data();
  second.from = between.data();
  first.to_device = second.from_device = Device{};
  RETURN_IF_ERROR(source->copy(first));
  return target->copy(second);
}

Status check_copy(const CopyJob& job) {
  if (job.bytes < 0) return invalid(absl::StrCat("a copy of ", job.bytes, " bytes"));
  if (job.bytes > 0 && (!job.from || !job.to)) {
    return invalid(absl::StrCat("a copy of ", job.bytes, " bytes ", job.from ? "to" : "from", " no address"));
  }
  return absl::OkStatus();
}

}  // namespace forethought
