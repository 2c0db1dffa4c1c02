#include "session/input_symbols.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace forethought {

InputSymbols::InputSymbols(const std::vector<NodeArg>& inputs, const std::map<std::string, int64_t>& bounds) {
  std::vector<Place> expressions;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const auto& dims = inputs[i].shape.dims;
    for (int d = 0; d < static_cast<int>(dims.size()); ++d) {
      if (!dims[d].is_symbolic()) continue;
      std::vector<std::string> names;
      dims[d].symbols(&names);
      if (names.size() != 1 || !dims[d].same(Dim::symbol(names[0]))) {
        expressions.push_back({i, d});
        continue;
      }
      const auto known = std::find(names_.begin(), names_.end(), names[0]);
      if (known == names_.end()) {
        const auto bound = bounds.find(names[0]);
        names_.push_back(names[0]);
        first_.push_back({i, d});
        bounds_.push_back(bound == bounds.end() ? kNoBound : bound->second);
      } else {
        ties_.push_back({{i, d}, static_cast<int>(known - names_.begin())});
      }
    }
  }
  for (const Place& p : expressions) ties_.push_back({p, -1});
}

Status InputSymbols::check(const std::vector<NodeArg>& inputs, std::span<const Value> values) const {
  auto number = [&](const Place& p) -> std::optional<int64_t> {
    if (!values[p.input].is_tensor()) return std::nullopt;
    return values[p.input].tensor().dims[p.axis];
  };
  for (size_t s = 0; s < first_.size(); ++s) {
    const auto came = bounds_[s] == kNoBound ? std::nullopt : number(first_[s]);
    if (!came || *came <= bounds_[s]) continue;
    const NodeArg& input = inputs[first_[s].input];
    return invalid(absl::StrCat("input '", input.name, "' wants ", to_string(input.shape), " with ", names_[s],
                                " at most ", bounds_[s], " (max_dimensions); what came has ", *came,
                                ". Load the model with a larger bound of ", names_[s],
                                ", or with none to plan each shape when it comes"));
  }
  for (const Tie& t : ties_) {
    const auto came = number(t.place);
    if (!came) continue;
    const NodeArg& input = inputs[t.place.input];
    const Dim& declared = input.shape.dims[t.place.axis];
    if (t.symbol >= 0) {
      const Place& first = first_[t.symbol];
      const auto want = number(first);
      if (!want || *want == *came) continue;
      return invalid(absl::StrCat("input '", input.name, "' wants ", to_string(input.shape), "; what came has ", *came,
                                  " for ", names_[t.symbol], ", which input '", inputs[first.input].name, "' sets to ",
                                  *want));
    }
    const Dim bound = declared.substitute([&](std::string_view name) -> std::optional<int64_t> {
      const auto known = std::find(names_.begin(), names_.end(), name);
      return known == names_.end() ? std::nullopt : number(first_[known - names_.begin()]);
    });
    if (bound.is_known() && bound.value() != *came)
      return invalid(absl::StrCat("input '", input.name, "' wants ", to_string(input.shape), "; what came has ", *came,
                                  " for ", to_string(declared), ", which is ", bound.value(), " here"));
  }
  return absl::OkStatus();
}

}  // namespace forethought
