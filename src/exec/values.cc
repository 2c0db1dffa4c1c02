// Values that come to be during a run: their memory, and how every argument that names them learns of it.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "exec/frame.h"

namespace forethought {

BlockPool& Frame::output_pool() const {
  if (depth_ == 0) return *environment_.io;
  return *environment_.side;
}

void Frame::bind_group(int32_t group, void* base) {
  if (bound_[group] == base) return;
  bound_[group] = base;
  auto* const bytes = static_cast<std::byte*>(base);
  for (const Fixup& f : fixups_[group]) args_[f.arg].data = bytes ? bytes + f.offset : nullptr;
}

void Frame::show_tensor(int32_t value, const Tensor& tensor) {
  const int32_t group = group_of(value);
  if (group >= 0) bind_group(group, tensor.data);
  const int64_t elements = tensor.elements();
  for (int32_t a : uses_[value]) {
    Arg& arg = args_[a];
    if (group < 0) arg.data = tensor.data;
    arg.dims_data = tensor.dims.data();
    arg.rank = static_cast<int32_t>(tensor.dims.size());
    arg.elements = elements;
    arg.dtype = tensor.dtype;
    arg.layout = tensor.layout;
  }
}

void Frame::hide(int32_t value) {
  const ProgramValue& facts = program_->values[value];
  if (is_plain_object(facts)) return;
  if (const int32_t group = group_of(value); group >= 0) bind_group(group, nullptr);
  for (int32_t a : uses_[value]) {
    args_[a].dims_data = nullptr;
    args_[a].rank = 0;
    args_[a].elements = 0;
  }
}

StatusOr<Tensor> Frame::take_tensor(BlockPool& pool, std::string_view name, DType dtype, Layout layout,
                                    std::span<const int64_t> dims) {
  if (dtype == DType::kString) return make_tensor(dtype, dims);
  const auto bytes = storage_bytes(dtype, layout, dims);
  if (!bytes) {
    return invalid(
        fmt::format("'{}' would be {}{}, which is no size of memory", name, forethought::name(dtype), to_string(dims)));
  }
  ASSIGN_OR_RETURN(Lease lease, pool.take(*bytes, name));
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.dims.assign(dims.begin(), dims.end());
  tensor.layout = layout;
  tensor.data = lease.data();
  tensor.owner = std::move(lease).share();
  return tensor;
}

StatusOr<Tensor> Frame::copy_tensor(BlockPool& pool, std::string_view name, const Tensor& from) {
  ASSIGN_OR_RETURN(Tensor to, take_tensor(pool, name, from.dtype, from.layout, from.dims));
  if (from.dtype == DType::kString) {
    std::ranges::copy(from.strings(), to.as<std::string>());
  } else if (const int64_t bytes = from.bytes(); bytes > 0) {
    std::memcpy(to.data, from.data, static_cast<size_t>(bytes));
  }
  count_copy(from.bytes());
  return to;
}

// A result must not change when an input, another result or a later run does: what it shares with them is copied.
Status Frame::own(Value& value) {
  const auto own_tensor = [&](Tensor& tensor, bool reached_twice) -> Status {
    if (tensor.owner.unique() && !reached_twice) return absl::OkStatus();
    ASSIGN_OR_RETURN(tensor, copy_tensor(*environment_.side, "an element of an output", tensor));
    return absl::OkStatus();
  };
  if (value.is_tensor()) return own_tensor(value.tensor(), false);
  if (const Sequence* sequence = value.sequence()) {
    const bool reached_twice = value.shared_sequence().use_count() > 2;  // the value's and the one just made
    const auto owned = [](const Value& item) { return item.is_tensor() && item.tensor().owner.unique(); };
    if (!reached_twice && std::ranges::all_of(sequence->items, owned)) return absl::OkStatus();
    auto copy = std::make_shared<Sequence>();
    copy->element = sequence->element;
    copy->items.reserve(sequence->items.size());
    for (const Value& item : sequence->items) {
      const bool shared = reached_twice || !owned(item);
      copy->items.push_back(item);
      Value& mine = copy->items.back();
      if (!shared) continue;
      RETURN_IF_ERROR(mine.is_tensor() ? own_tensor(mine.tensor(), true) : own(mine));
    }
    value = Value(std::shared_ptr<const Sequence>(std::move(copy)));
  } else if (const MapValue* map = value.map()) {
    auto copy = std::make_shared<MapValue>(*map);
    RETURN_IF_ERROR(own(copy->values));
    value = Value(std::shared_ptr<const MapValue>(std::move(copy)));
  } else if (const SparseTensor* sparse = value.sparse()) {
    auto copy = std::make_shared<SparseTensor>(*sparse);
    RETURN_IF_ERROR(own_tensor(copy->values, true));
    RETURN_IF_ERROR(own_tensor(copy->indices, true));
    value = Value(std::shared_ptr<const SparseTensor>(std::move(copy)));
  }
  return absl::OkStatus();
}

// Memory for a value of these dims, unless it has its place already.
Status Frame::make_output(int32_t value, DType dtype, std::span<const int64_t> dims) {
  const ProgramValue& facts = program_->values[value];
  if (facts.known && !std::ranges::equal(dims, facts.dims)) {
    return internal(fmt::format("output '{}' was planned as {} and came as {}", facts.name, to_string(facts.dims),
                                to_string(dims)));
  }
  if (is_plain_object(facts)) return internal(fmt::format("output '{}' is no tensor", facts.name));
  if (facts.base == Base::output) {
    const int32_t o = facts.index;
    if (facts.known && !is_text(facts)) return absl::OkStatus();
    const auto bytes = storage_bytes(dtype, facts.layout, dims);
    if (preset_[o] && bytes && outputs_[o].tensor().bytes() == *bytes) {
      outputs_[o].tensor().dims.assign(dims.begin(), dims.end());
    } else {
      preset_[o] = 0;
      ASSIGN_OR_RETURN(outputs_[o], take_tensor(output_pool(), facts.name, dtype, facts.layout, dims));
    }
    show_tensor(value, outputs_[o].tensor());
  } else if (held_index_[value] >= 0 && facts.root < 0) {
    ASSIGN_OR_RETURN(held(value), take_tensor(*environment_.side, facts.name, dtype, facts.layout, dims));
    show_tensor(value, held(value).tensor());
  } else if (!facts.known) {
    return internal(fmt::format("output '{}' has neither a planned size nor a buffer of its own", facts.name));
  }
  return absl::OkStatus();
}

Status Frame::adopt(int32_t value, Value made) {
  const ProgramValue& facts = program_->values[value];
  if (is_plain_object(facts)) return adopt_object(value, std::move(made));
  const bool fits = made.is_tensor() && made.tensor().layout == facts.layout &&
                    (facts.dtype == DType::kUndefined || made.tensor().dtype == facts.dtype) &&
                    (!facts.known || std::ranges::equal(made.tensor().dims, facts.dims));
  if (!fits) {
    return internal(fmt::format(
        "output '{}' was planned as {}{} and came as {}", facts.name, name(facts.dtype),
        facts.known ? to_string(facts.dims) : "",
        made.is_tensor() ? name(made.tensor().dtype) + to_string(made.tensor().dims) : std::string("an object")));
  }
  if (facts.base == Base::output) return adopt_as_output(value, std::move(made));
  if (held_index_[value] >= 0 && facts.root < 0) {
    if (!made.tensor().owner) {
      ASSIGN_OR_RETURN(made, copy_tensor(*environment_.side, facts.name, made.tensor()));
    }
    held(value) = std::move(made);
    show_tensor(value, held(value).tensor());
    return absl::OkStatus();
  }
  if (!facts.known) return internal(fmt::format("output '{}' has no place for a value of its own", facts.name));
  const Tensor target = tensor_of_value(value);
  if (target.data != made.tensor().data && target.bytes() > 0) {
    std::memcpy(target.data, made.tensor().data, static_cast<size_t>(target.bytes()));
    count_copy(target.bytes());
  }
  return absl::OkStatus();
}

Status Frame::adopt_object(int32_t value, Value made) {
  const ProgramValue& facts = program_->values[value];
  if (facts.base != Base::object && facts.base != Base::output) {
    return internal(fmt::format("output '{}' is an object without a place", facts.name));
  }
  Value& place = facts.base == Base::output ? outputs_[facts.index] : held(value);
  const bool as_tensor = facts.kind == ValueType::Kind::unknown && made.is_tensor();
  if (as_tensor && !made.tensor().owner) {
    ASSIGN_OR_RETURN(made, copy_tensor(*environment_.side, facts.name, made.tensor()));
  }
  place = std::move(made);
  for (int32_t a : uses_[value]) args_[a].object = as_tensor ? nullptr : &place;
  if (as_tensor) show_tensor(value, place.tensor());
  return absl::OkStatus();
}

// The caller's memory gets a copy. Otherwise the bytes are handed over, if nobody else can see them.
Status Frame::adopt_as_output(int32_t value, Value made) {
  const ProgramValue& facts = program_->values[value];
  const int32_t o = facts.index;
  const Tensor& tensor = made.tensor();
  if (preset_[o] && outputs_[o].tensor().bytes() == tensor.bytes()) {
    Tensor& target = outputs_[o].tensor();
    target.dims = tensor.dims;
    if (target.data != tensor.data && tensor.bytes() > 0) {
      std::memcpy(target.data, tensor.data, static_cast<size_t>(tensor.bytes()));
      count_copy(tensor.bytes());
    }
  } else {
    preset_[o] = 0;
    if (tensor.owner.unique()) {
      outputs_[o] = std::move(made);
    } else {
      ASSIGN_OR_RETURN(outputs_[o], copy_tensor(output_pool(), facts.name, tensor));
    }
  }
  show_tensor(value, outputs_[o].tensor());
  return absl::OkStatus();
}

// As a counted value: its own bytes where it has a counted buffer, else a copy.
StatusOr<Value> Frame::escaped(int32_t v) {
  if (v < 0) return Value();
  const ProgramValue& facts = program_->values[v];
  if (is_plain_object(facts)) {
    const Value* object = object_of(v);
    return object ? *object : Value();
  }
  Tensor tensor = tensor_of_value(v);
  if (const BufferRef* owner = owner_of(v)) {
    tensor.owner = *owner;
    return Value(std::move(tensor));
  }
  ASSIGN_OR_RETURN(Tensor copy, copy_tensor(*environment_.side, facts.name, tensor));
  return Value(std::move(copy));
}

Tensor Frame::tensor_of_value(int32_t value) const {
  const ProgramValue& facts = program_->values[value];
  Tensor tensor;
  const Value* made = facts.base == Base::input    ? &inputs_[facts.index]
                      : facts.base == Base::output ? &outputs_[facts.index]
                      : held_index_[value] >= 0    ? &held(value)
                                                   : nullptr;
  tensor.dtype = facts.dtype;
  tensor.layout = facts.layout;
  if (facts.known) {
    tensor.dims.assign(facts.dims.begin(), facts.dims.end());
  } else if (made && made->is_tensor()) {
    tensor.dtype = made->tensor().dtype;
    tensor.dims = made->tensor().dims;
  }
  tensor.strides.assign(facts.strides.begin(), facts.strides.end());
  const int64_t at = facts.offset + facts.first;
  if (facts.base == Base::slab) {
    tensor.data = slab().at(at);
  } else if (facts.base == Base::weight) {
    tensor.data = static_cast<std::byte*>(program_->weights[facts.index].data) + at;
  } else if (const int32_t group = group_of(value); group >= 0 && bound_[group]) {
    tensor.data = static_cast<std::byte*>(bound_[group]) + at;
  }
  return tensor;
}

const BufferRef* Frame::owner_of(int32_t value) const {
  const ProgramValue& facts = program_->values[value];
  if (facts.base != Base::side && facts.base != Base::object) return nullptr;
  const Value& root = held(facts.root >= 0 ? facts.root : value);
  return root.is_tensor() && root.tensor().owner ? &root.tensor().owner : nullptr;
}

const Value* Frame::object_of(int32_t value) const {
  const ProgramValue& facts = program_->values[value];
  switch (facts.base) {
    case Base::input:
      return &inputs_[facts.index];
    case Base::output:
      return &outputs_[facts.index];
    case Base::object:
      return &held(value);
    default:
      return nullptr;
  }
}

}  // namespace forethought
