#include "ops/control/states.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/checked.h"
#include "ops/control/body_values.h"

namespace forethought {

StatusOr<StateHomes> StateHomes::plan(std::span<const Operand> outputs, int states, size_t* scratch) {
  StateHomes h;
  h.states.resize(static_cast<size_t>(states));
  for (int s = 0; s < states && s < static_cast<int>(outputs.size()); ++s) {
    const Operand& o = outputs[s];
    if (!is_planned(o)) continue;
    const auto bytes = storage_bytes(o.dtype, o.layout, o.dims);
    if (!bytes) return invalid(absl::StrCat("state ", s, " has no representable size"));
    h.states[s] = {true, *bytes, *scratch};
    *scratch += round_up(static_cast<size_t>(*bytes), 64);
  }
  return h;
}

void States::begin(const StateHomes& homes, std::span<Value> in) {
  homes_ = &homes;
  in_ = in;
  home_.assign(in.size(), -1);
  target_.assign(in.size(), -1);
  taken_.assign(2 * in.size(), false);
  next_.clear();
  next_.resize(in.size());
  next_home_.assign(in.size(), -1);
}

void States::mark_in_use() {
  taken_.assign(taken_.size(), false);
  for (const int h : home_)
    if (h >= 0) take(h);
}

void* States::address(const RunCtx& c, int home) const {
  const int s = home / 2;
  if (home % 2 == 0) return c.out(s).data;
  return c.scratch() + homes_->states[static_cast<size_t>(s)].scratch_offset;
}

// Its own homes first. There always is one: n states of a size have 2·n homes, of which n hold what is read and fewer
// than n what is written before.
int States::free_home(int state, bool prefer_output) const {
  const int first = 2 * state + (prefer_output ? 0 : 1), second = first ^ 1;
  if (!taken_[static_cast<size_t>(first)]) return first;
  if (!taken_[static_cast<size_t>(second)]) return second;
  const int64_t bytes = homes_->states[static_cast<size_t>(state)].bytes;
  for (size_t h = 0; h < taken_.size(); ++h) {
    const StateHomes::State& other = homes_->states[h / 2];
    if (!taken_[h] && other.planned && other.bytes == bytes) return static_cast<int>(h);
  }
  return -1;
}

void States::offer(const RunCtx& c, bool to_output, std::span<Value> out) {
  mark_in_use();
  for (size_t s = 0; s < in_.size(); ++s) {
    out[s] = Value();
    target_[s] = -1;
    if (!homes_->states[s].planned) continue;
    const int home = free_home(static_cast<int>(s), to_output);
    if (home < 0) continue;
    take(home);
    target_[s] = home;
    Tensor t = c.out(static_cast<int>(s)).tensor();
    t.data = address(c, home);
    out[s] = std::move(t);
  }
}

Status States::turn(RunCtx& c, BodyHost& host, std::span<const Value> inputs, size_t scalars, std::span<Value> out,
                    std::span<const int32_t> passed) {
  const auto first_state = static_cast<size_t>(in_.data() - inputs.data());
  for (size_t s = 0; s < in_.size(); ++s) {
    const int32_t from = passed[s];
    next_home_[s] = -1;
    if (from == BodyHost::kWritten) {
      next_[s] = std::move(out[s]);
      const bool placed = target_[s] >= 0 && next_[s].is_tensor() && next_[s].tensor().data == address(c, target_[s]);
      if (placed) next_home_[s] = target_[s];
      if (!placed) RETURN_IF_ERROR(own(host, next_[s]));
      continue;
    }
    if (from == BodyHost::kBodyConstant) {
      next_[s] = std::move(out[s]);
      continue;
    }
    const auto i = static_cast<size_t>(from);
    next_[s] = inputs[i];
    if (i >= first_state && i < first_state + in_.size()) next_home_[s] = home_[i - first_state];
    const bool lent_home = next_home_[s] >= 0 && !homes_->states[s].planned;
    if (i < scalars || lent_home) {
      next_home_[s] = -1;
      RETURN_IF_ERROR(own(host, next_[s]));
    }
  }
  for (size_t s = 0; s < in_.size(); ++s) in_[s] = std::move(next_[s]);
  home_.swap(next_home_);
  return absl::OkStatus();
}

Status States::finish(RunCtx& c, BodyHost& host) {
  // What lies in the output of another state steps aside first.
  mark_in_use();
  for (size_t s = 0; s < in_.size(); ++s) {
    const int home = home_[s];
    if (home < 0 || home % 2 != 0 || home == 2 * static_cast<int>(s)) continue;
    int aside = -1;
    for (size_t h = 1; aside < 0 && h < taken_.size(); h += 2)
      if (!taken_[h] && homes_->states[h / 2].planned && homes_->states[h / 2].bytes == homes_->states[s].bytes)
        aside = static_cast<int>(h);
    if (aside < 0) return internal(absl::StrCat("state ", s, " has no place to step aside to"));
    Tensor& t = in_[s].tensor();
    std::memcpy(address(c, aside), t.data, static_cast<size_t>(t.bytes()));
    host.count_copy(t.bytes());
    t.data = address(c, aside);
    home_[s] = aside;
    take(aside);
  }
  for (size_t s = 0; s < in_.size(); ++s) {
    if (c.has_out(static_cast<int>(s)))
      RETURN_IF_ERROR(deliver(c, host, static_cast<int>(s), homes_->states[s].planned, std::move(in_[s])));
    in_[s] = Value();
    next_[s] = Value();
  }
  return absl::OkStatus();
}

}  // namespace forethought
