// Statuses as Python exceptions with onnxruntime's names, defined in forethought/_errors.py.
#pragma once

#include <nanobind/nanobind.h>

#include "base/status.h"

namespace forethought::python {

enum class During { load, run };

// A Python string; bytes that are no UTF-8, as names in models may have, become replacement characters.
nanobind::object text(std::string_view bytes);

// Throws the exception that stands for `status`, which is not ok.
[[noreturn]] void raise(const Status& status, During during);
// Throws forethought.<name>(message).
[[noreturn]] void raise_named(const char* name, std::string_view message);

inline void check(const Status& status, During during) {
  if (!status.ok()) raise(status, during);
}
template <typename T>
T check(StatusOr<T> result, During during) {
  if (!result.ok()) raise(result.status(), during);
  return *std::move(result);
}

}  // namespace forethought::python
