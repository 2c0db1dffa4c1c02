// From the wire's tensors, types and attributes to the runtime's, in place where that can be.
#pragma once

#include <string_view>

#include "graph/attribute.h"
#include "graph/dim.h"
#include "onnx/file/mapping.h"
#include "onnx/wire/wire.h"

namespace forethought {

struct DeclaredType {
  ValueType type;
  SymShape shape;
};

class Converter {
 public:
  // `owner` keeps the model's bytes alive. `files` is where external tensors lie.
  Converter(BufferRef owner, ExternalFiles files) : owner_(std::move(owner)), files_(std::move(files)) {}

  // The result points into the file where its bytes are stored as we hold them, at whatever alignment.
  StatusOr<Tensor> tensor(const wire::Tensor& t);
  StatusOr<std::shared_ptr<const SparseTensor>> sparse(const wire::SparseTensor& s);
  // Scatters a sparse tensor into a dense one of its dims; for constants, of which the graph knows dense ones only.
  StatusOr<Tensor> densified(const wire::SparseTensor& s);
  // Everything but graphs, which are bodies and no attributes.
  StatusOr<AttributeValue> attribute(const wire::Attribute& a);
  static StatusOr<DeclaredType> type(const wire::Type& t);

  int64_t copied_bytes() const { return copied_bytes_; }

 private:
  StatusOr<Tensor> external(const wire::Tensor& t, DType dtype, int64_t bytes);
  StatusOr<Tensor> strings(const wire::Tensor& t);

  BufferRef owner_;
  ExternalFiles files_;
  int64_t copied_bytes_ = 0;
  int64_t densified_bytes_ = 0;
};

}  // namespace forethought
