// One program bound to addresses: the arguments of all its steps, resolved once and re-bound only where bases changed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "exec/executor.h"
#include "exec/lanes.h"
#include "exec/profile.h"
#include "exec/program.h"
#include "kernel_api/body_host.h"
#include "memory/block_pool.h"
#include "memory/slab.h"

namespace forethought {

// Used by one run at a time. The steps of a program with one lane of the host run on the thread that calls run(), in a
// plain loop; those of several lanes as Lanes says. Kernels split themselves over the pool.
class Frame final : private Lanes::HostSteps {
 public:
  // depth 0 is the main graph, whose outputs come from the I/O pool; bodies take theirs from the side arena.
  Frame(const ExecEnvironment& environment, std::shared_ptr<const Program> program, int32_t depth);
  ~Frame() override;
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  const Program* program() const { return program_.get(); }
  // Whether it can run at all: its lanes were opened. If not, run() tells why.
  bool fit() const;
  // Gives back the slabs of bodies that have no place in its own, once a run is over; returns their bytes.
  int64_t give_slabs_back();
  int64_t slab_excess() const;  // of these slabs, beyond what the run needed
  // `slab`: at least program->slab_bytes in regions as the program has them, 64-byte aligned; see Executor::run for the
  // rest, BodyHost for `passed`.
  Status run(const SlabPlace& slab, std::span<const Value> inputs, std::span<Value> outputs, const ExecOptions& options,
             std::span<int32_t> passed = {});

 private:
  // What the kernel of the step that a lane runs can ask of the frame.
  class Host final : public BodyHost {
   public:
    explicit Host(Frame& frame) : frame_(&frame) {}
    void parallel_for(int64_t blocks, FunctionRef<void(int64_t block, int worker)> f) override;
    int workers() const override { return frame_->environment_.pool->size(); }
    StatusOr<void*> output(int slot, std::span<const int64_t> dims) override;
    Status set_output(int slot, Value value) override;
    StatusOr<Tensor> make_escaping(DType dtype, std::span<const int64_t> dims) override;
    StatusOr<Value> escape(int slot) override;
    Status run_body_in_place(int body, std::span<const BodyValue> inputs, std::span<BodyValue> outputs,
                             std::span<int32_t> passed) override;
    bool body_output_dims(int body, std::span<const BodyValue> inputs, int output, Dims* dims) override;
    void count_copy(int64_t bytes) override { frame_->count_copy(bytes); }
    bool cancelled() const override { return frame_->options_.cancel->load(std::memory_order_relaxed); }

    int32_t current = 0;  // the step that runs

   private:
    Frame* frame_;
  };
  struct Step {
    const Runnable* runnable = nullptr;  // null: dynamic
    RunCtx ctx;
    bool special = false;      // something is to be done before or after it: see run_special()
    int32_t first_child = -1;  // in children_
  };
  struct Fixup {
    int32_t arg;
    int64_t offset;
  };
  // What of a device's memory the run has, and who follows its address.
  struct DeviceSlab {
    std::vector<Fixup> fixups, scratch_fixups;
    std::vector<std::byte*> bound;          // the addresses in force, by region
    std::vector<LaneDevice::Block> blocks;  // of the run under way, by region
  };
  // Lists of T by key, one after the other.
  template <typename T>
  struct Lists {
    std::vector<int32_t> first;
    std::vector<T> items;
    std::span<const T> operator[](size_t key) const {
      return {items.data() + first[key], items.data() + first[key + 1]};
    }
  };
  // The frames of one body that were used last, one for each program.
  struct Children {
    std::vector<std::unique_ptr<Frame>> frames;  // most recently used first
    std::unique_ptr<Slab> slab;                  // where the parent's slab has no room planned for it
  };

  // --- building (build.cc)
  void build_steps();
  void build_groups();
  void build_lanes();
  bool known_device(int32_t device) const { return device >= 0 && static_cast<size_t>(device) < devices_.size(); }
  bool is_special(const ProgramStep& step) const;
  int32_t group_of(int32_t value) const;  // the base whose address decides the value's at run; -1: slab, weight, none

  // --- a run (frame.cc)
  Status run_bound();
  void bind_slab(const SlabPlace& slab);
  void bind_slab_to(const std::vector<Fixup>& arguments, const std::vector<Fixup>& scratch, const SlabPlace& slab);
  SlabPlace slab() const { return {slab_, program_->region_bytes}; }
  Status bind_inputs();
  Status bind_outputs();
  template <bool kSink>
  Status run_steps();
  Status run_lanes();
  Status run_step(int32_t step) noexcept override;
  void step_ran(int32_t step, int64_t begin_ns, int64_t end_ns) noexcept override;
  Status bind_devices();
  Status cancelled_before(int32_t index) const;
  Status step_error(int32_t index, Status status) const;
  Status finish_outputs();
  Status hand_out(int32_t output, int32_t value);
  Status copy_out(int32_t output, int32_t from);
  bool pass(int32_t output, int32_t from);
  void count_copy(int64_t bytes) const {
    if (environment_.copies) environment_.copies->add(bytes);
  }
  void drop_held();
  Status own_objects();

  // --- values that a run makes (values.cc)
  void bind_group(int32_t group, void* base);
  void show_tensor(int32_t value, const Tensor& tensor);  // address, dims, type: to every argument that names the value
  void hide(int32_t value);                               // its dims and address are of an earlier run
  StatusOr<Tensor> take_tensor(BlockPool& pool, std::string_view name, DType dtype, Layout layout,
                               std::span<const int64_t> dims);
  Status own(Value& value);  // nobody else sees its bytes
  StatusOr<Tensor> copy_tensor(BlockPool& pool, std::string_view name, const Tensor& from);
  BlockPool& output_pool() const;
  Status make_output(int32_t value, DType dtype, std::span<const int64_t> dims);
  StatusOr<Value> escaped(int32_t value);
  Status adopt(int32_t value, Value made);
  Status adopt_object(int32_t value, Value made);
  Status adopt_as_output(int32_t value, Value made);
  Tensor tensor_of_value(int32_t value) const;     // borrowed: no owner
  const BufferRef* owner_of(int32_t value) const;  // of the side buffer it lies in; null: none
  const Value* object_of(int32_t value) const;     // null: it is no object, or not there
  Value& held(int32_t value) { return held_[held_index_[value]]; }
  const Value& held(int32_t value) const { return held_[held_index_[value]]; }

  // --- steps that need more than their kernel (special.cc)
  Status run_special(int32_t index);
  Status run_beyond_kernel(int32_t index);
  Status prepare_outputs(const ProgramStep& step);
  Status run_dynamic(int32_t index);
  Status place_dynamic_output(const ProgramStep& step, size_t slot, const ResolvedStep& resolved);
  bool share_input(const ProgramStep& step, int32_t value, const Alias& alias, DType dtype,
                   std::span<const int64_t> dims);
  Status run_body(int32_t index, int body, std::span<const BodyValue> inputs, std::span<BodyValue> outputs,
                  std::span<int32_t> passed);
  StatusOr<Frame*> child_for(int32_t index, int body, std::span<const BodyValue> inputs);

  const ExecEnvironment environment_;
  const std::shared_ptr<const Program> program_;
  const int32_t depth_;

  std::vector<Arg> args_;  // of each step: inputs, then outputs
  std::vector<Step> steps_;
  std::vector<Host> hosts_;  // by lane
  std::vector<Fixup> slab_fixups_;
  std::vector<Fixup> scratch_fixups_;  // by step instead of argument
  std::vector<DeviceSlab> devices_;    // by place in the environment's list
  Lists<Fixup> fixups_;                // by group: inputs, outputs, then side roots by value
  Lists<int32_t> uses_;                // arguments by value
  std::vector<void*> bound_;           // by group: the address in force
  std::vector<int32_t> held_index_;    // by value: its place in held_, or -1
  std::vector<Value> held_;            // side buffers and objects that the run under way made
  std::vector<uint8_t> preset_;        // by output: it came in with memory of the right size
  std::vector<Children> children_;

  bool gives_objects_ = false;  // some output is one

  // Of programs with more than one lane, or one of a device; else null and empty.
  std::unique_ptr<Lanes> lanes_;
  std::vector<LaneStep> lane_steps_;
  Status unfit_;  // why the program's lanes cannot run
  std::mutex sink_mutex_;

  // Of the run under way.
  std::vector<std::byte*> slab_;  // by region; kept for the next run
  std::span<const Value> inputs_;
  std::span<Value> outputs_;
  std::span<int32_t> passed_;
  ExecOptions options_;
};

inline bool sized_at_run(uint32_t mask, size_t slot) { return slot < 32 && ((mask >> slot) & 1u); }

// What a value is, from its facts in the program. A value of unknown type has an object's place, and is shown as a
// tensor if one comes.
inline bool is_text(const ProgramValue& v) { return v.dtype == DType::kString; }
inline bool is_plain_object(const ProgramValue& v) {
  return v.dtype == DType::kUndefined && v.kind != ValueType::Kind::tensor &&
         (v.base == Base::object || v.base == Base::input || v.kind != ValueType::Kind::unknown);
}

}  // namespace forethought
