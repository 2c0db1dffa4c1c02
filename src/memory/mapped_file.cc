// The registry of mappings, by file and by address.
#include "memory/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/new_file.h"
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

// Never destroyed: mappings may end while the program does.
struct Registry {
  std::mutex mutex;
  std::map<FileKey, std::weak_ptr<MappedFile::Mapping>> by_file;
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
  Mapping(const FileKey& key, int64_t size) : key_(key), size_(size) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  Status map(int descriptor, std::string_view path) {
    data_ = static_cast<const std::byte*>(map_file_pages(descriptor, size_));
    if (data_) return absl::OkStatus();
    return exhausted(fmt::format("cannot map {} ({}) into memory", path, readable_bytes(size_)));
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
  }

  // Counts the file in the process's account as long as somebody has called charge() once more than uncharge(); under
  // the first one's role. The lock is held while other sessions give back what they keep: no mapping is among that.
  Status charge(MemoryRole role, std::string_view path) {
    const std::lock_guard lock(charges_mutex_);
    if (charges_ == 0) {
      RETURN_IF_ERROR(MemoryBudget::process()->reserve(role, Pages::rounded(size_), path));
      MemoryBudget::process()->use(role, size_, padding());
      count_file_pages(Pages::rounded(size_));
      role_ = role;
    }
    ++charges_;
    return absl::OkStatus();
  }
  void uncharge() {
    const std::lock_guard lock(charges_mutex_);
    if (--charges_ > 0) return;
    count_file_pages(-Pages::rounded(size_));
    MemoryBudget::process()->unuse(role_, size_, padding());
    MemoryBudget::process()->release(role_, Pages::rounded(size_));
  }

  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }
  int64_t padding() const { return Pages::rounded(size_) - size_; }
  bool is_charged() {
    const std::lock_guard lock(charges_mutex_);
    return charges_ > 0;
  }

 private:
  const FileKey key_;
  const int64_t size_;
  const std::byte* data_ = nullptr;
  std::mutex charges_mutex_;
  int charges_ = 0;
  MemoryRole role_ = MemoryRole::weights;
};

std::span<const std::byte> MappedFile::bytes() const {
  return mapping_ ? mapping_->bytes() : std::span<const std::byte>();
}

StatusOr<MappedFile> MappedFile::open(const std::string& path, std::shared_ptr<MemoryBudget> budget, MemoryRole role) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const bool missing = errno == ENOENT;
    const std::string message = system_error(fmt::format("cannot open {}", path));
    return missing ? not_found(message) : invalid(message);
  }
  auto file = map(descriptor, path, std::move(budget), role);
  ::close(descriptor);
  return file;
}

StatusOr<MappedFile> MappedFile::map(int descriptor, std::string_view path, std::shared_ptr<MemoryBudget> budget,
                                     MemoryRole role) {
  struct stat facts;
  if (::fstat(descriptor, &facts) != 0) return invalid(system_error(fmt::format("cannot examine {}", path)));
  if (!S_ISREG(facts.st_mode)) return invalid(fmt::format("{} is no regular file", path));
  MappedFile file;
  if (facts.st_size == 0) return file;
  const bool probe = budget && budget->is_probe(), streams = budget && budget->streams_files();
  const FileKey key = key_of(facts);
  if (budget && !streams) {
    const int64_t padding = Pages::rounded(facts.st_size) - facts.st_size;
    const std::string_view kind = role == MemoryRole::packed ? "the packed file" : "the model's file";
    ASSIGN_OR_RETURN(file.share_,
                     MemoryShare::take(budget, role, facts.st_size, padding, fmt::format("{} {}", kind, path)));
  }
  Registry& r = registry();
  {
    const std::lock_guard lock(r.mutex);
    if (const auto known = r.by_file.find(key); known != r.by_file.end()) file.mapping_ = known->second.lock();
  }
  const bool known = file.mapping_ != nullptr;
  if (!known) {
    file.mapping_ = std::make_shared<Mapping>(key, facts.st_size);
    RETURN_IF_ERROR(file.mapping_->map(descriptor, path));
  }
  // Charged without the registry's lock: a refusal may have to take kept memory back from sessions first.
  if (probe) {
    if (!streams && known && file.mapping_->is_charged()) budget->note_in_process(Pages::rounded(facts.st_size));
  } else if (!streams) {
    RETURN_IF_ERROR(file.mapping_->charge(role, path));
    struct Uncharge {
      std::shared_ptr<Mapping> mapping;
      void operator()(const void*) const { mapping->uncharge(); }
    };
    file.charge_ = std::shared_ptr<const void>(file.mapping_->bytes().data(), Uncharge{file.mapping_});
  }
  if (known) return file;
  const std::lock_guard lock(r.mutex);
  r.by_address[file.bytes().data()] = {facts.st_size, ++r.last_number};
  if (!probe) r.by_file[key] = file.mapping_;
  return file;
}

int64_t mapping_of(const void* data, int64_t bytes) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return number_of(r, static_cast<const std::byte*>(data), bytes);
}

std::span<const std::byte> pages_of(std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  const auto page = static_cast<uintptr_t>(page_size());
  const auto at = reinterpret_cast<uintptr_t>(bytes.data()), first = at / page * page;
  const auto end = (at + bytes.size() + page - 1) / page * page;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the page's address
  return {reinterpret_cast<const std::byte*>(first), end - first};
}

std::span<const std::byte> pages_around(std::span<const std::byte> bytes) {
  constexpr uintptr_t kAround = 64 << 10;  // Linux maps so much around a fault, aligned, as far as it is in memory
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  if (bytes.empty() || number_of(r, bytes.data(), static_cast<int64_t>(bytes.size())) == 0) return pages_of(bytes);
  const auto& [begin, range] = *std::prev(r.by_address.upper_bound(bytes.data()));
  const std::span<const std::byte> mapping = pages_of({begin, static_cast<size_t>(range.size)});
  const std::byte *first = bytes.data(), *end = first + bytes.size();
  first -= std::min(reinterpret_cast<uintptr_t>(first) % kAround, static_cast<uintptr_t>(first - mapping.data()));
  const std::byte* const last = mapping.data() + mapping.size();
  end += std::min((kAround - reinterpret_cast<uintptr_t>(end) % kAround) % kAround, static_cast<uintptr_t>(last - end));
  return pages_of({first, end});
}

void ask_for_pages(std::span<const std::byte> pages) {
  ::madvise(const_cast<std::byte*>(pages.data()), pages.size(), MADV_WILLNEED);
}

void drop_pages(std::span<const std::byte> pages) {
  ::madvise(const_cast<std::byte*>(pages.data()), pages.size(), MADV_DONTNEED);
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
