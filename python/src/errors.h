// Statuses as Python exceptions with onnxruntime's names, defined in forethought/_errors.py.
#pragma once

#include <nanobind/nanobind.h>

#include "base/status.h"

namespace forethought::python {

enum class During { load, run };

// A Python string for people; bytes that are no UTF-8, as names in models may have, become replacement characters.
nanobind::object text(std::string_view bytes);
// A Python string that stands for these bytes and no others, by which what it names can be asked for (and elements of
// string tensors come back in): bytes that are no UTF-8 become surrogates, as in os.fsdecode.
nanobind::object exact_text(std::string_view bytes);
// The bytes that exact_text() made the string of; or those of a bytes object. They live as long as `*keep`.
std::string_view bytes_of(nanobind::handle text, nanobind::object* keep);

// Throws the exception that stands for `status`, which is not ok.
[[noreturn]] void raise(const Status& status, During during);
// The same, raised from `cause`, an exception.
[[noreturn]] void raise_from(const Status& status, During during, nanobind::object cause);
// Throws forethought.<name>(message).
[[noreturn]] void raise_named(const char* name, std::string_view message);

// Lets an allocation that fails in a function of the module raise forethought.OutOfMemory. Once.
void translate_bad_alloc();

inline void check(const Status& status, During during) {
  if (!status.ok()) raise(status, during);
}
template <typename T>
T check(StatusOr<T> result, During during) {
  if (!result.ok()) raise(result.status(), during);
  return *std::move(result);
}

}  // namespace forethought::python
