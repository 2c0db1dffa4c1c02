// What a session has to do with memory: its account, its arenas, what they keep and give back.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/knobs.h"
#include "device/account.h"
#include "device/lanes.h"
#include "exec/executor.h"
#include "memory/block_pool.h"
#include "memory/slab.h"
#include "memory/system.h"
#include "session/idle_trimmer.h"
#include "session/memory_report.h"
#include "session/session.h"
#include "session/weights_options.h"
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

const DeviceReport* report_of(const MemoryReport& report, const std::string& device) {
  const auto found = std::ranges::find_if(report.devices, [&](const auto& d) { return d.memory.device == device; });
  return found == report.devices.end() ? nullptr : &*found;
}

// `elsewhere` is what the process holds now beside a session that needs `needs`. Where that would fit, others held more
// when it was refused: what they held then.
int64_t elsewhere_then(const MemoryBudget::Refusal& refusal, int64_t needs, int64_t elsewhere) {
  if (!refusal.of_process) return 0;
  if (needs + elsewhere > refusal.limit) return elsewhere;
  return std::max(elsewhere, refusal.mapped + refusal.bytes - needs);
}

// The same on the device that refused; `live` is what the session uses there of what the process does.
int64_t elsewhere_on(const MemoryBudget::Refusal& refusal, int64_t needs, const MemoryStatistics& of_process,
                     int64_t live) {
  const auto found = std::ranges::find(of_process.devices, refusal.device, &DeviceMemory::device);
  if (found == of_process.devices.end()) return 0;
  return elsewhere_then(refusal, needs, std::max<int64_t>(found->live - live, 0));
}

// The words of `told` in place of the innermost of a chain of contexts: where it happened stays.
Status told_there(const Status& told, const Status& chain_of) {
  const std::string_view chain(chain_of.message().data(), chain_of.message().size());
  const size_t innermost = chain.rfind(" › ");
  return innermost == chain.npos ? told : with_context(told, chain.substr(0, innermost));
}

Status check_in_use(const MemoryBudget& budget, int64_t bytes) {
  const MemoryStatistics s = budget.statistics();
  const int64_t live = s.mapped - s.retained;
  if (bytes > 0 && bytes < live) {
    return exhausted(absl::StrCat("the memory limit cannot be ", bytes, " bytes: ", live, " are in use: ", to_string(s),
                                  "; release outputs that are held, or allow more"));
  }
  return absl::OkStatus();
}

Status change_limit(MemoryBudget& budget, int64_t bytes) {
  RETURN_IF_ERROR(check_limit(bytes));
  RETURN_IF_ERROR(check_in_use(budget, bytes));
  budget.set_limit(bytes);
  return absl::OkStatus();
}

// With what would hold less, where packed forms are left that could lie in files.
Status with_folder_hint(const Status& told, const MemoryReport& report) {
  const auto fits = [](const MemoryHolder& h) {
    return h.role == MemoryRole::packed && h.bytes >= PackFolder::kLeastBytes;
  };
  if (std::ranges::none_of(report.holders, fits)) return told;
  return exhausted(absl::StrCat(told.message(),
                                "; the config entry session.packed_weights_path would take less: it names "
                                "a folder for packed forms"));
}

}  // namespace

// Loads in the first way that the limit holds. If it holds none, goes through them once more without taking memory, to
// find out what would be enough for the one that takes least.
StatusOr<std::unique_ptr<Session>> Session::load_within(const SessionOptions& options, std::string_view what,
                                                        Attempt attempt) {
  RETURN_IF_ERROR(check_options(options));
  auto made = make_budget(options);
  if (!made.ok()) return as_wrong_option(made.status());
  const std::shared_ptr<MemoryBudget> budget = *std::move(made);
  const MemoryStatistics before = process_memory_statistics();
  ASSIGN_OR_RETURN(const WeightsOptions weights, weights_options(options));
  PrepareOptions how;
  how.prepack = weights.prepack;
  if (!weights.packed_path.empty()) {
    ASSIGN_OR_RETURN(how.pack_folder, PackFolder::open(weights.packed_path));
  }
  const auto try_way = [&](const WeightsWay& way, std::shared_ptr<MemoryBudget> account) {
    how.budget = std::move(account);
    how.dry = how.budget->is_probe();
    how.streamed = way.streamed;
    how.keep_packs = way.keep_packs;
    how.budget->stream_files(way.streamed);
    return attempt(how);
  };
  const std::vector<WeightsWay> ways = weights_ways(weights, budget->is_limited());
  StatusOr<std::unique_ptr<Session>> session = nullptr;
  std::optional<MemoryBudget::Refusal> refusal;
  size_t taken = 0;
  for (; taken < ways.size(); ++taken) {
    session = try_way(ways[taken], budget);
    refusal = MemoryBudget::refusal_of(session.status());
    if (!refusal || !refusal->device.empty()) break;
  }
  if (!refusal) {
    if (!session.ok()) return session;
    WeightsHeld& held = (*session)->weights_held_;
    held.reason = ways[taken].reason;
    held.least = ways[taken].streamed && !ways[taken].keep_packs;
    // Where shapes are not known, a limit that would do for a run may make the next load choose one of these.
    for (size_t w = 0; w < taken && !(*session)->figures_.planned; ++w)
      if (const auto dry = try_way(ways[w], MemoryBudget::probe()); dry.ok())
        held.fuller.push_back((*dry)->memory_report().least);
    return session;
  }
  std::optional<MemoryReport> best;
  int64_t least = 0, best_elsewhere = 0;
  bool runs_too = false;  // `least` is for the load and a run
  for (const WeightsWay& way : ways) {
    const auto probe = MemoryBudget::probe();
    const auto dry = try_way(way, probe);
    if (!dry.ok()) continue;
    MemoryReport report = (*dry)->memory_report();
    if (!refusal->device.empty()) {
      const DeviceReport* there = report_of(report, refusal->device);
      if (!there) return session.status();
      const int64_t elsewhere = elsewhere_on(*refusal, there->least, before, 0);
      return with_context(too_little(*refusal, there->holders, there->least + elsewhere, elsewhere), what);
    }
    const int64_t elsewhere =
        elsewhere_then(*refusal, enough(report), before.mapped - before.retained - probe->in_process());
    if (best && enough(report) + elsewhere >= least) continue;
    least = enough(report) + elsewhere;
    best_elsewhere = elsewhere;
    best = std::move(report);
    runs_too = (*dry)->figures_.planned;
  }
  if (!best) return session;
  Status told = too_little(*refusal, *best, least, best_elsewhere);
  if (!runs_too) told = exhausted(absl::StrCat(told.message(), "; runs come on top: their shapes are not known yet"));
  if (!how.pack_folder) told = with_folder_hint(told, *best);
  return with_context(told, what);
}

int64_t Session::WeightsHeld::enough_for(int64_t run, int64_t least, int64_t elsewhere) const {
  for (;;) {
    const auto chosen = std::ranges::find_if(fuller, [&](int64_t load) { return load + elsewhere <= least; });
    if (chosen == fuller.end() || *chosen + run + elsewhere <= least) return least;
    least = *chosen + run + elsewhere;
  }
}

// What the arenas will ask for at the first run is refused now, if all shapes are known.
Status Session::check_fits(const CompiledProgram& planned) const {
  for (const bool of_process : {false, true}) {
    const MemoryBudget& account = of_process ? *MemoryBudget::process() : *budget_;
    if (account.limit() <= 0) continue;
    const MemoryStatistics s = account.statistics();
    const int64_t least = s.mapped - s.retained + bytes_of_run(planned, {});
    if (least <= account.limit()) continue;
    // Who loads finds out what would do.
    const std::string_view who = "the first run";
    return MemoryBudget::as_refusal(
        exhausted(who), {of_process, bytes_of_run(planned, {}), account.limit(), s.mapped, "", std::string(who)});
  }
  for (size_t d = 0; d < devices_.drivers().size(); ++d) {
    for (const MemoryBudget* account = &devices_.account(d); account; account = account->parent().get()) {
      if (account->limit() <= 0) continue;
      const MemoryStatistics s = account->statistics();
      const int64_t needs = bytes_of_run_on(planned, d), least = s.mapped - s.retained + needs;
      if (least <= account->limit()) continue;
      const DeviceReport there = memory_report().devices[d];
      const bool of_process = account != &devices_.account(d);
      return too_little({of_process, needs, account->limit(), s.mapped, account->device(), "the first run"},
                        there.holders, least, least - there.least);
    }
  }
  return absl::OkStatus();
}

Status Session::run_program(const std::shared_ptr<const Program>& program, std::span<const Value> inputs,
                            std::span<Value> outputs, const RunOptions& options) {
  bool oversized = false;
  const ExecOptions how{options.cancel.raw(), options.sink, &oversized};
  if (idle_) idle_->run_begins();
  Status status = executor_->run(program, inputs, outputs, how);
  if (oversized && MemoryBudget::refusal_of(status)) {  // the slab had what was missing
    trim();
    status = executor_->run(program, inputs, outputs, how);
  }
  if (idle_) idle_->run_ends();
  const auto refusal = MemoryBudget::refusal_of(status);
  if (!refusal) return status;
  if (!refusal->device.empty()) return refused_on_device(status, static_cast<const CompiledProgram*>(program.get()), 0);
  trim();
  std::vector<uint8_t> bound;
  for (const Value& v : outputs) bound.push_back(v.is_tensor() && v.tensor().data);
  MemoryReport report = report_for(static_cast<const CompiledProgram*>(program.get()), bound);
  add_bounded(static_cast<const CompiledProgram&>(*program), &report.holders);
  sort_holders(&report.holders);
  int64_t elsewhere = 0;
  if (refusal->of_process)
    elsewhere = (report.process.mapped - report.process.retained) - (report.session.mapped - report.session.retained);
  int64_t least = enough(report) + elsewhere;
  if (least <= refusal->limit) {
    // What has no bound has taken so much already, and this was not all of it: as much again.
    const int64_t so_far = refusal->mapped + refusal->bytes;
    least = so_far + std::max<int64_t>(so_far - report.least - elsewhere, 0);
  }
  const int64_t held = report.session.mapped - report.session.retained + program->window;
  least = weights_held_.enough_for(least - held - elsewhere, least, elsewhere);
  Status told = too_little(*refusal, report, least, elsewhere);
  int64_t could_go = 0;
  for (const MemoryHolder& h : report.holders)
    if (prepared_->streamed ? h.role == MemoryRole::packed : h.value.starts_with("the model's file"))
      could_go += h.bytes;
  if (!weights_held_.least && could_go >= least / 8)  // a share worth a hint
    told = exhausted(absl::StrCat(told.message(), "; the config entry session.weights=streamed would take less"));
  if (weights_held_.least && !pack_folder_) told = with_folder_hint(told, report);
  return told_there(told, status);
}

Status Session::run_in_regions(Status refused, std::shared_ptr<const Program>& program, std::span<const Value> inputs,
                               std::span<Value> outputs, const Bindings& bound, const RunOptions& options) {
  constexpr int64_t kMostRegions = 64;
  const int64_t bytes = program->slab_bytes;
  for (int64_t parts = 2; parts <= kMostRegions && bytes > parts * page_size(); parts *= 2) {
    source_->set_region_bytes(Pages::rounded((bytes + parts - 1) / parts));
    auto made = source_->program_for(inputs, bound);
    if (!made.ok()) break;  // a value is larger than what there is
    const Status status = run_program(*made, inputs, outputs, options);
    if (is_no_block(status)) continue;
    program = *std::move(made);
    return status;
  }
  source_->set_region_bytes(0);
  return refused;
}

Status Session::refused_on_device(const Status& status, const CompiledProgram* program, int64_t outputs) const {
  const auto refusal = MemoryBudget::refusal_of(status);
  if (!refusal) return status;
  const MemoryReport report = report_for(program, {});
  const DeviceReport* there = report_of(report, refusal->device);
  if (!there) return status;
  const int64_t needs = there->least + outputs;
  const int64_t elsewhere = elsewhere_on(*refusal, needs, report.process, there->memory.live);
  return told_there(too_little(*refusal, there->holders, needs + elsewhere, elsewhere), status);
}

// The outputs taken so far are live still.
Status Session::refused_outputs(const Status& status, const DeviceRun& run, std::span<const Value> asked) const {
  const auto refusal = MemoryBudget::refusal_of(status);
  if (!refusal) return status;
  int64_t missing = 0;
  for (const auto& [i, place] : run.to_make) {
    const Tensor& t = asked[i].tensor();
    const auto staged = std::ranges::find(run.staged, i, &std::pair<size_t, Tensor>::first);
    const Tensor& now = staged != run.staged.end() ? staged->second : run.outputs[i].tensor();
    if (!now.data && devices_.account(static_cast<size_t>(place)).device() == refusal->device)
      missing += std::max<int64_t>(storage_bytes(t.dtype, t.layout, t.dims).value_or(0), 1);
  }
  const auto program = source_->program_for(run.inputs, run.bound);
  return refused_on_device(status, program.ok() ? static_cast<const CompiledProgram*>(program->get()) : nullptr,
                           missing);
}

MemoryReport Session::report_for(const CompiledProgram* program, std::span<const uint8_t> bound) const {
  MemoryReport r;
  r.session = budget_->statistics();
  r.process = process_memory_statistics();
  r.outside = outside_memory();
  r.least = r.session.mapped - r.session.retained;
  add_weights(*prepared_, *budget_, &r.holders);
  r.weights = weights_text(weights_, prepared_->streamed, weights_held_.reason, program ? program->window : 0);
  r.of_shapes = program != nullptr;
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
  r.caps = caps_after(program);
  for (size_t d = 0; d < devices_.drivers().size(); ++d) {
    DeviceReport& there = r.devices.emplace_back();
    there.memory = device_memory(devices_.account(d));
    r.session.devices.push_back(there.memory);
    there.least = there.memory.live + (program ? bytes_of_run_on(*program, d) : 0);
    add_weights_on(*prepared_, devices_.drivers()[d]->device(), &there.holders);
    if (program) add_run_on(*program, d, &there.holders);
    const int64_t leased = devices_.account(d).statistics().of(MemoryRole::leased).live;
    if (leased > 0) there.holders.push_back({"inputs and outputs that are held", "", MemoryRole::leased, leased});
    sort_holders(&there.holders);
  }
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

MemoryReport Session::memory_report(const CompiledProgram& program) const { return report_for(&program, {}); }

StatusOr<std::shared_ptr<MemoryBudget>> Session::make_budget(const SessionOptions& options) {
  RETURN_IF_ERROR(check_limit(options.memory_limit));
  RETURN_IF_ERROR(with_context(check_limit(options.device_memory_limit), "on devices"));
  RETURN_IF_ERROR(check_retention(options.retention));
  if (options.idle_trim_ms < 0) {
    return invalid(absl::StrCat("memory cannot be given back after ", options.idle_trim_ms,
                                " ms without a run; 0 stands for never"));
  }
  for (const Knob limit : {Knob::kMemoryLimit, Knob::kDeviceMemoryLimit})
    RETURN_IF_ERROR(
        with_context(parse_memory_size(knob_string(limit)).status(), knobs()[static_cast<size_t>(limit)].variable));
  return std::make_shared<MemoryBudget>(options.memory_limit, MemoryBudget::process());
}

void Session::add_devices(bool dry) {
  for (const auto& p : providers_) {
    std::shared_ptr<DeviceDriver> driver = p->driver();
    if (!driver) continue;
    const std::shared_ptr<MemoryBudget>& of_process = device_account(driver->device());
    auto account = dry ? MemoryBudget::probe(of_process->device())
                       : std::make_shared<MemoryBudget>(options_.device_memory_limit, of_process, of_process->device());
    devices_.add(DeviceUse(std::move(driver), std::move(account)));
  }
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
  for (size_t d = 0; d < devices_.drivers().size(); ++d) {
    lane_devices_.push_back(make_stream_lanes(devices_.use(d)));
    environment.devices.push_back(lane_devices_.back().get());
    devices_.account(d).set_reclaim([lanes = lane_devices_.back().get()] { lanes->trim(); });
  }
  executor_ = std::make_unique<Executor>(std::move(environment));
  executor_->set_retention(caps.execution, caps.io);
  budget_->set_reclaim([this] { trim(); });
  if (options_.idle_trim_ms > 0) {
    ASSIGN_OR_RETURN(idle_, IdleTrimmer::start(options_.idle_trim_ms, [this] { trim(); }));
  }
  return absl::OkStatus();
}

std::vector<MemoryCap> Session::caps_after(const CompiledProgram* program) const {
  CapsOf of{*executor_, *io_, *side_};
  of.plan_cache = options_.plan_cache_capacity;
  of.plans = source_->counts().size;
  of.instance_cache = InstanceCache::kDefaultBytes;
  of.instance_bytes = instances_->counts().bytes;
  for (const MemoryBudget* account : {budget_.get(), MemoryBudget::process().get()}) {
    if (account->limit() <= 0) continue;
    const MemoryStatistics s = account->statistics();
    const int64_t leaves = std::max<int64_t>(account->limit() - (s.mapped - s.retained), 0);
    of.limit_leaves = of.limit_leaves < 0 ? leaves : std::min(of.limit_leaves, leaves);
  }
  return forethought::memory_caps(of, program);
}

std::vector<MemoryCap> Session::memory_caps() const { return caps_after(nullptr); }

MemoryStatistics Session::memory_statistics() const {
  MemoryStatistics s = budget_->statistics();
  for (size_t d = 0; d < devices_.drivers().size(); ++d) s.devices.push_back(device_memory(devices_.account(d)));
  return s;
}

MemoryStatistics process_memory_statistics() {
  MemoryStatistics s = MemoryBudget::process()->statistics();
  s.devices = device_memory_of_process();
  return s;
}

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

Status set_process_device_memory_limit(int64_t bytes) {
  RETURN_IF_ERROR(with_context(check_limit(bytes), "on devices"));
  for (const auto& account : device_accounts())
    RETURN_IF_ERROR(with_context(check_in_use(*account, bytes), absl::StrCat("on ", account->device())));
  set_limit_of_devices(bytes);
  return absl::OkStatus();
}

}  // namespace forethought
