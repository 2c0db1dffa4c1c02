#include "ops/control/stacked.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "ops/control/body_values.h"

namespace forethought {
namespace {

constexpr int64_t kFirstBytes = 4096;  // of a buffer that grows: small slices need not double often

int64_t element_width(DType d) {
  return d == DType::kString ? static_cast<int64_t>(sizeof(std::string)) : bit_width(d) / 8;
}

void copy_run(DType dtype, const std::byte* from, std::byte* to, int64_t bytes) {
  if (dtype == DType::kString) {
    std::copy_n(reinterpret_cast<const std::string*>(from), bytes / static_cast<int64_t>(sizeof(std::string)),
                reinterpret_cast<std::string*>(to));
  } else if (bytes > 0) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }
}

}  // namespace

void Stacked::begin(const StackedForm& form, int64_t trips, int64_t most) {
  form_ = &form;
  trips_ = trips;
  most_ = most;
  known_ = fixed_ = false;
  capacity_ = 0;
  buffer_.owner.reset();
  buffer_.data = nullptr;
}

StatusOr<Dims> Stacked::result_dims(int64_t trips, Dims dims) const {
  const int64_t rank = static_cast<int64_t>(dims.size()) + 1;
  const int64_t axis = form_->axis < 0 ? form_->axis + rank : form_->axis;
  if (axis < 0 || axis >= rank)
    return invalid(absl::StrCat("axis ", form_->axis, " of scan output ", form_->slot, " is outside [", -rank, ", ",
                                rank - 1, "]"));
  dims.insert(dims.begin() + axis, trips);
  const auto elements = element_count(dims);
  if (!elements || !checked_mul(*elements, std::max<int64_t>(1, width_)))
    return exhausted(absl::StrCat("scan output ", form_->slot, " would be ", to_string(dims),
                                  ", which no memory holds: nothing ends the loop before trip ", trips,
                                  "; lower the trip count or give the loop a condition"));
  return dims;
}

// The dims of a slice are known: memory for all of them, if their number is.
Status Stacked::learn(RunCtx& c, BodyHost& host, const Dims& slice) {
  slice_ = slice;
  known_ = true;
  const Arg& out = c.out(form_->slot);
  width_ = element_width(out.dtype);
  fixed_ = form_->planned;
  if (!fixed_ && trips_ >= 0) {
    ASSIGN_OR_RETURN(const Dims dims, result_dims(trips_, slice_));
    RETURN_IF_ERROR(host.output(form_->slot, dims).status());
    fixed_ = true;
  }
  outer_ = 1;
  const int64_t rank = static_cast<int64_t>(slice.size()) + 1;
  const int64_t axis = form_->axis < 0 ? form_->axis + rank : form_->axis;
  if (axis < 0 || axis >= rank) return result_dims(0, slice_).status();
  for (int64_t d = 0; d < axis; ++d) outer_ *= slice[static_cast<size_t>(d)];
  return absl::OkStatus();
}

std::byte* Stacked::base(const RunCtx& c) const {
  return static_cast<std::byte*>(fixed_ ? c.out(form_->slot).data : buffer_.data);
}

std::byte* Stacked::place(const RunCtx& c, int64_t trip) const {
  const int64_t at = form_->backwards ? trips_ - 1 - trip : trip;
  return base(c) + at * element_count(slice_).value_or(0) * width_;
}

Status Stacked::grow(RunCtx& c, BodyHost& host, int64_t trip) {
  if (fixed_) return trip < trips_ ? absl::OkStatus() : internal("more trips were made than there is room for");
  if (trip < capacity_) return absl::OkStatus();
  const int64_t bytes = std::max<int64_t>(1, element_count(slice_).value_or(0) * width_);
  const auto doubled = checked_mul(std::max(capacity_, std::max<int64_t>(1, kFirstBytes / bytes) / 2), 2);
  const int64_t wanted = std::min(most_, std::max<int64_t>(doubled.value_or(most_), 1));
  Dims dims = {wanted};
  dims.insert(dims.end(), slice_.begin(), slice_.end());
  const auto elements = element_count(dims);
  if (!elements || !checked_mul(*elements, width_))
    return exhausted(absl::StrCat("scan output ", form_->slot, " has grown to ", trip, " slices of ", to_string(slice_),
                                  "; no memory holds twice as many"));
  auto larger = host.make_escaping(c.out(form_->slot).dtype, dims);
  if (!larger.ok())
    return with_context(larger.status(), absl::StrCat("scan output ", form_->slot, " after ", trip, " trips"));
  if (capacity_ > 0) {
    const int64_t used = trip * element_count(slice_).value_or(0) * width_;
    copy_run(buffer_.dtype, static_cast<const std::byte*>(buffer_.data), static_cast<std::byte*>(larger->data), used);
    host.count_copy(used);
  }
  buffer_ = *std::move(larger);
  capacity_ = wanted;
  return absl::OkStatus();
}

StatusOr<Value> Stacked::offer(RunCtx& c, BodyHost& host, int64_t trip, const Dims* slice) {
  if (!c.has_out(form_->slot)) return Value();
  if (!known_) {
    if (!slice) return Value();
    RETURN_IF_ERROR(learn(c, host, *slice));
  }
  RETURN_IF_ERROR(grow(c, host, trip));
  if (outer_ != 1) return Value();
  Tensor t;
  t.dtype = c.out(form_->slot).dtype;
  t.dims = slice_;
  t.data = place(c, trip);
  return Value(std::move(t));
}

// Where the axis is not the first one, a slice goes to `outer_` pieces of the result.
Status Stacked::write(RunCtx& c, BodyHost& host, int64_t trip, const Tensor& slice) const {
  const auto* from = static_cast<const std::byte*>(slice.data);
  const int64_t all = element_count(slice_).value_or(0) * width_;
  if (outer_ == 1) {
    std::byte* to = place(c, trip);
    if (to == from) return absl::OkStatus();
    copy_run(slice.dtype, from, to, all);
    host.count_copy(all);
    return absl::OkStatus();
  }
  const int64_t at = form_->backwards ? trips_ - 1 - trip : trip;
  const int64_t piece = outer_ > 0 ? all / outer_ : 0;
  for (int64_t o = 0; o < outer_; ++o)
    copy_run(slice.dtype, from + o * piece, base(c) + (o * trips_ + at) * piece, piece);
  return absl::OkStatus();
}

Status Stacked::keep(RunCtx& c, BodyHost& host, int64_t trip, const Value& made) {
  if (!c.has_out(form_->slot)) return absl::OkStatus();
  if (!made.is_tensor()) return invalid(absl::StrCat("scan output ", form_->slot, " is no tensor"));
  const Tensor& t = made.tensor();
  if (t.dtype != c.out(form_->slot).dtype)
    return invalid(absl::StrCat("scan output ", form_->slot, " came as ", name(t.dtype), " from the body, not as ",
                                name(c.out(form_->slot).dtype)));
  if (!known_) {
    RETURN_IF_ERROR(learn(c, host, t.dims));
    RETURN_IF_ERROR(grow(c, host, trip));
  }
  if (t.dims != slice_)
    return invalid(absl::StrCat("scan output ", form_->slot, " was ", to_string(slice_), " at first and is ",
                                to_string(t.dims), " now; slices must have one shape"));
  return write(c, host, trip, t);
}

Status Stacked::finish(RunCtx& c, BodyHost& host, int64_t trips, const Dims* slice) {
  if (!c.has_out(form_->slot)) return absl::OkStatus();
  if (fixed_ || form_->planned)
    return trips == trips_ ? absl::OkStatus() : internal("fewer trips were made than there is room for");
  width_ = element_width(c.out(form_->slot).dtype);
  if (!known_ && slice) slice_ = *slice;
  ASSIGN_OR_RETURN(const Dims dims, result_dims(trips, known_ || slice ? slice_ : form_->empty));
  if (!known_) return host.output(form_->slot, dims).status();
  // A buffer that is nearly full is handed over; of another one only what is needed is kept.
  const int64_t spare = capacity_ - trips;
  if (spare <= trips / 8 && buffer_.owner) {
    buffer_.dims = dims;
    return host.set_output(form_->slot, Value(std::move(buffer_)));
  }
  ASSIGN_OR_RETURN(void* to, host.output(form_->slot, dims));
  const int64_t used = element_count(dims).value_or(0) * width_;
  copy_run(buffer_.dtype, static_cast<const std::byte*>(buffer_.data), static_cast<std::byte*>(to), used);
  host.count_copy(used);
  buffer_ = Tensor();
  return absl::OkStatus();
}

}  // namespace forethought
