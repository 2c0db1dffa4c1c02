// What the pooling operators share: geometry from attributes, layouts, and the instances they run.
#pragma once

#include "kernels/pool/pool.h"
#include "ops/conv/spatial.h"
#include "ops/op.h"

namespace forethought {

struct PoolBase : SpatialAttributes {
  bool ceil_mode = false;

  Status init(const GraphNode&) const;
  // Shape of output `out`, with element type `dtype`.
  Status infer_output(InferCtx& c, int out, DType dtype) const;
};

// Channels that lie beside each other in a layout a pool takes: 1 or the block; an error for other layouts.
StatusOr<int64_t> pool_lanes(Layout layout, DType dtype);
// Blocked channels are pooled as they are, in f32.
bool pool_accepts(LayoutQuery& query, bool plain_output);

// Planes a share: so many that a share moves about 64 KiB, by shape alone.
int64_t pool_grain(int64_t elements_per_plane);

}  // namespace forethought
