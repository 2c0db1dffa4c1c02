#include "graph/infer.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace forethought {

std::optional<SymValue> decode_value(const Tensor& t) {
  const int64_t n = t.elements();
  if (!t.device.is_host() || !t.layout.is_plain() || n > static_cast<int64_t>(kMaxPropagated)) return std::nullopt;
  if (n > 0 && !t.data) return std::nullopt;
  SymValue v;
  // Constants of a file may lie at any address, so elements are copied out byte by byte.
  auto read = [&]<typename T>() {
    for (int64_t i = 0; i < n; ++i) {
      T x;
      std::memcpy(&x, static_cast<const char*>(t.data) + i * sizeof(T), sizeof(T));
      if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
        v.floats.push_back(x);
      } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
        v.floats.push_back(static_cast<float>(x));
      } else {
        v.ints.push_back(static_cast<int64_t>(x));
      }
    }
  };
  v.is_float = is_floating(t.dtype);
  if (dispatch(t.dtype, NumberTypes{}, read)) return v;
  if (t.dtype == DType::kBool) {
    read.template operator()<uint8_t>();
    return v;
  }
  return std::nullopt;
}

DType InferCtx::dtype(int i) const {
  return has_in(i) && in_[i].type && in_[i].type->is_tensor() ? in_[i].type->dtype() : DType::kUndefined;
}

const ValueType& InferCtx::type(int i) const {
  static const ValueType kUnknown;
  return has_in(i) && in_[i].type ? *in_[i].type : kUnknown;
}

const SymShape& InferCtx::shape(int i) const {
  static const SymShape kUnknown;
  return has_in(i) && in_[i].shape ? *in_[i].shape : kUnknown;
}

const SymValue* InferCtx::value(int i) {
  if (!has_in(i)) return nullptr;
  if (in_[i].contents) {
    if (decoded_.empty()) decoded_.resize(in_.size());
    if (!decoded_[i]) {
      auto v = decode_value(*in_[i].contents);
      if (!v) return nullptr;
      decoded_[i] = std::make_unique<SymValue>(std::move(*v));
    }
    return decoded_[i].get();
  }
  return in_[i].value;
}

std::optional<std::vector<int64_t>> InferCtx::ints(int i) {
  const SymValue* v = value(i);
  if (!v || v->is_float) {
    // Large constants are not followed, but they can be read.
    const Tensor* t = contents(i);
    if (!t || t->dtype != DType::kInt64 || !t->device.is_host()) return std::nullopt;
    std::vector<int64_t> r(static_cast<size_t>(t->elements()));
    if (!r.empty()) std::memcpy(r.data(), t->data, r.size() * sizeof(int64_t));
    return r;
  }
  std::vector<int64_t> r;
  for (const Dim& d : v->ints) {
    if (!d.is_known()) return std::nullopt;
    r.push_back(d.value());
  }
  return r;
}

std::optional<int64_t> InferCtx::scalar_int(int i) {
  const SymValue* v = value(i);
  if (!v || v->is_float || v->ints.size() != 1) return std::nullopt;
  return v->ints[0].known();
}

Status InferCtx::require(int i, TypeSet allowed, const char* what) const {
  if (!has_in(i)) return invalid(absl::StrCat("input ", i, " (", what, ") is missing"));
  if (type(i).is_unknown()) return absl::OkStatus();
  const DType d = dtype(i);
  if (d == DType::kUndefined)
    return invalid(absl::StrCat("input ", i, " (", what, ") is ", to_string(type(i)), ", not a tensor"));
  if (!allowed.contains(d))
    return unsupported(
        absl::StrCat("input ", i, " (", what, ") is ", name(d), "; this build has ", to_string(allowed)));
  return absl::OkStatus();
}

StatusOr<int> InferCtx::axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank)
    return invalid(absl::StrCat("axis ", axis, " is outside [", -rank, ", ", rank - 1, "] of a tensor of rank ", rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Dim InferCtx::data_dim(int out, int axis, const Dim& most) const {
  if (!names_ || !wants_out(out) || most.is_unknown()) return Dim::unknown();
  return Dim::data(absl::StrCat(names_->name(out), ".", axis), names_->id(out), most);
}

std::optional<SymShape> InferCtx::broadcast(const SymShape& a, const SymShape& b) const {
  std::optional<SymShape> r = forethought::broadcast(a, b);
  if (!wants_formulas_ || !r || !r->has_rank) return r;
  const auto from_last = [](const SymShape& s, int i) { return i < s.rank() ? s.dims[s.rank() - 1 - i] : Dim(1); };
  for (int i = 0; i < r->rank(); ++i) {
    Dim& d = r->dims[r->rank() - 1 - i];
    if (d.is_unknown()) d = max(from_last(a, i), from_last(b, i));
  }
  return r;
}

void InferCtx::set(int out, DType dtype, SymShape shape) {
  if (out >= outputs()) return;
  out_[out].type = ValueType::tensor(dtype);
  out_[out].shape = std::move(shape);
}

void InferCtx::set_value(int out, SymValue value) {
  if (out >= outputs() || value.size() > kMaxPropagated) return;
  out_[out].has_value = true;
  out_[out].value = std::move(value);
}

void InferCtx::like(int out, int in) {
  if (out >= outputs()) return;
  out_[out].type = type(in);
  out_[out].shape = shape(in);
  if (const SymValue* v = value(in)) set_value(out, *v);
}

}  // namespace forethought
