#include "session/session.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/knobs.h"
#include "device/account.h"
#include "device/lanes.h"
#include "exec/executor.h"
#include "graph/schema/schema.h"
#include "memory/slab.h"
#include "memory/system.h"
#include "onnx/save/save.h"
#include "session/bound_memory.h"
#include "session/bounds.h"
#include "session/idle_trimmer.h"
#include "session/lent_inputs.h"
#include "threading/pool.h"

namespace forethought {
namespace {

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string list_names(const std::vector<NodeArg>& args) {
  return absl::StrJoin(args, ", ", [](std::string* out, const NodeArg& a) { absl::StrAppend(out, "'", a.name, "'"); });
}

std::string did_you_mean(std::string_view name, const std::vector<NodeArg>& args) {
  std::vector<std::string_view> names;
  for (const NodeArg& a : args) names.push_back(a.name);
  const std::string near(nearest_name(name, names));
  return near.empty() ? "." : absl::StrCat("; did you mean '", near, "'?");
}

}  // namespace

Session::~Session() {
  runner_.reset();  // its runs use all that follows
  idle_.reset();
  if (budget_) budget_->set_reclaim(nullptr);
  for (size_t d = 0; d < devices_.drivers().size(); ++d) devices_.account(d).set_reclaim(nullptr);
}

void SessionSummary::describe(const CompiledProgram& p) {
  lanes = p.lanes;
  lanes_reason = p.host_lanes.reason;
  waits = p.waits.waits;
  wait_edges = p.waits.edges;
  naive = p.plan.naive;
  lower_bound = p.plan.lower_bound;
  peak = p.plan.peak;
  slots = p.plan.slots;
  weights_window = p.window;
}

StatusOr<std::unique_ptr<Session>> Session::load(const std::string& path, const SessionOptions& options) {
  const double start = now_ms();
  if (path.empty()) return wrong_option("the path of the model is empty; give that of a file");
  RETURN_IF_ERROR(check_path("the path of the model", path));
  const auto attempt = [&](const PrepareOptions& prepare) -> StatusOr<std::unique_ptr<Session>> {
    auto result = run_pipeline({path, {}, {}, nullptr, prepare.budget}, options);
    if (!result.ok()) return result.status();  // it names the file
    auto session = finish(std::move(*result), options, prepare, start);
    if (!session.ok()) return with_context(session.status(), absl::StrCat("load ", path));
    return session;
  };
  return load_within(options, absl::StrCat("load ", path), attempt);
}

StatusOr<std::unique_ptr<Session>> Session::load_bytes(std::string_view bytes, BufferRef owner,
                                                       const SessionOptions& options) {
  const double start = now_ms();
  const auto finished = [&](PrepareOptions prepare, BufferRef keep) -> StatusOr<std::unique_ptr<Session>> {
    auto result = run_pipeline({"", prepare.model_bytes, std::move(keep), nullptr, prepare.budget}, options);
    if (!result.ok()) return result.status();
    return finish(std::move(*result), options, prepare, start);
  };
  // Bytes without an owner are read where they are, for the load: what steps read is taken into memory of our own.
  // Should more than that point into them (attributes may be tensors), the session gets a copy of them all.
  bool copied = false;
  const auto attempt = [&](PrepareOptions prepare) -> StatusOr<std::unique_ptr<Session>> {
    prepare.model_bytes = bytes;
    if (owner) return finished(prepare, owner);
    if (!copied) {
      struct Nothing {};
      const BufferRef users = hold(Nothing());
      prepare.model_goes = true;
      auto session = finished(prepare, users);
      if (!session.ok() || users.unique()) return session;
      copied = true;
      prepare.model_goes = false;
    }
    const auto size = static_cast<int64_t>(bytes.size());
    if (prepare.dry) {
      ASSIGN_OR_RETURN(MemoryShare share, MemoryShare::take(prepare.budget, MemoryRole::weights, size,
                                                            counted_block_bytes(size) - size, "the copy of the model"));
      auto session = finished(prepare, owner);
      if (session.ok()) (*session)->prepared_->dry_shares.push_back(std::move(share));
      return session;
    }
    ASSIGN_OR_RETURN(CountedBlock copy,
                     counted_block(prepare.budget, MemoryRole::weights, size, "the copy of the model"));
    if (size > 0) std::memcpy(copy.data, bytes.data(), bytes.size());
    prepare.model_bytes = {static_cast<const char*>(copy.data), bytes.size()};
    return finished(prepare, std::move(copy.owner));
  };
  const auto in_context = [&](const PrepareOptions& prepare) -> StatusOr<std::unique_ptr<Session>> {
    auto session = attempt(prepare);
    if (!session.ok()) return with_context(session.status(), "load model from bytes");
    return session;
  };
  return load_within(options, "load model from bytes", in_context);
}

StatusOr<std::unique_ptr<Session>> Session::from_graph(std::unique_ptr<Graph> graph, const SessionOptions& options) {
  const double start = now_ms();
  RETURN_IF_ERROR(validate(*graph));
  const auto attempt = [&](const PrepareOptions& prepare) -> StatusOr<std::unique_ptr<Session>> {
    // Other attempts may come.
    const bool again =
        prepare.dry || prepare.budget->is_limited() || options.device_memory_limit > 0 || limit_of_devices() > 0;
    auto mine = again ? graph->clone() : std::move(graph);
    ASSIGN_OR_RETURN(PipelineResult result, run_pipeline({"", {}, {}, std::move(mine), prepare.budget}, options));
    return finish(std::move(result), options, prepare, start);
  };
  return load_within(options, "load", attempt);
}

StatusOr<std::unique_ptr<Session>> Session::finish(PipelineResult result, const SessionOptions& options,
                                                   const PrepareOptions& prepare, double load_start) {
  std::unique_ptr<Session> s(new Session);
  s->options_ = options;
  s->budget_ = prepare.budget;
  s->report_ = std::move(result.report);
  s->providers_ = std::move(result.providers);
  for (const auto& p : s->providers_) s->provider_names_.emplace_back(p->name());
  s->inputs_ = s->report_.inputs;
  s->outputs_ = s->report_.outputs;
  ASSIGN_OR_RETURN(const DimensionBounds bounds, dimension_bounds(options, s->report_.info, s->inputs_));
  s->symbols_ = InputSymbols(s->inputs_, bounds);
  s->figures_.nodes_in_file = s->report_.stages.front().nodes_after;
  s->figures_.nodes = static_cast<int64_t>(result.graph->node_count_deep());
  if (!options.optimized_model_path.empty() && !prepare.dry)
    RETURN_IF_ERROR(as_wrong_option(
        with_context(save_model(*result.graph, options.optimized_model_path), "save the optimised model")));
  s->add_devices(prepare.dry);
  s->device_io_ = std::make_unique<DeviceIo>(*result.graph, s->devices_);
  PrepareOptions how = prepare;
  how.devices = &s->devices_;
  const PlanMode plan = options.plan != PlanMode::packed
                            ? options.plan
                            : plan_mode_from(knob_string(Knob::kPlan)).value_or(PlanMode::packed);
  how.strided_views = plan != PlanMode::off && options.share && options.strided_views && knob_bool(Knob::kStridedViews);
  s->pack_folder_ = prepare.pack_folder;
  ASSIGN_OR_RETURN(s->prepared_, prepare_graph(std::move(result.graph), how, &s->weights_));
  const Graph& g = *s->prepared_->view;
  for (ValueId v : g.inputs()) s->defaults_.push_back(g.value(v).default_value);
  s->instances_ = std::make_unique<InstanceCache>();
  s->pool_ = std::make_unique<Pool>(options.intra_op_threads > 0 ? options.intra_op_threads
                                                                 : static_cast<int>(knob_int(Knob::kThreads)));
  GraphSource::Shared shared;
  shared.workers = s->pool_->size();
#ifdef FORETHOUGHT_DEBUG_CHECKS
  shared.validate = true;
#else
  shared.validate = options.validate_plans || knob_bool(Knob::kValidate);
#endif
  shared.plan = plan;
  shared.share = options.share;
  shared.lanes = prepare.streamed ? 1 : options.lanes != 0 ? options.lanes : static_cast<int>(knob_int(Knob::kLanes));
  shared.capacity = static_cast<size_t>(options.plan_cache_capacity);
  shared.instances = s->instances_.get();
  shared.devices = &s->devices_;
  s->source_ = std::make_unique<GraphSource>(*s->prepared_, shared);
  RETURN_IF_ERROR(s->make_arenas());

  FactTable seeds = seed_facts(g);
  const bool fixed = std::all_of(g.inputs().begin(), g.inputs().end(),
                                 [&](ValueId v) { return seeds[v].type.is_object() || seeds[v].shape.is_known(); });
  const bool bounded = !fixed && put_bounds(g, bounds, &seeds);
  if (fixed || bounded) {
    auto made = fixed ? s->source_->plan_at_load(seeds) : s->source_->plan_bound(seeds);
    if (!made.ok()) {
      if (fixed) return made.status();
      const Status status = with_context(made.status(), "plan for the largest shapes");
      return options.max_dimensions.empty() ? status : as_wrong_option(status);
    }
    const CompiledProgram* planned = made->get();
    s->figures_.planned = true;
    s->figures_.describe(*planned);
    s->last_program_ = *made;
    if (!prepare.dry) RETURN_IF_ERROR(s->check_fits(*planned));
  }
  s->figures_.weights_mapped = s->weights_.constants;
  s->figures_.weights_packed = s->weights_.packed;
  s->figures_.weights_copied = s->weights_.copied + s->report_.info.copied_bytes;
  s->figures_.streams_weights = prepare.streamed;
  s->figures_.weights_streamed = s->weights_.streamed;
  s->figures_.packs_left_out = s->weights_.packs_left_out;
  if (s->pack_folder_) {
    s->figures_.packs_read = s->pack_folder_->counts().read;
    s->figures_.packs_written = s->pack_folder_->counts().written;
  }
  s->figures_.load_ms = now_ms() - load_start;
  return s;
}

int Session::find_input(std::string_view name) const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].name == name) return static_cast<int>(i);
  return -1;
}

int Session::find_output(std::string_view name) const {
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].name == name) return static_cast<int>(i);
  return -1;
}

Status Session::check_input(size_t i, const Value& v) const {
  const NodeArg& want = inputs_[i];
  auto wrong = [&](std::string_view what) {
    return invalid(absl::StrCat("input '", want.name, "' wants ", to_string(want.type),
                                want.type.is_tensor() ? to_string(want.shape) : "", "; ", std::string(what)));
  };
  if (v.is_none()) {
    if (want.type.kind() == ValueType::Kind::optional) return absl::OkStatus();
    return invalid(absl::StrCat("input '", want.name, "' is missing"));
  }
  if (want.type.is_unknown()) return absl::OkStatus();
  const ValueType* type = &want.type;
  if (type->kind() == ValueType::Kind::optional) type = type->inner();
  if (type->is_tensor()) {
    if (!v.is_tensor()) return wrong("what came is no tensor");
    const Tensor& t = v.tensor();
    if (t.dtype != type->dtype())
      return wrong(absl::StrCat("what came is tensor(", forethought::info(t.dtype).type_name, ")"));
    if (!element_count(t.dims)) return wrong(absl::StrCat("what came has the impossible shape ", to_string(t.dims)));
    if (!t.data && t.elements() > 0) return wrong("what came has no memory");
    if (t.device.is_host() && t.elements() > 0) {
      if (Status s = check_address(t); !s.ok())
        return with_context(std::move(s), absl::StrCat("the memory given for input '", want.name, "'"));
    }
    if (!t.strides.empty()) RETURN_IF_ERROR(with_context(check_strides(t), absl::StrCat("input '", want.name, "'")));
    return want.takes(t.dims) ? absl::OkStatus() : wrong(absl::StrCat("what came has the shape ", to_string(t.dims)));
  }
  if (type->kind() == ValueType::Kind::sequence) {
    if (!v.sequence()) return wrong("what came is no sequence");
    for (const Value& item : v.sequence()->items)
      if (type->inner()->is_tensor() && (!item.is_tensor() || item.tensor().dtype != type->inner()->dtype()))
        return wrong("an element of what came has another type");
  }
  return absl::OkStatus();
}

Status Session::run_ordered(std::span<const Value> inputs, std::span<Value> outputs, const RunOptions& options) {
  static const Bindings on_host;
  const bool counts_fit = inputs.size() == inputs_.size() && outputs.size() == outputs_.size();
  absl::InlinedVector<Value, 8> settled;
  if (counts_fit && std::ranges::any_of(inputs, is_strided)) {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (is_strided(inputs[i])) RETURN_IF_ERROR(check_input(i, inputs[i]));
    RETURN_IF_ERROR(settle_strided(*this, inputs, !DeviceIo::any(inputs, outputs), &settled));
    inputs = {settled.data(), settled.size()};
  }
  if (!counts_fit || !DeviceIo::any(inputs, outputs))
    return run_bound(inputs, outputs, on_host, {inputs, outputs}, options);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].is_none()) RETURN_IF_ERROR(check_input(i, inputs[i]));  // before a copy reads from it
  ASSIGN_OR_RETURN(DeviceRun run, device_io_->begin(inputs_, inputs, outputs_, outputs));
  if (const Status taken = device_io_->take_outputs(outputs_, &run); !taken.ok())
    return refused_outputs(taken, run, outputs);
  absl::InlinedVector<Value, 8> targets = run.outputs;
  for (const auto& [i, tensor] : run.staged) targets[i] = tensor;
  RETURN_IF_ERROR(
      run_bound(run.inputs, {run.outputs.data(), run.outputs.size()}, run.bound, {inputs, targets}, options));
  return device_io_->end(outputs_, run, outputs);
}

Status Session::run_bound(std::span<const Value> inputs, std::span<Value> outputs, const Bindings& bound,
                          const CallersMemory& callers, const RunOptions& options) {
  if (inputs.size() != inputs_.size())
    return invalid(absl::StrCat("the model has ", inputs_.size(), " inputs; ", inputs.size(), " came"));
  if (outputs.size() != outputs_.size())
    return invalid(absl::StrCat("the model has ", outputs_.size(), " outputs; ", outputs.size(), " were asked for"));
  const double start = now_ms();
  absl::InlinedVector<Value, 8> filled;
  bool defaults = false;
  for (size_t i = 0; i < inputs.size(); ++i) defaults = defaults || (inputs[i].is_none() && defaults_[i]);
  if (defaults) {
    for (size_t i = 0; i < inputs.size(); ++i)
      filled.push_back(inputs[i].is_none() && defaults_[i] ? Value(*defaults_[i]) : inputs[i]);
    inputs = {filled.data(), filled.size()};
  }
  for (size_t i = 0; i < inputs.size(); ++i) RETURN_IF_ERROR(check_input(i, inputs[i]));
  RETURN_IF_ERROR(symbols_.check(inputs_, inputs));
  ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, source_->program_for(inputs, bound));
  absl::InlinedVector<const void*, 8> places;
  if (std::ranges::any_of(callers.outputs, [](const Value& v) { return v.is_tensor() && v.tensor().data; })) {
    RETURN_IF_ERROR(check_bound_memory(inputs_, callers.inputs, outputs_, callers.outputs, *program));
    for (const Value& v : outputs) places.push_back(v.is_tensor() ? v.tensor().data : nullptr);
  }
  Status status = run_program(program, inputs, outputs, options);
  if (is_no_block(status)) [[unlikely]]
    status = run_in_regions(std::move(status), program, inputs, outputs, bound, options);
  RETURN_IF_ERROR(status);
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i] && outputs[i].tensor().data != places[i])
      return invalid(absl::StrCat("output '", outputs_[i].name, "' turned out as ", to_string(outputs[i].tensor().dims),
                                  ", which does not fill the memory that was given for it"));
  const double ms = now_ms() - start;
  std::lock_guard lock(mutex_);
  if (figures_.runs++ == 0) figures_.first_run_ms = ms;
  figures_.last_run_ms = ms;
  if (last_program_ != program) last_program_ = program;
  if (!figures_.planned) figures_.describe(static_cast<const CompiledProgram&>(*program));
  return absl::OkStatus();
}

Status Session::run(std::span<const NamedValue> feeds, std::span<const std::string_view> output_names,
                    std::span<Value> outputs, const RunOptions& options) {
  absl::InlinedVector<Value, 8> in(inputs_.size());
  for (const NamedValue& f : feeds) {
    const int i = find_input(f.name);
    if (i < 0)
      return invalid(absl::StrCat("the model has no input '", std::string(f.name), "'", did_you_mean(f.name, inputs_),
                                  " Its inputs: ", list_names(inputs_)));
    if (!in[i].is_none()) return invalid(absl::StrCat("input '", std::string(f.name), "' is given twice"));
    in[i] = f.value;
  }
  if (output_names.empty()) return run_ordered({in.data(), in.size()}, outputs, options);
  if (output_names.size() != outputs.size())
    return invalid(absl::StrCat(output_names.size(), " output names, but room for ", outputs.size(), " outputs"));
  absl::InlinedVector<Value, 4> out(outputs_.size());
  absl::InlinedVector<int, 4> position;
  absl::InlinedVector<size_t, 4> first(outputs_.size(), output_names.size());  // that asked for it, or brought memory
  for (size_t k = 0; k < output_names.size(); ++k) {
    const int i = find_output(output_names[k]);
    if (i < 0)
      return invalid(absl::StrCat("the model has no output '", std::string(output_names[k]), "'",
                                  did_you_mean(output_names[k], outputs_), " Its outputs: ", list_names(outputs_)));
    position.push_back(i);
    if (first[i] == output_names.size()) first[i] = k;
    if (outputs[k].is_none()) continue;
    if (!out[i].is_none())
      return invalid(absl::StrCat("output '", std::string(output_names[k]), "' was given memory twice: give it once"));
    first[i] = k;
    out[i] = outputs[k];
  }
  RETURN_IF_ERROR(run_ordered({in.data(), in.size()}, {out.data(), out.size()}, options));
  for (size_t k = 0; k < position.size(); ++k) {
    const Value& made = out[position[k]];
    if (k == first[position[k]]) {
      outputs[k] = made;
    } else {  // callers may write into what they get
      ASSIGN_OR_RETURN(outputs[k], copy_of(made, output_names[k]));
    }
  }
  return absl::OkStatus();
}

StatusOr<AsyncRun> Session::run_async(AsyncRequest request, AsyncRun::Callback callback) {
  runner_made_.call([&] { runner_ = std::make_unique<Runner>(std::max(pool_->size(), 2)); });
  return AsyncRun::start(*runner_, *this, std::move(request), std::move(callback));
}

StatusOr<std::shared_ptr<const CompiledProgram>> Session::plan_for(std::span<const Dims> input_dims,
                                                                   Effort effort) const {
  if (input_dims.size() != inputs_.size())
    return invalid(absl::StrCat("the model has ", inputs_.size(), " inputs; shapes of ", input_dims.size(), " came"));
  std::vector<Value> shaped(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const NodeArg& want = inputs_[i];
    if (!want.type.is_tensor()) continue;
    Tensor t;
    t.dtype = want.type.dtype();
    t.dims = input_dims[i];
    if (!element_count(t.dims) || !want.takes(t.dims))
      return invalid(absl::StrCat("input '", want.name, "' wants ", to_string(want.type), to_string(want.shape),
                                  "; the shape to plan for is ", to_string(t.dims)));
    shaped[i] = std::move(t);
  }
  RETURN_IF_ERROR(symbols_.check(inputs_, shaped));
  return source_->plan_for(input_dims, effort);
}

SessionSummary Session::summary() const {
  std::lock_guard lock(mutex_);
  SessionSummary s = figures_;
  s.plans = source_->counts();
  s.formulas_refused = source_->formulas_refused();
  s.instances = instances_->counts();
  s.copies = executor_->copies().copies();
  s.copied_bytes = executor_->copies().bytes();
  return s;
}

}  // namespace forethought
