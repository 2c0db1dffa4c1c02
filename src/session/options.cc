#include "session/options.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/cpu.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/mutex.h"
#include "session/weights_options.h"

namespace forethought {
namespace {

constexpr absl::string_view kPayload = "forethought.wrong_option";
constexpr absl::string_view kZero("\0", 1);

Status check_range(std::string_view option, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return wrong_option(absl::StrCat(std::string(option), " is ", value, "; it is to be from ", low, " to ", high));
}

Status check_dimensions(const SessionOptions& o) {
  for (const auto& [name, number] : o.free_dimensions) {
    if (number < 0)
      return wrong_option(absl::StrCat("free_dimensions: '", name, "' is bound to ", number, "; a dim is at least 0"));
    if (o.max_dimensions.contains(name))
      return wrong_option(absl::StrCat("'", name, "' is bound to a number (free_dimensions: ", number,
                                       ") and has an upper bound (max_dimensions: ", o.max_dimensions.at(name),
                                       "); give one of the two"));
  }
  for (const auto& [name, most] : o.max_dimensions)
    if (most < 1)
      return wrong_option(absl::StrCat("max_dimensions: the bound of '", name, "' is ", most, "; it is at least 1"));
  return absl::OkStatus();
}

// Once for each key.
void warn_of_entries(const SessionOptions& o) {
  constexpr size_t kMost = 100;  // kept
  static auto* const mutex = new Mutex;
  static auto* const told = new std::set<std::string>;
  for (const auto& [key, value] : o.config) {
    const std::string_view meant = entry_meant_by(key);
    if (meant.empty()) continue;
    const std::lock_guard lock(*mutex);
    if (told->size() < kMost && told->insert(key).second)
      log_warning("the config entry '{}' means nothing; did you mean '{}'?", key, meant);
  }
}

constexpr std::pair<PlanMode, std::string_view> kPlanModes[] = {
    {PlanMode::packed, "packed"}, {PlanMode::exact, "exact"}, {PlanMode::slots, "slots"}, {PlanMode::off, "off"}};

}  // namespace

std::string_view name(PlanMode mode) {
  return std::ranges::find(kPlanModes, mode, [](const auto& m) { return m.first; })->second;
}

std::optional<PlanMode> plan_mode_from(std::string_view name) {
  const auto* const found = std::ranges::find(kPlanModes, name, [](const auto& m) { return m.second; });
  return found == std::end(kPlanModes) ? std::nullopt : std::optional(found->first);
}

Status wrong_option(std::string_view message) { return as_wrong_option(invalid(message)); }

Status as_wrong_option(Status status) {
  if (absl::IsInvalidArgument(status)) status.SetPayload(kPayload, absl::Cord());
  return status;
}

bool is_wrong_option(const Status& status) { return status.GetPayload(kPayload).has_value(); }

Status check_path(std::string_view what, std::string_view path) {
  if (path.find('\0') == path.npos) return absl::OkStatus();
  const std::string shown = absl::StrReplaceAll(absl::string_view(path.data(), path.size()), {{kZero, "\\x00"}});
  return wrong_option(
      absl::StrCat(std::string(what), " '", shown, "' holds a byte of 0, which no path may; give it without"));
}

Status check_options(const SessionOptions& o) {
  RETURN_IF_ERROR(as_wrong_option(check_knobs()));
  if (const auto wanted = isa_from_name(knob_string(Knob::kIsa)); wanted && *wanted > detected_isa())
    return wrong_option(absl::StrCat("the environment variable FORETHOUGHT_ISA is '", name(*wanted),
                                     "', which this machine lacks; set it to ", name(detected_isa()),
                                     " or less, or unset it"));
  constexpr OptimizationLevel kLevels[] = {OptimizationLevel::disabled, OptimizationLevel::basic,
                                           OptimizationLevel::extended, OptimizationLevel::all};
  if (std::ranges::find(kLevels, o.optimization_level) == std::end(kLevels))
    return wrong_option(absl::StrCat("the optimisation level is ", static_cast<int>(o.optimization_level),
                                     "; it is to be 0 (disabled), 1 (basic), 2 (extended) or 99 (all)"));
  if (std::ranges::none_of(kPlanModes, [&](const auto& m) { return m.first == o.plan; }))
    return wrong_option(
        absl::StrCat("the plan mode is ", static_cast<int>(o.plan), "; it is to be from 0 (packed) to 3"));
  RETURN_IF_ERROR(check_range("the number of threads of a run", o.intra_op_threads, 0, kMostThreads));
  RETURN_IF_ERROR(check_range("the number of lanes", o.lanes, 0, kMostLanes));
  RETURN_IF_ERROR(
      check_range("the number of plans that are kept for shapes seen before", o.plan_cache_capacity, 1, kMostPlans));
  RETURN_IF_ERROR(check_path("the path of the optimised model", o.optimized_model_path));
  RETURN_IF_ERROR(check_path("the folder of external data", o.external_data_folder));
  RETURN_IF_ERROR(weights_options(o).status());
  warn_of_entries(o);
  return check_dimensions(o);
}

}  // namespace forethought
