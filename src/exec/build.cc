// Resolves a program to arrays: arguments, and for every base the list of arguments that follow its address.
#include <fmt/format.h>

#include <algorithm>

#include "exec/frame.h"

namespace forethought {
namespace {

// Turns (key, item) pairs, in order, into lists by key.
template <typename Lists, typename Pairs>
void fill_lists(Lists& lists, size_t keys, const Pairs& pairs) {
  lists.first.assign(keys + 1, 0);
  for (const auto& [key, item] : pairs) ++lists.first[key + 1];
  for (size_t k = 0; k < keys; ++k) lists.first[k + 1] += lists.first[k];
  lists.items.resize(pairs.size());
  std::vector<int32_t> next(lists.first.begin(), lists.first.end() - 1);
  for (const auto& [key, item] : pairs) lists.items[next[key]++] = item;
}

Arg static_arg(const Program& program, const ProgramValue& value) {
  Arg arg;
  arg.present = true;
  arg.dtype = value.dtype;
  arg.layout = value.layout;
  if (value.known) {
    arg.dims_data = value.dims.data();
    arg.rank = static_cast<int32_t>(value.dims.size());
    arg.elements = element_count(value.dims).value_or(0);
    if (!value.strides.empty()) arg.strides_data = value.strides.data();
  }
  if (value.base == Base::weight && value.index >= 0) {  // a constant that is read only in its packed form has no place
    arg.data = static_cast<std::byte*>(program.weights[value.index].data) + value.offset + value.first;
  }
  return arg;
}

}  // namespace

Frame::Frame(const ExecEnvironment& environment, std::shared_ptr<const Program> program, int32_t depth)
    : environment_(environment), program_(std::move(program)), depth_(depth) {
  hosts_.assign(static_cast<size_t>(std::max(program_->lanes, 1)), Host(*this));  // steps point into it
  devices_.resize(environment_.devices.size());
  const int64_t region = program_->region_bytes;
  slab_.reserve(region > 0 ? static_cast<size_t>((program_->slab_bytes + region - 1) / region)
                           : 1);  // all it will hold
  slab_.push_back(nullptr);
  build_steps();
  build_groups();
  build_lanes();
}

Frame::~Frame() = default;

void Frame::build_lanes() {
  const Program& p = *program_;
  const bool on_device = std::ranges::any_of(p.lane_device, [](int32_t d) { return d >= 0; });
  if (p.lanes == 1 && !on_device) return;
  lanes_ = std::make_unique<Lanes>(environment_, p, static_cast<Lanes::HostSteps&>(*this));
  for (size_t i = 0; i < steps_.size(); ++i)
    lane_steps_.push_back({static_cast<int32_t>(i), steps_[i].runnable, &steps_[i].ctx});
  for (size_t i = 0; i < steps_.size(); ++i) {
    const auto lane = static_cast<size_t>(p.steps[i].lane);
    if (!steps_[i].special || lane >= p.lane_device.size() || p.lane_device[lane] < 0) continue;
    unfit_ =
        internal(fmt::format("node {} is on a device's lane, but has to do with values whose "
                             "size only the run tells",
                             p.steps[i].name));
  }
}

int32_t Frame::group_of(int32_t value) const {
  const ProgramValue& v = program_->values[value];
  const auto inputs = static_cast<int32_t>(program_->inputs.size());
  const auto outputs = static_cast<int32_t>(program_->outputs.size());
  switch (v.base) {
    case Base::input:
      return v.index;
    case Base::output:
      return inputs + v.index;
    case Base::side:
      return inputs + outputs + (v.root >= 0 ? v.root : value);
    case Base::object:
      return is_plain_object(v) ? -1 : inputs + outputs + value;
    default:
      return -1;
  }
}

bool Frame::is_special(const ProgramStep& step) const {
  if (!step.runnable || !step.extras->release_after.empty() || !step.extras->reads.empty()) return true;
  return std::any_of(step.outputs.begin(), step.outputs.end(), [&](int32_t v) {
    if (v < 0) return false;
    const Base base = program_->values[v].base;
    return base == Base::side || base == Base::object || !program_->values[v].known;
  });
}

void Frame::build_steps() {
  const Program& p = *program_;
  size_t args = 0, children = 0;
  for (const ProgramStep& s : p.steps) {
    args += s.inputs.size() + s.outputs.size();
    children += s.extras->bodies.size();
  }
  args_.reserve(args);  // spans point into it
  steps_.resize(p.steps.size());
  children_.resize(children);
  children = 0;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const ProgramStep& from = p.steps[i];
    Step& step = steps_[i];
    const size_t first = args_.size();
    for (const auto* list : {&from.inputs, &from.outputs}) {
      for (int32_t v : *list) args_.push_back(v < 0 ? Arg{} : static_arg(p, p.values[v]));
    }
    step.runnable = from.runnable;
    step.ctx.inputs = {args_.data() + first, from.inputs.size()};
    step.ctx.outputs = {args_.data() + first + from.inputs.size(), from.outputs.size()};
    step.ctx.packed = from.packed;
    step.ctx.scratch_shared = from.scratch_shared;
    step.ctx.scratch_per_worker = from.scratch_per_worker;
    const auto lane = static_cast<size_t>(from.lane);
    step.ctx.host = &hosts_[lane < hosts_.size() ? lane : 0];
    step.special = is_special(from);
    step.first_child = static_cast<int32_t>(children);
    children += from.extras->bodies.size();
    if (from.scratch_shared + from.scratch_per_worker > 0) {
      const int32_t device = lane < p.lane_device.size() ? p.lane_device[lane] : -1;
      auto& fixups = known_device(device) ? devices_[device].scratch_fixups : scratch_fixups_;
      fixups.push_back({static_cast<int32_t>(i), from.scratch_offset});
    }
  }
}

void Frame::build_groups() {
  const Program& p = *program_;
  std::vector<std::pair<int32_t, Fixup>> by_group;
  std::vector<std::pair<int32_t, int32_t>> by_value;
  int32_t arg = 0;
  for (const ProgramStep& s : p.steps) {
    for (const auto* list : {&s.inputs, &s.outputs}) {
      for (int32_t v : *list) {
        const int32_t a = arg++;
        if (v < 0) continue;
        const ProgramValue& value = p.values[v];
        by_value.push_back({v, a});
        if (value.base == Base::slab) {
          auto& fixups = known_device(value.device) ? devices_[value.device].fixups : slab_fixups_;
          fixups.push_back({a, value.offset + value.first});
        } else if (const int32_t group = group_of(v); group >= 0 && !is_plain_object(value)) {
          by_group.push_back({group, {a, value.offset + value.first}});
        }
      }
    }
  }
  const size_t groups = p.inputs.size() + p.outputs.size() + p.values.size();
  fill_lists(uses_, p.values.size(), by_value);
  fill_lists(fixups_, groups, by_group);
  bound_.assign(groups, nullptr);
  gives_objects_ = std::ranges::any_of(p.outputs, [&](int32_t v) { return is_plain_object(p.values[v]); });
  preset_.assign(p.outputs.size(), 0);

  held_index_.assign(p.values.size(), -1);
  int32_t places = 0;
  for (size_t v = 0; v < p.values.size(); ++v) {
    const Base base = p.values[v].base;
    if (base == Base::side || base == Base::object) held_index_[v] = places++;
  }
  held_.resize(places);
  for (size_t v = 0; v < p.values.size(); ++v) {
    if (held_index_[v] < 0 || !is_plain_object(p.values[v])) continue;
    for (int32_t a : uses_[v]) args_[a].object = &held(static_cast<int32_t>(v));
  }
}

}  // namespace forethought
