#include "onnx/import/import.h"

#include "onnx/import/builder.h"

namespace forethought {
namespace {

StatusOr<std::unique_ptr<Graph>> import_with(const ByteSource& model, ExternalFiles files,
                                             const ImportOptions& options) {
  ASSIGN_OR_RETURN(const wire::Model parsed, wire::parse_model(model.bytes));
  return Builder(parsed, Converter(model.owner, std::move(files)), options).build();
}

}  // namespace

StatusOr<std::unique_ptr<Graph>> load_model(const std::string& path, const ImportOptions& options) {
  ASSIGN_OR_RETURN(const ByteSource model, map_file(path, options.budget));
  ASSIGN_OR_RETURN(ExternalFiles files, ExternalFiles::beside(path, options.budget));
  auto graph = import_with(model, std::move(files), options);
  if (!graph.ok()) return with_context(graph.status(), "load " + path);
  return graph;
}

StatusOr<std::unique_ptr<Graph>> import_model(const ByteSource& model, const ImportOptions& options) {
  ExternalFiles files;
  if (!options.folder.empty()) {
    ASSIGN_OR_RETURN(files, ExternalFiles::beside(options.folder, options.budget));
  }
  auto graph = import_with(model, std::move(files), options);
  if (!graph.ok()) return with_context(graph.status(), "load model");
  return graph;
}

}  // namespace forethought
