// What a session has to do with memory: its account, its arenas, what they keep and give back.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/knobs.h"
#include "device/lanes.h"
#include "exec/executor.h"
#include "memory/block_pool.h"
#include "memory/system.h"
#include "session/idle_trimmer.h"
#include "session/memory_report.h"
#include "session/session.h"
#include "threading/pool.h"

namespace forethought {
namespace {

constexpr int64_t kLargestLimit = int64_t{1} << 60;

Status check_limit(int64_t bytes) {
  if (bytes < 0) return invalid(absl::StrCat("the memory limit is ", bytes, " bytes; 0 stands for none"));
  if (bytes > kLargestLimit) {
    return invalid(
        absl::StrCat("the memory limit of ", bytes, " bytes is more than any machine has; 0 stands for none"));
  }
  return absl::OkStatus();
}

Status check_retention(const RetentionCaps& caps) {
  for (const auto& [what, bytes] : {std::pair{"execution arena", caps.execution}, std::pair{"I/O arena", caps.io},
                                    std::pair{"side arena", caps.side}}) {
    if (bytes < kRetainPlanned) {
      return invalid(absl::StrCat("the ", what, " cannot keep ", bytes, " bytes; ", kRetainPlanned,
                                  " stands for the planned peak and a quarter more, 0 for nothing"));
    }
  }
  return absl::OkStatus();
}

Status change_limit(MemoryBudget& budget, int64_t bytes) {
  RETURN_IF_ERROR(check_limit(bytes));
  const MemoryStatistics s = budget.statistics();
  const int64_t live = s.mapped - s.retained;
  if (bytes > 0 && bytes < live) {
    return exhausted(absl::StrCat("the memory limit cannot be ", bytes, " bytes: ", live, " are in use: ", to_string(s),
                                  "; release outputs that are held, or allow more"));
  }
  budget.set_limit(bytes);
  return absl::OkStatus();
}

}  // namespace

// Loads; if a limit refuses, goes through it once more without taking memory, to find out what would be enough.
StatusOr<std::unique_ptr<Session>> Session::load_within(const SessionOptions& options, std::string_view what,
                                                        Attempt attempt) {
  RETURN_IF_ERROR(check_options(options));
  auto made = make_budget(options);
  if (!made.ok()) return as_wrong_option(made.status());
  const std::shared_ptr<MemoryBudget> budget = *std::move(made);
  const MemoryStatistics before = MemoryBudget::process()->statistics();
  auto session = attempt({budget, false, {}});
  const auto refusal = MemoryBudget::refusal_of(session.status());
  if (!refusal) return session;
  const auto probe = MemoryBudget::probe();
  const auto dry = attempt({probe, true, {}});
  if (!dry.ok()) return session;
  const MemoryReport report = (*dry)->memory_report();
  const int64_t held = before.mapped - before.retained - probe->in_process();
  const int64_t least = report.least + (refusal->of_process ? held : 0);
  return with_context(too_little(*refusal, report.holders, least), what);
}

// What the arenas will ask for at the first run is refused now, if all shapes are known.
Status Session::check_fits(const CompiledProgram& planned) const {
  for (const bool of_process : {false, true}) {
    const MemoryBudget& account = of_process ? *MemoryBudget::process() : *budget_;
    if (account.limit() <= 0) continue;
    const MemoryStatistics s = account.statistics();
    const int64_t least = s.mapped - s.retained + bytes_of_run(planned, {});
    if (least <= account.limit()) continue;
    return too_little({of_process, bytes_of_run(planned, {}), account.limit(), s.mapped, "the first run"},
                      memory_report().holders, least);
  }
  return absl::OkStatus();
}

Status Session::run_program(const std::shared_ptr<const Program>& program, std::span<const Value> inputs,
                            std::span<Value> outputs, const RunOptions& options) {
  const ExecOptions how{options.cancel.raw(), options.sink};
  if (idle_) idle_->run_begins();
  const auto run = [&] {
    Status status = executor_->run(program, inputs, outputs, how);
    // A slab that is larger than this run needs may have taken what was missing.
    if (MemoryBudget::refusal_of(status) && trim() > 0) status = executor_->run(program, inputs, outputs, how);
    return status;
  };
  Status status = run();
  if (idle_) idle_->run_ends();
  const auto refusal = MemoryBudget::refusal_of(status);
  if (!refusal) return status;
  trim();
  std::vector<uint8_t> bound;
  for (const Value& v : outputs) bound.push_back(v.is_tensor() && v.tensor().data);
  const MemoryReport report = report_for(static_cast<const CompiledProgram*>(program.get()), bound);
  int64_t least = report.least;
  if (refusal->of_process) {
    least += (report.process.mapped - report.process.retained) - (report.session.mapped - report.session.retained);
  }
  // Where sizes come up only while it runs, the plan does not tell it all.
  if (least <= refusal->limit) least = refusal->mapped + refusal->bytes;
  const Status told = too_little(*refusal, report.holders, least);
  const std::string_view chain(status.message().data(), status.message().size());
  const size_t innermost = chain.rfind(" › ");
  return innermost == chain.npos ? told : with_context(told, chain.substr(0, innermost));  // where it happened
}

MemoryReport Session::report_for(const CompiledProgram* program, std::span<const uint8_t> bound) const {
  MemoryReport r;
  r.session = budget_->statistics();
  r.process = MemoryBudget::process()->statistics();
  r.outside = outside_memory();
  r.least = r.session.mapped - r.session.retained;
  add_weights(*prepared_, &r.holders);
  if (program) {
    r.least += bytes_of_run(*program, bound);
    add_unplanned(*program, &r);
    add_run(*program, bound, &r.holders);
  }
  const auto add = [&](const BlockPool& pool, MemoryRole role) {
    for (const LiveBlocks& live : pool.live()) r.holders.push_back({live.who, "", role, live.bytes, live.blocks});
  };
  add(*io_, MemoryRole::leased);
  add(*side_, MemoryRole::unplanned);
  sort_holders(&r.holders);
  return r;
}

MemoryReport Session::memory_report() const {
  std::shared_ptr<const Program> program;
  {
    const std::lock_guard lock(mutex_);
    program = last_program_;
  }
  return report_for(static_cast<const CompiledProgram*>(program.get()), {});
}

StatusOr<std::shared_ptr<MemoryBudget>> Session::make_budget(const SessionOptions& options) {
  RETURN_IF_ERROR(check_limit(options.memory_limit));
  RETURN_IF_ERROR(check_retention(options.retention));
  if (options.idle_trim_ms < 0) {
    return invalid(absl::StrCat("memory cannot be given back after ", options.idle_trim_ms,
                                " ms without a run; 0 stands for never"));
  }
  const std::string limit = knob_string(Knob::kMemoryLimit);
  RETURN_IF_ERROR(with_context(parse_memory_size(limit).status(), "FORETHOUGHT_MEMORY_LIMIT"));
  return std::make_shared<MemoryBudget>(options.memory_limit, MemoryBudget::process());
}

Status Session::make_arenas() {
  const RetentionCaps& caps = options_.retention;
  io_ = std::make_unique<IoPool>(budget_, caps.io, options_.io_source);
  side_ = std::make_unique<SideArena>(budget_, caps.side);
  ExecEnvironment environment;
  environment.pool = pool_.get();
  environment.io = io_.get();
  environment.side = side_.get();
  environment.budget = budget_;
  environment.slab_options.populate = true;
  environment.slab_source = options_.execution_source;
  for (const auto& d : devices_.drivers()) {
    lane_devices_.push_back(make_stream_lanes(d));
    environment.devices.push_back(lane_devices_.back().get());
  }
  executor_ = std::make_unique<Executor>(std::move(environment));
  executor_->set_retention(caps.execution, caps.io);
  budget_->set_reclaim([this] { trim(); });
  if (options_.idle_trim_ms > 0) {
    ASSIGN_OR_RETURN(idle_, IdleTrimmer::start(options_.idle_trim_ms, [this] { trim(); }));
  }
  return absl::OkStatus();
}

MemoryStatistics Session::memory_statistics() const { return budget_->statistics(); }

int64_t Session::trim(int64_t keep) {
  keep = std::max<int64_t>(keep, 0);
  const int64_t io = io_->retained_bytes(), execution = executor_->retained_bytes();
  int64_t freed = side_->trim(std::max<int64_t>(keep - io - execution, 0));
  freed += io_->trim(std::max<int64_t>(keep - execution - side_->retained_bytes(), 0));
  freed += executor_->trim(std::max<int64_t>(keep - io_->retained_bytes() - side_->retained_bytes(), 0));
  return freed;
}

Status Session::set_retention(const RetentionCaps& caps) {
  RETURN_IF_ERROR(check_retention(caps));
  executor_->set_retention(caps.execution, caps.io);
  side_->set_retained_cap(caps.side);
  return absl::OkStatus();
}

Status Session::set_memory_limit(int64_t bytes) { return change_limit(*budget_, bytes); }
Status set_process_memory_limit(int64_t bytes) { return change_limit(*MemoryBudget::process(), bytes); }

}  // namespace forethought
