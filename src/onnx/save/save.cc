#include "onnx/save/save.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "base/new_file.h"
#include "onnx/save/exporter.h"

namespace forethought {
namespace {

namespace fs = std::filesystem;

constexpr size_t kAlignment = 4096;           // of external tensors, so that a mapping has them page-aligned
constexpr size_t kMessageLimit = 0x7fffffff;  // of protobuf

Status cannot_write(const fs::path& path, std::string_view why) {
  return invalid(fmt::format("cannot write '{}': {}", path.string(), why));
}

// Where the bytes of a file go.
struct Target {
  std::string path;                // if they make a new file: without links
  std::optional<struct stat> old;  // the regular file that the new one replaces
  bool in_place = false;           // a device or FIFO, which gets them itself
};

StatusOr<Target> target_of(const fs::path& path) {
  struct stat facts;
  std::error_code error;
  if (::stat(path.c_str(), &facts) == 0) {
    if (S_ISDIR(facts.st_mode)) return cannot_write(path, "it is a folder; give the name of a file");
    if (!S_ISREG(facts.st_mode)) return Target{path.string(), {}, true};
    const fs::path real = fs::canonical(path, error);
    if (error) return cannot_write(path, error.message());
    return Target{real.string(), facts};
  }
  if (errno != ENOENT) return invalid(system_error(fmt::format("cannot write '{}'", path.string())));
  if (fs::is_symlink(path, error)) {
    const fs::path to = fs::read_symlink(path, error);
    return cannot_write(path, fmt::format("it is a link to '{}', which is not there; remove the link", to.string()));
  }
  const fs::path folder = path.parent_path();
  if (!folder.empty() && !fs::exists(folder, error))
    return cannot_write(path, fmt::format("there is no folder '{}'; make it first", folder.string()));
  return Target{path.string()};
}

class Output {
 public:
  static StatusOr<std::unique_ptr<Output>> open(const Target& target) {
    std::unique_ptr<Output> output(new Output(target.path));
    if (target.in_place) {
      output->descriptor_ = ::open(target.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
      if (output->descriptor_ < 0) return invalid(system_error(fmt::format("cannot write '{}'", target.path)));
      return output;
    }
    std::optional<mode_t> mode;
    if (target.old) mode = target.old->st_mode & 0777;
    ASSIGN_OR_RETURN(NewFile file, NewFile::create(target.path, mode));
    output->file_.emplace(std::move(file));
    if (target.old && ::fchown(output->file_->descriptor(), target.old->st_uid, target.old->st_gid) != 0) {
      // Only root may give files away; what others replace becomes theirs.
    }
    return output;
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  Status write(const void* data, size_t size) {
    size_ += size;
    return write_all(file_ ? file_->descriptor() : descriptor_, data, size, path_);
  }
  size_t size() const { return size_; }

  Status finish() {
    if (file_) return file_->finish();
    if (::close(std::exchange(descriptor_, -1)) == 0) return absl::OkStatus();
    return invalid(system_error(fmt::format("cannot write '{}'", path_)));
  }

 private:
  explicit Output(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  std::optional<NewFile> file_;
  int descriptor_ = -1;  // if there is no file_
  size_t size_ = 0;
};

class FileSink : public Exporter::ExternalSink {
 public:
  FileSink(fs::path path, std::string location, int64_t from)
      : path_(std::move(path)), location_(std::move(location)), from_(from) {}

  StatusOr<std::vector<std::pair<std::string, std::string>>> put(std::string_view bytes) override {
    std::vector<std::pair<std::string, std::string>> entries;
    if (from_ < 0 || bytes.empty() || static_cast<int64_t>(bytes.size()) < from_) return entries;
    if (!file_) RETURN_IF_ERROR(open());
    static constexpr char kZeros[kAlignment] = {};
    RETURN_IF_ERROR(file_->write(kZeros, (kAlignment - file_->size() % kAlignment) % kAlignment));
    entries.emplace_back("location", location_);
    entries.emplace_back("offset", std::to_string(file_->size()));
    entries.emplace_back("length", std::to_string(bytes.size()));
    RETURN_IF_ERROR(file_->write(bytes.data(), bytes.size()));
    return entries;
  }

  Status finish() { return file_ ? file_->finish() : absl::OkStatus(); }

 private:
  Status open() {
    ASSIGN_OR_RETURN(const Target target, target_of(path_));
    if (target.in_place)
      return cannot_write(path_, "large tensors must lie in a regular file; remove what is there, or save elsewhere");
    ASSIGN_OR_RETURN(file_, Output::open(target));
    return absl::OkStatus();
  }

  fs::path path_;
  std::string location_;
  int64_t from_;
  std::unique_ptr<Output> file_;
};

StatusOr<std::string> serialized(const Graph& graph, Exporter::ExternalSink* sink) {
  Exporter exporter(graph, sink);
  ASSIGN_OR_RETURN(const wire::Model model, exporter.model());
  std::string bytes = wire::serialize(model);
  if (bytes.size() > kMessageLimit) {
    return invalid("the model is larger than 2 GiB; save it with its large tensors in an external file");
  }
  return bytes;
}

}  // namespace

StatusOr<std::string> model_bytes(const Graph& graph) { return serialized(graph, nullptr); }

Status save_model(const Graph& graph, const std::string& path, const SaveOptions& options) {
  const fs::path file(path);
  const std::string name = options.external_name.empty() ? file.filename().string() + ".data" : options.external_name;
  if (fs::path(name).has_parent_path() || name == "." || name == "..") {
    return invalid(fmt::format("the external file '{}' must be a name in the model's folder", name));
  }
  ASSIGN_OR_RETURN(const Target target, target_of(file));
  FileSink sink(file.parent_path() / name, name, target.in_place ? -1 : options.external_from);
  auto bytes = serialized(graph, &sink);
  if (!bytes.ok()) {
    const std::string_view what = target.in_place ? ", which is no regular file, with all tensors inside" : "";
    return with_context(bytes.status(), fmt::format("save {}{}", path, what));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Output> out, Output::open(target));
  RETURN_IF_ERROR(out->write(bytes->data(), bytes->size()));
  RETURN_IF_ERROR(sink.finish());
  return out->finish();
}

}  // namespace forethought
