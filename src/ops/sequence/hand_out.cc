#include "ops/sequence/hand_out.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace forethought {

Status hand_out(RunCtx& c, const Value& held) {
  if (!held.is_tensor() || held.tensor().owner) return c.host->set_output(0, held);
  const Tensor& t = held.tensor();  // lent by the caller of the run, so its bytes cannot be handed on
  ASSIGN_OR_RETURN(void* to, c.host->output(0, t.dims));
  if (t.dtype == DType::kString) {
    std::copy_n(t.as<std::string>(), t.elements(), static_cast<std::string*>(to));
  } else if (t.bytes() > 0) {
    std::memcpy(to, t.data, static_cast<size_t>(t.bytes()));
  }
  return absl::OkStatus();
}

}  // namespace forethought
