#include "passes/engine/rewrite.h"

#include "graph/schema/schema.h"

namespace forethought::passes {

OpId op_id(std::string_view name) {
  if (const size_t dot = name.rfind('.'); dot != std::string_view::npos)
    return {std::string(name.substr(0, dot)), std::string(name.substr(dot + 1)), 1};
  const auto versions = schema_versions("", name);
  return {"", std::string(name), versions.empty() ? 1 : versions.back().since_version};
}

Rewrite replace_root_with(std::string_view op, std::vector<Ref> inputs, Attributes attributes) {
  Rewrite r;
  const Ref made = r.node(op_id(op), std::move(inputs), std::move(attributes));
  r.result(0, made);
  return r;
}

Rewrite replace_root_by(ValueId value) {
  Rewrite r;
  r.result(0, value);
  return r;
}

}  // namespace forethought::passes
