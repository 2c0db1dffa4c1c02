#include "session/source.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/thread_clock.h"

namespace forethought {
namespace {

// Elements of larger inputs are data, not shapes.
constexpr int64_t kMostElements = 16;

bool decides_shapes(const Value& v) {
  if (!v.is_tensor()) return false;
  const Tensor& t = v.tensor();
  return (t.dtype == DType::kInt64 || t.dtype == DType::kInt32) && t.dims.size() <= 1 && t.device.is_host() && t.data &&
         t.strides.empty() && t.elements() <= kMostElements;
}

constexpr int64_t kElements = -2;  // in keys: elements of inputs follow
constexpr int64_t kObject = -1;    // in keys: an input that is no tensor

constexpr int64_t kStrided = int64_t{1} << 32;  // in keys: added to the rank where strides follow the dims

// dtype, layout, rank, dims and strides of each input: exact, so two different sets of shapes never share a key.
void append_tensor(std::vector<int64_t>* key, DType dtype, std::span<const int64_t> dims,
                   std::span<const int64_t> strides = {}) {
  key->push_back(static_cast<int64_t>(dtype));
  key->push_back(static_cast<int64_t>(dims.size()) + (strides.empty() ? 0 : kStrided));
  key->insert(key->end(), dims.begin(), dims.end());
  key->insert(key->end(), strides.begin(), strides.end());
}

void append_elements(std::vector<int64_t>* key, const Tensor& t) {
  for (int64_t i = 0; i < t.elements(); ++i)
    key->push_back(t.dtype == DType::kInt64 ? t.as<int64_t>()[i] : t.as<int32_t>()[i]);
}

Effort effort_of(PlanMode mode, Effort wanted) {
  switch (mode) {
    case PlanMode::exact:
      return wanted == Effort::load ? Effort::exact : wanted;
    case PlanMode::slots:
      return Effort::slots;
    case PlanMode::off:
      return Effort::off;
    case PlanMode::packed:
      break;
  }
  return wanted;
}

}  // namespace

GraphSource::GraphSource(const PreparedGraph& graph, const Shared& shared)
    : graph_(graph), shared_(shared), programs_(shared.capacity) {
  lists_ = lists_of(graph);
  Shared for_bodies = shared;
  for_bodies.lanes = 1;
  for (const auto& [key, body] : graph.bodies) {
    auto child = std::make_unique<GraphSource>(*body, for_bodies);
    bodies_[key] = child.get();
    children_[key] = std::move(child);
  }
}

std::shared_ptr<const CompiledProgram> GraphSource::find(const Key& key) {
  std::shared_ptr<const CompiledProgram> found = programs_.find(key);
  if (found) return found;
  // A hit costs nothing, a miss a plan; without elements in the key late steps are resolved at each run instead.
  if (contents_.load(std::memory_order_relaxed) == Contents::keyed) {
    const ProgramCache::Counts counts = programs_.counts();
    if (counts.misses > 64 && counts.hits < counts.misses / 2)
      contents_.store(Contents::left_out, std::memory_order_release);
  }
  return nullptr;
}

void GraphSource::make_room() {
  const int64_t start = thread_cpu_ns();
  programs_.make_room();
  const int64_t took = thread_cpu_ns() - start;
  const std::lock_guard lock(mutex_);
  counts_.planning_ns += took;
}

// What formulas say must be what the rules say.
Status GraphSource::compare_with_rules(const FactTable& filled) const {
  FactTable inferred = seed_facts(*graph_.view);
  for (const ValueId v : graph_.view->inputs()) inferred[v] = filled[v];
  if (const Status s = infer_facts(*graph_.view, inferred); !s.ok())
    return internal(absl::StrCat("formulas gave sizes that the shape rules refuse: ", s.message()));
  for (uint32_t v = 0; v < filled.values.size(); ++v) {
    const ValueFact &a = filled.values[v], &b = inferred.values[v];
    if (!(a.type == b.type) || to_string(a.shape) != to_string(b.shape))
      return internal(absl::StrCat("value '", graph_.view->value(ValueId{v}).name, "' has by formula the shape ",
                                   to_string(a.shape), ", by the shape rules ", to_string(b.shape)));
  }
  return absl::OkStatus();
}

StatusOr<GraphSource::Inferred> GraphSource::infer(FactTable& facts, const CompiledProgram* like) {
  if (inferred_.fetch_add(1, std::memory_order_relaxed) > 0)
    made_formulas_.call([&] { formulas_ = std::make_unique<SizeFormulas>(*graph_.view); });
  SizeFormulas* const formulas = made_formulas_.done() ? formulas_.get() : nullptr;
  Inferred r;
  r.numbers = formulas ? formulas->numbers_for(facts) : std::nullopt;
  if (r.numbers) {
    r.resizes = like && like->resizable && std::ranges::all_of(*r.numbers, &Dim::is_known);
    if (!r.resizes || shared_.validate) formulas->fill(facts, *r.numbers);
    if (shared_.validate) RETURN_IF_ERROR(compare_with_rules(facts));
    return r;
  }
  RETURN_IF_ERROR(infer_facts(*graph_.view, facts));
  if (formulas) formulas->believe(facts);
  return r;
}

StatusOr<std::shared_ptr<const CompiledProgram>> GraphSource::compile_for(FactTable& facts, Effort effort,
                                                                          const Bindings& bound,
                                                                          std::span<const Value> inputs) {
  const int64_t start = thread_cpu_ns();
  Last last;
  std::shared_ptr<const PlanOrder> order;
  {
    const std::lock_guard lock(mutex_);
    order = plan_order_;
    last.program = last_.program;
    last.problem = std::move(last_.problem);
  }
  ASSIGN_OR_RETURN(const Inferred inferred, infer(facts, last.program.get()));
  CompileOptions o;
  o.workers = shared_.workers;
  o.effort = effort_of(shared_.plan, effort);
  o.validate = shared_.validate;
  o.share = shared_.share;
  o.lanes = shared_.lanes;
  o.region_bytes = region_bytes_.load(std::memory_order_relaxed);
  o.cache = shared_.instances;
  o.resolver = this;
  o.devices = shared_.devices;
  o.bound = bound;
  o.lent = inputs;
  o.lists = lists_;
  o.inside = bound_.get();
  o.inside_problem = &bound_problem_;
  o.spare_is_likes = last.problem != nullptr;
  std::unique_ptr<PlanProblem> spare = std::move(last.problem);
  if (!spare) spare = std::make_unique<PlanProblem>();
  o.like = last.program.get();
  if (inferred.numbers) o.formulas = {formulas_->places(), *inferred.numbers};
  o.resizes = inferred.resizes;
  o.order = order.get();
  o.spare = spare.get();
  auto compiled = compile(graph_, facts, bodies_, o);
  if (compiled.ok() && o.effort == Effort::replan && !(*compiled)->inside && !(*compiled)->by_order)
    keep_order(*spare, (*compiled)->plan);
  const int64_t took = thread_cpu_ns() - start;
  if (!compiled.ok()) return compiled.status();
  std::shared_ptr<CompiledProgram> p = *std::move(compiled);
  last = {p, std::move(spare)};
  std::lock_guard lock(mutex_);
  std::swap(last_, last);  // the old one goes without the lock
  counts_.planning_ns += took;
  counts_.values += static_cast<int64_t>(p->plan_values->size());
  counts_.inside += p->inside;
  counts_.by_formula += inferred.numbers.has_value();
  counts_.by_order += p->by_order;
  counts_.steps += static_cast<int64_t>(p->steps.size());
  counts_.steps_kept += p->steps_kept;
  counts_.steps_as_others += p->steps_as_others;
  return std::shared_ptr<const CompiledProgram>(std::move(p));
}

void GraphSource::keep_order(const PlanProblem& problem, const Plan& packed) {
  constexpr int kMostOrders = 8;
  {
    const std::lock_guard lock(mutex_);
    if (inferred_.load(std::memory_order_relaxed) < 2 || orders_ == kMostOrders) return;
    ++orders_;
  }
  std::shared_ptr<const PlanOrder> made = PlanOrder::of(problem, packed);
  const std::lock_guard lock(mutex_);
  if (made) plan_order_ = std::move(made);
}

void GraphSource::key_of(std::span<const Value> inputs, const Bindings& bound, Contents contents, Key* key) const {
  key->clear();
  for (const Value& v : inputs) {
    if (v.is_tensor()) {
      append_tensor(key, v.tensor().dtype, v.tensor().dims, v.tensor().strides);
    } else {
      key->push_back(kObject);
    }
  }
  // What comes before has one length for each set of ranks, so a longer key is another one.
  for (const auto* places : {&bound.inputs, &bound.outputs}) key->insert(key->end(), places->begin(), places->end());
  if (contents != Contents::keyed) return;
  key->push_back(kElements);  // no place: so elements are not taken for places
  for (const int i : keyed_)
    if (decides_shapes(inputs[i])) append_elements(key, inputs[i].tensor());
}

void GraphSource::GiveBack::operator()(FactTable* table) const {
  std::unique_ptr<FactTable> owned(table);
  const std::lock_guard lock(source->mutex_);
  if (!source->spare_facts_) source->spare_facts_ = std::move(owned);
}

GraphSource::Facts GraphSource::declared_facts() {
  std::unique_ptr<FactTable> table;
  {
    const std::lock_guard lock(mutex_);
    table = std::move(spare_facts_);
  }
  if (table) {
    seed_again(*graph_.view, *table);
  } else {
    table = std::make_unique<FactTable>(seed_facts(*graph_.view));
  }
  return Facts(table.release(), {this});
}

GraphSource::Facts GraphSource::facts_of(std::span<const Value> inputs, std::span<const int> keyed) {
  Facts facts = declared_facts();
  for (size_t i = 0; i < inputs.size(); ++i) {
    ValueFact& f = (*facts)[graph_.view->inputs()[i]];
    if (!inputs[i].is_tensor()) continue;
    f.type = ValueType::tensor(inputs[i].tensor().dtype);
    f.shape = SymShape::of(inputs[i].tensor().dims);
    f.value = nullptr;
  }
  for (const int i : keyed) {
    if (!decides_shapes(inputs[i])) continue;
    ValueFact& f = (*facts)[graph_.view->inputs()[i]];
    if (auto elements = decode_value(inputs[i].tensor()))
      f.value = std::make_shared<const SymValue>(*std::move(elements));
  }
  return facts;
}

StatusOr<bool> GraphSource::decide_contents(std::span<const Value> inputs, const Bindings& bound,
                                            std::shared_ptr<const CompiledProgram>* made) {
  const std::lock_guard lock(deciding_);
  if (contents_.load(std::memory_order_relaxed) != Contents::undecided) return false;
  std::vector<int> keyed;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (decides_shapes(inputs[i])) keyed.push_back(static_cast<int>(i));
  const auto late = [](const CompiledProgram& p) {
    return std::count_if(p.steps.begin(), p.steps.end(), [](const ProgramStep& s) { return !s.runnable; });
  };
  const auto with = [&](std::span<const int> some) {
    const Facts facts = facts_of(inputs, some);
    return compile_for(*facts, Effort::replan, bound, inputs);
  };
  int64_t least = late(**made);
  if (least > 0 && !keyed.empty()) {
    ASSIGN_OR_RETURN(auto known, with(keyed));
    if (late(*known) < least) {
      least = late(*known);
      for (size_t k = 0; k < keyed.size() && keyed.size() > 1;) {  // leaves out those that change nothing
        std::vector<int> fewer = keyed;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(k));
        const auto without = with(fewer);
        if (without.ok() && late(**without) == least) {
          keyed = std::move(fewer);
        } else {
          ++k;
        }
      }
      keyed_ = std::move(keyed);
      contents_.store(Contents::keyed, std::memory_order_release);
      *made = std::move(known);
      return true;
    }
  }
  contents_.store(Contents::left_out, std::memory_order_release);
  return false;
}

StatusOr<std::shared_ptr<const Program>> GraphSource::program_for(std::span<const Value> inputs) {
  static const Bindings host;
  return program_for(inputs, host);
}

StatusOr<std::shared_ptr<const Program>> GraphSource::program_for(std::span<const Value> inputs,
                                                                  const Bindings& bound) {
  static thread_local Key key;  // kept for its capacity: a repeated shape allocates nothing
  // Read once: the program has to know just what its key holds.
  const Contents contents = contents_.load(std::memory_order_acquire);
  key_of(inputs, bound, contents, &key);
  if (auto known = find(key)) return std::shared_ptr<const Program>(std::move(known));
  Key own_key = key;
  make_room();
  const auto keyed = contents == Contents::keyed ? std::span<const int>(keyed_) : std::span<const int>();
  ASSIGN_OR_RETURN(std::shared_ptr<const CompiledProgram> made,
                   compile_for(*facts_of(inputs, keyed), Effort::replan, bound, inputs));
  if (contents == Contents::undecided) {
    ASSIGN_OR_RETURN(const bool keyed, decide_contents(inputs, bound, &made));
    if (keyed) key_of(inputs, bound, Contents::keyed, &own_key);
  }
  programs_.keep(std::move(own_key), made);
  return std::shared_ptr<const Program>(std::move(made));
}

// What program_for() puts in its key, compared with what the program was made for.
bool GraphSource::serves(const Program& program, std::span<const Value> inputs) const {
  if (inputs.size() != program.inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ProgramValue& made_for = program.values[program.inputs[i]];
    if (inputs[i].is_tensor() != made_for.known) return false;
    if (made_for.known &&
        (inputs[i].tensor().dtype != made_for.dtype || !std::ranges::equal(inputs[i].tensor().dims, made_for.dims) ||
         !std::ranges::equal(inputs[i].tensor().strides, made_for.strides)))
      return false;
  }
  return true;
}

StatusOr<std::shared_ptr<const CompiledProgram>> GraphSource::program_for_facts(const FactTable& facts) {
  Key key;
  for (ValueId v : graph_.view->inputs()) {
    const ValueFact& f = facts[v];
    if (f.type.is_tensor()) {
      const auto numbers = f.shape.numbers();
      if (!numbers) return std::shared_ptr<const CompiledProgram>();
      append_tensor(&key, f.type.dtype(), *numbers);
    } else {
      if (f.type.is_unknown()) return std::shared_ptr<const CompiledProgram>();
      key.push_back(kObject);
    }
  }
  if (auto known = find(key)) return known;
  make_room();
  const Facts own = declared_facts();
  for (ValueId v : graph_.view->inputs()) {
    (*own)[v].type = facts[v].type;
    (*own)[v].shape = facts[v].shape;  // elements are left out: the program serves every trip
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const CompiledProgram> made, compile_for(*own, Effort::replan));
  programs_.keep(std::move(key), made);
  return made;
}

StatusOr<std::shared_ptr<const CompiledProgram>> GraphSource::plan_at_load(const FactTable& seeds) {
  Key key;
  const Facts facts = declared_facts();
  for (ValueId v : graph_.view->inputs()) {
    (*facts)[v] = seeds[v];
    const auto numbers = seeds[v].shape.numbers();
    if (seeds[v].type.is_tensor() && numbers) {
      append_tensor(&key, seeds[v].type.dtype(), *numbers);
    } else {
      key.push_back(kObject);
    }
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const CompiledProgram> made, compile_for(*facts, Effort::load));
  programs_.keep(std::move(key), made);
  return made;
}

StatusOr<std::shared_ptr<const CompiledProgram>> GraphSource::plan_bound(const FactTable& seeds) {
  ASSIGN_OR_RETURN(bound_, plan_at_load(seeds));
  bound_problem_ = bound_->problem();
  return bound_;
}

StatusOr<std::shared_ptr<const CompiledProgram>> GraphSource::plan_for(std::span<const Dims> input_dims,
                                                                       Effort effort) {
  const Facts facts = declared_facts();
  for (size_t i = 0; i < input_dims.size(); ++i) (*facts)[graph_.view->inputs()[i]].shape = SymShape::of(input_dims[i]);
  return compile_for(*facts, effort);
}

std::string GraphSource::formulas_refused() const { return made_formulas_.done() ? formulas_->refusal() : ""; }

void GraphSource::set_region_bytes(int64_t bytes) {
  region_bytes_.store(bytes, std::memory_order_relaxed);
  programs_.clear();
}

CacheCounts GraphSource::counts() const {
  const ProgramCache::Counts kept = programs_.counts();
  std::lock_guard lock(mutex_);
  CacheCounts counts = counts_;
  counts.hits = kept.hits;
  counts.misses = kept.misses;
  counts.evicted = kept.evicted;
  counts.size = kept.size;
  return counts;
}

}  // namespace forethought
