// The registry of mappings, by file and by address.
#include "memory/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "memory/system.h"

namespace forethought {
namespace {

using FileKey = std::array<int64_t, 7>;

FileKey key_of(const struct stat& f) {
  return {static_cast<int64_t>(f.st_dev),
          static_cast<int64_t>(f.st_ino),
          f.st_size,
          f.st_mtim.tv_sec,
          f.st_mtim.tv_nsec,
          f.st_ctim.tv_sec,
          f.st_ctim.tv_nsec};
}

std::string system_error(std::string_view what) {
  const int error = errno;
  return fmt::format("{}: {}", what, std::strerror(error));
}

// Never destroyed: mappings may end while the program does.
struct Registry {
  std::mutex mutex;
  std::map<FileKey, std::weak_ptr<const MappedFile::Mapping>> by_file;
  struct Range {
    int64_t size = 0, number = 0;
  };
  std::map<const std::byte*, Range> by_address;
  int64_t last_number = 0;
};
Registry& registry() {
  static auto* const r = new Registry;
  return *r;
}

// The number of the mapped range that all of the bytes lie in; 0: of none.
int64_t number_of(const Registry& r, const std::byte* data, int64_t bytes) {
  auto after = r.by_address.upper_bound(data);
  if (after == r.by_address.begin()) return 0;
  const auto& [begin, range] = *std::prev(after);
  return bytes >= 0 && bytes <= range.size && data - begin <= range.size - bytes ? range.number : 0;
}

}  // namespace

class MappedFile::Mapping {
 public:
  Mapping(const FileKey& key, int64_t size, bool counted) : key_(key), size_(size), counted_(counted) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Status map(int descriptor, std::string_view path) {
    MemoryBudget& process = *MemoryBudget::process();
    if (counted_) RETURN_IF_ERROR(process.reserve(MemoryRole::weights, Pages::rounded(size_), path));
    const auto mapped = map_file_pages(descriptor, size_);
    if (!mapped) {
      if (counted_) process.release(MemoryRole::weights, Pages::rounded(size_));
      return exhausted(fmt::format("cannot map {} ({}) into memory", path, readable_bytes(size_)));
    }
    data_ = static_cast<const std::byte*>(mapped);
    if (counted_) process.use(MemoryRole::weights, size_, padding());
    return absl::OkStatus();
  }

  ~Mapping() {
    if (!data_) return;
    Registry& r = registry();
    {
      const std::lock_guard lock(r.mutex);
      r.by_address.erase(data_);
      const auto known = r.by_file.find(key_);
      if (known != r.by_file.end() && known->second.expired()) r.by_file.erase(known);
    }
    unmap_file_pages(data_, size_);
    if (!counted_) return;
    MemoryBudget& process = *MemoryBudget::process();
    process.unuse(MemoryRole::weights, size_, padding());
    process.release(MemoryRole::weights, Pages::rounded(size_));
  }

  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  int64_t padding() const { return Pages::rounded(size_) - size_; }

 private:
  const FileKey key_;
  const int64_t size_;
  const bool counted_;  // in the process's account
  const std::byte* data_ = nullptr;
};

std::span<const std::byte> MappedFile::bytes() const {
  return mapping_ ? mapping_->bytes() : std::span<const std::byte>();
}

StatusOr<MappedFile> MappedFile::open(const std::string& path, std::shared_ptr<MemoryBudget> budget) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const bool missing = errno == ENOENT;
    const std::string message = system_error(fmt::format("cannot open {}", path));
    return missing ? not_found(message) : invalid(message);
  }
  auto file = map(descriptor, path, std::move(budget));
  ::close(descriptor);
  return file;
}

StatusOr<MappedFile> MappedFile::map(int descriptor, std::string_view path, std::shared_ptr<MemoryBudget> budget) {
  struct stat facts;
  if (::fstat(descriptor, &facts) != 0) return invalid(system_error(fmt::format("cannot examine {}", path)));
  if (!S_ISREG(facts.st_mode)) return invalid(fmt::format("{} is no regular file", path));
  MappedFile file;
  if (facts.st_size == 0) return file;
  const bool probe = budget && budget->is_probe();
  const FileKey key = key_of(facts);
  if (budget) {
    const int64_t padding = Pages::rounded(facts.st_size) - facts.st_size;
    ASSIGN_OR_RETURN(file.share_, MemoryShare::take(budget, MemoryRole::weights, facts.st_size, padding,
                                                    fmt::format("the model's file {}", path)));
  }
  Registry& r = registry();
  {
    const std::lock_guard lock(r.mutex);
    if (const auto known = r.by_file.find(key); known != r.by_file.end()) file.mapping_ = known->second.lock();
  }
  if (file.mapping_) {
    if (probe) budget->note_in_process(Pages::rounded(facts.st_size));
    return file;
  }
  // Mapped without the lock: a refusal may have to take kept memory back from sessions first.
  auto made = std::make_shared<Mapping>(key, facts.st_size, !probe);
  RETURN_IF_ERROR(made->map(descriptor, path));
  file.mapping_ = made;
  const std::lock_guard lock(r.mutex);
  r.by_address[made->bytes().data()] = {facts.st_size, ++r.last_number};
  if (!probe) r.by_file[key] = std::move(made);
  return file;
}

int64_t mapping_of(const void* data, int64_t bytes) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return number_of(r, static_cast<const std::byte*>(data), bytes);
}

int64_t forget_mapped_bytes(const void* data, int64_t bytes) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (number_of(r, static_cast<const std::byte*>(data), bytes) == 0) return 0;
  const auto page = static_cast<uintptr_t>(page_size());
  const auto first = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes)) / page * page;
  if (first >= end) return 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the page's address
  if (::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED) != 0) return 0;
  return static_cast<int64_t>(end - first);
}

}  // namespace forethought
