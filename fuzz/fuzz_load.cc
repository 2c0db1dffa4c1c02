// Any bytes as a session: loading, planning and a short run end with a status; what runs unoptimised loads and runs
// optimised, with the same types and shapes.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/log.h"
#include "exec/profile.h"
#include "session/session.h"

using namespace forethought;  // NOLINT

namespace {

constexpr int64_t kMaxElements = 1 << 12;  // of an input
constexpr int kMaxSteps = 500;             // of a run
constexpr int64_t kMemory = int64_t{64} << 20;
constexpr int64_t kPlanToRun = int64_t{1} << 20;  // larger plans are made, but not run: they only cost time

[[noreturn]] void fail(const char* what, std::string_view detail) {
  std::fprintf(stderr, "%s: %.*s\n", what, static_cast<int>(detail.size()), detail.data());
  std::abort();
}

// Loops may be endless: the run is cancelled after so many steps.
class Stopper final : public StepSink {
 public:
  explicit Stopper(CancelFlag flag) : flag_(std::move(flag)) {}
  void on_step(const StepEvent&) override {
    if (++steps_ >= kMaxSteps) flag_.cancel();
  }

 private:
  CancelFlag flag_;
  int steps_ = 0;
};

// Something to feed, filled with a pattern; unknown dims are 2. None if it would be large.
Value feed(const NodeArg& arg) {
  const ValueType* type = &arg.type;
  if (type->kind() == ValueType::Kind::optional) return {};
  if (type->kind() == ValueType::Kind::sequence) {
    auto empty = std::make_shared<Sequence>();
    empty->element = *type->inner();
    return Value(std::shared_ptr<const Sequence>(std::move(empty)));
  }
  if (!type->is_tensor()) return {};
  Dims dims;
  int64_t elements = 1;
  for (const Dim& d : arg.shape.dims) {
    const int64_t size = d.known().value_or(2);
    if (size < 0 || size > kMaxElements) return {};
    elements *= size;
    if (elements > kMaxElements) return {};
    dims.push_back(size);
  }
  auto t = make_tensor(type->dtype(), dims);
  if (!t.ok()) return {};
  if (t->dtype == DType::kFloat)
    for (int64_t i = 0; i < t->elements(); ++i) t->as<float>()[i] = static_cast<float>(i % 5) - 1;
  if (t->dtype == DType::kInt64)
    for (int64_t i = 0; i < t->elements(); ++i) t->as<int64_t>()[i] = i % 3;
  return *t;
}

struct Outcome {
  Status status;
  std::vector<Value> outputs;
};

Outcome load_and_run(std::string_view bytes, OptimizationLevel level) {
  SessionOptions options;
  options.optimization_level = level;
  options.intra_op_threads = 1;
  options.memory_limit = kMemory;
  options.fold_budget = 1 << 20;
  options.validate_plans = true;
  auto session = Session::load_bytes(bytes, {}, options);
  if (!session.ok()) return {session.status(), {}};
  std::vector<Value> inputs;
  std::vector<Dims> dims;
  for (const NodeArg& arg : (*session)->inputs()) {
    inputs.push_back(feed(arg));
    dims.push_back(inputs.back().is_tensor() ? inputs.back().tensor().dims : Dims());
  }
  auto plan = (*session)->plan_for(dims);
  if (!plan.ok()) return {plan.status(), {}};
  if ((*plan)->plan.naive > kPlanToRun) return {exhausted("too large to run here"), {}};
  RunOptions run;
  Stopper stopper(run.cancel);
  run.sink = &stopper;
  Outcome outcome;
  outcome.outputs.resize((*session)->outputs().size());
  outcome.status = (*session)->run_ordered(inputs, outcome.outputs, run);
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  setenv("FORETHOUGHT_LOG", "fatal", 0);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome plain = load_and_run(bytes, OptimizationLevel::disabled);
  const Outcome best = load_and_run(bytes, OptimizationLevel::all);
  if (!plain.status.ok()) return 0;
  if (!best.status.ok()) {
    if (absl::IsResourceExhausted(best.status) || absl::IsCancelled(best.status)) return 0;
    fail("what runs unoptimised fails optimised", std::string(best.status.message()));
  }
  for (size_t i = 0; i < plain.outputs.size(); ++i) {
    const Value &a = plain.outputs[i], &b = best.outputs[i];
    if (a.is_tensor() != b.is_tensor()) fail("the kind of an output depends on the level", std::to_string(i));
    if (a.is_tensor() && (a.tensor().dtype != b.tensor().dtype || a.tensor().dims != b.tensor().dims))
      fail("the type of an output depends on the level", to_string(a.tensor().dims) + to_string(b.tensor().dims));
  }
  return 0;
}
