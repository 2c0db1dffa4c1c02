#include "session/bound_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tensor/strides.h"

namespace forethought {
namespace {

// Addresses of one space can be compared; what the host may touch lies in its own.
Device space(Device device) {
  return device.is_host() || device.memory == MemoryKind::host_visible ? Device{} : device;
}

// Addresses from the first byte of a tensor to behind its last; between them may lie others.
std::pair<uintptr_t, uintptr_t> addresses_of(const Tensor& t) {
  const auto at = reinterpret_cast<uintptr_t>(t.data);
  if (t.strides.empty() || t.elements() == 0) return {at, at + static_cast<uintptr_t>(t.bytes())};
  const Reach reach = reach_of(t.dims, t.strides).value_or(Reach());  // check_strides() holds of inputs
  const int64_t width = bit_width(t.dtype) / 8;
  return {at - static_cast<uintptr_t>(-reach.below * width), at + static_cast<uintptr_t>((reach.above + 1) * width)};
}

bool is_bound(const Value& v) { return v.is_tensor() && v.tensor().data; }

Status check_form(const NodeArg& output, const ProgramValue& planned, const Tensor& given) {
  if (given.dtype != planned.dtype || (planned.known && !std::ranges::equal(given.dims, planned.dims)))
    return invalid(absl::StrCat("output '", output.name, "' is ", name(planned.dtype),
                                planned.known ? to_string(planned.dims) : "", "; the memory given for it is ",
                                name(given.dtype), to_string(given.dims),
                                ": give memory of that type and shape, or none"));
  if (!given.strides.empty())
    return invalid(absl::StrCat("the memory given for output '", output.name, "' has strides ",
                                to_string(given.strides), ": give memory that is row-major"));
  Status address = check_address(given);
  return address.ok()
             ? address
             : with_context(std::move(address), absl::StrCat("the memory given for output '", output.name, "'"));
}

// The tensor, or one of the elements of the sequence, that shares bytes with `written`.
bool reads_from(const Value& input, const Tensor& written) {
  if (input.is_tensor()) return overlap(input.tensor(), written);
  const Sequence* s = input.sequence();
  return s && std::any_of(s->items.begin(), s->items.end(), [&](const Value& v) { return reads_from(v, written); });
}

}  // namespace

Status check_address(const Tensor& given) {
  const size_t alignment = given.dtype == DType::kString
                               ? alignof(std::string)
                               : std::clamp<size_t>(static_cast<size_t>(bit_width(given.dtype)) / 8, 1, 8);
  if (reinterpret_cast<uintptr_t>(given.data) % alignment == 0) return absl::OkStatus();
  return invalid(absl::StrCat("it lies at an address that ", alignment,
                              " does not divide; its elements need that: give memory that begins where it does"));
}

bool overlap(const Tensor& a, const Tensor& b) {
  if (!a.data || !b.data || space(a.device) != space(b.device)) return false;
  const auto [low, high] = addresses_of(a);
  const auto [other_low, other_high] = addresses_of(b);
  return low < other_high && other_low < high;
}

Status check_bound_memory(const std::vector<NodeArg>& input_args, std::span<const Value> inputs,
                          const std::vector<NodeArg>& output_args, std::span<const Value> outputs,
                          const Program& program) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_bound(outputs[i])) continue;
    const Tensor& given = outputs[i].tensor();
    RETURN_IF_ERROR(check_form(output_args[i], program.values[program.outputs[i]], given));
    for (size_t k = 0; k < i; ++k)
      if (is_bound(outputs[k]) && overlap(given, outputs[k].tensor()))
        return invalid(absl::StrCat("outputs '", output_args[k].name, "' and '", output_args[i].name,
                                    "' were given the same memory, in part or whole: give each its own"));
    for (size_t k = 0; k < inputs.size(); ++k)
      if (reads_from(inputs[k], given))
        return invalid(absl::StrCat("the memory given for output '", output_args[i].name, "' is that of input '",
                                    input_args[k].name,
                                    "', in part or whole, which the run may still read after it wrote there: give the "
                                    "output memory of its own, and swap the two between runs"));
  }
  return absl::OkStatus();
}

}  // namespace forethought
