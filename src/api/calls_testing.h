// Short ways to load models and to make and read floats, for the tests of the public API, which see its headers alone.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "forethought/forethought.h"

namespace forethought_testing {

inline forethought::Session load(const std::string& model, const forethought::SessionOptions& options = {}) {
  return forethought::Session::load_bytes(std::as_bytes(std::span(model)), options).value();
}

inline forethought::Value floats(const std::vector<float>& v, const std::vector<int64_t>& shape) {
  return forethought::Value::copy_of<float>(v, shape).value();
}

inline std::vector<float> read(const forethought::Value& v) {
  const auto span = v.elements<float>().value();
  return {span.begin(), span.end()};
}

}  // namespace forethought_testing
