#include "tools/figures/model_folder.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "tools/support/npy.h"

namespace forethought {

StatusOr<LoadedModel> load_folder(const std::string& folder, const SessionOptions& options) {
  LoadedModel m;
  ASSIGN_OR_RETURN(m.session, Session::load(absl::StrCat(folder, "/model.onnx"), options));
  int file = 0;
  for (const NodeArg& input : m.session->inputs()) {
    m.inputs.emplace_back();
    if (input.has_default) continue;
    ASSIGN_OR_RETURN(m.inputs.back(), read_npy(absl::StrCat(folder, "/case_0/input_", file++, ".npy")));
  }
  return m;
}

StatusOr<std::vector<Value>> run_once(Session& session, const std::vector<Value>& inputs) {
  std::vector<Value> outputs(session.outputs().size());
  RETURN_IF_ERROR(session.run_ordered(inputs, outputs));
  return outputs;
}

uint64_t hash_of(const std::vector<Value>& values) {
  uint64_t h = 0;
  for (const Value& v : values) {
    const Tensor& t = v.tensor();
    h = mix64(h ^ hash_bytes(t.dims.data(), t.dims.size() * sizeof(int64_t)) ^ static_cast<uint64_t>(t.dtype));
    h = mix64(h ^ hash_bytes(t.data, static_cast<size_t>(t.bytes())));
  }
  return h;
}

bool same_bits(const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const Tensor &x = a[i].tensor(), &y = b[i].tensor();
    if (x.dtype != y.dtype || x.dims != y.dims) return false;
    if (std::memcmp(x.data, y.data, static_cast<size_t>(x.bytes())) != 0) return false;
  }
  return true;
}

void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

double now_ns() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace forethought
