// Constants that steps read and that lie in memory of the process's own, kept once for each content.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "memory/budget.h"
#include "session/content_store.h"
#include "tensor/value.h"

namespace forethought {

// One constant's contents. Alive as long as a session holds it; the process's account holds its bytes once.
struct SharedConstant {
  Tensor tensor;
  int64_t padding = 0;  // what its block takes beyond its bytes
};

// Thread safe. The process's store is shared by all sessions.
class ConstantStore {
 public:
  static ConstantStore& global();
  // Whether a step can read these bytes where they are: their address suits the type.
  static bool is_aligned(const Tensor& constant);
  static uint64_t key(const Tensor& constant);  // of type and content
  // What the contents take beyond their bytes: in a block of their own, copied there or taken over.
  static int64_t padding_of(const Tensor& constant, bool copy);

  // The one with these contents (`key` is of them) if it is there, else null.
  std::shared_ptr<const SharedConstant> find(uint64_t key, const Tensor& constant) const;
  // The same, or a new one: a copy, or the constant's own block from now on.
  StatusOr<std::shared_ptr<const SharedConstant>> get(uint64_t key, const Tensor& constant, bool copy,
                                                      std::string_view who);
  size_t size() const { return constants_.size(); }

 private:
  ContentStore<SharedConstant> constants_;
};

}  // namespace forethought
