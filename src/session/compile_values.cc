// Values of a program: types, dims and bytes, from the facts or from a program for other sizes.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "session/compiling.h"
#include "tensor/strides.h"

namespace forethought {
namespace {

Status too_large(const ProgramValue& p) {
  return invalid(absl::StrCat("value '", std::string(p.name), "' of ", name(p.dtype), to_string(p.dims),
                              " has no representable size"));
}

// Memory for the dims of all values; the program keeps it.
int64_t* room_for_dims(Compiling& w) {
  size_t most = 0;
  for (const ValueFact& f : w.table.values) most += f.shape.dims.size();
  const std::shared_ptr<int64_t[]> room(new int64_t[most]);
  w.program.dims = room;
  return room.get();
}

// Writes the dims and moves on behind them, if all are numbers.
bool append_numbers(const SymShape& shape, int64_t** to) {
  if (!shape.has_rank) return false;
  int64_t* at = *to;
  for (const Dim& d : shape.dims) {
    const std::optional<int64_t> number = d.known();
    if (!number) return false;
    *at++ = *number;
  }
  *to = at;
  return true;
}

Status compare_with_facts(const Compiling& w) {
  for (uint32_t i = 0; i < w.g.value_capacity(); ++i) {
    const ProgramValue& p = w.program.values[i];
    const ValueFact& f = w.table.values[i];
    const auto dims = f.shape.numbers();
    if (w.prepared.values[i].removed || !f.type.is_tensor()) continue;
    if (!dims || !std::ranges::equal(*dims, p.dims) || p.dtype != f.type.dtype() || p.kind != f.type.kind())
      return internal(absl::StrCat("value '", std::string(p.name), "' has ", to_string(p.dims),
                                   " by the program for other sizes, by the facts ", to_string(f.shape)));
  }
  return absl::OkStatus();
}

}  // namespace

bool describe_strides(std::span<const int64_t> strides, ProgramValue* value) {
  const int64_t width = bit_width(value->dtype) / 8;
  if (std::ranges::any_of(value->dims, [](int64_t d) { return d < 1; })) return false;
  const auto reach = reach_of(value->dims, strides);
  const auto before = reach ? checked_mul(reach->below, -1) : std::nullopt;
  const auto elements = before ? checked_add(reach->above, *before) : std::nullopt;
  const auto bytes = elements ? checked_mul(*elements, width) : std::nullopt;
  const auto padded = bytes ? checked_add(*bytes, width + kValueAlignment) : std::nullopt;
  if (!padded) return false;
  value->strides = strides;
  value->bytes = *bytes + width;
  value->first = *before * width;
  return true;
}

Status describe_values(Compiling& w) {
  w.program.values.resize(w.g.value_capacity());
  int64_t* dims = room_for_dims(w);
  for (uint32_t i = 0; i < w.g.value_capacity(); ++i) {
    const PreparedValue& v = w.prepared.values[i];
    if (v.removed) continue;
    ProgramValue& p = w.program.values[i];
    const ValueFact& f = w.table.values[i];
    p.name = w.options.lists->values[i];
    p.kind = f.type.kind();
    p.layout = v.layout;
    p.device = w.place_of(v.device);
    if (!f.type.is_tensor()) continue;
    p.dtype = f.type.dtype();
    const int64_t* const first = dims;
    if (!append_numbers(f.shape, &dims)) continue;
    p.dims = {first, dims};
    const auto bytes = storage_bytes(p.dtype, p.layout, p.dims);
    if (!bytes || !checked_add(*bytes, kValueAlignment)) return too_large(p);
    p.known = true;
    p.bytes = *bytes;
  }
  for (size_t i = 0; i < w.options.bound.inputs.size(); ++i)
    w.program.values[w.g.inputs()[i].index].device = w.options.bound.inputs[i];
  for (size_t i = 0; i < w.options.bound.outputs.size(); ++i)
    w.program.values[w.g.outputs()[i].index].device = w.options.bound.outputs[i];
  return absl::OkStatus();
}

Status resize_values(Compiling& w) {
  auto& values = w.program.values = w.like->values;
  size_t count = 0;
  for (const ProgramValue& p : values) count += p.dims.size();
  const std::shared_ptr<int64_t[]> room(new int64_t[count]);
  w.program.dims = room;
  int64_t* at = room.get();
  for (ProgramValue& p : values) {
    const int64_t* const first = at;
    at = std::ranges::copy(p.dims, at).out;
    p.dims = {first, at};
    if (p.strides.empty()) continue;
    p.strides = {};
    p.first = 0;
    p.bytes = storage_bytes(p.dtype, p.layout, p.dims).value_or(0);  // of values whose dims are as they were
  }
  const auto resized = [&](uint32_t v) {
    ProgramValue& p = values[v];
    const auto bytes = storage_bytes(p.dtype, p.layout, p.dims);
    if (!bytes || !checked_add(*bytes, kValueAlignment)) return too_large(p);
    p.bytes = *bytes;
    return absl::OkStatus();
  };
  const auto dims_of = [&](uint32_t v) { return room.get() + (values[v].dims.data() - room.get()); };
  for (const ValueId v : w.g.inputs()) {
    int64_t* dims = dims_of(v.index);
    if (!values[v.index].known || !append_numbers(w.table[v].shape, &dims)) continue;
    RETURN_IF_ERROR(resized(v.index));
  }
  const auto& [places, numbers] = *w.options.formulas;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto& [v, axis, formula] = places[i];
    dims_of(v)[axis] = numbers[formula].value();
    if (i + 1 == places.size() || places[i + 1].value != v) RETURN_IF_ERROR(resized(v));
  }
  return w.options.validate ? compare_with_facts(w) : absl::OkStatus();
}

}  // namespace forethought
