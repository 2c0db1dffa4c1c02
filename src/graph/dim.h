// A dimension as inference sees it: a number, a canonical expression over symbols, or unknown.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "base/function_ref.h"

namespace forethought {

struct DimPolynomial;

// Numbers cost no heap and are computed inline; symbols go through a canonical polynomial form (sums of products of
// atoms; an atom is a symbol, or floor_div, mod, min or max of two expressions), so that equal expressions compare
// equal. An operation that overflows, or that touches an unknown, is unknown. An expression may also mention dims that
// only data decide (how many elements are not zero, say), each with the most it can be.
class Dim {
 public:
  Dim() = default;                             // unknown
  Dim(int64_t v) : value_(v), known_(true) {}  // NOLINT
  static Dim unknown() { return Dim(); }
  static Dim symbol(std::string_view name);
  // A dim that only data decide, in [0, most]. `name` is for people; two of them are one dim if name, id and bound are
  // the same. The bound is upper_bound(most): without one, or where it is 0, the dim is just that.
  static Dim data(std::string_view name, uint64_t id, const Dim& most);

  bool is_known() const { return known_; }
  bool is_symbolic() const { return poly_ != nullptr; }
  bool is_unknown() const { return !known_ && !poly_; }
  bool depends_on_data() const;             // symbolic, and no set of numbers for the symbols makes it a number
  int64_t value() const { return value_; }  // of a known one
  std::optional<int64_t> known() const { return known_ ? std::optional<int64_t>(value_) : std::nullopt; }

  // The same expression for sure. Two unknowns are not the same.
  bool same(const Dim& o) const;
  bool operator==(int64_t v) const { return known_ && value_ == v; }

  // Replaces symbols, and dims that data decide, where `lookup` knows them; the result may be a number.
  Dim substitute(FunctionRef<std::optional<int64_t>(std::string_view)> lookup) const;
  void symbols(std::vector<std::string>* out) const;  // appends the names it mentions, those in bounds included

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim floor_div(const Dim& a, const Dim& b);  // rounds down; by zero: unknown
  friend Dim mod(const Dim& a, const Dim& b);        // a − b·⌊a/b⌋
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);

 private:
  friend struct DimPolynomial;
  static Dim from(DimPolynomial p);
  const DimPolynomial polynomial() const;
  int64_t value_ = 0;
  bool known_ = false;
  std::shared_ptr<const DimPolynomial> poly_;
};
Dim ceil_div(const Dim& a, const Dim& b);

// An expression without dims that data decide, which `d` does not exceed whatever they are; 0 or more, as dims are.
// Unknown where none can be proved. Of a dim that is free of them: itself.
Dim upper_bound(const Dim& d);

std::string to_string(const Dim& d);                      // "12", "2*N + floor_div(W,8)", "upto(nz.1,2*N)", "?"
std::optional<Dim> dim_from_text(std::string_view text);  // reads what to_string writes

// A shape of which the rank may be unknown.
struct SymShape {
  bool has_rank = false;
  absl::InlinedVector<Dim, 6> dims;

  static SymShape unknown() { return {}; }
  static SymShape of(std::span<const int64_t> numbers);
  static SymShape scalar() { return SymShape{true, {}}; }
  SymShape() = default;
  SymShape(bool r, absl::InlinedVector<Dim, 6> d) : has_rank(r), dims(std::move(d)) {}
  explicit SymShape(absl::InlinedVector<Dim, 6> d) : has_rank(true), dims(std::move(d)) {}

  int rank() const { return static_cast<int>(dims.size()); }
  bool is_known() const;  // rank and every dim a number
  bool same(const SymShape& o) const;
  Dim elements() const;  // product; unknown without rank
  // The dims as numbers, if they all are.
  std::optional<absl::InlinedVector<int64_t, 8>> numbers() const;
};
std::string to_string(const SymShape& s);  // "[N,3,224]", "?" without rank

// Numpy's broadcast of two dims or shapes; nullopt if they cannot match. Where a symbol meets a number other than 1 the
// number wins, where it meets another symbol the result is unknown.
std::optional<Dim> broadcast(const Dim& a, const Dim& b);
std::optional<SymShape> broadcast(const SymShape& a, const SymShape& b);

// What is known of a small integer (or float) tensor at load: its elements, row-major. Its shape stands elsewhere.
struct SymValue {
  bool is_float = false;
  absl::InlinedVector<Dim, 8> ints;
  absl::InlinedVector<double, 4> floats;
  size_t size() const { return is_float ? floats.size() : ints.size(); }
};
constexpr size_t kMaxPropagated = 256;  // larger tensors are not followed

}  // namespace forethought
