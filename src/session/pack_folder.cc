// The form of a file: a header of one page, then the packed bytes.
#include "session/pack_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/hash.h"
#include "base/log.h"
#include "base/new_file.h"
#include "memory/mapped_file.h"
#include "memory/system.h"
#include "session/options.h"

namespace forethought {
namespace {

constexpr int64_t kPayloadAt = 4096;
constexpr size_t kLongestFormat = 1024;
// Changes with the form of the header and with that of any packed form whose name stays.
constexpr uint32_t kVersion = 1;
constexpr std::array<char, 8> kMagic = {'F', 'T', 'P', 'A', 'C', 'K', '\r', '\n'};

using Digest = std::array<uint64_t, 2>;

Digest digest_of(const void* data, size_t bytes) {
  return {hash_bytes(data, bytes, 0x3c6ef372fe94f82bull), hash_bytes(data, bytes, 0xa54ff53a5f1d36f1ull)};
}

constexpr std::string_view kFinished = ".pack";
constexpr size_t kNameDigits = 32;

// Removes what processes left that ended while they wrote: to write a file takes seconds. Errors do not matter here.
void drop_unfinished(const std::filesystem::path& folder) {
  constexpr auto kAge = std::chrono::hours(1);
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (!name.ends_with(NewFile::kUnfinished) || name.find(kFinished) != kNameDigits) continue;
    const auto written = at->last_write_time(ignored);
    if (!ignored && std::filesystem::file_time_type::clock::now() - written > kAge)
      std::filesystem::remove(at->path(), ignored);
  }
}

}  // namespace

// As it lies in the file, in the byte order of the machine: another one's is another magic number away.
struct PackFolder::Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t byte_order = 0x01020304;
  uint64_t bytes = 0;         // of the packed form
  uint64_t source_bytes = 0;  // of the constant
  Digest source = {};
  uint64_t source_type = 0;
  Digest packed = {};  // of the packed form
  std::array<char, kLongestFormat> format = {};
  Digest self = {};  // of all before

  Digest digest() const { return digest_of(this, offsetof(Header, self)); }
};

StatusOr<std::shared_ptr<PackFolder>> PackFolder::open(const std::string& path) {
  struct stat facts;
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    return wrong_option(system_error(fmt::format("session.packed_weights_path: cannot make the folder '{}'", path)));
  if (::stat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode))
    return wrong_option(fmt::format("session.packed_weights_path: '{}' is no folder; give the path of one", path));
  drop_unfinished(path);
  return std::shared_ptr<PackFolder>(new PackFolder(path));
}

PackFolder::Header PackFolder::header_of(const Tensor& constant, const PackSpec& spec) {
  Header h;
  h.bytes = spec.bytes;
  h.source_bytes = static_cast<uint64_t>(constant.bytes());
  h.source = digest_of(constant.data, h.source_bytes);
  h.source_type = static_cast<uint64_t>(constant.dtype);
  spec.format.copy(h.format.data(), h.format.size());
  return h;
}

StatusOr<std::shared_ptr<const PackedBlock>> PackFolder::get(const Tensor& constant, const PackSpec& spec,
                                                             const std::shared_ptr<MemoryBudget>& budget) {
  if (spec.format.size() > kLongestFormat) return std::shared_ptr<const PackedBlock>();
  const Header wanted = header_of(constant, spec);
  const Digest name = digest_of(&wanted, sizeof wanted);
  const std::string file = fmt::format("{}/{:016x}{:016x}{}", path_, name[0], name[1], kFinished);
  {
    const std::lock_guard lock(mutex_);
    if (auto block = known_[file].lock()) return block;
  }
  std::string why;
  ASSIGN_OR_RETURN(auto block, read(file, wanted, spec, budget, &why));
  if (block) {
    read_.fetch_add(1);
  } else {
    if (!why.empty()) {
      refused_.fetch_add(1);
      log_message(Severity::warning, fmt::format("the packed file {} is not used: {}; it is written anew", file, why));
    }
    if (const Status status = write(file, wanted, constant, spec); !status.ok()) {
      log_message(Severity::warning,
                  fmt::format("a packed form is not kept on disk: {}", std::string(status.message())));
      return std::shared_ptr<const PackedBlock>();
    }
    ASSIGN_OR_RETURN(block, read(file, wanted, spec, budget, &why));
    if (!block) {
      log_message(Severity::warning, fmt::format("the packed file {} is not used, as it was written: {}", file, why));
      return block;
    }
    written_.fetch_add(1);
  }
  const std::lock_guard lock(mutex_);
  known_[file] = block;
  return block;
}

// Null with a reason: the file is not what it should be; null without one: it is not there.
StatusOr<std::shared_ptr<const PackedBlock>> PackFolder::read(const std::string& path, const Header& wanted,
                                                              const PackSpec& spec,
                                                              const std::shared_ptr<MemoryBudget>& budget,
                                                              std::string* why) {
  const std::shared_ptr<const PackedBlock> none;
  why->clear();
  auto file = MappedFile::open(path, budget, MemoryRole::packed);
  if (!file.ok()) {
    if (absl::IsResourceExhausted(file.status())) return file.status();
    if (!absl::IsNotFound(file.status())) *why = std::string(file.status().message());
    return none;
  }
  const auto refuse = [&](std::string_view reason) {
    *why = reason;
    return none;
  };
  if (file->size() != kPayloadAt + static_cast<int64_t>(wanted.bytes))
    return refuse(fmt::format("it has {} bytes instead of {}", file->size(), kPayloadAt + wanted.bytes));
  Header h;
  std::memcpy(&h, file->bytes().data(), sizeof h);
  if (h.magic != wanted.magic) return refuse("it is no file of packed weights");
  if (h.byte_order != wanted.byte_order) return refuse("it is of another byte order");
  if (h.version != wanted.version)
    return refuse(fmt::format("it is of version {}, not of this one's {}", h.version, wanted.version));
  if (h.self != h.digest()) return refuse("its header is damaged");
  if (h.bytes != wanted.bytes || h.source_bytes != wanted.source_bytes || h.source != wanted.source ||
      h.source_type != wanted.source_type || h.format != wanted.format)
    return refuse("it holds something else");
  const std::span<const std::byte> payload = file->bytes().subspan(kPayloadAt);
  if (h.packed != digest_of(payload.data(), payload.size())) return refuse("its contents are damaged");
  auto block = std::make_shared<PackedBlock>();
  block->format = spec.format;
  block->bytes.dtype = DType::kUint8;
  block->bytes.dims = {static_cast<int64_t>(payload.size())};
  block->bytes.data = const_cast<std::byte*>(payload.data());
  block->bytes.owner = hold(*std::move(file));
  return std::shared_ptr<const PackedBlock>(std::move(block));
}

Status PackFolder::write(const std::string& path, const Header& wanted, const Tensor& constant, const PackSpec& spec) {
  ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
  const auto size = static_cast<size_t>(kPayloadAt) + spec.bytes;
  // Filled through a mapping, so that pages of the file and no memory of the process's own hold it. Its room is taken
  // first: a full disk would otherwise end the process at a write.
  const auto fill = [&]() -> Status {
    if (const int error = ::posix_fallocate(file.descriptor(), 0, static_cast<off_t>(size)); error != 0) {
      errno = error;
      return exhausted(system_error(fmt::format("cannot write {} ({} bytes)", file.unfinished(), size)));
    }
    void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
    if (mapped == MAP_FAILED) return exhausted(system_error(fmt::format("cannot map {}", file.unfinished())));
    auto* const payload = static_cast<std::byte*>(mapped) + kPayloadAt;
    Status status = spec.pack(constant, {payload, spec.bytes});
    if (status.ok()) {
      Header h = wanted;
      h.packed = digest_of(payload, spec.bytes);
      h.self = h.digest();
      std::memcpy(mapped, &h, sizeof h);
    }
    ::munmap(mapped, size);
    return status;
  };
  RETURN_IF_ERROR(fill());
  return file.finish();
}

}  // namespace forethought
