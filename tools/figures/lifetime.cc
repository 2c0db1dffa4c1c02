// figure_lifetime FOLDER RUNS: whether outputs keep their bits after later runs and the session's end, as JSON.
#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "memory/system.h"
#include "tools/figures/model_folder.h"

namespace forethought {
namespace {

constexpr int kKept = 40;

// Inputs of run `k`: elements rotated, and floats scaled, so that runs give different results.
std::vector<Value> inputs_of(const std::vector<Value>& original, int k) {
  std::vector<Value> inputs;
  for (const Value& v : original) {
    const Tensor& t = v.tensor();
    Tensor own = must(make_tensor(t.dtype, t.dims));
    const int64_t elements = t.elements(), width = elements > 0 ? t.bytes() / elements : 0;
    const int64_t turn = elements > 0 ? k % elements * width : 0;
    const auto* const from = static_cast<const std::byte*>(t.data);
    std::memcpy(own.data, from + turn, static_cast<size_t>(t.bytes() - turn));
    std::memcpy(static_cast<std::byte*>(own.data) + t.bytes() - turn, from, static_cast<size_t>(turn));
    if (t.dtype == DType::kFloat)
      for (int64_t i = 0; i < t.elements(); ++i) own.as<float>()[i] *= 1.0f + 0.01f * static_cast<float>(k);
    inputs.emplace_back(std::move(own));
  }
  return inputs;
}

// The same tensor in pages that cannot be written.
struct ReadOnly {
  Tensor tensor;
  void* pages = nullptr;
  size_t bytes = 0;

  explicit ReadOnly(const Tensor& t) : tensor(t) {
    bytes = static_cast<size_t>(std::max<int64_t>(t.bytes(), 1));
    pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) must(exhausted("no pages for an input"));
    std::memcpy(pages, t.data, static_cast<size_t>(t.bytes()));
    mprotect(pages, bytes, PROT_READ);
    tensor.data = pages;
    tensor.owner = BufferRef();
  }
  ~ReadOnly() { munmap(pages, bytes); }
};

bool survives_read_only(Session& session, const std::vector<Value>& inputs) {
  const std::vector<Value> expected = must(run_once(session, inputs));
  std::vector<std::unique_ptr<ReadOnly>> pages;
  std::vector<Value> borrowed;
  for (const Value& v : inputs) {
    pages.push_back(std::make_unique<ReadOnly>(v.tensor()));
    borrowed.emplace_back(pages.back()->tensor);
  }
  return same_bits(must(run_once(session, borrowed)), expected);
}

int run(const std::string& folder, int runs) {
  SessionOptions options;
  options.intra_op_threads = 2;
  LoadedModel m = must(load_folder(folder, options));
  const bool read_only = survives_read_only(*m.session, m.inputs);
  std::vector<std::vector<Value>> kept;
  std::vector<uint64_t> hashes;
  for (int k = 0; k < kKept; ++k) {
    kept.push_back(must(run_once(*m.session, inputs_of(m.inputs, k))));
    hashes.push_back(hash_of(kept.back()));
  }
  const auto intact = [&] {
    for (size_t i = 0; i < kept.size(); ++i)
      if (!kept[i].empty() && hash_of(kept[i]) != hashes[i]) return false;
    return true;
  };
  for (int r = 0; r < runs; ++r) must(run_once(*m.session, m.inputs));
  const bool after_runs = intact();
  m.session.reset();
  const bool after_session = intact();
  std::vector<int> order(kKept);
  for (int i = 0; i < kKept; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(11));
  bool while_dropping = true;
  for (const int i : order) {
    kept[i].clear();
    while_dropping = while_dropping && intact();
  }
  std::sort(hashes.begin(), hashes.end());
  const auto distinct = std::unique(hashes.begin(), hashes.end()) - hashes.begin();
  const nlohmann::json j = {
      {"outputs kept", kKept},       {"distinct", distinct},           {"later runs", runs},
      {"after runs", after_runs},    {"after session", after_session}, {"while dropping", while_dropping},
      {"read-only input", read_only}};
  fmt::print("{}\n", j.dump());
  return 0;
}

}  // namespace
}  // namespace forethought

int main(int argc, char** argv) {
  if (argc != 3) return fmt::print(stderr, "figure_lifetime FOLDER RUNS\n"), 2;
  return forethought::run(argv[1], std::atoi(argv[2]));
}
