// Who holds a session's memory, and the least limit that works.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "memory/budget.h"
#include "session/compile.h"
#include "session/memory_caps.h"

namespace forethought {

struct MemoryHolder {
  std::string value;
  std::string node;  // that makes or reads it: "/conv1 (Conv)"; empty: none
  MemoryRole role = MemoryRole::planned;
  int64_t bytes = 0;
  int64_t buffers = 0;  // of outputs and side buffers: how many of this name are held now; 0: a run takes it
};

// The same of one device: what a limit there must be at least, and who holds its memory.
struct DeviceReport {
  DeviceMemory memory;  // of the session
  int64_t least = 0;
  std::vector<MemoryHolder> holders;  // largest first
};

struct MemoryReport {
  MemoryStatistics session, process;
  // The least limit of the session with which it runs the shapes that the report is about, outputs that are held now
  // included; of the load alone if it is about none. Where sizes are known only at run (see `unplanned_values`), it may
  // take more.
  int64_t least = 0;
  bool of_shapes = false;
  int64_t unplanned_values = 0;  // buffers that `least` leaves out: of those sizes, and of elements of objects
  int64_t unplanned_most = 0;    // what their blocks take at most, as far as there is a bound; all of them together
  std::vector<std::string> unbounded;  // what has no bound: "'r' of node /range (Range)", "a body of node /loop (Loop)"
  // Largest first: weights with the files they are read from, packs, outputs and side buffers that are held, which add
  // up to what is live of each role in `session`; and what a run takes: the slab at its fullest, outputs.
  std::vector<MemoryHolder> holders;
  // Bytes of the process apart from accounts: "generated code" (what libraries compiled), "heap" (of the C heap what no
  // account counts: objects of libraries, of ours and of the program; the heap does not tell them apart).
  std::vector<std::pair<std::string, int64_t>> outside;
  std::vector<DeviceReport> devices;
  std::vector<MemoryCap> caps;  // of what the session keeps
  std::string weights;          // how they are held, and why; what packed forms were left out, and what stays in memory
};

// `least` as callers see it: 0 where no shapes are known yet.
inline int64_t least_limit(const MemoryReport& report) { return report.of_shapes ? report.least : 0; }

// As text, with the `most` largest holders.
std::string to_string(const MemoryReport& report, size_t most = 5);
// The same as one JSON object, under the names that Python has for it (session.memory_report()).
std::string memory_json(const MemoryReport& report, int indent = -1);
// "allow at least 5.0 MiB (5242880 bytes), …; the process holds … beside this session; the largest holders: …": the end
// of an error.
std::string explain_need(const std::vector<MemoryHolder>& holders, int64_t least, int64_t elsewhere);

// Adds what values of unknown size take at most, where that is known.
void add_bounded(const CompiledProgram& program, std::vector<MemoryHolder>* holders);

// A limit that does: the least, and what values take at most whose sizes only a run tells, each in a block of a size
// class. What has no bound is left out.
int64_t enough(const MemoryReport& report);

// What a limit refused, as the error that a caller gets: who needed how much, and explain_need(). `elsewhere` is what
// `least` has in it for all that the process holds beside the session.
Status too_little(const MemoryBudget::Refusal& refusal, const std::vector<MemoryHolder>& holders, int64_t least,
                  int64_t elsewhere);
// The same with what has no bound.
Status too_little(const MemoryBudget::Refusal& refusal, const MemoryReport& report, int64_t least, int64_t elsewhere);

// "streamed, as the memory limit does not hold them: …", for MemoryReport::weights. `window`: of the program that runs.
std::string weights_text(const WeightTotals& totals, bool streamed, const std::string& reason, int64_t window);

// Bytes of a run of the program beyond weights: slab, streamed weights of one step, and outputs that are known and not
// bound (`bound`, one an output; empty: none).
int64_t bytes_of_run(const CompiledProgram& program, std::span<const uint8_t> bound);

// The same on a device: the program's slab there, `place` being that in Program::device_slab_bytes.
int64_t bytes_of_run_on(const CompiledProgram& program, size_t place);

// Each adds what it knows of, in any order: of the host, or of one device. Of what a program does not plan: its own
// buffers and those of its bodies.
void add_weights(const PreparedGraph& graph, const MemoryBudget& account, std::vector<MemoryHolder>* holders);
void add_weights_on(const PreparedGraph& graph, Device device, std::vector<MemoryHolder>* holders);
void add_run(const CompiledProgram& program, std::span<const uint8_t> bound, std::vector<MemoryHolder>* holders);
void add_run_on(const CompiledProgram& program, size_t place, std::vector<MemoryHolder>* holders);
void add_unplanned(const CompiledProgram& program, MemoryReport* report);
void sort_holders(std::vector<MemoryHolder>* holders);

// Bytes of the process outside all accounts of memory/.
std::vector<std::pair<std::string, int64_t>> outside_memory();

}  // namespace forethought
