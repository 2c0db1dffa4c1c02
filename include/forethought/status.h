// How calls say that they failed: a Status, or a Result that holds a value or a Status. Nothing here throws.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

#include "forethought/export.h"

FORETHOUGHT_BEGIN_NAMESPACE

enum class ErrorCode : int {
  ok = 0,
  invalid_argument,  // the model, file or argument is wrong
  not_found,
  unsupported,  // valid, but this library cannot do it
  exhausted,    // memory, or a limit that was set
  cancelled,
  internal,  // a bug of the library that it noticed
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == ErrorCode::ok; }
  ErrorCode code() const { return code_; }
  // What is wrong, where, why and what to do; empty if ok.
  const std::string& message() const { return message_; }

 private:
  ErrorCode code_ = ErrorCode::ok;
  std::string message_;
};

// A value, or why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<1>, std::move(value)) {}       // NOLINT
  Result(Status error) : state_(std::in_place_index<0>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 1; }
  explicit operator bool() const { return ok(); }
  Status status() const { return ok() ? Status() : *std::get_if<0>(&state_); }

  // The value; ends the program with the error's message if there is none.
  T& value() & {
    require();
    return *std::get_if<1>(&state_);
  }
  const T& value() const& {
    require();
    return *std::get_if<1>(&state_);
  }
  T value() && {
    require();
    return std::move(*std::get_if<1>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void require() const {
    if (ok()) return;
    std::fprintf(stderr, "forethought: value of a failed call: %s\n", std::get_if<0>(&state_)->message().c_str());
    std::abort();
  }
  std::variant<Status, T> state_;
};

FORETHOUGHT_END_NAMESPACE
