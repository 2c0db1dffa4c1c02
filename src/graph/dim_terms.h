// The canonical form behind symbolic dims: sums of products of atoms. For the files that make up graph/dim.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/dim.h"

namespace forethought {

enum class AtomKind : uint8_t { symbol, data, floor_div, mod, min, max };
constexpr const char* kAtomNames[] = {"", "upto", "floor_div", "mod", "min", "max"};

// An indivisible factor. Ordered by kind, name, then operands, so that polynomials have one form.
struct DimAtom {
  AtomKind kind = AtomKind::symbol;
  std::string name;                           // of a symbol or of a dim that data decide
  uint64_t id = 0;                            // of a dim that data decide: tells apart what has one name
  std::shared_ptr<const DimPolynomial> a, b;  // operands; `a` of a dim that data decide is the most it can be
};

struct DimTerm {
  int64_t coefficient = 0;
  std::vector<DimAtom> atoms;  // sorted
};

struct DimPolynomial {
  std::vector<DimTerm> terms;  // sorted by atoms, no zero coefficients; the constant term (no atoms) comes first
  static Dim wrap(DimPolynomial p) { return Dim::from(std::move(p)); }
  static DimPolynomial of(const Dim& d) { return d.polynomial(); }
  static Dim wrap_atom(DimAtom atom);
};

int compare(const DimAtom& x, const DimAtom& y);

// Whether it mentions a dim that data decide.
bool depends_on_data(const DimPolynomial& p);

}  // namespace forethought
