// What operators with bodies share: inputs as a body sees them, and the way of its results into the step's outputs.
#pragma once

#include "graph/infer.h"
#include "kernel_api/body_host.h"
#include "kernel_api/facts.h"

namespace forethought {

// A step's input for a body: tensors are borrowed, objects shared.
Value borrow(const Arg& a);

// Whether the planner gives this output memory; otherwise it is sized at run (tensors) or an object.
bool is_planned(const Operand& output);
// The bits of the tensor outputs that are sized at run.
StatusOr<uint32_t> sized_at_run(std::span<const Operand> outputs);

// Copies the elements of `from` to memory of its size, and counts that; nothing if they are there already.
void copy_elements(BodyHost& host, const Tensor& from, void* to);

// Makes `value` one that lives on when what the body was given is overwritten: tensors that are only borrowed are
// copied.
Status own(BodyHost& host, Value& value);

// Makes `value` output `slot`: bytes are copied where the output is planned and they are elsewhere, or where the value
// only borrows them; otherwise the value is handed over.
Status deliver(RunCtx& c, BodyHost& host, int slot, bool planned, Value value);

// What two possible results have in common. Types that differ are an error, named by `what`.
Status merge_type(const ValueType& a, const ValueType& b, const char* what, int index, ValueType* out);
SymShape merge_shape(const SymShape& a, const SymShape& b);

}  // namespace forethought
