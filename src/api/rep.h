// What stands behind the public classes, and the ways between public and inner types.
#pragma once

#include <type_traits>

#include "base/status.h"
#include "forethought/session.h"
#include "session/session.h"
#include "tensor/value.h"
#include "threading/cancel_flag.h"

namespace forethought::v1 {

struct Value::Rep {
  ::forethought::Value value;
  bool read_only = false;
  int64_t copied_bytes = 0;
};

struct Cancel::Rep {
  CancelFlag flag;
};

struct Session::Rep {
  std::unique_ptr<::forethought::Session> session;
  std::vector<Argument> inputs, outputs;
  Metadata metadata;
};

Status public_status(const ::forethought::Status& status);
Value public_value(::forethought::Value value);
const ::forethought::Value& inner_value(const Value& value);
// For a handler: what is being handled, as an error like another.
Status caught();

// What the library and others throw ends here, as an error like another. A Status comes back as it is.
template <typename F>
Status guarded(F&& f) {
  try {
    if constexpr (std::is_same_v<decltype(f()), Status>) {
      return f();
    } else {
      return public_status(f());
    }
  } catch (...) {
    return caught();
  }
}

::forethought::RetentionCaps inner_caps(const RetentionCaps& caps);
// Null stays null.
std::shared_ptr<MemorySource> inner_source(std::shared_ptr<Allocator> allocator);

}  // namespace forethought::v1
