// Writes a plan into the program it was made for: where values and scratch lie, and when buffers go back.
#pragma once

#include <cstdint>
#include <span>

#include "session/compiled_program.h"
#include "session/prepared.h"

namespace forethought {

// A step's own scratch: the shared block, then one block for each worker. What its bodies need follows.
inline int64_t own_scratch_bytes(const ProgramStep& step, int workers) {
  return static_cast<int64_t>(step.scratch_shared + step.scratch_per_worker * static_cast<size_t>(workers));
}

// `step_device`: by step, its place among the devices; -1: the host.
void place(const PreparedGraph& prepared, std::span<const int32_t> step_device, int workers, CompiledProgram& program);

}  // namespace forethought
