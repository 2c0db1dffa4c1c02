// Small models for the tests of the public API, as the bytes of their files.
#pragma once

#include <string>

namespace forethought_testing {

std::string affine_model();    // y = 2·x + 1 and s = sum(y), x: f32[N,3], y: f32[N,3]; metadata "alphabet": "abc"
std::string state_model();     // next = h + x, y = 10·next, all f32[3]
std::string sequence_model();  // q = [a, b], a and b: f32[2]
std::string layers_model();    // two products with constants, a softmax between: x: f32[N,16]
std::string branches_model();  // y, z: two branches of an If over x: f32[N,4], by the data; NonZero and what follows
std::string parallel_model();  // y: x, f32[N,8], by two long ways that lanes may take at one time, and their sum
// y = x after m trips of a loop that turns its sign and never ends by itself; all = each state, if it stacks them.
std::string loop_model(bool stacks);

}  // namespace forethought_testing
