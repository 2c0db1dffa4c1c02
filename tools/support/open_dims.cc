#include "tools/support/open_dims.h"

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "graph/graph.h"
#include "onnx/import/import.h"

namespace forethought {
namespace {

struct OpenDim {
  size_t input;
  int axis;
  int symbol;
};

// `shared`: equal numbers get one symbol.
std::vector<OpenDim> open_dims(Graph& graph, bool shared, std::vector<int64_t>* sizes) {
  std::vector<OpenDim> open;
  std::map<int64_t, int> symbol_of;
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    GraphValue& v = graph.value(graph.inputs()[i]);
    if (!v.type.is_tensor() || !is_floating(v.type.dtype()) || !v.shape.is_known()) continue;
    for (int axis = 0; axis < v.shape.rank(); ++axis) {
      const int64_t n = v.shape.dims[axis].value();
      int symbol = static_cast<int>(sizes->size());
      if (shared) symbol = symbol_of.try_emplace(n, symbol).first->second;
      if (symbol == static_cast<int>(sizes->size())) sizes->push_back(n);
      v.shape.dims[axis] = Dim::symbol(absl::StrCat("d", symbol));
      open.push_back({i, axis, symbol});
    }
  }
  return open;
}

// Somewhat other sizes, or all of them some times as large.
std::vector<int64_t> varied(const std::vector<int64_t>& sizes, int round, std::mt19937& random) {
  static constexpr int64_t kSteps[] = {0, 0, 1, 2, 3, -1, 5, 17};
  std::vector<int64_t> r = sizes;
  if (round == 0) return r;
  const int64_t times = 2 + static_cast<int64_t>(random() % 2);
  for (int64_t& n : r) n = round % 5 == 4 ? n * times : std::max<int64_t>(0, n + kSteps[random() % std::size(kSteps)]);
  return r;
}

}  // namespace

Status check_open_dims(const TestCase& test, SessionOptions options, bool run, OpenDimsCount* count) {
  constexpr int kRounds = 14;
  options.validate_plans = true;
  std::mt19937 random(1);
  for (const bool shared : {false, true}) {
    auto graph = load_model(test.model);
    if (!graph.ok()) return absl::OkStatus();
    std::vector<int64_t> sizes;
    const std::vector<OpenDim> open = open_dims(**graph, shared, &sizes);
    if (open.empty()) return absl::OkStatus();
    const auto session = Session::from_graph(*std::move(graph), options);
    if (!session.ok()) continue;
    ++count->sessions;
    std::vector<Dims> dims;
    for (const NodeArg& a : (*session)->inputs()) {
      const auto numbers = a.shape.numbers();
      dims.push_back(numbers ? *numbers : Dims(static_cast<size_t>(a.shape.rank())));
    }
    for (int round = 0; round < kRounds; ++round) {
      const std::vector<int64_t> now = varied(sizes, round, random);
      for (const OpenDim& d : open) dims[d.input][d.axis] = now[d.symbol];
      const auto plan = (*session)->plan_for(dims);
      count->shapes += plan.ok();
      if (absl::IsInternal(plan.status())) return plan.status();
      if (!plan.ok()) continue;
      // As a run plans: in the order of an earlier plan, if that serves.
      const auto again = (*session)->plan_for(dims, Effort::replan);
      if (!again.ok()) return again.status();
      if ((*again)->plan.naive != (*plan)->plan.naive)
        return absl::InternalError(absl::StrCat("naive bytes are ", (*again)->plan.naive, " in a plan of a run and ",
                                                (*plan)->plan.naive, " in one at load"));
    }
    if (run && !test.sets.empty()) {
      RETURN_IF_ERROR(with_context(run_sets(**session, test), "after other sizes"));
      ++count->ran;
    }
    const CacheCounts plans = (*session)->summary().plans;
    count->by_formula += plans.by_formula;
    count->by_order += plans.by_order;
    count->steps += plans.steps;
    count->steps_kept += plans.steps_kept;
  }
  return absl::OkStatus();
}

}  // namespace forethought
