// Scan: form 8 works on batches, which Builder::place spells out as a Scan of Scans.
#include "onnx/upgrade/rules.h"

namespace forethought {
namespace {

Status up_scan(Rewriter&, NodeForm& n) {
  if (const auto* directions = n.attributes.get_ints("directions")) {
    n.attributes.set("scan_input_directions", *directions);
    n.attributes.erase("directions");
  }
  n.attributes.set("_batched", int64_t{1});
  return absl::OkStatus();
}

constexpr UpgradeRule kRules[] = {
    {"Scan", 9, up_scan, nullptr},
};

}  // namespace

std::span<const UpgradeRule> scan_rules() { return kRules; }

}  // namespace forethought
