// What a run of a Loop or Scan needs beside its arguments, kept for the next run.
#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "kernel_api/body_host.h"
#include "ops/control/stacked.h"
#include "ops/control/states.h"

namespace forethought {

struct BodyRun {
  BodyHost* host = nullptr;
  std::vector<Value> in, out;  // of the body
  std::vector<int32_t> passed;
  States states;
  std::vector<Stacked> stacked;

  // Runs a body once: `passed` and `out` are as the host leaves them.
  Status once(int body = 0) {
    passed.assign(out.size(), BodyHost::kWritten);
    return host->run_body_in_place(body, in, out, passed);
  }
  // Whether scan output `k`, output `output` of the body, needs to know how large a slice is and the body can tell.
  bool asks_dims(const RunCtx& c, size_t k, size_t output, Dims* dims) const {
    return stacked[k].wants_dims(c) && host->body_output_dims(0, in, static_cast<int>(output), dims);
  }
  // A result of the body, wherever it lies.
  const Value& result(size_t i) const { return passed[i] >= 0 ? in[static_cast<size_t>(passed[i])] : out[i]; }
  // Nothing of the run stays alive.
  void clear() {
    for (Value& v : in) v = Value();
    for (Value& v : out) v = Value();
  }
};

// Objects that runs take and give back, so that a repeated run allocates none. Thread safe.
class BodyRuns {
 public:
  // Given back when it goes out of scope.
  class Lent {
   public:
    explicit Lent(BodyRuns& home) : home_(home), run_(home.take()) {}
    ~Lent() { home_.give(std::move(run_)); }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    BodyRun& operator*() { return *run_; }

   private:
    BodyRuns& home_;
    std::unique_ptr<BodyRun> run_;
  };

 private:
  std::unique_ptr<BodyRun> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      idle_.reserve(static_cast<size_t>(made_) + 1);  // give() must find room
      auto made = std::make_unique<BodyRun>();
      ++made_;
      return made;
    }
    std::unique_ptr<BodyRun> run = std::move(idle_.back());
    idle_.pop_back();
    return run;
  }
  void give(std::unique_ptr<BodyRun> run) {
    run->clear();
    for (Stacked& s : run->stacked) s = Stacked();
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(run));
  }

  Mutex mutex_;
  std::vector<std::unique_ptr<BodyRun>> idle_;  // never more than ran at once
  int made_ = 0;
};

}  // namespace forethought
