// The elements of a TensorProto as one packed little-endian array: found in the file, or decoded once.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "onnx/wire/wire.h"

namespace forethought::wire {

// Either a view into the file (at any alignment) or decoded bytes.
struct TensorBytes {
  std::string_view file;
  std::vector<std::byte> decoded;
  bool in_place() const { return decoded.empty(); }
  std::string_view bytes() const {
    return in_place() ? file : std::string_view(reinterpret_cast<const char*>(decoded.data()), decoded.size());
  }
};

// The tensor's element type, if this runtime can store it.
StatusOr<DType> dtype_of_tensor(const Tensor& tensor);
// The checked product of its dims.
StatusOr<int64_t> element_count(const Tensor& tensor);

// The elements of a tensor that is neither external nor of strings. Sub-byte types stay packed; nothing is allocated
// before the file was seen to hold the elements that its dims promise.
StatusOr<TensorBytes> tensor_bytes(const Tensor& tensor);

// The elements of a string tensor; a view of `tensor.strings`.
StatusOr<std::span<const std::string_view>> tensor_strings(const Tensor& tensor);

}  // namespace forethought::wire
