#include "session/bounds.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/schema/schema.h"

namespace forethought {
namespace {

std::string_view trimmed(std::string_view s) {
  const size_t begin = s.find_first_not_of(" \t\n"), end = s.find_last_not_of(" \t\n");
  return begin == std::string_view::npos ? std::string_view() : s.substr(begin, end - begin + 1);
}

StatusOr<DimensionBounds> bounds_of(std::string_view text) {
  DimensionBounds bounds;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = trimmed(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (item.empty()) continue;
    const size_t equals = item.find('=');
    const std::string_view name = trimmed(item.substr(0, equals));
    const std::string_view number = equals == item.npos ? std::string_view() : trimmed(item.substr(equals + 1));
    int64_t value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (name.empty() || error != std::errc() || end != number.data() + number.size())
      return invalid(absl::StrCat("the model's metadata '", kBoundsKey, "' holds '", std::string(item),
                                  "'; it is to be a list like 'L=4096, N=8'"));
    bounds[std::string(name)] = value;
  }
  return bounds;
}

// Symbols that are a dim of an input by themselves: only these can be read off an input.
std::vector<std::string> symbols_of(const std::vector<NodeArg>& inputs) {
  std::vector<std::string> names;
  for (const NodeArg& input : inputs)
    for (const Dim& d : input.shape.dims) {
      std::vector<std::string> in_dim;
      d.symbols(&in_dim);
      if (in_dim.size() == 1 && d.same(Dim::symbol(in_dim[0])) &&
          std::find(names.begin(), names.end(), in_dim[0]) == names.end())
        names.push_back(in_dim[0]);
    }
  return names;
}

}  // namespace

StatusOr<DimensionBounds> dimension_bounds(const SessionOptions& options, const ModelInfo& info,
                                           const std::vector<NodeArg>& inputs) {
  DimensionBounds bounds;
  for (const auto& [key, text] : info.metadata) {
    if (key != kBoundsKey) continue;
    ASSIGN_OR_RETURN(bounds, bounds_of(text));
  }
  // The caller may have bound a dim of the model's list to a number.
  for (const auto& [name, number] : options.free_dimensions) bounds.erase(name);
  for (const auto& [name, most] : options.max_dimensions) bounds[name] = most;
  if (bounds.empty()) return bounds;
  const std::vector<std::string> names = symbols_of(inputs);
  for (const auto& [name, most] : bounds) {
    const bool of_model = !options.max_dimensions.contains(name);
    const std::string who = of_model ? absl::StrCat("the model's metadata '", kBoundsKey, "'") : "max_dimensions";
    if (most < 1) return invalid(absl::StrCat(who, ": the bound of '", name, "' is ", most, "; it is at least 1"));
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string near(nearest_name(name, std::vector<std::string_view>(names.begin(), names.end())));
    const Status unknown = invalid(absl::StrCat(
        who, ": no input has a dim '", name, "'", near.empty() ? "" : absl::StrCat("; did you mean '", near, "'?"),
        names.empty() ? ". The inputs have no symbolic dims"
                      : absl::StrCat(". Their symbolic dims: ", absl::StrJoin(names, ", "))));
    return of_model ? unknown : as_wrong_option(unknown);
  }
  return bounds;
}

void put_numbers(const DimensionBounds& bounds, SymShape* shape) {
  for (Dim& d : shape->dims)
    d = d.substitute([&](std::string_view n) -> std::optional<int64_t> {
      const auto it = bounds.find(std::string(n));
      return it == bounds.end() ? std::nullopt : std::optional<int64_t>(it->second);
    });
}

bool put_bounds(const Graph& graph, const DimensionBounds& bounds, FactTable* seeds) {
  bool all = true;
  for (ValueId v : graph.inputs()) {
    ValueFact& f = (*seeds)[v];
    put_numbers(bounds, &f.shape);
    all = all && (f.type.is_object() || f.shape.is_known());
  }
  return all;
}

}  // namespace forethought
