// The public session and prepared runs, on the inner session.
#include "forethought/session.h"

#include <algorithm>
#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "api/rep.h"
#include "graph/schema/schema.h"

namespace forethought::v1 {

struct Session::Rep {
  std::unique_ptr<::forethought::Session> session;
  std::vector<Argument> inputs, outputs;
  Metadata metadata;
};

struct PreparedRun::Rep {
  std::shared_ptr<Session::Rep> session;
  std::vector<::forethought::Value> inputs;
  std::vector<::forethought::Value> bound;    // none where the run takes memory of its own
  std::vector<::forethought::Value> outputs;  // of the last run
  RunOptions options;
};

namespace {

Argument public_argument(const NodeArg& a) {
  Argument p;
  p.name = a.name;
  p.type = to_string(a.type);
  p.optional = a.has_default || a.type.kind() == ValueType::Kind::optional;
  if (!a.type.is_tensor()) return p;
  p.element_type = static_cast<ElementType>(a.type.dtype());
  p.has_rank = a.shape.has_rank;
  for (const Dim& d : a.shape.dims) {
    Dimension& dim = p.shape.emplace_back();
    if (d.is_known()) dim.size = d.value();
    if (d.is_symbolic()) dim.symbol = to_string(d);
  }
  return p;
}

Metadata public_metadata(const ModelInfo& info) {
  Metadata m;
  m.producer_name = info.producer_name;
  m.producer_version = info.producer_version;
  m.domain = info.domain;
  m.description = info.doc_string;
  m.graph_name = info.graph_name;
  m.model_version = info.model_version;
  m.ir_version = info.ir_version;
  for (const OpsetImport& o : info.opsets) m.opsets[o.domain] = o.version;
  m.custom.insert(info.metadata.begin(), info.metadata.end());
  return m;
}

::forethought::StatusOr<::forethought::SessionOptions> inner_options(const SessionOptions& o) {
  ::forethought::SessionOptions in;
  switch (o.level) {
    case OptimizationLevel::disabled:
    case OptimizationLevel::basic:
    case OptimizationLevel::extended:
    case OptimizationLevel::all:
      in.optimization_level = static_cast<::forethought::OptimizationLevel>(o.level);
      break;
    default:
      return invalid(absl::StrCat(static_cast<int>(o.level), " is no optimisation level"));
  }
  if (o.threads < 0 || o.threads > 1024)
    return invalid(absl::StrCat(o.threads, " threads cannot be had; 0 to 1024 can"));
  if (o.memory_limit < 0) return invalid("the memory limit is negative; 0 stands for none");
  in.intra_op_threads = o.threads;
  in.plan = o.pack_memory ? PlanMode::packed : PlanMode::off;
  for (const std::string& p : o.providers) in.providers.push_back({p, {}});
  in.allow_fallback = o.allow_fallback;
  in.memory_limit = o.memory_limit;
  in.plan_cache_capacity = o.plan_cache;
  in.free_dimensions = o.dimensions;
  in.external_data_folder = o.external_data_folder;
  in.optimized_model_path = o.save_optimized_to;
  return in;
}

// What libraries throw ends here, as an error like another.
template <typename F>
Status guarded(F&& f) {
  try {
    return public_status(f());
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, "the system has no more memory");
  } catch (const std::exception& e) {
    return Status(ErrorCode::internal, e.what());
  }
}

std::shared_ptr<Session::Rep> wrap(std::unique_ptr<::forethought::Session> session) {
  auto rep = std::make_shared<Session::Rep>();
  for (const NodeArg& a : session->inputs()) rep->inputs.push_back(public_argument(a));
  for (const NodeArg& a : session->outputs()) rep->outputs.push_back(public_argument(a));
  rep->metadata = public_metadata(session->info());
  rep->session = std::move(session);
  return rep;
}

Status find(const std::vector<Argument>& arguments, std::string_view name, const char* what, size_t* index) {
  std::vector<std::string_view> names;
  std::string list;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name == name) {
      *index = i;
      return Status();
    }
    names.push_back(arguments[i].name);
    absl::StrAppend(&list, i ? ", '" : "'", arguments[i].name, "'");
  }
  const std::string near(nearest_name(name, names));
  return Status(ErrorCode::invalid_argument,
                absl::StrCat("the model has no ", what, " '", std::string(name), "'",
                             near.empty() ? "" : absl::StrCat("; did you mean '", near, "'?"), " It has: ", list));
}

}  // namespace

Cancel::Cancel() : rep_(std::make_shared<Rep>()) {}
void Cancel::cancel() { rep_->flag.cancel(); }
void Cancel::reset() { rep_->flag.reset(); }

Result<Session> Session::load(const std::string& path, const SessionOptions& options) {
  std::shared_ptr<Rep> rep;
  const Status s = guarded([&]() -> ::forethought::Status {
    ASSIGN_OR_RETURN(const auto in, inner_options(options));
    ASSIGN_OR_RETURN(auto session, ::forethought::Session::load(path, in));
    rep = wrap(std::move(session));
    return absl::OkStatus();
  });
  if (!s.ok()) return s;
  return Session(std::move(rep));
}

Result<Session> Session::load_bytes(std::span<const std::byte> model, const SessionOptions& options,
                                    std::shared_ptr<void> owner) {
  std::shared_ptr<Rep> rep;
  const Status s = guarded([&]() -> ::forethought::Status {
    ASSIGN_OR_RETURN(const auto in, inner_options(options));
    const std::string_view bytes(reinterpret_cast<const char*>(model.data()), model.size());
    BufferRef keeper = owner ? hold(std::move(owner)) : BufferRef();
    ASSIGN_OR_RETURN(auto session, ::forethought::Session::load_bytes(bytes, std::move(keeper), in));
    rep = wrap(std::move(session));
    return absl::OkStatus();
  });
  if (!s.ok()) return s;
  return Session(std::move(rep));
}

const std::vector<Argument>& Session::inputs() const { return rep_->inputs; }
const std::vector<Argument>& Session::outputs() const { return rep_->outputs; }
const Metadata& Session::metadata() const { return rep_->metadata; }
const std::vector<std::string>& Session::providers() const { return rep_->session->providers(); }

Figures Session::figures() const {
  const SessionSummary s = rep_->session->summary();
  Figures f;
  f.nodes_in_file = s.nodes_in_file;
  f.nodes = s.nodes;
  f.naive_bytes = s.naive;
  f.lower_bound_bytes = s.lower_bound;
  f.peak_bytes = s.peak;
  f.mapped_weight_bytes = s.weights_mapped;
  f.packed_weight_bytes = s.weights_packed;
  f.load_ms = s.load_ms;
  f.first_run_ms = s.first_run_ms;
  f.last_run_ms = s.last_run_ms;
  f.runs = s.runs;
  return f;
}

Result<std::vector<Value>> Session::run(std::span<const NamedValue> inputs, std::span<const std::string_view> outputs,
                                        const Cancel* cancel) const {
  std::vector<Value> results;
  const Status s = guarded([&]() -> ::forethought::Status {
    std::vector<::forethought::NamedValue> feeds;
    for (const auto& [name, value] : inputs)
      if (!value.is_absent()) feeds.push_back({name, inner_value(value)});
    std::vector<::forethought::Value> out(outputs.empty() ? rep_->outputs.size() : outputs.size());
    RunOptions options;
    if (cancel) options.cancel = cancel->rep()->flag;
    RETURN_IF_ERROR(rep_->session->run(feeds, outputs, out, options));
    for (::forethought::Value& v : out) results.push_back(public_value(std::move(v)));
    return absl::OkStatus();
  });
  if (!s.ok()) return s;
  return results;
}

PreparedRun Session::prepare() const {
  auto rep = std::make_unique<PreparedRun::Rep>();
  rep->session = rep_;
  rep->inputs.resize(rep_->inputs.size());
  rep->bound.resize(rep_->outputs.size());
  rep->outputs.resize(rep_->outputs.size());
  return PreparedRun(std::move(rep));
}

PreparedRun::PreparedRun(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
PreparedRun::PreparedRun(PreparedRun&&) noexcept = default;
PreparedRun& PreparedRun::operator=(PreparedRun&&) noexcept = default;
PreparedRun::~PreparedRun() = default;

Status PreparedRun::bind_input(std::string_view name, const Value& value) {
  size_t i = 0;
  if (Status s = find(rep_->session->inputs, name, "input", &i); !s.ok()) return s;
  rep_->inputs[i] = inner_value(value);
  return Status();
}

Status PreparedRun::bind_output(std::string_view name, const Value& value) {
  size_t i = 0;
  if (Status s = find(rep_->session->outputs, name, "output", &i); !s.ok()) return s;
  const Argument& want = rep_->session->outputs[i];
  if (!value.is_absent() && (value.kind() != ValueKind::tensor || value.element_type() != want.element_type))
    return Status(
        ErrorCode::invalid_argument,
        absl::StrCat("output '", std::string(name), "' is ", want.type, "; what is bound to it is ",
                     value.kind() == ValueKind::tensor ? absl::StrCat("tensor(", v1::name(value.element_type()), ")")
                                                       : "no tensor"));
  rep_->bound[i] = inner_value(value);
  return Status();
}

Status PreparedRun::run(const Cancel* cancel) {
  // Memory of the last run that nobody holds any more goes back before this one takes its own.
  std::copy(rep_->bound.begin(), rep_->bound.end(), rep_->outputs.begin());
  return guarded([&]() -> ::forethought::Status {
    if (!cancel) return rep_->session->session->run_ordered(rep_->inputs, rep_->outputs, rep_->options);
    RunOptions options;
    options.cancel = cancel->rep()->flag;
    return rep_->session->session->run_ordered(rep_->inputs, rep_->outputs, options);
  });
}

Value PreparedRun::output(size_t index) const {
  return index < rep_->outputs.size() ? public_value(rep_->outputs[index]) : Value();
}

Value PreparedRun::output(std::string_view name) const {
  size_t i = 0;
  return find(rep_->session->outputs, name, "output", &i).ok() ? output(i) : Value();
}

}  // namespace forethought::v1
