// The module forethought._core: sessions, values and options, for the Python files of the package to build upon.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>

#include "allocator.h"
#include "base/log.h"
#include "convert.h"
#include "errors.h"
#include "runs.h"
#include "session/bounds.h"
#include "session/counts.h"
#include "session/memory_report.h"
#include "session/plan_report.h"
#include "session/session.h"
#include "threading/runner.h"
#include "values.h"

namespace nb = nanobind;

namespace forethought::python {
namespace {

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
  std::error_code ignored;
  if (!loaded.ok() && !is_wrong_option(loaded.status()) && !std::filesystem::is_regular_file(path, ignored))
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
        shape.append(exact_text(to_string(d)));
      } else {
        shape.append(nb::none());
      }
    }
    out.append(nb::make_tuple(exact_text(a.name), to_string(a.type), shape, a.has_default));
  }
  return out;
}

// The inputs, with their symbols of the largest size that bounds allow.
nb::list largest_inputs(const PythonSession& self) {
  const Session& session = *self.session;
  const auto bounds = check(dimension_bounds(session.options(), session.info(), session.inputs()), During::run);
  std::vector<NodeArg> args = session.inputs();
  for (NodeArg& a : args) put_numbers(bounds, &a.shape);
  return describe(args);
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
  for (const auto& [name, count] : counts(s)) out[text(name)] = count;
  out["input_copies"] = self.input_copies.load();
  out["input_copied_bytes"] = self.input_copied_bytes.load();
  return out;
}

nb::dict dict_of(const MemoryStatistics& statistics) {
  nb::dict out;
  for (const auto& [key, bytes] : named(statistics)) out[nb::str(key.c_str())] = bytes;
  return out;
}

std::shared_ptr<const CompiledProgram> program_of(const PythonSession& self, nb::list shapes) {
  std::vector<Dims> dims;
  for (nb::handle s : shapes) dims.push_back(dims_of(s));
  StatusOr<std::shared_ptr<const CompiledProgram>> compiled;
  {
    nb::gil_scoped_release release;
    compiled = self.session->plan_for(dims);
  }
  return check(std::move(compiled), During::run);
}

// shapes: as for plan(), or None for those seen last.
nb::dict memory_report(const PythonSession& self, nb::object shapes) {
  const MemoryReport report = shapes.is_none()
                                  ? self.session->memory_report()
                                  : self.session->memory_report(*program_of(self, nb::cast<nb::list>(shapes)));
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
  out["least_limit"] = least_limit(report);
  out["unplanned_values"] = report.unplanned_values;
  out["unplanned_most"] = report.unplanned_most;
  nb::list unbounded;
  for (const std::string& what : report.unbounded) unbounded.append(text(what));
  out["unbounded"] = unbounded;
  nb::dict caps;
  for (const MemoryCap& c : report.caps) {
    nb::dict d;
    d["unit"] = text(c.unit);
    d["most"] = c.most;
    d["kept"] = c.kept;
    d["follows"] = text(c.follows);
    caps[nb::str(c.name.c_str())] = d;
  }
  out["caps"] = caps;
  out["holders"] = holders;
  out["outside"] = outside;
  out["weights"] = text(report.weights);
  out["text"] = text(to_string(report));
  return out;
}

// What gives memory back: that of a caller may want the lock to go.
template <typename F>
void check_unlocked(F&& f) {
  Status status;
  {
    nb::gil_scoped_release release;
    status = f();
  }
  check(status, During::run);
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
nb::object plan(const PythonSession& self, nb::list shapes, bool json) {
  const auto program = program_of(self, shapes);
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
          "plan", [](const SessionOptions& o) { return std::string(name(o.plan)); },
          [](SessionOptions& o, nb::str mode) {
            nb::object keep;
            const std::string_view asked = bytes_of(mode, &keep);
            const auto known = plan_mode_from(asked);
            if (!known) throw nb::value_error(("there is no plan mode '" + std::string(asked) + "'").c_str());
            o.plan = *known;
          })
      .def("add_provider",
           [](SessionOptions& o, nb::str name, nb::dict options) {
             nb::object keep;
             o.providers.push_back({std::string(bytes_of(name, &keep)), texts_of(options)});
           })
      .def_rw("intra_op_threads", &SessionOptions::intra_op_threads)
      .def_rw("allow_fallback", &SessionOptions::allow_fallback)
      .def_rw("memory_limit", &SessionOptions::memory_limit)
      .def_rw("device_memory_limit", &SessionOptions::device_memory_limit)
      .def("set_retention",
           [](SessionOptions& o, int64_t execution, int64_t io, int64_t side) {
             o.retention = {execution, io, side};
           })
      .def(
          "set_allocators",
          [](SessionOptions& o, nb::object execution, nb::object io) {
            o.execution_source = source_of(std::move(execution));
            o.io_source = source_of(std::move(io));
          },
          nb::arg("execution").none(), nb::arg("io").none())
      .def_rw("idle_trim_ms", &SessionOptions::idle_trim_ms)
      .def_rw("plan_cache_capacity", &SessionOptions::plan_cache_capacity)
      .def_rw("fold_budget", &SessionOptions::fold_budget)
      .def_rw("rewrite_limit", &SessionOptions::rewrite_limit)
      .def("disable_rewrites",
           [](SessionOptions& o, nb::list names) {
             nb::object keep;
             for (nb::handle name : names) o.disabled_rewrites.emplace_back(bytes_of(name, &keep));
           })
      .def("set_dimensions",
           [](SessionOptions& o, nb::dict free, nb::dict most) {
             nb::object keep;
             for (auto [name, n] : free) o.free_dimensions[std::string(bytes_of(name, &keep))] = nb::cast<int64_t>(n);
             for (auto [name, n] : most) o.max_dimensions[std::string(bytes_of(name, &keep))] = nb::cast<int64_t>(n);
           })
      .def("set_paths",
           [](SessionOptions& o, nb::bytes optimized_model, nb::bytes external_data) {
             o.optimized_model_path.assign(optimized_model.c_str(), optimized_model.size());
             o.external_data_folder.assign(external_data.c_str(), external_data.size());
           })
      .def_rw("validate_plans", &SessionOptions::validate_plans)
      .def_rw("profiling", &SessionOptions::profiling)
      .def("set_config", [](SessionOptions& o, nb::dict entries) {
        for (auto& [key, value] : texts_of(entries)) o.config[key] = std::move(value);
      });
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
      .def("largest_inputs", &largest_inputs)
      .def("outputs", [](const PythonSession& s) { return describe(s.session->outputs()); })
      .def("providers", [](const PythonSession& s) { return s.session->providers(); })
      .def("metadata", &metadata)
      .def("summary", &summary)
      .def("memory_stats",
           [](const PythonSession& s) {
             nb::dict out = dict_of(s.session->memory_statistics());
             for (const MemoryCap& c : s.session->memory_caps())
               if (c.unit == "bytes") out[nb::str(c.name.c_str())] = c.most;
             return out;
           })
      .def("memory_report", &memory_report, nb::arg("shapes").none())
      .def("trim", &trim)
      .def("set_memory_limit",
           [](PythonSession& s, int64_t bytes) { check_unlocked([&] { return s.session->set_memory_limit(bytes); }); })
      .def("set_retention",
           [](PythonSession& s, int64_t execution, int64_t io, int64_t side) {
             check_unlocked([&] { return s.session->set_retention({execution, io, side}); });
           })
      .def("stages", &stages)
      .def("plan", &plan)
      .def("take_profile", &take_profile);
  m.def("load_path", &load_path);
  m.def("load_bytes", &load_bytes);
  m.def("plan_page", [](nb::str title, nb::str json) {
    nb::object keep_title, keep_json;
    return text(plan_page(bytes_of(title, &keep_title), bytes_of(json, &keep_json)));
  });
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
  translate_bad_alloc();
  init_convert(m);
  bind_options(m);
  bind_values(m);
  bind_session(m);
  m.def("memory_stats", [] { return dict_of(process_memory_statistics()); });
  m.def("set_memory_limit", [](int64_t bytes) { check_unlocked([&] { return set_process_memory_limit(bytes); }); });
  m.def("set_device_memory_limit", [](int64_t bytes) { check(set_process_device_memory_limit(bytes), During::run); });
  m.def("set_log_severity", [](int severity) { set_log_severity(static_cast<Severity>(severity)); });
  m.def("log_severity", [] { return static_cast<int>(log_severity()); });
}
