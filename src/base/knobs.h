// The environment variables that the runtime reads, from one list (knobs.inc) of which the documentation is made.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forethought {

enum class Knob : int {
#define KNOB(id, variable, default_value, values, help) id,
#include "base/knobs.inc"
#undef KNOB
};

struct KnobInfo {
  const char* variable;
  const char* default_value;
  const char* values;
  const char* help;
};
std::span<const KnobInfo> knobs();

// The knob's value from the environment, or its default where that is not set or empty. Read anew at each call.
std::string knob_string(Knob knob);
int64_t knob_int(Knob knob);  // 0 if it is no number
bool knob_bool(Knob knob);    // true for 1, true, on, yes

// Whether `value` is one that the knob has: the error tells which there are. Knobs whose values are told in words alone
// take anything here.
Status check_knob(Knob knob, std::string_view value);
// The same for all of them, as they are set in the environment.
Status check_knobs();

}  // namespace forethought
