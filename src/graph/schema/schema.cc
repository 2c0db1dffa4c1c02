// Lookup in the generated table of operator schemas.
#include "graph/schema/schema.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "graph/schema/table.h"

namespace forethought {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Levenshtein distance with case differences free; names are short (a longer one is near nothing).
int distance(std::string_view a, std::string_view b) {
  if (a.size() > 64 || b.size() > 64) return 1000;
  int row[65];
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substitute = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
      diagonal = row[j];
      row[j] = std::min({substitute, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

int farthest_similar(std::string_view name) { return std::clamp(static_cast<int>(name.size() / 3), 1, 8); }

const FormalParam* formal(std::span<const FormalParam> formals, int index) {
  if (index < 0 || formals.empty()) return nullptr;
  if (static_cast<size_t>(index) < formals.size()) return &formals[index];
  return formals.back().kind == FormalKind::kVariadic ? &formals.back() : nullptr;
}

}  // namespace

std::string_view name(AttrType type) {
  static constexpr std::string_view kNames[kAttrTypeCount] = {
      "UNDEFINED", "FLOAT",   "INT",    "STRING",        "TENSOR",         "GRAPH",      "FLOATS",     "INTS",
      "STRINGS",   "TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};
  const auto i = static_cast<size_t>(type);
  return i < kAttrTypeCount ? kNames[i] : "?";
}

const AttributeSchema* OpSchema::find_attribute(std::string_view attribute) const {
  for (const AttributeSchema& a : attributes) {
    if (a.name == attribute) return &a;
  }
  return nullptr;
}

const FormalParam* OpSchema::input(int index) const { return formal(inputs, index); }
const FormalParam* OpSchema::output(int index) const { return formal(outputs, index); }

const FunctionBody* OpSchema::body_for(int opset_version) const {
  const FunctionBody* best = nullptr;
  for (const FunctionBody& b : bodies) {
    if (b.opset <= opset_version) best = &b;
  }
  return best;
}

std::span<const OpSchema> all_schemas() { return {schema_table::kSchemas, schema_table::kSchemaCount}; }

std::span<const OpSchema> schema_versions(std::string_view domain, std::string_view op) {
  const std::tuple key(canonical_domain(domain), op);
  const auto key_of = [](const OpSchema& s) { return std::tuple(s.domain, s.name); };
  const auto all = all_schemas();
  const auto first =
      std::lower_bound(all.begin(), all.end(), key, [&](const OpSchema& s, const auto& k) { return key_of(s) < k; });
  auto last = first;
  while (last != all.end() && key_of(*last) == key) ++last;
  return {first, last};
}

const OpSchema* find_schema(std::string_view domain, std::string_view op, int opset_version) {
  const OpSchema* best = nullptr;
  for (const OpSchema& s : schema_versions(domain, op)) {
    if (s.since_version <= opset_version) best = &s;
  }
  return best;
}

int newest_opset(std::string_view domain) {
  domain = canonical_domain(domain);
  int newest = 0;
  for (const OpSchema& s : all_schemas()) {
    if (s.domain == domain) newest = std::max(newest, s.since_version);
  }
  return newest;
}

bool is_known_domain(std::string_view domain) { return newest_opset(domain) > 0; }

const OpSchema* nearest_schema(std::string_view domain, std::string_view op) {
  domain = canonical_domain(domain);
  const OpSchema* best = nullptr;
  std::pair<int, bool> best_rank(farthest_similar(op), true);  // distance, then whether the domain differs
  for (const OpSchema& s : all_schemas()) {
    const std::pair rank(distance(op, s.name), s.domain != domain);
    if (rank < best_rank || (rank == best_rank && !best)) best = &s, best_rank = rank;
  }
  return best;
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view best;
  int least = farthest_similar(name) + 1;
  for (std::string_view c : candidates) {
    if (const int d = distance(name, c); d < least) best = c, least = d;
  }
  return best;
}

}  // namespace forethought
