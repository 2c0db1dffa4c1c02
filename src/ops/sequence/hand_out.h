// What a sequence or an optional holds becomes a value of its own again.
#pragma once

#include "base/status.h"
#include "kernel_api/run_ctx.h"

namespace forethought {

// Gives `held` as output 0, sharing its bytes where they are counted; those that the run's caller lent are copied.
Status hand_out(RunCtx& c, const Value& held);

}  // namespace forethought
