// The module forethought._core: sessions, values and options, for the Python files of the package to build upon.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>

#include "absl/container/inlined_vector.h"
#include "base/log.h"
#include "convert.h"
#include "errors.h"
#include "exec/profile.h"
#include "interrupt.h"
#include "session/memory_report.h"
#include "session/plan_report.h"
#include "session/session.h"
#include "threading/runner.h"
#include "values.h"

namespace nb = nanobind;

namespace forethought::python {
namespace {

struct PythonSession {
  std::unique_ptr<Session> session;
  std::atomic<int64_t> input_copies{0}, input_copied_bytes{0};
  ProfileRecorder profile;  // of the runs, if the options ask for it
};

const ValueType& type_of_input(const Session& session, std::string_view name) {
  static const ValueType unknown;
  for (const NodeArg& a : session.inputs())
    if (a.name == name) return a.type;
  return unknown;
}

// One run from Python: what was fed, what comes out, and what must live until the arrays are made.
struct Call {
  Feeding feeding;
  absl::InlinedVector<nb::object, 8> texts;  // whose bytes the names are
  absl::InlinedVector<NamedValue, 4> feeds;
  absl::InlinedVector<std::string_view, 4> names;
  absl::InlinedVector<Value, 4> outputs;

  std::string_view name(nb::handle text) {
    texts.emplace_back();
    return bytes_of(text, &texts.back());
  }
};

// Bytes that are copied of those inputs that come after the first `done`.
int64_t bytes_to_copy_after(nb::dict inputs, size_t done) {
  int64_t bytes = 0;
  for (auto [name, object] : inputs)
    if (done > 0) {
      --done;
    } else {
      bytes += bytes_to_copy(object);
    }
  return bytes;
}

// Gives each input, under its name, to `take`.
template <typename Take>
void each_input(PythonSession& self, nb::dict inputs, Call* call, Take take) {
  size_t done = 0;
  Feeding& feeding = call->feeding;
  feeding.session = self.session.get();
  feeding.to_come = [&] { return bytes_to_copy_after(inputs, done); };
  for (auto [name, object] : inputs) {
    ++done;
    feeding.name = call->name(name);
    take(feeding.name, from_python(object, type_of_input(*self.session, feeding.name), &feeding));
  }
  feeding.to_come = nullptr;
  self.input_copies += feeding.copies;
  self.input_copied_bytes += feeding.copied_bytes;
}

void feed(PythonSession& self, nb::dict inputs, Call* call) {
  each_input(self, inputs, call, [&](std::string_view name, Value value) {
    call->feeds.push_back({name, std::move(value)});
  });
}

// A value that the session is to read in many runs: over the array's memory, or over a copy in the I/O arena.
HeldValue value_for_input(PythonSession& self, nb::handle name, nb::handle object) {
  Call call;
  Feeding feeding;
  feeding.session = self.session.get();
  feeding.name = call.name(name);
  HeldValue held = value_from_python(object, std::move(feeding));
  self.input_copies += held.copied_bytes > 0;
  self.input_copied_bytes += std::exchange(held.copied_bytes, 0);  // the session's own: it may be written
  return held;
}

HeldValue session_value(PythonSession& self, const std::vector<int64_t>& shape, int dtype) {
  if (!is_valid_dtype(dtype) || bit_width(static_cast<DType>(dtype)) == 0)
    raise_named("InvalidArgument", "the session has no memory for ONNX element type " + std::to_string(dtype));
  Tensor t = check(self.session->take_io(static_cast<DType>(dtype), shape, "a value made by the caller"), During::run);
  if (t.bytes() > 0) std::memset(t.data, 0, static_cast<size_t>(t.bytes()));
  return {std::move(t)};
}

void ask(const Session& session, nb::handle names, Call* call) {
  for (nb::handle name : names) call->names.push_back(call->name(name));
  call->outputs.resize(call->names.empty() ? session.outputs().size() : call->names.size());
}

void execute(PythonSession& self, Call* call, const CancelFlag* cancel) {
  Interruptible interruptible(cancel);
  RunOptions options{interruptible.flag(), {}, nullptr};
  if (self.session->options().profiling) options.sink = &self.profile;
  Status status;
  {
    nb::gil_scoped_release release;
    status = self.session->run({call->feeds.data(), call->feeds.size()}, {call->names.data(), call->names.size()},
                               {call->outputs.data(), call->outputs.size()}, options);
  }
  interruptible.finish();
  check(status, During::run);
}

nb::list run(PythonSession& self, nb::handle names, nb::dict inputs, const CancelFlag* cancel) {
  Call call;
  ask(*self.session, names, &call);
  feed(self, inputs, &call);
  execute(self, &call, cancel);
  nb::list out;
  for (const Value& v : call.outputs) out.append(to_python(v));
  return out;
}

// `bound[i]` is None or the value into whose memory output i goes.
nb::list run_values(PythonSession& self, nb::handle names, nb::dict inputs, nb::list bound, const CancelFlag* cancel) {
  Call call;
  ask(*self.session, names, &call);
  feed(self, inputs, &call);
  for (size_t i = 0; i < bound.size() && i < call.outputs.size(); ++i)
    if (!bound[i].is_none()) call.outputs[i] = writable(nb::cast<const HeldValue&>(bound[i]), call.names[i]);
  execute(self, &call, cancel);
  nb::list out;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const bool in_place = i < bound.size() && !bound[i].is_none();
    out.append(in_place ? nb::object(bound[i]) : nb::cast(HeldValue{owned(call.outputs[i])}));
  }
  return out;
}

// What a run behind the caller's back keeps, and whom it tells when it is over.
struct AsyncCall {
  std::vector<PythonOwner> keep;  // the session, and arrays that are read where they are
  PythonOwner callback, user_data;
};

void tell(const AsyncCall& call, AsyncRun run) {
  if (!interpreter_runs()) return;
  nb::gil_scoped_acquire lock;
  const nb::handle callback(call.callback.object);
  try {
    const Status status = run.wait();
    nb::list results;
    for (const Value& v : run.outputs())
      if (status.ok()) results.append(to_python(v));
    callback(results, nb::handle(call.user_data.object), text({status.message().data(), status.message().size()}));
  } catch (nb::python_error& e) {
    e.restore();
    PyErr_WriteUnraisable(callback.ptr());
  }
}

void run_async(nb::handle session, nb::handle names, nb::dict inputs, nb::handle callback, nb::handle user_data,
               const CancelFlag* cancel) {
  auto& self = nb::cast<PythonSession&>(session);
  auto call = std::make_shared<AsyncCall>(AsyncCall{{}, PythonOwner(callback), PythonOwner(user_data)});
  call->keep.emplace_back(session);
  AsyncRequest request;
  request.options = {
      cancel ? *cancel : CancelFlag::never(), {}, self.session->options().profiling ? &self.profile : nullptr};
  Call fed;
  for (nb::handle name : names) request.output_names.emplace_back(fed.name(name));
  each_input(self, inputs, &fed,
             [&](std::string_view name, Value value) { request.feeds.emplace_back(name, std::move(value)); });
  for (const nb::object& array : fed.feeding.keep) call->keep.emplace_back(array);
  Status started;
  {
    nb::gil_scoped_release release;
    started =
        self.session->run_async(std::move(request), [call](AsyncRun run) { tell(*call, std::move(run)); }).status();
  }
  check(started, During::run);
}

// The caller (Python) owns it.
PythonSession* finish_load(StatusOr<std::unique_ptr<Session>> loaded) {
  auto self = std::make_unique<PythonSession>();
  self->session = check(std::move(loaded), During::load);
  return self.release();
}

PythonSession* load_path(nb::bytes file, const SessionOptions& options) {
  const std::string path(file.c_str(), file.size());
  StatusOr<std::unique_ptr<Session>> loaded;
  {
    nb::gil_scoped_release release;
    loaded = Session::load(path, options);
  }
  if (!loaded.ok() && absl::IsNotFound(loaded.status()) && access(path.c_str(), F_OK) != 0)
    raise_named("NoSuchFile", {loaded.status().message().data(), loaded.status().message().size()});
  return finish_load(std::move(loaded));
}

PythonSession* load_bytes(nb::bytes model, const SessionOptions& options) {
  StatusOr<std::unique_ptr<Session>> loaded;
  const std::string_view bytes(model.c_str(), model.size());
  BufferRef owner = hold(PythonOwner(model));
  {
    nb::gil_scoped_release release;
    loaded = Session::load_bytes(bytes, std::move(owner), options);
  }
  return finish_load(std::move(loaded));
}

// (name, type, shape, has_default): dims are numbers, names or None, as the model declares them.
nb::list describe(const std::vector<NodeArg>& args) {
  nb::list out;
  for (const NodeArg& a : args) {
    nb::list shape;
    for (const Dim& d : a.shape.dims) {
      if (d.is_known()) {
        shape.append(d.value());
      } else if (d.is_symbolic()) {
        shape.append(text(to_string(d)));
      } else {
        shape.append(nb::none());
      }
    }
    out.append(nb::make_tuple(exact_text(a.name), to_string(a.type), shape, a.has_default));
  }
  return out;
}

nb::dict metadata(const PythonSession& self) {
  const ModelInfo& info = self.session->info();
  nb::dict custom, opsets, out;
  for (const auto& [key, value] : info.metadata) custom[text(key)] = text(value);
  for (const OpsetImport& o : info.opsets) opsets[text(o.domain)] = o.version;
  out["custom_metadata_map"] = custom;
  out["opsets"] = opsets;
  out["ir_version"] = info.ir_version;
  out["producer_name"] = text(info.producer_name);
  out["producer_version"] = text(info.producer_version);
  out["domain"] = text(info.domain);
  out["description"] = text(info.doc_string);
  out["graph_name"] = text(info.graph_name);
  out["version"] = info.model_version;
  return out;
}

nb::dict summary(const PythonSession& self) {
  const SessionSummary s = self.session->summary();
  nb::dict out;
  out["nodes_in_file"] = s.nodes_in_file;
  out["nodes"] = s.nodes;
  out["lanes"] = s.lanes;
  out["planned"] = s.planned;
  out["naive"] = s.naive;
  out["lower_bound"] = s.lower_bound;
  out["peak"] = s.peak;
  out["weights_mapped"] = s.weights_mapped;
  out["weights_packed"] = s.weights_packed;
  out["weights_copied"] = s.weights_copied;
  out["load_ms"] = s.load_ms;
  out["first_run_ms"] = s.first_run_ms;
  out["last_run_ms"] = s.last_run_ms;
  out["runs"] = s.runs;
  out["plan_hits"] = s.plans.hits;
  out["plan_misses"] = s.plans.misses;
  out["plan_evicted"] = s.plans.evicted;
  out["input_copies"] = self.input_copies.load();
  out["input_copied_bytes"] = self.input_copied_bytes.load();
  return out;
}

nb::dict dict_of(const MemoryStatistics& statistics) {
  nb::dict out;
  for (const auto& [key, bytes] : named(statistics)) out[nb::str(key.c_str())] = bytes;
  return out;
}

nb::dict memory_report(const PythonSession& self) {
  const MemoryReport report = self.session->memory_report();
  nb::list holders;
  for (const MemoryHolder& h : report.holders) {
    nb::dict d;
    d["value"] = text(h.value);
    d["node"] = text(h.node);
    d["role"] = name(h.role);
    d["bytes"] = h.bytes;
    d["buffers"] = h.buffers;
    holders.append(d);
  }
  nb::dict out, outside;
  for (const auto& [what, bytes] : report.outside) outside[nb::str(what.c_str())] = bytes;
  out["session"] = dict_of(report.session);
  out["process"] = dict_of(report.process);
  out["least_limit"] = report.least;
  out["unplanned_values"] = report.unplanned_values;
  out["holders"] = holders;
  out["outside"] = outside;
  out["text"] = text(to_string(report));
  return out;
}

int64_t trim(PythonSession& self, int64_t target) {
  nb::gil_scoped_release release;  // memory that comes from a caller may want the lock to go
  return self.session->trim(target);
}

nb::dict stages(const PythonSession& self) {
  const PipelineReport& report = self.session->report();
  nb::list records, journal, placements;
  for (const StageRecord& r : report.stages) {
    nb::dict d;
    d["stage"] = name(r.stage);
    d["ms"] = r.ms;
    d["nodes_before"] = r.nodes_before;
    d["nodes_after"] = r.nodes_after;
    d["note"] = r.note;
    records.append(d);
  }
  for (const JournalEntry& e : report.journal) {
    nb::dict d;
    d["number"] = e.number;
    d["rule"] = e.rule;
    d["place"] = text(e.place);
    d["applied"] = e.applied;
    d["reason"] = text(e.reason);
    journal.append(d);
  }
  for (const NodePlacement& p : report.partition.placements) {
    nb::dict d, refused;
    for (const auto& [provider, reason] : p.refused) refused[text(provider)] = text(reason);
    d["node"] = text(p.node);
    d["operator"] = text(p.op);
    d["provider"] = p.provider;
    d["reason"] = text(p.reason);
    d["refused"] = refused;
    placements.append(d);
  }
  nb::dict out;
  out["stages"] = records;
  out["journal"] = journal;
  out["placements"] = placements;
  return out;
}

// shapes: one list of numbers an input, in the order of the model (those with defaults included); or empty.
nb::object plan(const PythonSession& self, const std::vector<std::vector<int64_t>>& shapes, bool json) {
  std::vector<Dims> dims;
  for (const auto& s : shapes) dims.emplace_back(s.begin(), s.end());
  StatusOr<std::shared_ptr<const CompiledProgram>> compiled;
  {
    nb::gil_scoped_release release;
    compiled = self.session->plan_for(dims);
  }
  const auto program = check(std::move(compiled), During::run);
  const PreparedGraph& graph = self.session->prepared();
  return text(json ? plan_json(graph, *program) : plan_text(graph, *program));
}

// (name, step, depth, begin and end in ns of the steady clock, thread) of the steps that ran since the last call.
nb::list take_profile(PythonSession& self) {
  nb::list out;
  for (const ProfileRecorder::Entry& e : self.profile.take())
    out.append(nb::make_tuple(text(e.name), e.step, e.depth, e.begin_ns, e.end_ns, e.thread));
  return out;
}

void bind_options(nb::module_& m) {
  nb::class_<CancelFlag>(m, "CancelFlag", "Asks runs to stop.")
      .def(nb::init<>())
      .def("cancel", &CancelFlag::cancel)
      .def("reset", &CancelFlag::reset)
      .def("cancelled", &CancelFlag::cancelled);
  nb::class_<SessionOptions>(m, "Options", "What a session is made with.")
      .def(nb::init<>())
      .def_prop_rw(
          "optimization_level", [](const SessionOptions& o) { return static_cast<int>(o.optimization_level); },
          [](SessionOptions& o, int level) { o.optimization_level = static_cast<OptimizationLevel>(level); })
      .def_prop_rw(
          "plan_packed", [](const SessionOptions& o) { return o.plan == PlanMode::packed; },
          [](SessionOptions& o, bool packed) { o.plan = packed ? PlanMode::packed : PlanMode::off; })
      .def("add_provider",
           [](SessionOptions& o, std::string name, std::map<std::string, std::string> options) {
             o.providers.push_back({name, options});
           })
      .def_rw("intra_op_threads", &SessionOptions::intra_op_threads)
      .def_rw("allow_fallback", &SessionOptions::allow_fallback)
      .def_rw("memory_limit", &SessionOptions::memory_limit)
      .def("set_retention",
           [](SessionOptions& o, int64_t execution, int64_t io, int64_t side) {
             o.retention = {execution, io, side};
           })
      .def_rw("idle_trim_ms", &SessionOptions::idle_trim_ms)
      .def_rw("plan_cache_capacity", &SessionOptions::plan_cache_capacity)
      .def_rw("fold_budget", &SessionOptions::fold_budget)
      .def_rw("rewrite_limit", &SessionOptions::rewrite_limit)
      .def_rw("disabled_rewrites", &SessionOptions::disabled_rewrites)
      .def_rw("free_dimensions", &SessionOptions::free_dimensions)
      .def_rw("max_dimensions", &SessionOptions::max_dimensions)
      .def("set_paths",
           [](SessionOptions& o, nb::bytes optimized_model, nb::bytes external_data) {
             o.optimized_model_path.assign(optimized_model.c_str(), optimized_model.size());
             o.external_data_folder.assign(external_data.c_str(), external_data.size());
           })
      .def_rw("validate_plans", &SessionOptions::validate_plans)
      .def_rw("profiling", &SessionOptions::profiling)
      .def_rw("config", &SessionOptions::config);
}

void bind_session(nb::module_& m) {
  nb::class_<PythonSession>(m, "Session", "A model that is ready to run.")
      .def("run", &run, nb::arg("names"), nb::arg("inputs"), nb::arg("cancel").none())
      .def("run_values", &run_values, nb::arg("names"), nb::arg("inputs"), nb::arg("bound"), nb::arg("cancel").none())
      .def("run_async", &run_async, nb::arg("names"), nb::arg("inputs"), nb::arg("callback"),
           nb::arg("user_data").none(), nb::arg("cancel").none())
      .def("value_for_input", &value_for_input)
      .def("value_of_shape", &session_value)
      .def("inputs", [](const PythonSession& s) { return describe(s.session->inputs()); })
      .def("outputs", [](const PythonSession& s) { return describe(s.session->outputs()); })
      .def("providers", [](const PythonSession& s) { return s.session->providers(); })
      .def("metadata", &metadata)
      .def("summary", &summary)
      .def("memory_stats", [](const PythonSession& s) { return dict_of(s.session->memory_statistics()); })
      .def("memory_report", &memory_report)
      .def("trim", &trim)
      .def("set_memory_limit",
           [](PythonSession& s, int64_t bytes) { check(s.session->set_memory_limit(bytes), During::run); })
      .def("set_retention",
           [](PythonSession& s, int64_t execution, int64_t io, int64_t side) {
             check(s.session->set_retention({execution, io, side}), During::run);
           })
      .def("stages", &stages)
      .def("plan", &plan)
      .def("take_profile", &take_profile);
  m.def("load_path", &load_path);
  m.def("load_bytes", &load_bytes);
  m.def("plan_page", [](const std::string& title, const std::string& json) { return plan_page(title, json); });
}

}  // namespace
}  // namespace forethought::python

NB_MODULE(_core, m) {
  using namespace forethought;
  using namespace forethought::python;
  nb::set_leak_warnings(false);  // arrays that live until the interpreter ends are no leak
  m.attr("version") = FORETHOUGHT_VERSION;
  // While the interpreter still runs: threads that are in a callback could not come back to it later.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    const nb::gil_scoped_release release;
    Runner::close_all();
  }));
  init_convert(m);
  bind_options(m);
  bind_values(m);
  bind_session(m);
  m.def("memory_stats", [] { return dict_of(MemoryBudget::process()->statistics()); });
  m.def("set_memory_limit", [](int64_t bytes) { check(set_process_memory_limit(bytes), During::run); });
  m.def("set_log_severity", [](int severity) { set_log_severity(static_cast<Severity>(severity)); });
  m.def("log_severity", [] { return static_cast<int>(log_severity()); });
}
