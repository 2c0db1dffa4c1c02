#include "session/counts.h"

namespace forethought {

std::vector<std::pair<std::string_view, int64_t>> counts(const SessionSummary& s) {
  return {{"plan_hits", s.plans.hits},
          {"plan_misses", s.plans.misses},
          {"plan_evicted", s.plans.evicted},
          {"plan_inside", s.plans.inside},
          {"plan_by_formula", s.plans.by_formula},
          {"plan_by_order", s.plans.by_order},
          {"plan_steps", s.plans.steps},
          {"plan_steps_kept", s.plans.steps_kept},
          {"plan_steps_as_others", s.plans.steps_as_others},
          {"instances", s.instances.size},
          {"instance_bytes", s.instances.bytes},
          {"instance_hits", s.instances.hits},
          {"instances_made", s.instances.misses},
          {"instances_evicted", s.instances.evicted},
          {"weights_streamed", s.weights_streamed},
          {"weights_window", s.weights_window},
          {"packs_left_out", s.packs_left_out},
          {"packs_read", s.packs_read},
          {"packs_written", s.packs_written}};
}

}  // namespace forethought
