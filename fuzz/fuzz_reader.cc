// Any bytes as a model: reading, importing, inlining and saving end with a status, and what was imported keeps every
// rule.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "graph/schema/schema.h"
#include "onnx/import/import.h"
#include "onnx/save/save.h"

using namespace forethought;  // NOLINT

namespace {

void require(const Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, std::string(status.message()).c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSource model{{reinterpret_cast<const char*>(data), size}, {}};
  ImportOptions options{.max_nodes = 5000};
  // Odd sizes go through the function bodies of the schemas.
  if (size % 2 == 1) {
    options.has_kernel = [](std::string_view domain, std::string_view type) {
      const auto versions = schema_versions(domain, type);
      return !versions.empty() && versions.back().bodies.empty();
    };
  }
  auto graph = import_model(model, options);
  if (!graph.ok()) return 0;
  require(validate(**graph), "an imported graph breaks a rule");
  auto saved = model_bytes(**graph);
  if (!saved.ok()) return 0;
  auto again = import_model({*saved, {}}, {.max_nodes = 50000});
  require(again.status(), "a saved graph does not load");
  require(validate(**again), "a saved and loaded graph breaks a rule");
  return 0;
}
