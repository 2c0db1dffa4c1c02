#include "base/knobs.h"

#include <cstdlib>

namespace forethought {
namespace {
constexpr KnobInfo kKnobs[] = {
#define KNOB(id, variable, default_value, help) {variable, default_value, help},
#include "base/knobs.inc"
#undef KNOB
};
}  // namespace

std::span<const KnobInfo> knobs() { return kKnobs; }

std::string knob_string(Knob knob) {
  const KnobInfo& k = kKnobs[static_cast<int>(knob)];
  const char* v = std::getenv(k.variable);
  return v ? v : k.default_value;
}

int64_t knob_int(Knob knob) { return std::strtoll(knob_string(knob).c_str(), nullptr, 10); }

bool knob_bool(Knob knob) {
  const std::string v = knob_string(knob);
  return v == "1" || v == "true" || v == "on" || v == "yes";
}

}  // namespace forethought
