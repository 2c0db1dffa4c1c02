// Tensors that a caller lends in steps of its own.
#pragma once

#include <span>

#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "tensor/value.h"

namespace forethought {

class Session;

inline bool is_strided(const Value& v) { return v.is_tensor() && !v.tensor().strides.empty(); }

// Of a tensor with strides: whether there is one for each dim, and they reach over a number of bytes.
Status check_strides(const Tensor& t);
// Whether a run reads such a tensor, as input number `input`, where it lies. Else it copies it into the I/O arena.
bool reads_in_place(const Session& session, size_t input, const Tensor& lent);
// The inputs of a run, of which check_strides() holds: strided ones as they lie where that is allowed and
// reads_in_place(), others row-major.
Status settle_strided(Session& session, std::span<const Value> inputs, bool in_place,
                      absl::InlinedVector<Value, 8>* settled);

}  // namespace forethought
