// Public values as DLPack structs and back.
#include "tensor/dlpack.h"

#include "api/rep.h"
#include "forethought/dlpack.h"

namespace forethought::v1 {
namespace {

Status check_tensor(const Value& value) {
  if (!value.strides().empty())
    return Status(ErrorCode::invalid_argument,
                  "a tensor with strides is an input alone: hand on the memory it is over");
  if (value.kind() == ValueKind::tensor) return Status();
  return Status(ErrorCode::invalid_argument, "only tensors leave through DLPack");
}

Result<Value> value_of(::forethought::StatusOr<dlpack::Imported> imported) {
  if (!imported.ok()) return public_status(imported.status());
  return Value(std::make_shared<Value::Rep>(
      Value::Rep{std::move(imported->tensor), imported->read_only, imported->copied_bytes}));
}

}  // namespace

Result<DLManagedTensorVersioned*> to_dlpack(const Value& value) try {
  if (Status s = check_tensor(value); !s.ok()) return s;
  const auto made = dlpack::to_versioned(inner_value(value).tensor(), value.read_only() ? dlpack::kReadOnly : 0);
  if (!made.ok()) return public_status(made.status());
  return reinterpret_cast<DLManagedTensorVersioned*>(*made);
} catch (...) {
  return caught();
}

Result<DLManagedTensor*> to_unversioned_dlpack(const Value& value) try {
  if (Status s = check_tensor(value); !s.ok()) return s;
  if (value.read_only())
    return Status(ErrorCode::invalid_argument,
                  "DLPack without a version cannot say that memory is read-only: use to_dlpack, or copy the value");
  const auto made = dlpack::to_managed(inner_value(value).tensor());
  if (!made.ok()) return public_status(made.status());
  return reinterpret_cast<DLManagedTensor*>(*made);
} catch (...) {
  return caught();
}

Result<Value> from_dlpack(DLManagedTensorVersioned* tensor) {
  return value_of(dlpack::from_versioned(reinterpret_cast<dlpack::ManagedVersioned*>(tensor)));
}

Result<Value> from_dlpack(DLManagedTensor* tensor) {
  return value_of(dlpack::from_managed(reinterpret_cast<dlpack::Managed*>(tensor)));
}

}  // namespace forethought::v1
