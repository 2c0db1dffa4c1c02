// Upper bounds of symbolic dims, from the caller or the model: one plan then serves every smaller shape.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/facts.h"
#include "session/options.h"
#include "session/pipeline.h"

namespace forethought {

using DimensionBounds = std::map<std::string, int64_t>;

// The key of the model's metadata that holds bounds: "L=4096, N=8".
constexpr const char* kBoundsKey = "forethought.max_dimensions";

// The caller's bounds, and the model's for symbols of which the caller says nothing. Errors: a bound below 1, text that
// is no list of bounds, a name that is no dim of an input.
StatusOr<DimensionBounds> dimension_bounds(const SessionOptions& options, const ModelInfo& info,
                                           const std::vector<NodeArg>& inputs);

// Puts the bounds in the place of symbols in a shape.
void put_numbers(const DimensionBounds& bounds, SymShape* shape);
// The same in the inputs' shapes; tells whether all of them are numbers then.
bool put_bounds(const Graph& graph, const DimensionBounds& bounds, FactTable* seeds);

}  // namespace forethought
