// A file that takes its name only once it is whole; until then, or if it never is, what has the name stays.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/function_ref.h"
#include "base/status.h"

namespace forethought {

// "what: " and what the system says of `errno`.
std::string system_error(std::string_view what);

// All bytes, however many calls the system wants for them. `name` is for the error.
Status write_all(int descriptor, const void* data, size_t size, std::string_view name);

struct RandomDigits {
  uint64_t operator()() const;
};

class NewFile {
 public:
  // Ends the names of files that are not whole: one of a process that was killed stays.
  static constexpr std::string_view kUnfinished = ".part";

  // Opens an empty file beside `path` to write and read, under a name that nobody else has: that of `path`, digits and
  // kUnfinished. It gets exactly `mode`; without one, what the system gives a new file.
  static StatusOr<NewFile> create(const std::string& path, std::optional<mode_t> mode = {},
                                  FunctionRef<uint64_t()> digits = RandomDigits());
  NewFile(NewFile&& other) noexcept
      : path_(std::move(other.path_)),
        unfinished_(std::move(other.unfinished_)),
        descriptor_(std::exchange(other.descriptor_, -1)) {}
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();  // without finish() nothing is left of it

  int descriptor() const { return descriptor_; }
  const std::string& unfinished() const { return unfinished_; }  // its name until then
  // Closes it and gives it its name, in place of what has it. Once.
  Status finish();

 private:
  NewFile(std::string path, std::string unfinished, int descriptor)
      : path_(std::move(path)), unfinished_(std::move(unfinished)), descriptor_(descriptor) {}

  std::string path_, unfinished_;
  int descriptor_ = -1;  // negative: it was moved from or finished
};

}  // namespace forethought
