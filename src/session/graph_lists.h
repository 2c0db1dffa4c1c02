// What programs of a graph have in common: names, operands, and which steps do the same.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "session/host_lanes.h"
#include "session/prepared.h"

namespace forethought {

// What is the same in all programs of a graph; they look into it. Close together: nodes are large and lie far apart.
struct GraphLists {
  struct Step {
    std::span<const int32_t> inputs, outputs;  // value ids; -1: absent
    std::string_view name, scratch;            // "/layer1/conv (Conv)", "scratch of /layer1/conv (Conv)"
    NodeId node;
    Work work = Work::other;
    bool has_bodies = false;
    int32_t kind = -1;  // steps of one kind have one choice where their operands have the same types and dims; -1: no
                        // other step is of its kind
  };
  std::vector<std::string> values;  // names, by value id
  std::vector<Step> steps;          // in the order in which they run
  std::vector<int32_t> operands;    // what steps look into, and names
  std::deque<std::string> names;
  int32_t kinds = 0;  // that steps have, from 0
};
std::shared_ptr<const GraphLists> lists_of(const PreparedGraph& prepared);

}  // namespace forethought
