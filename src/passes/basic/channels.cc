#include "passes/basic/channels.h"

#include "passes/engine/constants.h"

namespace forethought::passes {

std::vector<double> per_channel(const Tensor& c, int rank, int64_t channels) {
  const int own = static_cast<int>(c.dims.size());
  if (c.elements() == 1 && own <= rank) return std::vector<double>(static_cast<size_t>(channels), f32_at(c, 0));
  if (c.elements() != channels || own > rank || own < rank - 1) return {};
  if (c.dims[static_cast<size_t>(own - (rank - 1))] != channels) return {};
  return f32_elements(c);
}

}  // namespace forethought::passes
