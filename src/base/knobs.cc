#include "base/knobs.h"

#include <charconv>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace forethought {
namespace {
constexpr KnobInfo kKnobs[] = {
#define KNOB(id, variable, default_value, values, help) {variable, default_value, values, help},
#include "base/knobs.inc"
#undef KNOB
};

std::optional<int64_t> number(std::string_view text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(n) : std::nullopt;
}

bool is_word_of(std::string_view words, std::string_view word) {
  while (true) {
    const size_t bar = words.find('|');
    if (words.substr(0, bar) == word) return true;
    if (bar == words.npos) return false;
    words.remove_prefix(bar + 1);
  }
}

const char* set_value(const KnobInfo& knob) {
  const char* v = std::getenv(knob.variable);
  return v && *v ? v : nullptr;
}

}  // namespace

std::span<const KnobInfo> knobs() { return kKnobs; }

std::string knob_string(Knob knob) {
  const KnobInfo& k = kKnobs[static_cast<int>(knob)];
  const char* v = set_value(k);
  return v ? v : k.default_value;
}

int64_t knob_int(Knob knob) { return number(knob_string(knob)).value_or(0); }

bool knob_bool(Knob knob) {
  const std::string v = knob_string(knob);
  return v == "1" || v == "true" || v == "on" || v == "yes";
}

Status check_knob(Knob knob, std::string_view value) {
  const KnobInfo& k = kKnobs[static_cast<int>(knob)];
  const std::string_view values = k.values;
  std::string wanted;
  if (const size_t dots = values.find(".."); dots != values.npos) {
    const auto low = number(values.substr(0, dots)), high = number(values.substr(dots + 2)), n = number(value);
    if (n && *n >= *low && *n <= *high) return absl::OkStatus();
    wanted = absl::StrCat("a whole number from ", *low, " to ", *high);
  } else if (values.find('|') != values.npos) {
    if (is_word_of(values, value)) return absl::OkStatus();
    wanted = absl::StrCat("one of ", absl::StrReplaceAll(k.values, {{"|", ", "}}));
  } else {
    return absl::OkStatus();
  }
  const std::string_view otherwise = *k.default_value ? k.default_value : "its default";
  return invalid(absl::StrCat("the environment variable ", k.variable, " is '",
                              absl::string_view(value.data(), value.size()), "'; set it to ", wanted,
                              ", or unset it for ", absl::string_view(otherwise.data(), otherwise.size())));
}

Status check_knobs() {
  for (size_t i = 0; i < std::size(kKnobs); ++i)
    if (const char* v = set_value(kKnobs[i])) RETURN_IF_ERROR(check_knob(static_cast<Knob>(i), v));
  return absl::OkStatus();
}

}  // namespace forethought
