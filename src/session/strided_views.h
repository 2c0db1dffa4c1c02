// Which values may be strided views: decided once at load, for any sizes.
#pragma once

#include "session/prepared.h"

namespace forethought {

// Sets PreparedValue::may_stride of values whose producer can give them as strided views of its input and of which all
// readers take one, and PreparedGraph::dense of those of which not all do. For graphs whose nodes are prepared.
// Also PreparedValue::lent of the graph's inputs, which a caller may lend as strided views.
// Whether a value is one is for the sizes to say: the producer's choose() gives a view where the bytes are not one run.
void decide_views(const Graph& g, PreparedGraph* p);

}  // namespace forethought
