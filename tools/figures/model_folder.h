// A model on disk with the inputs of a run: FOLDER/model.onnx and FOLDER/case_0/input_I.npy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "session/session.h"

namespace forethought {

struct LoadedModel {
  std::unique_ptr<Session> session;
  std::vector<Value> inputs;  // in order, with memory of their own
};

StatusOr<LoadedModel> load_folder(const std::string& folder, const SessionOptions& options);

// One run; outputs in order, each with leased memory.
StatusOr<std::vector<Value>> run_once(Session& session, const std::vector<Value>& inputs);
// Of types, shapes and bytes.
uint64_t hash_of(const std::vector<Value>& values);
bool same_bits(const std::vector<Value>& a, const std::vector<Value>& b);

// Ends the program with a message if `status` is not ok.
void must(const Status& status);
template <typename T>
T must(StatusOr<T> value) {
  must(value.status());
  return std::move(*value);
}

double now_ns();

}  // namespace forethought
