// The reader of onnx.proto's messages: one function a message, the place in the file for errors, and the limits.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "onnx/wire/wire.h"

namespace forethought::wire {

// The payload of a status that says that bytes are no protobuf message at all.
inline constexpr char kNotReadable[] = "forethought/not-readable";

// Field tags as protozero's switch wants them.
constexpr uint32_t varint(uint32_t tag) { return protozero::tag_and_type(tag, protozero::pbf_wire_type::varint); }
constexpr uint32_t bytes(uint32_t tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::length_delimited);
}
constexpr uint32_t fixed32(uint32_t tag) { return protozero::tag_and_type(tag, protozero::pbf_wire_type::fixed32); }

inline std::string_view view(protozero::pbf_reader& r) {
  const auto v = r.get_view();
  return {v.data(), v.size()};
}
inline protozero::pbf_reader reader(std::string_view v) { return protozero::pbf_reader(v.data(), v.size()); }

// Thrown by the parser and caught in run(); protozero throws its own kinds.
struct Refused : std::exception {
  explicit Refused(std::string m) : message(std::move(m)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

class Parser {
 public:
  explicit Parser(const Limits& limits) : limits_(limits) {}

  // Runs `parse` on a fresh T and turns exceptions into a status that tells the place in the file.
  template <typename T>
  StatusOr<T> run(std::string_view data, const char* what, void (Parser::*parse)(std::string_view, T&)) {
    T result;
    try {
      (this->*parse)(data, result);
    } catch (const Refused& e) {
      return invalid(fmt::format("the {} cannot be read: {}{}", what, e.message, place()));
    } catch (const protozero::exception& e) {
      Status damaged = invalid(fmt::format("the {} is damaged or is no ONNX file: {}{}", what, e.what(), place()));
      damaged.SetPayload(kNotReadable, absl::Cord());
      return damaged;
    } catch (const std::bad_alloc&) {
      return exhausted(fmt::format("no memory to read the {}{}", what, place()));
    }
    return result;
  }

  void model(std::string_view data, Model& m);
  void graph(std::string_view data, Graph& g);
  void function(std::string_view data, Function& f);
  void tensor(std::string_view data, Tensor& t);

 private:
  void node(std::string_view data, Node& n);
  void value_info(std::string_view data, ValueInfo& v);
  void opset(std::string_view data, OpsetId& o);
  void entry(std::string_view data, StringEntry& e);
  void attribute(std::string_view data, Attribute& a);
  static void check_attribute(const Attribute& a);
  void sparse_tensor(std::string_view data, SparseTensor& s);
  void type(std::string_view data, Type& t);
  void tensor_type(std::string_view data, Type::Kind kind, Type& t);
  void element_type(std::string_view data, Type::Kind kind, Type& t);
  void dim(std::string_view data, Dim& d);

  void packed_ints(protozero::pbf_reader& r, std::vector<int64_t>& out) {
    for (const int64_t v : r.get_packed_int64()) add_number(v, out);
  }
  template <typename T>
  void add_number(T value, std::vector<T>& out) {
    out.push_back(value);
  }
  void add_text(std::string_view text, std::vector<std::string_view>& out) {
    count();
    out.push_back(text);
  }

  template <typename T>
  void append(const char* what, void (Parser::*parse)(std::string_view, T&), std::string_view data,
              std::vector<T>& out) {
    const auto index = static_cast<int64_t>(out.size());
    within(what, index, parse, data, out.emplace_back());
  }

  // The place is left standing when an exception flies, so that place() can tell it.
  template <typename T>
  void within(const char* what, int64_t index, void (Parser::*parse)(std::string_view, T&), std::string_view data,
              T& out) {
    count();
    place_.emplace_back(what, index);
    (this->*parse)(data, out);
    place_.pop_back();
  }

  void count() {
    if (++messages_ > limits_.messages) throw Refused(fmt::format("it has more than {} parts", limits_.messages));
  }

  std::string place() const {
    std::string text;
    for (size_t i = 0; i < place_.size(); ++i) {
      if (i >= 8 && i + 4 < place_.size()) {
        if (i == 8) text += " › …";
        continue;
      }
      text += text.empty() ? " (at " : " › ";
      text += place_[i].first;
      if (place_[i].second >= 0) text += fmt::format(" {}", place_[i].second);
    }
    return text.empty() ? text : text + ")";
  }

  const Limits limits_;
  int graph_depth_ = 0, type_depth_ = 0;
  int64_t messages_ = 0;
  std::vector<std::pair<const char*, int64_t>> place_;
};

}  // namespace forethought::wire
