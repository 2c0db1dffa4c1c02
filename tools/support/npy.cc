#include "tools/support/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "onnx/file/mapping.h"

namespace forethought {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

struct TypeCode {
  DType dtype;
  const char* code;
};
constexpr TypeCode kCodes[] = {
    {DType::kFloat, "f4"},     {DType::kDouble, "f8"},      {DType::kFloat16, "f2"}, {DType::kInt8, "i1"},
    {DType::kInt16, "i2"},     {DType::kInt32, "i4"},       {DType::kInt64, "i8"},   {DType::kUint8, "u1"},
    {DType::kUint16, "u2"},    {DType::kUint32, "u4"},      {DType::kUint64, "u8"},  {DType::kBool, "b1"},
    {DType::kComplex64, "c8"}, {DType::kComplex128, "c16"},
};

// The text after `'key':` in the header's dict.
std::string_view field(std::string_view header, std::string_view key) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = header.substr(at + key.size());
  const size_t colon = rest.find(':');
  if (colon == std::string_view::npos) return {};
  rest.remove_prefix(colon + 1);
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  return rest;
}

StatusOr<Dims> parse_shape(std::string_view text) {
  Dims dims;
  if (text.empty() || text.front() != '(') return invalid("the header has no shape");
  size_t i = 1;
  while (i < text.size() && text[i] != ')') {
    if (text[i] == ',' || text[i] == ' ' || text[i] == 'L') {
      ++i;
      continue;
    }
    int64_t d = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), d);
    if (error != std::errc() || d < 0 || dims.size() >= 64) return invalid("the header's shape cannot be read");
    dims.push_back(d);
    i = static_cast<size_t>(end - text.data());
  }
  return dims;
}

void append_utf8(std::string* s, uint32_t c) {
  if (c < 0x80) {
    s->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    s->append({static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3F))});
  } else if (c < 0x10000) {
    s->append({static_cast<char>(0xE0 | (c >> 12)), static_cast<char>(0x80 | ((c >> 6) & 0x3F)),
               static_cast<char>(0x80 | (c & 0x3F))});
  } else {
    s->append({static_cast<char>(0xF0 | ((c >> 18) & 7)), static_cast<char>(0x80 | ((c >> 12) & 0x3F)),
               static_cast<char>(0x80 | ((c >> 6) & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))});
  }
}

StatusOr<Tensor> read_strings(std::string_view data, const Dims& dims, std::string_view width_text) {
  int64_t width = 0;
  std::from_chars(width_text.data(), width_text.data() + width_text.size(), width);
  if (width < 0 || width > (1 << 24)) return invalid("the strings are too wide");
  const auto count = element_count(dims);
  if (!count) return invalid("the header's shape is impossible");
  const int64_t n = *count;
  // Strings of no width fill no bytes, so that any number of them could stand in a short file.
  if (n > static_cast<int64_t>(data.size()) / std::max<int64_t>(1, 4 * width) && (width > 0 || n > (1 << 20)))
    return invalid("the file ends before its shape is filled");
  ASSIGN_OR_RETURN(Tensor t, make_tensor(DType::kString, dims));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < width; ++k) {
      uint32_t c;
      std::memcpy(&c, data.data() + (i * width + k) * 4, 4);
      if (c == 0) break;
      append_utf8(&t.as<std::string>()[i], c);
    }
  return t;
}

// Turns column-major elements into row-major ones.
void reorder_fortran(const char* from, char* to, const Dims& dims, size_t width) {
  const int64_t n = element_count(dims).value_or(0);
  Dims index(dims.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = 0;
    for (size_t d = dims.size(); d-- > 0;) at = at * dims[d] + index[d];
    std::memcpy(to + i * static_cast<int64_t>(width), from + at * static_cast<int64_t>(width), width);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

StatusOr<Tensor> parse(std::string_view file) {
  if (file.size() < 12 || file.substr(0, 6) != kMagic) return invalid("it is no .npy file");
  const int major = file[6];
  if (major < 1 || major > 3) return unsupported(absl::StrCat("version ", major, " of .npy is not known"));
  size_t length = 0, start = 0;
  if (major == 1) {
    length = static_cast<uint8_t>(file[8]) | static_cast<size_t>(static_cast<uint8_t>(file[9])) << 8;
    start = 10;
  } else {
    uint32_t l;
    std::memcpy(&l, file.data() + 8, 4);
    length = l;
    start = 12;
  }
  if (length > file.size() - start) return invalid("the header is cut off");
  const std::string_view header = file.substr(start, length);
  const std::string_view data = file.substr(start + length);
  ASSIGN_OR_RETURN(const Dims dims, parse_shape(field(header, "'shape'")));
  std::string_view descr = field(header, "'descr'");
  if (descr.size() < 3 || descr.front() != '\'') return unsupported("structured arrays cannot be read");
  descr = descr.substr(1, descr.find('\'', 1) - 1);
  if (descr.size() < 2) return unsupported("the header names no element type");
  if (descr.front() == '>') return unsupported("big-endian arrays cannot be read");
  descr.remove_prefix(1);
  const bool fortran = field(header, "'fortran_order'").starts_with("True") && dims.size() > 1;
  if (descr.front() == 'U') {
    if (fortran) return unsupported("strings in Fortran order cannot be read");
    return read_strings(data, dims, descr.substr(1));
  }
  for (const TypeCode& c : kCodes) {
    if (descr != c.code) continue;
    const auto bytes = storage_bytes(c.dtype, Layout::plain(), dims);
    if (!bytes || *bytes > static_cast<int64_t>(data.size()))
      return invalid("the file ends before its shape is filled");
    ASSIGN_OR_RETURN(Tensor t, make_tensor(c.dtype, dims));
    if (fortran) {
      reorder_fortran(data.data(), static_cast<char*>(t.data), dims, static_cast<size_t>(bit_width(c.dtype) / 8));
    } else if (*bytes > 0) {
      std::memcpy(t.data, data.data(), static_cast<size_t>(*bytes));
    }
    return t;
  }
  return unsupported(absl::StrCat("arrays of type '", std::string(descr), "' cannot be read"));
}

}  // namespace

StatusOr<Tensor> read_npy(const std::string& path) {
  ASSIGN_OR_RETURN(const ByteSource file, map_file(path));
  auto t = parse(file.bytes);
  return t.ok() ? std::move(t) : StatusOr<Tensor>(with_context(t.status(), path));
}

Status write_npy(const std::string& path, const Tensor& t) {
  std::string code;
  for (const TypeCode& c : kCodes)
    if (c.dtype == t.dtype) code = absl::StrCat(bit_width(t.dtype) == 8 ? "|" : "<", c.code);
  std::string data;
  if (t.dtype == DType::kString) {
    // NumPy's unicode: UTF-32 of one width.
    std::vector<std::u32string> texts;
    size_t width = 1;
    for (const std::string& s : t.strings()) {
      std::u32string u;
      for (size_t i = 0; i < s.size();) {
        const uint8_t b = static_cast<uint8_t>(s[i]);
        const size_t n = b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
        uint32_t c = n == 1 ? b : b & (0xFF >> (n + 1));
        for (size_t k = 1; k < n && i + k < s.size(); ++k) c = (c << 6) | (static_cast<uint8_t>(s[i + k]) & 0x3F);
        u.push_back(c);
        i += n;
      }
      width = std::max(width, u.size());
      texts.push_back(std::move(u));
    }
    for (std::u32string& u : texts) {
      u.resize(width);
      data.append(reinterpret_cast<const char*>(u.data()), width * 4);
    }
    code = absl::StrCat("<U", width);
  }
  if (code.empty()) return unsupported(absl::StrCat(".npy has no name for elements of ", name(t.dtype)));
  std::string shape;
  for (int64_t d : t.dims) absl::StrAppend(&shape, d, ",");
  std::string header = absl::StrCat("{'descr': '", code, "', 'fortran_order': False, 'shape': (", shape, "), }");
  header.append(63 - (10 + header.size()) % 64, ' ');
  header.push_back('\n');
  std::ofstream out(path, std::ios::binary);
  out << kMagic << '\x01' << '\0' << static_cast<char>(header.size() & 0xFF) << static_cast<char>(header.size() >> 8)
      << header;
  if (t.dtype == DType::kString) {
    out << data;
  } else {
    out.write(static_cast<const char*>(t.data), t.bytes());
  }
  out.flush();
  if (!out) return invalid(absl::StrCat(path, " cannot be written"));
  return absl::OkStatus();
}

}  // namespace forethought
