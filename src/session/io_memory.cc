// What a session has callers fill or keep: buffers of its I/O arena, and copies there of what must not be shared.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "memory/block_pool.h"
#include "session/memory_report.h"
#include "session/session.h"

namespace forethought {

StatusOr<Tensor> Session::take_io(DType dtype, std::span<const int64_t> dims, std::string_view who,
                                  FunctionRef<int64_t()> to_come) {
  const auto bytes = storage_bytes(dtype, Layout::plain(), dims);
  if (!bytes || dtype == DType::kString)
    return invalid(absl::StrCat(std::string(who), " is no tensor that has a size of memory: ", forethought::name(dtype),
                                to_string(dims)));
  auto taken = io_->take(*bytes, who);
  if (MemoryBudget::refusal_of(taken.status()) && trim() > 0) taken = io_->take(*bytes, who);
  if (auto refusal = MemoryBudget::refusal_of(taken.status())) {
    refusal->who = absl::StrCat("'", refusal->who, "'");
    const MemoryReport report = memory_report();
    const MemoryStatistics& s = refusal->of_process ? report.process : report.session;
    const int64_t elsewhere =
        refusal->of_process ? s.mapped - s.retained - report.session.mapped + report.session.retained : 0;
    const Status told =
        too_little(*refusal, report, enough(report) + elsewhere + refusal->bytes + to_come(), elsewhere);
    const std::lock_guard lock(mutex_);
    if (last_program_) return told;
    return exhausted(absl::StrCat(told.message(), "; what a run takes comes on top: none was planned yet"));
  }
  if (!taken.ok()) return taken.status();
  Tensor t;
  t.dtype = dtype;
  t.dims.assign(dims.begin(), dims.end());
  t.data = taken->data();
  t.owner = std::move(*taken).share();
  return t;
}

StatusOr<Value> Session::copy_of(const Value& value, std::string_view who) {
  if (value.is_tensor()) {
    const Tensor& from = value.tensor();
    if (!from.device.is_host())
      return invalid(
          absl::StrCat("output '", std::string(who), "' is asked for twice, once in memory of a device: ask once"));
    Tensor to;
    if (from.dtype == DType::kString) {
      ASSIGN_OR_RETURN(to, make_tensor(from.dtype, from.dims));
      std::ranges::copy(from.strings(), to.as<std::string>());
    } else {
      ASSIGN_OR_RETURN(to, take_io(from.dtype, from.dims, who));
      if (const int64_t bytes = from.bytes(); bytes > 0) std::memcpy(to.data, from.data, static_cast<size_t>(bytes));
    }
    return Value(std::move(to));
  }
  if (const Sequence* from = value.sequence()) {
    auto to = std::make_shared<Sequence>();
    to->element = from->element;
    for (const Value& item : from->items) {
      ASSIGN_OR_RETURN(to->items.emplace_back(), copy_of(item, who));
    }
    return Value(std::shared_ptr<const Sequence>(std::move(to)));
  }
  if (const MapValue* from = value.map()) {
    auto to = std::make_shared<MapValue>(*from);
    ASSIGN_OR_RETURN(to->values, copy_of(from->values, who));
    return Value(std::shared_ptr<const MapValue>(std::move(to)));
  }
  if (const SparseTensor* from = value.sparse()) {
    auto to = std::make_shared<SparseTensor>(*from);
    ASSIGN_OR_RETURN(const Value values, copy_of(from->values, who));
    ASSIGN_OR_RETURN(const Value indices, copy_of(from->indices, who));
    to->values = values.tensor();
    to->indices = indices.tensor();
    return Value(std::shared_ptr<const SparseTensor>(std::move(to)));
  }
  return value;
}

}  // namespace forethought
