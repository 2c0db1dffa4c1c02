// Writes small programs by hand, with kernels as lambdas: for tests and benchmarks of the executor.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/executor.h"
#include "exec/program.h"

namespace forethought {

struct LambdaKernel final : Runnable {
  explicit LambdaKernel(std::function<Status(RunCtx&)> function) : f(std::move(function)) {}
  Status run(RunCtx& ctx) const override { return f(ctx); }
  std::function<Status(RunCtx&)> f;
};

class ProgramBuilder {
 public:
  int32_t input(std::string name, DType dtype, Dims dims) {
    const int32_t v = add(Base::input, std::move(name), dtype, std::move(dims));
    program_->values[v].index = static_cast<int32_t>(program_->inputs.size());
    program_->inputs.push_back(v);
    return v;
  }
  int32_t output(std::string name, DType dtype, Dims dims) {
    const int32_t v = add(Base::output, std::move(name), dtype, std::move(dims));
    list_output(v);
    program_->values[v].index = static_cast<int32_t>(program_->outputs.size()) - 1;
    return v;
  }
  void list_output(int32_t value) { program_->outputs.push_back(value); }
  int32_t weight(Tensor tensor) {
    const int32_t v = add(Base::weight, "weight", tensor.dtype, tensor.dims);
    program_->values[v].index = static_cast<int32_t>(owned_->weights.size());
    owned_->weights.push_back(std::move(tensor));
    program_->weights = owned_->weights;
    return v;
  }
  int32_t slab(int64_t offset, DType dtype, Dims dims) {
    const int32_t v = add(Base::slab, "intermediate", dtype, std::move(dims));
    program_->values[v].offset = offset;
    reserve_slab(offset + program_->values[v].bytes);
    return v;
  }
  int32_t side(std::string name, DType dtype, Dims dims) {
    return add(Base::side, std::move(name), dtype, std::move(dims));
  }
  int32_t object(std::string name, const ValueType& type) {
    const DType dtype = type.is_tensor() ? type.dtype() : DType::kUndefined;
    const int32_t v = add(Base::object, std::move(name), dtype, {});
    program_->values[v].kind = type.kind();
    program_->values[v].known = false;
    return v;
  }
  // Makes the size of a value unknown until run.
  int32_t unknown(int32_t value) {
    ProgramValue& v = program_->values[value];
    v.known = false;
    v.dims = {};
    v.bytes = 0;
    return value;
  }
  ProgramStep& step(std::string name, std::vector<int32_t> inputs, std::vector<int32_t> outputs,
                    std::function<Status(RunCtx&)> kernel) {
    ProgramStep& s = program_->steps.emplace_back();
    s.name = kept(std::move(name));
    s.inputs = owned_->lists.emplace_back(std::move(inputs));
    s.outputs = owned_->lists.emplace_back(std::move(outputs));
    s.node = static_cast<int32_t>(program_->steps.size()) - 1;
    if (kernel) {
      s.keep = std::make_shared<LambdaKernel>(std::move(kernel));
      s.runnable = s.keep.get();
    }
    return s;
  }
  void reserve_slab(int64_t bytes) { program_->slab_bytes = std::max(program_->slab_bytes, bytes); }
  Program& program() { return *program_; }
  ProgramValue& value(int32_t v) { return program_->values[v]; }
  std::shared_ptr<const Program> done() { return program_; }

 private:
  struct Owned {
    std::deque<std::string> names;
    std::deque<std::vector<int32_t>> lists;
    std::deque<Dims> dims;
    std::vector<Tensor> weights;
  };
  std::string_view kept(std::string name) { return owned_->names.emplace_back(std::move(name)); }
  int32_t add(Base base, std::string name, DType dtype, Dims dims) {
    ProgramValue v;
    v.base = base;
    v.dtype = dtype;
    v.kind = ValueType::Kind::tensor;
    v.known = true;
    v.bytes = storage_bytes(dtype, v.layout, dims).value_or(0);
    v.dims = owned_->dims.emplace_back(std::move(dims));
    v.name = kept(std::move(name));
    program_->values.push_back(std::move(v));
    return static_cast<int32_t>(program_->values.size()) - 1;
  }
  std::shared_ptr<Owned> owned_ = std::make_shared<Owned>();
  std::shared_ptr<Program> program_ = [this] {
    auto program = std::make_shared<Program>();
    program->graph = owned_;
    return program;
  }();
};

// Always the same program, or one for each shape of the first input.
struct LambdaSource final : ProgramSource {
  explicit LambdaSource(std::function<StatusOr<std::shared_ptr<const Program>>(std::span<const Value>)> function)
      : f(std::move(function)) {}
  StatusOr<std::shared_ptr<const Program>> program_for(std::span<const Value> inputs) override { return f(inputs); }
  std::function<StatusOr<std::shared_ptr<const Program>>(std::span<const Value>)> f;
};

// An executor and all it works with.
struct TestExecutor {
  explicit TestExecutor(int threads = 2, int64_t limit = 0)
      : budget(std::make_shared<MemoryBudget>(limit)),
        pool(threads),
        io(std::make_unique<IoPool>(budget)),
        side(std::make_unique<SideArena>(budget)),
        executor(std::make_unique<Executor>(ExecEnvironment{&pool, io.get(), side.get(), budget, {}})) {}
  std::shared_ptr<MemoryBudget> budget;
  Pool pool;
  std::unique_ptr<IoPool> io;
  std::unique_ptr<SideArena> side;
  std::unique_ptr<Executor> executor;

  StatusOr<std::vector<Value>> run(const std::shared_ptr<const Program>& program, const std::vector<Value>& inputs,
                                   const ExecOptions& options = {}) {
    std::vector<Value> outputs(program->outputs.size());
    RETURN_IF_ERROR(executor->run(program, inputs, outputs, options));
    return outputs;
  }
};

// out = a + b, elementwise over the first input's elements.
inline Status add_f32(RunCtx& c) {
  const float *a = c.in_as<float>(0), *b = c.in_as<float>(1);
  float* y = c.out_as<float>(0);
  for (int64_t i = 0; i < c.in(0).elements; ++i) y[i] = a[i] + b[i];
  return absl::OkStatus();
}

template <typename T>
std::vector<T> values_of(const Value& v) {
  const Tensor& t = v.tensor();
  return std::vector<T>(t.as<T>(), t.as<T>() + t.elements());
}

}  // namespace forethought
