#include "tensor/type.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace forethought {

bool ValueType::operator==(const ValueType& o) const {
  if (kind_ != o.kind_ || dtype_ != o.dtype_) return false;
  if (!inner_ || !o.inner_) return !inner_ && !o.inner_;
  return *inner_ == *o.inner_;
}

std::string to_string(const ValueType& t) {
  switch (t.kind()) {
    case ValueType::Kind::unknown:
      return "unknown";
    case ValueType::Kind::tensor:
      return absl::StrCat("tensor(", info(t.dtype()).type_name, ")");
    case ValueType::Kind::sparse_tensor:
      return absl::StrCat("sparse_tensor(", info(t.dtype()).type_name, ")");
    case ValueType::Kind::sequence:
      return absl::StrCat("seq(", to_string(*t.inner()), ")");
    case ValueType::Kind::optional:
      return absl::StrCat("optional(", to_string(*t.inner()), ")");
    case ValueType::Kind::map:
      return absl::StrCat("map(", info(t.dtype()).type_name, ",", to_string(*t.inner()), ")");
  }
  return "?";
}

namespace {

std::optional<ValueType> parse(absl::string_view text, int depth) {
  if (depth > 16) return std::nullopt;
  text = absl::StripAsciiWhitespace(text);
  if (!absl::ConsumeSuffix(&text, ")")) return std::nullopt;
  if (absl::ConsumePrefix(&text, "tensor(") || absl::ConsumePrefix(&text, "sparse_tensor(")) {
    const bool sparse = *(text.data() - 8) == '_';
    const auto d = dtype_from_name(std::string_view(text.data(), text.size()));
    if (!d) return std::nullopt;
    return sparse ? ValueType::sparse_tensor(*d) : ValueType::tensor(*d);
  }
  if (absl::ConsumePrefix(&text, "seq(")) {
    if (auto of = parse(text, depth + 1)) return ValueType::sequence(*of);
    return std::nullopt;
  }
  if (absl::ConsumePrefix(&text, "optional(")) {
    if (auto of = parse(text, depth + 1)) return ValueType::optional(*of);
    return std::nullopt;
  }
  if (absl::ConsumePrefix(&text, "map(")) {
    const size_t comma = text.find(',');
    if (comma == absl::string_view::npos) return std::nullopt;
    const auto key = dtype_from_name(std::string_view(text.data(), comma));
    auto of = parse(text.substr(comma + 1), depth + 1);
    if (key && of) return ValueType::map(*key, *of);
  }
  return std::nullopt;
}

}  // namespace

std::optional<ValueType> value_type_from_name(std::string_view text) {
  return parse(absl::string_view(text.data(), text.size()), 0);
}

std::string to_string(Device d) {
  constexpr const char* names[] = {"cpu", "gpu", "npu", "device"};
  const std::string base = names[static_cast<int>(d.kind)];
  if (d.is_host()) return base;
  return absl::StrCat(base, ":", d.index, d.memory == MemoryKind::host_visible ? ":host" : "");
}

}  // namespace forethought
