// Caps as numbers, and the words for where they come from.
#include "session/memory_caps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "memory/system.h"
#include "session/memory_report.h"

namespace forethought {
namespace {

std::string runs_text(int runs) { return runs == 1 ? "" : absl::StrCat(", ", runs, " runs at once"); }

}  // namespace

std::vector<MemoryCap> memory_caps(const CapsOf& of, const CompiledProgram* program) {
  const int64_t slabs = program ? Pages::rounded(program->slab_bytes) : 0;
  const int64_t outputs = program ? bytes_of_run(*program, {}) - slabs : 0;
  const Executor::Caps caps = of.executor.caps(slabs, outputs);
  const BlockPool::Cap side = of.side.cap();
  std::vector<MemoryCap> all(3);
  all[0] = {"execution_cap", "bytes", caps.execution, of.executor.retained_bytes(),
            caps.execution_is_set ? "set by the caller"
                                  : absl::StrCat(readable_bytes(caps.slabs), " of plans in a run", runs_text(caps.runs),
                                                 ", and a quarter")};
  all[1] = {"io_cap", "bytes", caps.io, of.io.retained_bytes(),
            caps.io_is_set
                ? "set by the caller"
                : absl::StrCat(readable_bytes(caps.outputs), " of outputs in a run or in shapes by turns",
                               runs_text(caps.runs), ", and a quarter; at least ", readable_bytes(kRetainAlways))};
  all[2] = {"side_cap", "bytes", side.bytes, of.side.retained_bytes(),
            side.is_set ? "set by the caller"
                        : absl::StrCat("twice the ", readable_bytes(side.most_live),
                                       " of values of unknown size that were live at once; at least ",
                                       readable_bytes(kRetainAlways))};
  if (of.limit_leaves >= 0)
    for (MemoryCap& cap : all)
      absl::StrAppend(&cap.follows, "; all together no more than the ", readable_bytes(of.limit_leaves),
                      " that the memory limit leaves");
  all.push_back(
      {"plan_cache", "plans", of.plan_cache, of.plans, "plans of shapes seen before: set by the caller, or 32"});
  all.push_back(
      {"instance_cache", "bytes", of.instance_cache, of.instance_bytes, "kernels made for shapes: the same for all"});
  return all;
}

std::string to_string(const std::vector<MemoryCap>& caps) {
  std::string text;
  for (const MemoryCap& c : caps)
    absl::StrAppend(&text, "  ", c.name, std::string(c.name.size() < 16 ? 16 - c.name.size() : 1, ' '), c.most, " ",
                    c.unit, " (", c.kept, " now): ", c.follows, "\n");
  return text;
}

}  // namespace forethought
