// figure_arenas [FOLDER]: what arenas and leases do, on small graphs or on one model, as one line of JSON.
#include "tools/figures/arenas.h"

#include <fmt/core.h>

#include <cstdlib>
#include <cstring>

#include "session/compile.h"
#include "tools/figures/model_folder.h"

namespace forethought {

void* CountingSource::allocate(size_t bytes, size_t alignment) {
  void* data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (!data) return nullptr;
  std::memset(data, fill_, bytes);
  const std::lock_guard lock(mutex_);
  blocks_[reinterpret_cast<uintptr_t>(data)] = bytes;
  ++requests_;
  return data;
}

void CountingSource::release(void* data, size_t) {
  {
    const std::lock_guard lock(mutex_);
    blocks_.erase(reinterpret_cast<uintptr_t>(data));
  }
  std::free(data);
}

void CountingSource::fill_all(unsigned char pattern) {
  const std::lock_guard lock(mutex_);
  for (const auto& [data, bytes] : blocks_) std::memset(reinterpret_cast<void*>(data), pattern, bytes);
}

bool CountingSource::holds(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto block = blocks_.upper_bound(at);
  return block != blocks_.begin() && at - std::prev(block)->first < std::prev(block)->second;
}

int64_t CountingSource::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

int64_t CountingSource::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [data, bytes] : blocks_) sum += static_cast<int64_t>(bytes);
  return sum;
}

nlohmann::json check_model(const std::string& folder) {
  auto execution = std::make_shared<CountingSource>(0x00), io = std::make_shared<CountingSource>(0x00);
  SessionOptions options;
  options.intra_op_threads = 2;
  const std::vector<Value> expected = [&] {
    LoadedModel m = must(load_folder(folder, options));
    return must(run_once(*m.session, m.inputs));
  }();
  options.execution_source = execution;
  options.io_source = io;
  LoadedModel m = must(load_folder(folder, options));

  // Check 10: whatever fresh and freed memory holds, the outputs are the same.
  bool same = same_bits(must(run_once(*m.session, m.inputs)), expected);
  for (const int pattern : {0xff, 0x7f, 0x01}) {
    execution->fill_all(static_cast<unsigned char>(pattern));
    io->fill_all(static_cast<unsigned char>(pattern));
    same = same && same_bits(must(run_once(*m.session, m.inputs)), expected);
  }

  // Check 13: outputs lie where the I/O arena gave them, and nowhere else.
  std::vector<Value> held = must(run_once(*m.session, m.inputs));
  bool in_io = true;
  int64_t tensors = 0;
  for (const Value& v : held) {
    if (!v.is_tensor() || v.tensor().bytes() == 0 || v.tensor().dtype == DType::kString) continue;
    ++tensors;
    in_io = in_io && io->holds(v.tensor().data) && !execution->holds(v.tensor().data);
  }

  // Check 16: with the outputs of an old run held, the next run asks for as many, once.
  const int64_t io_before = io->requests(), execution_before = execution->requests();
  for (int run = 0; run < 20; ++run) must(run_once(*m.session, m.inputs));
  return {{"poison changes nothing", same},
          {"outputs in the I/O arena", in_io},
          {"outputs", tensors},
          {"I/O requests with one run held", io->requests() - io_before},
          {"execution requests with one run held", execution->requests() - execution_before}};
}

}  // namespace forethought

int main(int argc, char** argv) {
  if (argc > 2) return fmt::print(stderr, "figure_arenas [FOLDER]\n"), 2;
  nlohmann::json result;
  if (argc == 2) {
    result = forethought::check_model(argv[1]);
  } else {
    result = {{"leases", forethought::check_leases()}, {"small", forethought::check_small()}};
  }
  fmt::print("{}\n", result.dump());
  return 0;
}
