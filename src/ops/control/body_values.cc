#include "ops/control/body_values.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace forethought {

Value borrow(const Arg& a) {
  if (!a.present) return {};
  if (a.dtype == DType::kUndefined) return a.object ? *a.object : Value();
  return a.tensor();
}

bool is_planned(const Operand& o) {
  return o.present && o.known && o.dtype != DType::kUndefined && o.dtype != DType::kString;
}

StatusOr<uint32_t> sized_at_run(std::span<const Operand> outputs) {
  uint32_t bits = 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].present || outputs[i].dtype == DType::kUndefined || is_planned(outputs[i])) continue;
    if (i >= 32)
      return unsupported(absl::StrCat("output ", i, " has no known size; only the first 32 may be sized at run"));
    bits |= 1u << i;
  }
  return bits;
}

void copy_elements(BodyHost& host, const Tensor& from, void* to) {
  if (from.data == to) return;
  host.count_copy(from.bytes());
  if (from.dtype == DType::kString) {
    std::copy_n(from.as<std::string>(), from.elements(), static_cast<std::string*>(to));
  } else if (from.bytes() > 0) {
    std::memcpy(to, from.data, static_cast<size_t>(from.bytes()));
  }
}

Status own(BodyHost& host, Value& value) {
  if (!value.is_tensor() || value.tensor().owner) return absl::OkStatus();
  ASSIGN_OR_RETURN(Tensor copy, host.make_escaping(value.tensor().dtype, value.tensor().dims));
  copy_elements(host, value.tensor(), copy.data);
  value = std::move(copy);
  return absl::OkStatus();
}

Status deliver(RunCtx& c, BodyHost& host, int slot, bool planned, Value value) {
  if (!c.has_out(slot)) return absl::OkStatus();
  if (!value.is_tensor()) return host.set_output(slot, std::move(value));
  const Tensor& t = value.tensor();
  const Arg& out = c.out(slot);
  if (out.dtype != DType::kUndefined && t.dtype != out.dtype)
    return invalid(
        absl::StrCat("output ", slot, " came as ", name(t.dtype), " from the body, not as ", name(out.dtype)));
  if (planned) {
    if (!std::equal(t.dims.begin(), t.dims.end(), out.dims().begin(), out.dims().end()))
      return internal(absl::StrCat("output ", slot, " came with the shape ", to_string(t.dims), " from the body, not ",
                                   to_string(out.dims())));
    copy_elements(host, t, out.data);
    return absl::OkStatus();
  }
  if (out.dtype == DType::kUndefined) RETURN_IF_ERROR(own(host, value));  // it becomes part of an object
  if (value.tensor().owner) return host.set_output(slot, std::move(value));
  ASSIGN_OR_RETURN(void* to, host.output(slot, t.dims));
  copy_elements(host, t, to);
  return absl::OkStatus();
}

Status merge_type(const ValueType& a, const ValueType& b, const char* what, int index, ValueType* out) {
  if (a.is_unknown() || b.is_unknown() || a == b) {
    *out = a.is_unknown() ? b : a;
    return absl::OkStatus();
  }
  // What is there on one way alone is an optional.
  const auto holds = [](const ValueType& o, const ValueType& v) {
    return o.kind() == ValueType::Kind::optional && *o.inner() == v;
  };
  if (holds(a, b) || holds(b, a)) {
    *out = holds(a, b) ? a : b;
    return absl::OkStatus();
  }
  return invalid(
      absl::StrCat(what, " ", index, " is ", to_string(a), " on one way and ", to_string(b), " on the other"));
}

SymShape merge_shape(const SymShape& a, const SymShape& b) {
  if (!a.has_rank || !b.has_rank || a.rank() != b.rank()) return SymShape::unknown();
  SymShape r = a;
  for (int i = 0; i < a.rank(); ++i)
    if (!a.dims[i].same(b.dims[i])) r.dims[i] = Dim::unknown();
  return r;
}

}  // namespace forethought
