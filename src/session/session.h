// A model that is ready to run: loads, rewrites, places, plans once; then only executes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/mutex.h"
#include "base/once.h"
#include "graph/graph.h"
#include "memory/budget.h"
#include "session/async_run.h"
#include "session/device_io.h"
#include "session/input_symbols.h"
#include "session/options.h"
#include "session/pipeline.h"
#include "session/source.h"
#include "tensor/value.h"

namespace forethought {

class Pool;
class Executor;
class LaneDevice;
class IoPool;
class SideArena;
class IdleTrimmer;
struct MemoryReport;
struct MemoryCap;

struct NamedValue {
  std::string_view name;
  Value value;
};

// Times and sizes that people ask for first.
struct SessionSummary {
  int64_t nodes_in_file = 0, nodes = 0;  // bodies included
  bool planned = false;                  // false: shapes are known only at run; the figures below are of the last plan
  int lanes = 1;                         // those of devices included
  std::string lanes_reason;              // of the host's
  int32_t waits = 0, wait_edges = 0;     // that steps do for each other's lanes; without leaving out redundant ones
  int64_t naive = 0, lower_bound = 0, peak = 0;
  int32_t slots = 0;  // of the peak, with PlanMode::slots
  int64_t weights_mapped = 0, weights_packed = 0, weights_copied = 0;
  bool streams_weights = false;
  int64_t weights_streamed = 0;  // of those mapped and packed: bytes in pages that come and go with the steps
  int64_t weights_window = 0;    // the most of them that one step of the last plan reads
  int64_t packs_left_out = 0;    // packed forms that were not made
  int64_t packs_read = 0, packs_written = 0;  // of the folder of packed forms
  double load_ms = 0, first_run_ms = 0, last_run_ms = 0;
  int64_t runs = 0;
  int64_t copies = 0, copied_bytes = 0;  // payload that runs moved as it is, from one place to another
  CacheCounts plans;
  std::string formulas_refused;  // why the shape rules run for each new shape; empty: formulas serve, or one shape came
  InstanceCache::Counts instances;

  void describe(const CompiledProgram& program);
};

class Session {
 public:
  static StatusOr<std::unique_ptr<Session>> load(const std::string& path, const SessionOptions& options = {});
  // `owner` keeps the bytes alive; null: they are copied.
  static StatusOr<std::unique_ptr<Session>> load_bytes(std::string_view bytes, BufferRef owner,
                                                       const SessionOptions& options = {});
  // A graph whose operators are in their newest forms (graph_from_text, or a builder of one's own).
  static StatusOr<std::unique_ptr<Session>> from_graph(std::unique_ptr<Graph> graph,
                                                       const SessionOptions& options = {});
  ~Session();

  const std::vector<NodeArg>& inputs() const { return inputs_; }
  const std::vector<NodeArg>& outputs() const { return outputs_; }
  const ModelInfo& info() const { return report_.info; }
  const SessionOptions& options() const { return options_; }
  const PipelineReport& report() const { return report_; }
  const std::vector<std::string>& providers() const { return provider_names_; }
  SessionSummary summary() const;

  // Runs once. `outputs[i]` receives the output named `output_names[i]` (no names: all of them, in order); one that is
  // named twice comes twice, each time with memory of its own. An output that comes in as a tensor with memory is
  // written there if its type and shape are right (else: an error). Feeds are borrowed for the call. Any number of runs
  // may go on at once.
  Status run(std::span<const NamedValue> feeds, std::span<const std::string_view> output_names,
             std::span<Value> outputs, const RunOptions& options = RunOptions::plain());

  // The same by position: every input in order (none Values where a default is to be used), every output in order.
  // No names are looked up.
  Status run_ordered(std::span<const Value> inputs, std::span<Value> outputs,
                     const RunOptions& options = RunOptions::plain());

  // The same behind the caller's back, with the same bits; an error of the run itself is the handle's to tell, this one
  // is of starting it. Any number of runs may be under way; on threads of the session's own, as many at a time as its
  // pool has threads, the others after them. The session's destructor cancels those that are not over and waits for
  // them.
  StatusOr<AsyncRun> run_async(AsyncRequest request, AsyncRun::Callback callback = nullptr);

  // The plan for these input shapes (in order), or for the declared ones where all are numbers.
  StatusOr<std::shared_ptr<const CompiledProgram>> plan_for(std::span<const Dims> input_dims,
                                                            Effort effort = Effort::load) const;
  // Where an input is read, and where an output is made: bound there, it is not copied.
  Device input_device(size_t i) const { return device_at(device_io_->input_home(i)); }
  Device output_device(size_t i) const { return device_at(device_io_->output_home(i)); }
  // The devices with memory of their own that its providers brought.
  const DeviceSet& devices() const { return devices_; }
  const PreparedGraph& prepared() const { return *prepared_; }

  // Memory (memory.cc). May be called at any time, from any thread, also while runs are under way.
  MemoryStatistics memory_statistics() const;
  // What bounds the memory that is kept between runs (memory_caps.h).
  std::vector<MemoryCap> memory_caps() const;
  // Who holds it and what the last shapes need (memory_report.h).
  MemoryReport memory_report() const;
  MemoryReport memory_report(const CompiledProgram& program) const;  // and what a run of this one needs
  // Gives back what is kept between runs until at most `keep` bytes are: side arena first, then I/O, then execution, in
  // each what was freed longest ago. Returns by how much `retained` fell. What is live or leased stays.
  int64_t trim(int64_t keep = 0);
  // Memory of the I/O arena for a tensor of numbers that a caller is to fill and to feed, or to bind: contents
  // undefined, counted as leased under the name `who`, and the arena's again when the last copy of the tensor goes.
  // `to_come` tells what is going to be asked for after it, for the error when a limit refuses.
  StatusOr<Tensor> take_io(
      DType dtype, std::span<const int64_t> dims, std::string_view who,
      FunctionRef<int64_t()> to_come = [] { return int64_t{0}; });
  // What the arenas may keep from now on; what is over goes at once. Refuses caps below kRetainPlanned.
  Status set_retention(const RetentionCaps& caps);
  // 0: none. Refuses limits that are negative or below what is live now.
  Status set_memory_limit(int64_t bytes);

 private:
  Session() = default;
  static StatusOr<std::unique_ptr<Session>> finish(PipelineResult result, const SessionOptions& options,
                                                   const PrepareOptions& prepare, double load_start);
  static StatusOr<std::shared_ptr<MemoryBudget>> make_budget(const SessionOptions& options);
  using Attempt = FunctionRef<StatusOr<std::unique_ptr<Session>>(const PrepareOptions&)>;
  static StatusOr<std::unique_ptr<Session>> load_within(const SessionOptions& options, std::string_view what,
                                                        Attempt attempt);
  void add_devices(bool dry);
  Status make_arenas();
  Status check_fits(const CompiledProgram& planned) const;
  Device device_at(int32_t place) const {
    return place < 0 ? Device{} : devices_.drivers()[static_cast<size_t>(place)]->device();
  }
  // As the caller gave them, with memory for the outputs that it left to the session: also what is copied around the
  // run.
  struct CallersMemory {
    std::span<const Value> inputs, outputs;
  };
  Status run_bound(std::span<const Value> inputs, std::span<Value> outputs, const Bindings& bound,
                   const CallersMemory& callers, const RunOptions& options);
  Status run_program(const std::shared_ptr<const Program>& program, std::span<const Value> inputs,
                     std::span<Value> outputs, const RunOptions& options);
  // What a slab takes that the system has not as one block is looked for in smaller ones: `program` becomes one in
  // regions, and runs; else `refused` comes back.
  Status run_in_regions(Status refused, std::shared_ptr<const Program>& program, std::span<const Value> inputs,
                        std::span<Value> outputs, const Bindings& bound, const RunOptions& options);
  StatusOr<Value> copy_of(const Value& value, std::string_view who);  // in the I/O arena, down to the last element
  // What a refusal of a device's account says of it. `outputs`: bytes that the run takes there for outputs.
  Status refused_on_device(const Status& status, const CompiledProgram* program, int64_t outputs) const;
  Status refused_outputs(const Status& status, const DeviceRun& run, std::span<const Value> asked) const;
  MemoryReport report_for(const CompiledProgram* program, std::span<const uint8_t> bound) const;
  std::vector<MemoryCap> caps_after(const CompiledProgram* program) const;
  Status check_input(size_t i, const Value& v) const;
  int find_input(std::string_view name) const;
  int find_output(std::string_view name) const;

  SessionOptions options_;
  PipelineReport report_;
  std::vector<std::unique_ptr<Provider>> providers_;
  std::vector<std::string> provider_names_;
  DeviceSet devices_;
  std::vector<std::shared_ptr<LaneDevice>> lane_devices_;
  std::unique_ptr<DeviceIo> device_io_;
  std::unique_ptr<PreparedGraph> prepared_;
  std::unique_ptr<InstanceCache> instances_;
  std::unique_ptr<GraphSource> source_;
  std::unique_ptr<Pool> pool_;
  std::shared_ptr<MemoryBudget> budget_;
  std::unique_ptr<IoPool> io_;
  std::unique_ptr<SideArena> side_;
  std::unique_ptr<Executor> executor_;
  std::vector<NodeArg> inputs_, outputs_;
  InputSymbols symbols_;
  std::vector<std::optional<Tensor>> defaults_;
  WeightTotals weights_;
  // How weights are held, of the ways that the options allow, fullest first.
  struct WeightsHeld {
    std::string reason;
    bool least = false;  // in the way that takes least
    std::vector<int64_t>
        fuller;  // what a load takes in each way that the limit did not hold, where shapes are not known
    // A limit under which a load chooses a way in which `run` bytes more fit, at least `least`.
    int64_t enough_for(int64_t run, int64_t least, int64_t elsewhere) const;
  };
  WeightsHeld weights_held_;
  std::shared_ptr<PackFolder> pack_folder_;
  std::unique_ptr<IdleTrimmer> idle_;
  mutable Mutex mutex_;  // guards what is below
  std::shared_ptr<const Program> last_program_;
  SessionSummary figures_;
  Once runner_made_;
  std::unique_ptr<Runner> runner_;  // goes first: its runs use the rest
};

// The limit of all sessions of the process together, 0: none; with Session::set_memory_limit's refusals.
Status set_process_memory_limit(int64_t bytes);
// The same on each device that has memory of its own, also on those to come.
Status set_process_device_memory_limit(int64_t bytes);
// What they all hold together, on devices too.
MemoryStatistics process_memory_statistics();

}  // namespace forethought
