#include "onnx/file/mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "memory/mapped_file.h"

namespace forethought {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

StatusOr<ByteSource> map_path(const std::string& path, int flags, std::shared_ptr<MemoryBudget> budget) {
  // O_NONBLOCK so that a pipe or device in the file's place cannot make the open wait.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
  if (fd.get() < 0) {
    const int error = errno;
    const std::string message = fmt::format("cannot open '{}': {}", path, std::strerror(error));
    return error == ENOENT ? not_found(message) : invalid(message);
  }
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::map(fd.get(), path, std::move(budget)));
  const auto bytes = file.bytes();
  return ByteSource{{reinterpret_cast<const char*>(bytes.data()), bytes.size()}, hold(std::move(file))};
}

StatusOr<std::string> real_path(const fs::path& path) {
  std::error_code error;
  const fs::path result = fs::canonical(path, error);
  if (error) return not_found(fmt::format("cannot find '{}': {}", path.string(), error.message()));
  return result.string();
}

bool lies_in(const std::string& path, const std::string& root) {
  if (root.empty()) return false;
  if (root == "/") return true;
  return path.size() > root.size() && path.compare(0, root.size(), root) == 0 && path[root.size()] == '/';
}

}  // namespace

StatusOr<ByteSource> map_file(const std::string& path, std::shared_ptr<MemoryBudget> budget) {
  return map_path(path, 0, std::move(budget));
}

StatusOr<ExternalFiles> ExternalFiles::beside(const std::string& model_path, std::shared_ptr<MemoryBudget> budget) {
  ExternalFiles files;
  files.budget_ = std::move(budget);
  std::error_code error;
  if (fs::is_directory(model_path, error)) {
    files.folder_ = model_path;
    ASSIGN_OR_RETURN(files.roots_[0], real_path(model_path));
    return files;
  }
  const fs::path parent = fs::path(model_path).parent_path();
  files.folder_ = parent.empty() ? "." : parent.string();
  ASSIGN_OR_RETURN(files.roots_[0], real_path(files.folder_));
  ASSIGN_OR_RETURN(const std::string real_model, real_path(model_path));
  files.roots_[1] = fs::path(real_model).parent_path().string();
  return files;
}

StatusOr<ByteSource> ExternalFiles::open(std::string_view location) {
  if (const auto it = open_.find(location); it != open_.end()) return it->second;
  const auto refuse = [&](std::string_view why) {
    return invalid(fmt::format("external data at '{}' is refused: {}", location, why));
  };
  if (folder_.empty()) {
    return refuse("the model was given as bytes, without a folder; load it from its path, or give the folder");
  }
  if (location.empty()) return refuse("the location is empty");
  if (location.find('\0') != std::string_view::npos) return refuse("the location is no path");
  const fs::path relative(location);
  if (relative.is_absolute()) return refuse("the path is absolute; it must be relative to the model's folder");
  for (const fs::path& part : relative) {
    if (part == "..") return refuse("the path leaves the model's folder");
  }
  auto real = real_path(fs::path(folder_) / relative);
  if (!real.ok()) return with_context(real.status(), fmt::format("external data at '{}'", location));
  if (!lies_in(*real, roots_[0]) && !lies_in(*real, roots_[1])) return refuse("a link leads out of the model's folder");
  ASSIGN_OR_RETURN(ByteSource source, map_path(*real, O_NOFOLLOW, budget_));
  open_.emplace(location, source);
  return source;
}

}  // namespace forethought
