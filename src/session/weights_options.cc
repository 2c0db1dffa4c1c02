#include "session/weights_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "graph/schema/schema.h"

namespace forethought {
namespace {

constexpr const char* kWeights = "session.weights";
constexpr const char* kPrepacking = "session.disable_prepacking";
constexpr const char* kPackedPath = "session.packed_weights_path";

std::optional<std::string> entry(const SessionOptions& o, const char* key) {
  const auto found = o.config.find(key);
  return found == o.config.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

StatusOr<WeightsOptions> weights_options(const SessionOptions& options) {
  WeightsOptions w;
  if (const auto mode = entry(options, kWeights)) {
    using Mode = WeightsOptions::Mode;
    static constexpr std::pair<std::string_view, Mode> kModes[] = {{"auto", Mode::automatic},
                                                                   {"resident", Mode::resident},
                                                                   {"packed", Mode::packed},
                                                                   {"streamed", Mode::streamed}};
    const auto known = std::ranges::find(kModes, *mode, &std::pair<std::string_view, Mode>::first);
    if (known == std::end(kModes))
      return wrong_option(fmt::format("{} is '{}'; it is to be auto, resident, packed or streamed", kWeights, *mode));
    w.mode = known->second;
  }
  if (const auto disabled = entry(options, kPrepacking)) {
    if (*disabled != "0" && *disabled != "1")
      return wrong_option(fmt::format("{} is '{}'; it is to be 0 or 1", kPrepacking, *disabled));
    w.prepack = *disabled == "0";
  }
  if (const auto path = entry(options, kPackedPath)) {
    if (path->empty()) return wrong_option(fmt::format("{} is empty; give the path of a folder", kPackedPath));
    RETURN_IF_ERROR(check_path(kPackedPath, *path));
    if (!w.prepack)
      return wrong_option(fmt::format("{} is 1 and {} is '{}'; give one of the two", kPrepacking, kPackedPath, *path));
    w.packed_path = *path;
  }
  return w;
}

std::string_view entry_meant_by(std::string_view key) {
  static constexpr std::string_view kEntries[] = {kWeights, kPrepacking, kPackedPath};
  if (std::ranges::find(kEntries, key) != std::end(kEntries)) return {};
  return nearest_name(key, kEntries);
}

std::vector<WeightsWay> weights_ways(const WeightsOptions& options, bool is_limited) {
  using Mode = WeightsOptions::Mode;
  const bool asked = options.mode != Mode::automatic;
  const std::string reason = asked ? "session.weights asks for it" : "the memory limit does not hold them";
  const WeightsWay resident{false, true,
                            asked        ? reason
                            : is_limited ? "the memory limit holds them"
                                         : "no memory limit"};
  const WeightsWay packed{true, true, asked ? reason : "the memory limit holds their packed forms alone"};
  const WeightsWay streamed{true, false, reason};
  switch (options.mode) {
    case Mode::resident:
      return {resident};
    case Mode::packed:
      return {packed};
    case Mode::streamed:
      return {streamed};
    case Mode::automatic:
      break;
  }
  if (!options.prepack) return {resident, streamed};
  return {resident, packed, streamed};
}

}  // namespace forethought
