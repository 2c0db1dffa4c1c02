// Cast: see cast.h.
#include "ops/pointwise/cast.h"

namespace forethought {

DEFINE_OP(Cast)

}  // namespace forethought
