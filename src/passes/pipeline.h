// The rules of each stage, as pipeline.inc lists them.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "passes/engine/rule.h"

namespace forethought::passes {

std::vector<const Rule*> rules_of(PassStage stage);
// A rule and its stage by name; null if there is none.
std::pair<const Rule*, PassStage> find_rule(std::string_view name);

}  // namespace forethought::passes
