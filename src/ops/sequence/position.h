// Positions in sequences: one int32 or int64 element that counts from the end if negative.
#pragma once

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/infer.h"
#include "kernel_api/run_ctx.h"

namespace forethought {

// The position as an index in [0, limit); an error says what the sequence holds.
inline StatusOr<size_t> read_position(const Arg& a, int64_t size, int64_t limit) {
  if (a.elements != 1) return invalid(absl::StrCat("the position has ", a.elements, " elements, not one"));
  const int64_t given = a.dtype == DType::kInt32 ? *a.as<int32_t>() : *a.as<int64_t>();
  const int64_t at = given < 0 ? given + size : given;
  if (at < 0 || at >= limit)
    return invalid(absl::StrCat("position ", given, " is outside a sequence of ", size, " elements"));
  return static_cast<size_t>(at);
}

// Input 0 is a sequence, as far as its type is known.
inline Status require_sequence(const InferCtx& c) {
  const ValueType& t = c.type(0);
  if (t.is_unknown() || t.kind() == ValueType::Kind::sequence) return absl::OkStatus();
  return invalid(absl::StrCat("input 0 is ", to_string(t), ", not a sequence"));
}

// The sequence in an input slot.
inline StatusOr<const Sequence*> read_sequence(const Arg& a) {
  const Sequence* s = a.object ? a.object->sequence() : nullptr;
  if (!s) return invalid("input 0 holds no sequence");
  return s;
}

}  // namespace forethought
