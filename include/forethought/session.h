// A model that is ready to run: load it once, then run it by names, or bind memory once and run many times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "forethought/async.h"
#include "forethought/memory.h"
#include "forethought/value.h"

FORETHOUGHT_BEGIN_NAMESPACE

enum class OptimizationLevel : int { disabled = 0, basic = 1, extended = 2, all = 99 };

// How intermediate values share memory. packed: at planned offsets in one block; the variable FORETHOUGHT_PLAN may say
// something else. exact: with a search of some seconds at most at load. To compare, with the same outputs: slots, which
// values take whole one after another, and off, a buffer of its own for each value.
enum class PlanMode : int { packed, exact, slots, off };

struct SessionOptions {
  OptimizationLevel level = OptimizationLevel::all;
  int threads = 0;  // of a run, the caller's included, at most 1024; 0: one for each core allowed
  PlanMode plan = PlanMode::packed;
  std::vector<std::string> providers;  // in order of priority; the CPU always takes the rest
  bool allow_fallback = false;         // a provider that cannot load is a warning instead of an error
  int64_t memory_limit = 0;            // bytes of all that the session takes, weights included; 0: none
  int64_t device_memory_limit = 0;     // the same on each device that has memory of its own; 0: none
  RetentionCaps retention;             // what its arenas keep between runs
  int idle_trim_ms = 0;                // after so long without a run, all that is kept goes back; 0: never
  std::shared_ptr<Allocator> execution_allocator, io_allocator;  // of plans, of outputs; null: the system's
  int plan_cache = 32;                                           // plans kept for input shapes seen before, at least 1
  std::map<std::string, int64_t> dimensions;                     // numbers for symbolic dims
  // Upper bounds of symbolic dims: if every dim of the inputs has a number or a bound, all smaller shapes run in the
  // memory of one plan, made at load. A larger one is an error.
  std::map<std::string, int64_t> max_dimensions;
  // Entries as in onnxruntime. session.weights: resident, packed, streamed, or auto, the default: the first of them
  // that the memory limit holds. session.disable_prepacking: 1 leaves packed forms out that kernels can do without.
  // session.packed_weights_path: a folder where packed forms are kept, to be mapped by the next load. Others mean
  // nothing.
  std::map<std::string, std::string> config;
  std::string external_data_folder;  // for models given as bytes; empty: they may have no external data
  std::string save_optimized_to;     // where to save the model after rewriting; empty: nowhere
};

struct Dimension {
  int64_t size = -1;   // or −1 where only a run tells
  std::string symbol;  // its name or expression then, if it has one
};

struct Argument {
  std::string name;
  std::string type;                                   // ONNX's: "tensor(float)", "seq(tensor(int64))"
  ElementType element_type = ElementType::undefined;  // of tensors
  bool has_rank = false;                              // whether `shape` is known at all
  std::vector<Dimension> shape;                       // of tensors
  bool optional = false;                              // an input that may be left out
};

struct Metadata {
  std::string producer_name, producer_version, domain, description, graph_name;
  int64_t model_version = 0, ir_version = 0;
  std::map<std::string, int64_t> opsets;      // by domain; "" is ai.onnx
  std::map<std::string, std::string> custom;  // the model's metadata_props
};

// What the planner decided: bytes of intermediate values. Zeros as long as the input shapes are not known.
struct Figures {
  int64_t nodes_in_file = 0, nodes = 0;  // before and after rewriting
  int64_t naive_bytes = 0;               // a buffer for each value
  int64_t lower_bound_bytes = 0;         // no plan can need less
  int64_t peak_bytes = 0;                // this plan
  int64_t mapped_weight_bytes = 0, packed_weight_bytes = 0;
  double load_ms = 0, first_run_ms = 0, last_run_ms = 0;
  int64_t runs = 0;

  // What its caches counted; Python's summary() and `forethought run --stats` show it under the same names. A plan that
  // was kept for the shapes of a run is a hit. Of the misses: those that lie inside the plan for the largest shapes
  // (max_dimensions), those whose sizes came from formulas, and whose offsets came from an order proved before.
  int64_t plan_hits = 0, plan_misses = 0, plan_evicted = 0;
  int64_t plan_inside = 0, plan_by_formula = 0, plan_by_order = 0;
  int64_t plan_steps = 0, plan_steps_kept = 0;  // of all plans; those that kept the kernel chosen for other sizes
  int64_t plan_steps_as_others = 0;             // and those that share what was chosen for an equal step before them
  // What kernels made for a shape, or for all: kept now, with their bytes, and over the life of the session.
  int64_t instances = 0, instance_bytes = 0;
  int64_t instance_hits = 0, instances_made = 0, instances_evicted = 0;
  // Weights and packed forms in pages that come and go with the steps, and the most of them that one step reads; 0:
  // they are resident. Packed forms that were left out; that were read from the folder of packed forms, and written
  // there.
  int64_t weights_streamed = 0, weights_window = 0;
  int64_t packs_left_out = 0, packs_read = 0, packs_written = 0;
};

// Stops runs from another thread; copies share one flag.
class FORETHOUGHT_EXPORT Cancel {
 public:
  Cancel();
  void cancel();  // runs end within one step, with ErrorCode::cancelled
  void reset();
  struct Rep;  // the library's
  const std::shared_ptr<Rep>& rep() const { return rep_; }

 private:
  std::shared_ptr<Rep> rep_;
};

using NamedValue = std::pair<std::string_view, Value>;

class PreparedRun;

// Copies share one session. Any number of runs may go on at once, from any threads.
class FORETHOUGHT_EXPORT Session {
 public:
  static Result<Session> load(const std::string& path, const SessionOptions& options = {});
  // `owner` keeps the bytes alive as long as the session needs them; null: they are copied.
  static Result<Session> load_bytes(std::span<const std::byte> model, const SessionOptions& options = {},
                                    std::shared_ptr<void> owner = nullptr);

  const std::vector<Argument>& inputs() const;
  const std::vector<Argument>& outputs() const;
  const Metadata& metadata() const;
  const std::vector<std::string>& providers() const;
  Figures figures() const;

  // Memory of this session. All may be called while runs are under way, from any thread.
  MemoryStats memory_stats() const;
  MemoryReport memory_report() const;
  // The same for these shapes, by the input's name, before any run. What the model declares as numbers, or bounds
  // (SessionOptions::max_dimensions) give one, may be left out.
  Result<MemoryReport> memory_report(const std::map<std::string, std::vector<int64_t>>& shapes) const;
  // Gives back what is kept between runs until at most `target` bytes are; returns by how much `retained` fell. What is
  // in use or held by a caller stays.
  int64_t trim(int64_t target = 0) const;
  // 0: none. What is kept above the limit goes back at once; a limit below what is in use is refused.
  Status set_memory_limit(int64_t bytes) const;
  Status set_retention(const RetentionCaps& caps) const;

  // Runs once and gives the named outputs, or all in the model's order; one that is named twice comes twice, each time
  // with memory of its own. Inputs are borrowed for the call.
  Result<std::vector<Value>> run(std::span<const NamedValue> inputs, std::span<const std::string_view> outputs = {},
                                 const Cancel* cancel = nullptr) const;
  Result<std::vector<Value>> run(std::initializer_list<NamedValue> inputs) const {
    return run(std::span<const NamedValue>(inputs.begin(), inputs.size()));
  }

  // The same behind the caller's back. Inputs without an owner of their bytes are borrowed until the run is over; the
  // run keeps the session. An error of the run itself is told by the handle.
  Result<AsyncRun> run_async(std::span<const NamedValue> inputs, std::span<const std::string_view> outputs = {},
                             AsyncRun::Callback callback = nullptr, const Cancel* cancel = nullptr) const;

  // A run whose memory is bound once, for use from one thread at a time; make one for each thread.
  PreparedRun prepare() const;

  struct Rep;  // the library's

 private:
  friend class PreparedRun;
  explicit Session(std::shared_ptr<Rep> rep) : rep_(std::move(rep)) {}
  std::shared_ptr<Rep> rep_;
};

// Binds values to inputs and outputs, then runs any number of times without looking up a name. Keeps its session.
class FORETHOUGHT_EXPORT PreparedRun {
 public:
  PreparedRun(PreparedRun&&) noexcept;
  PreparedRun& operator=(PreparedRun&&) noexcept;
  ~PreparedRun();

  // The next runs read this value's memory, whatever is in it by then. Binding again replaces; an absent value unbinds.
  Status bind_input(std::string_view name, const Value& value);
  // The next runs write into this tensor's memory; its type and shape must be those of the result, and no byte of it
  // may be an input's or another output's. An unbound output gets memory of its own in each run.
  Status bind_output(std::string_view name, const Value& value);
  // From the next run on, each run's `input` is what the run before gave as `output`, with no copy: a state that turns.
  // The first run takes what is bound to the input. If the output is bound, the two change places between runs, so both
  // must be bound, to memory that may be written; else the memory of a state that was read goes back before the run
  // after. What is bound to either after a run is what the next run uses.
  Status donate(std::string_view output, std::string_view input);
  Status run(const Cancel* cancel = nullptr);
  // What the last run gave, by the position or name of the output; absent before the first run.
  Value output(size_t index) const;
  Value output(std::string_view name) const;

  struct Rep;  // the library's

 private:
  friend class Session;
  explicit PreparedRun(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

FORETHOUGHT_END_NAMESPACE
