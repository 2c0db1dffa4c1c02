// Memory that a caller brings for outputs: what it must be like, so that a run can write there and harm nobody.
#pragma once

#include <span>
#include <vector>

#include "exec/program.h"
#include "session/pipeline.h"
#include "tensor/value.h"

namespace forethought {

// Of one run of `program`: outputs that come in as tensors with memory have the type and shape of the result, lie
// aligned, and share no byte with each other or with an input.
Status check_bound_memory(const std::vector<NodeArg>& input_args, std::span<const Value> inputs,
                          const std::vector<NodeArg>& output_args, std::span<const Value> outputs,
                          const Program& program);

// The host's memory at which a tensor begins suits its elements.
Status check_address(const Tensor& given);

// The bytes of a tensor are those of another, in part or whole.
bool overlap(const Tensor& a, const Tensor& b);

}  // namespace forethought
