// What a session's config entries say of its weights.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "session/options.h"

namespace forethought {

// session.weights: "resident", weights and their packed forms stay in memory; "packed", pages of mapped files come and
// go with the steps that read them, packed forms stay; "streamed", packed forms are left out, too, but for those on
// disk; "auto", the default: the first of these that the memory limit holds. session.disable_prepacking: "1", as in
// onnxruntime, leaves out all packed forms that kernels can do without. session.packed_weights_path: a folder where
// packed forms are kept (PackFolder).
struct WeightsOptions {
  enum class Mode { automatic, resident, packed, streamed } mode = Mode::automatic;
  bool prepack = true;
  std::string packed_path;  // empty: none
};
StatusOr<WeightsOptions> weights_options(const SessionOptions& options);

// Which of these entries is meant by a key that is none; empty if it is one, or like none: then it may be one of other
// runtimes, and means nothing here.
std::string_view entry_meant_by(std::string_view key);

// One way to hold weights, and why it was taken.
struct WeightsWay {
  bool streamed = false, keep_packs = true;
  std::string reason;
};
// Those that these options allow, in the order in which they are tried until a limit holds the session.
std::vector<WeightsWay> weights_ways(const WeightsOptions& options, bool is_limited);

}  // namespace forethought
