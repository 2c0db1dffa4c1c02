// Values that Python holds between runs: what stands behind OrtValue.
#pragma once

#include <string_view>

#include "convert.h"

namespace forethought::python {

// The value as memory for an output; throws if it cannot be written, or if a write would not reach what it was made of.
const Value& writable(const HeldValue& held, std::string_view output);

// A value over the object's memory, or over a copy where `feeding` says; nested values are owned.
HeldValue value_from_python(nb::handle object, Feeding feeding);

void bind_values(nb::module_& module);

}  // namespace forethought::python
