// The environment variables that the runtime reads, from one list (knobs.inc) of which the documentation is made.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace forethought {

enum class Knob : int {
#define KNOB(id, variable, default_value, help) id,
#include "base/knobs.inc"
#undef KNOB
};

struct KnobInfo {
  const char* variable;
  const char* default_value;
  const char* help;
};
std::span<const KnobInfo> knobs();

// The knob's value from the environment, or its default. Read anew at each call.
std::string knob_string(Knob knob);
int64_t knob_int(Knob knob);  // 0 if it is no number
bool knob_bool(Knob knob);    // true for 1, true, on, yes

}  // namespace forethought
