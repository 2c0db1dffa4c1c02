#include "base/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>

#include "base/hash.h"

namespace forethought {

std::string system_error(std::string_view what) {
  const int error = errno;
  return fmt::format("{}: {}", what, std::strerror(error));
}

Status write_all(int descriptor, const void* data, size_t size, std::string_view name) {
  for (const auto* at = static_cast<const char*>(data); size > 0;) {
    const ssize_t written = ::write(descriptor, at, std::min<size_t>(size, size_t{1} << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return invalid(system_error(fmt::format("cannot write '{}'", name)));
    at += written;
    size -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

uint64_t RandomDigits::operator()() const {
  uint64_t digits = 0;
  if (::getrandom(&digits, sizeof digits, GRND_NONBLOCK) == static_cast<ssize_t>(sizeof digits)) return digits;
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  return hash_combine(static_cast<uint64_t>(now), static_cast<uint64_t>(::getpid()));
}

StatusOr<NewFile> NewFile::create(const std::string& path, std::optional<mode_t> mode, FunctionRef<uint64_t()> digits) {
  constexpr int kTries = 100;                  // each finds a name taken with next to no chance
  const size_t name_at = path.rfind('/') + 1;  // 0 without a folder
  for (int i = 0; i < kTries; ++i) {
    const std::string end = fmt::format(".{:016x}{}", digits(), kUnfinished);
    const std::string unfinished = path.substr(0, name_at) + path.substr(name_at, NAME_MAX - end.size()) + end;
    const int descriptor = ::open(unfinished.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode ? 0600 : 0666);
    if (descriptor < 0 && errno == EEXIST) continue;
    if (descriptor < 0)
      return invalid(system_error(fmt::format("cannot write '{}': cannot make '{}'", path, unfinished)));
    NewFile file(path, unfinished, descriptor);
    if (mode && ::fchmod(descriptor, *mode) != 0)
      return invalid(system_error(fmt::format("cannot write '{}': cannot give it the mode {:o}", path, *mode)));
    return file;
  }
  return invalid(fmt::format("cannot write '{}': {} names beside it that end in '{}' were taken; remove such files",
                             path, kTries, kUnfinished));
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(unfinished_.c_str());
}

Status NewFile::finish() {
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed == 0 && ::rename(unfinished_.c_str(), path_.c_str()) == 0) return absl::OkStatus();
  Status status = invalid(system_error(fmt::format("cannot write '{}'", path_)));
  ::unlink(unfinished_.c_str());
  return status;
}

}  // namespace forethought
