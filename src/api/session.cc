// The public session and prepared runs, on the inner session.
#include "forethought/session.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "api/rep.h"
#include "graph/schema/schema.h"

namespace forethought::v1 {

struct PreparedRun::Rep {
  std::shared_ptr<Session::Rep> session;
  std::vector<::forethought::Value> inputs;
  std::vector<::forethought::Value> bound;    // none where the run takes memory of its own
  std::vector<::forethought::Value> outputs;  // of the last run
  struct Donation {
    size_t output, input;
    // Bound by the caller after the last run: the next takes these as they are, and turns nothing into them.
    bool new_output = false, new_input = false;
  };
  std::vector<Donation> donations;
  std::vector<bool> read_only;  // by input: what is bound there must not be written
  bool ran = false;             // the outputs are a run's, and were not donated yet
  RunOptions options;

  Status donate();
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

::forethought::SessionOptions inner_options(const SessionOptions& o) {
  ::forethought::SessionOptions in;
  in.optimization_level = static_cast<::forethought::OptimizationLevel>(o.level);
  in.intra_op_threads = o.threads;
  in.plan = static_cast<::forethought::PlanMode>(o.plan);
  for (const std::string& p : o.providers) in.providers.push_back({p, {}});
  in.allow_fallback = o.allow_fallback;
  in.memory_limit = o.memory_limit;
  in.device_memory_limit = o.device_memory_limit;
  in.retention = inner_caps(o.retention);
  in.idle_trim_ms = o.idle_trim_ms;
  in.execution_source = inner_source(o.execution_allocator);
  in.io_source = inner_source(o.io_allocator);
  in.plan_cache_capacity = o.plan_cache;
  in.free_dimensions = o.dimensions;
  in.max_dimensions = o.max_dimensions;
  in.config = o.config;
  in.external_data_folder = o.external_data_folder;
  in.optimized_model_path = o.save_optimized_to;
  return in;
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

std::string text_of(const Argument& a) {
  std::string text = a.type;
  if (!a.has_rank) return text;
  text += "[";
  for (size_t d = 0; d < a.shape.size(); ++d)
    absl::StrAppend(&text, d ? "," : "",
                    a.shape[d].size >= 0        ? absl::StrCat(a.shape[d].size)
                    : a.shape[d].symbol.empty() ? "?"
                                                : a.shape[d].symbol);
  return text + "]";
}

bool fits(const Argument& want, const Value& value) {
  if (value.kind() != ValueKind::tensor || value.element_type() != want.element_type) return false;
  if (!want.has_rank) return true;
  return std::equal(want.shape.begin(), want.shape.end(), value.shape().begin(), value.shape().end(),
                    [](const Dimension& d, int64_t n) { return d.size < 0 || d.size == n; });
}

// What can be said of memory for an output before a run.
Status check_bound(const Argument& want, const Value& value) {
  if (value.is_absent()) return Status();
  const auto refuse = [&](std::string_view why) {
    return Status(ErrorCode::invalid_argument,
                  absl::StrCat("the memory bound to output '", want.name, "' ", std::string(why)));
  };
  if (!fits(want, value))
    return refuse(
        absl::StrCat("is ",
                     value.kind() == ValueKind::tensor
                         ? absl::StrCat("tensor(", v1::name(value.element_type()), ")", to_string(value.shape()))
                         : "no tensor",
                     "; the output is ", text_of(want), ": bind memory of that type and shape"));
  if (!value.strides().empty()) return refuse("has strides; bind memory that is contiguous");
  if (value.read_only()) return refuse("is read-only; bind memory that can be written");
  if (value.copied_bytes() > 0)
    return refuse(
        "is a copy, since its source has strides or is not aligned: results would not reach the source; bind "
        "memory that is contiguous and aligned");
  return Status();
}

}  // namespace

Cancel::Cancel() : rep_(std::make_shared<Rep>()) {}
void Cancel::cancel() { rep_->flag.cancel(); }
void Cancel::reset() { rep_->flag.reset(); }

Result<Session> Session::load(const std::string& path, const SessionOptions& options) {
  std::shared_ptr<Rep> rep;
  const Status s = guarded([&]() -> ::forethought::Status {
    const auto in = inner_options(options);
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
    const auto in = inner_options(options);
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
  f.plan_hits = s.plans.hits;
  f.plan_misses = s.plans.misses;
  f.plan_evicted = s.plans.evicted;
  f.plan_inside = s.plans.inside;
  f.plan_by_formula = s.plans.by_formula;
  f.plan_by_order = s.plans.by_order;
  f.plan_steps = s.plans.steps;
  f.plan_steps_kept = s.plans.steps_kept;
  f.plan_steps_as_others = s.plans.steps_as_others;
  f.instances = s.instances.size;
  f.instance_bytes = s.instances.bytes;
  f.instance_hits = s.instances.hits;
  f.instances_made = s.instances.misses;
  f.instances_evicted = s.instances.evicted;
  f.weights_streamed = s.weights_streamed;
  f.weights_window = s.weights_window;
  f.packs_left_out = s.packs_left_out;
  f.packs_read = s.packs_read;
  f.packs_written = s.packs_written;
  return f;
}

Result<std::vector<Value>> Session::run(std::span<const NamedValue> inputs, std::span<const std::string_view> outputs,
                                        const Cancel* cancel) const {
  std::vector<Value> results;
  const Status s = guarded([&]() -> ::forethought::Status {
    std::vector<::forethought::NamedValue> feeds;
    for (const auto& [name, value] : inputs) {
      if (!value.is_absent()) {
        feeds.push_back({name, inner_value(value)});
      } else if (size_t i = 0; find(rep_->inputs, name, "input", &i).ok() && !rep_->inputs[i].optional) {
        return invalid(absl::StrCat("the value given for input '", std::string(name),
                                    "' is absent: it was moved from, or never made"));
      }
    }
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
  rep->read_only.resize(rep_->inputs.size());
  return PreparedRun(std::move(rep));
}

PreparedRun::PreparedRun(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
PreparedRun::PreparedRun(PreparedRun&&) noexcept = default;
PreparedRun& PreparedRun::operator=(PreparedRun&&) noexcept = default;
PreparedRun::~PreparedRun() = default;

Status PreparedRun::bind_input(std::string_view name, const Value& value) try {
  size_t i = 0;
  if (Status s = find(rep_->session->inputs, name, "input", &i); !s.ok()) return s;
  rep_->inputs[i] = inner_value(value);
  rep_->read_only[i] = value.read_only();
  for (Rep::Donation& d : rep_->donations) d.new_input = d.new_input || d.input == i;
  return Status();
} catch (...) {
  return caught();
}

Status PreparedRun::bind_output(std::string_view name, const Value& value) try {
  size_t i = 0;
  if (Status s = find(rep_->session->outputs, name, "output", &i); !s.ok()) return s;
  if (Status s = check_bound(rep_->session->outputs[i], value); !s.ok()) return s;
  rep_->bound[i] = inner_value(value);
  for (Rep::Donation& d : rep_->donations) d.new_output = d.new_output || d.output == i;
  return Status();
} catch (...) {
  return caught();
}

Status PreparedRun::donate(std::string_view output, std::string_view input) try {
  size_t from = 0, to = 0;
  if (Status s = find(rep_->session->outputs, output, "output", &from); !s.ok()) return s;
  if (Status s = find(rep_->session->inputs, input, "input", &to); !s.ok()) return s;
  const Argument &out = rep_->session->outputs[from], &in = rep_->session->inputs[to];
  if (out.type != in.type)
    return Status(ErrorCode::invalid_argument,
                  absl::StrCat("output '", out.name, "' is ", out.type, " and cannot be input '", in.name,
                               "', which is ", in.type));
  for (const Rep::Donation& d : rep_->donations)
    if (d.output == from || d.input == to)
      return Status(ErrorCode::invalid_argument,
                    absl::StrCat("output '", rep_->session->outputs[d.output].name, "' is given to input '",
                                 rep_->session->inputs[d.input].name, "' already; one output goes to one input"));
  rep_->donations.push_back({from, to});
  return Status();
} catch (...) {
  return caught();
}

// Makes the last run's outputs inputs.
Status PreparedRun::Rep::donate() {
  const auto refuse = [&](const Donation& d, const char* what) {
    return Status(ErrorCode::invalid_argument, absl::StrCat("output '", session->outputs[d.output].name,
                                                            "' is bound to memory that is to change places "
                                                            "with that of input '",
                                                            session->inputs[d.input].name, "' after each run, ", what));
  };
  for (const Donation& d : donations) {
    const bool turns = ran && !d.new_input;
    if (bound[d.output].is_none() || (turns && d.new_output)) continue;
    if (inputs[d.input].is_none())
      return refuse(d, "to which nothing is bound: bind memory to the input, too, or the output to none");
    if (turns && read_only[d.input]) return refuse(d, "which is read-only: bind memory that can be written");
    if (turns && inputs[d.input].is_tensor() && !inputs[d.input].tensor().strides.empty())
      return refuse(d, "which has strides: bind memory that is contiguous");
  }
  for (Donation& d : donations) {
    if (ran && !d.new_input) {
      if (!bound[d.output].is_none() && !d.new_output) bound[d.output] = std::move(inputs[d.input]);
      inputs[d.input] = std::move(outputs[d.output]);
      read_only[d.input] = false;
    }
    d.new_input = d.new_output = false;
  }
  ran = false;
  return Status();
}

Status PreparedRun::run(const Cancel* cancel) {
  Status begun = guarded([&]() -> Status {
    if (Status s = rep_->donate(); !s.ok()) return s;
    // Memory of the last run that nobody holds any more goes back before this one takes its own.
    std::copy(rep_->bound.begin(), rep_->bound.end(), rep_->outputs.begin());
    return Status();
  });
  if (!begun.ok()) return begun;
  Status status = guarded([&]() -> ::forethought::Status {
    if (!cancel) return rep_->session->session->run_ordered(rep_->inputs, rep_->outputs, rep_->options);
    RunOptions options;
    options.cancel = cancel->rep()->flag;
    return rep_->session->session->run_ordered(rep_->inputs, rep_->outputs, options);
  });
  rep_->ran = status.ok();
  return status;
}

Value PreparedRun::output(size_t index) const {
  return index < rep_->outputs.size() ? public_value(rep_->outputs[index]) : Value();
}

Value PreparedRun::output(std::string_view name) const {
  size_t i = 0;
  return find(rep_->session->outputs, name, "output", &i).ok() ? output(i) : Value();
}

}  // namespace forethought::v1
