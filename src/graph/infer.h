// What a shape rule sees and says. One rule serves symbols at load and numbers at run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/dim.h"
#include "tensor/value.h"

namespace forethought {

// One input of a node: what is known of it now.
struct InferInput {
  bool present = false;
  const ValueType* type = nullptr;
  const SymShape* shape = nullptr;   // of tensors
  const Tensor* contents = nullptr;  // a constant, or the value in memory at run time; else null
  const SymValue* value = nullptr;   // elements followed through shape arithmetic; else null
};

struct InferOutput {
  bool wanted = false;
  ValueType type;
  SymShape shape;
  bool has_value = false;
  SymValue value;
};

// Infers a body graph: given what is known of its inputs, fills what is known of its outputs.
class BodyInference {
 public:
  virtual ~BodyInference() = default;
  virtual int bodies() const = 0;
  virtual int inputs(int body) const = 0;  // formal inputs, then captures
  virtual int outputs(int body) const = 0;
  virtual StatusOr<std::vector<InferOutput>> infer(int body, std::span<const InferInput> inputs) = 0;
};

// What dims of a node's outputs are called that only data decide.
class DataNames {
 public:
  virtual ~DataNames() = default;
  virtual std::string name(int out) const = 0;
  virtual uint64_t id(int out) const = 0;  // another one for each value of all graphs
};

class InferCtx {
 public:
  // `names` is null where the sizes of a run are asked for: data are there then, or a bound is of no use.
  // `wants_formulas`: answers are for by_formula() alone.
  InferCtx(std::span<const InferInput> in, std::span<InferOutput> out, BodyInference* bodies = nullptr,
           const DataNames* names = nullptr, bool wants_formulas = false)
      : in_(in), out_(out), bodies_(bodies), names_(names), wants_formulas_(wants_formulas) {}

  int inputs() const { return static_cast<int>(in_.size()); }
  int outputs() const { return static_cast<int>(out_.size()); }
  bool has_in(int i) const { return i < inputs() && in_[i].present; }
  bool wants_out(int i) const { return i < outputs() && out_[i].wanted; }
  const InferInput& in(int i) const { return in_[i]; }
  std::span<const InferInput> all_inputs() const { return in_; }

  DType dtype(int i) const;            // kUndefined if absent or no tensor
  const ValueType& type(int i) const;  // unknown if absent
  const SymShape& shape(int i) const;  // unknown if absent
  // Contents of a constant (or run-time) input; null if not there.
  const Tensor* contents(int i) const { return has_in(i) ? in_[i].contents : nullptr; }
  // The elements of a small integer or bool input as dims (int64 and int32 mostly; floats as doubles): from contents or
  // from propagation. Null if they are not known at all; single elements may still be unknown.
  const SymValue* value(int i);
  // The elements as plain numbers if all are known.
  std::optional<std::vector<int64_t>> ints(int i);
  std::optional<int64_t> scalar_int(int i);

  // Error if input i is absent or has another type than those of `allowed`.
  Status require(int i, TypeSet allowed, const char* what) const;
  // Normalises an axis of [-rank, rank); an error names the axis.
  StatusOr<int> axis(int64_t axis, int rank) const;

  // A dim of output `out` that only data decide and that is at most `most`; unknown if that has no bound.
  Dim data_dim(int out, int axis, const Dim& most) const;

  void set(int out, DType dtype, SymShape shape);
  void set_type(int out, ValueType type) { out_[out].type = std::move(type); }
  void set_value(int out, SymValue value);  // ignored above kMaxPropagated elements
  void like(int out, int in);               // same type and shape (and value)
  const InferOutput& out(int i) const { return out_[i]; }

  // States that what this call says holds as formulas. Put numbers for the symbols in what is known of the inputs: the
  // rule, asked anew, would find no error and say what its answers come to, as long as
  // - what is equal, of dims and followed elements and the constants among them, stays equal, and what is 0 or 1 stays
  //   so and nothing else becomes it, and
  // - no formula comes to less than 0 or to 2^31 or more.
  // A rule that asks more of its numbers, that one divides another say, states this only where formulas prove it, or
  // where choose() asks for it too.
  void by_formula() { by_formula_ = true; }
  bool is_by_formula() const { return by_formula_; }
  // Numpy's broadcast of dims of inputs, as broadcast() of graph/dim.h has it. Where nobody but formulas asks, two
  // expressions give the larger one: right for all numbers that broadcast, but for 0 beside 1.
  std::optional<SymShape> broadcast(const SymShape& a, const SymShape& b) const;

  BodyInference* bodies() const { return bodies_; }

 private:
  std::span<const InferInput> in_;
  std::span<InferOutput> out_;
  BodyInference* bodies_;
  const DataNames* names_;
  bool wants_formulas_;
  bool by_formula_ = false;
  std::vector<std::unique_ptr<SymValue>> decoded_;  // values read from contents, one slot an input, made when asked for
};

// Elements of a small tensor as a SymValue; nullopt for strings, large or other tensors.
std::optional<SymValue> decode_value(const Tensor& t);

}  // namespace forethought
