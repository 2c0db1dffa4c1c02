// What bounds the memory that a session keeps between runs, as numbers, each with what it follows from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "memory/block_pool.h"
#include "session/compiled_program.h"

namespace forethought {

// execution_cap, io_cap, side_cap: bytes that each arena keeps; instance_cache: bytes of prepared kernels; plan_cache:
// plans of the graph, and as many of each body.
struct MemoryCap {
  std::string name;
  std::string unit = "bytes";  // or "plans"
  int64_t most = 0;
  int64_t kept = 0;     // of that, now
  std::string follows;  // "1.0 MiB of plans in a run, 2 runs at once, and a quarter"
};

// What the arenas of a session are, as far as caps go.
struct CapsOf {
  const Executor& executor;
  const IoPool& io;
  const SideArena& side;
  int64_t plan_cache = 0, plans = 0;
  int64_t instance_cache = 0, instance_bytes = 0;
  int64_t limit_leaves = -1;  // bytes that the memory limit allows beside what is in use; -1: there is no limit
};
// As they are in force, or, with a program, as they will be after a run of it.
std::vector<MemoryCap> memory_caps(const CapsOf& of, const CompiledProgram* program);

// A line each.
std::string to_string(const std::vector<MemoryCap>& caps);

}  // namespace forethought
