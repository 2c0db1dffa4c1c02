#include "onnx/save/save.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "onnx/save/exporter.h"

namespace forethought {
namespace {

namespace fs = std::filesystem;

constexpr size_t kAlignment = 4096;           // of external tensors, so that a mapping has them page-aligned
constexpr size_t kMessageLimit = 0x7fffffff;  // of protobuf

// A file that takes its final name only once it is whole; until then, or if it fails, the old one stays.
class NewFile {
 public:
  explicit NewFile(fs::path path) : path_(std::move(path)), temporary_(path_) {
    temporary_ += fmt::format(".{}.part", ::getpid());
    file_ = std::fopen(temporary_.c_str(), "wbe");
    if (!file_) error_ = errno;
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (file_) std::fclose(file_);
    std::error_code ignored;
    if (!done_) fs::remove(temporary_, ignored);
  }

  void write(const void* data, size_t size) {
    if (file_ && size > 0 && std::fwrite(data, 1, size, file_) != size) error_ = errno ? errno : EIO;
    size_ += size;
  }
  size_t size() const { return size_; }

  Status finish() {
    if (file_ && std::fclose(std::exchange(file_, nullptr)) != 0) error_ = errno;
    if (error_ == 0 && std::rename(temporary_.c_str(), path_.c_str()) != 0) error_ = errno;
    done_ = error_ == 0;
    return done_ ? absl::OkStatus()
                 : invalid(fmt::format("cannot write '{}': {}", path_.string(), std::strerror(error_)));
  }

 private:
  fs::path path_, temporary_;
  std::FILE* file_ = nullptr;
  size_t size_ = 0;
  int error_ = 0;
  bool done_ = false;
};

class FileSink : public Exporter::ExternalSink {
 public:
  FileSink(fs::path path, std::string location, int64_t from)
      : path_(std::move(path)), location_(std::move(location)), from_(from) {}

  StatusOr<std::vector<std::pair<std::string, std::string>>> put(std::string_view bytes) override {
    std::vector<std::pair<std::string, std::string>> entries;
    if (from_ < 0 || bytes.empty() || static_cast<int64_t>(bytes.size()) < from_) return entries;
    if (!file_) file_ = std::make_unique<NewFile>(path_);
    static constexpr char kZeros[kAlignment] = {};
    file_->write(kZeros, (kAlignment - file_->size() % kAlignment) % kAlignment);
    entries.emplace_back("location", location_);
    entries.emplace_back("offset", std::to_string(file_->size()));
    entries.emplace_back("length", std::to_string(bytes.size()));
    file_->write(bytes.data(), bytes.size());
    return entries;
  }

  Status finish() { return file_ ? file_->finish() : absl::OkStatus(); }

 private:
  fs::path path_;
  std::string location_;
  int64_t from_;
  std::unique_ptr<NewFile> file_;
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
  FileSink sink(file.parent_path() / name, name, options.external_from);
  auto bytes = serialized(graph, &sink);
  if (!bytes.ok()) return with_context(bytes.status(), "save " + path);
  RETURN_IF_ERROR(sink.finish());
  NewFile out(file);
  out.write(bytes->data(), bytes->size());
  return out.finish();
}

}  // namespace forethought
