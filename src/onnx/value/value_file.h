// Values in files: a bare TensorProto, SequenceProto or OptionalProto, as the ONNX test data stores them.
#pragma once

#include "onnx/file/mapping.h"
#include "tensor/value.h"

namespace forethought {

// Reads the message that `type` says (tensors by default). An empty optional is a none Value. Tensors point into the
// bytes where they can and share their owner; unaligned ones are copied, so that every element can be read by its type.
StatusOr<Value> read_value(const ByteSource& bytes, const ValueType& type);

}  // namespace forethought
