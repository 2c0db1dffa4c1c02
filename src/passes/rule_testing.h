// How rules are tested: by the graph before and after as texts, and by running both.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passes/passes.h"

namespace forethought {

// A graph from its text, bound and inferred; fails the test with the status if it is none.
std::unique_ptr<Graph> graph_of(std::string_view text);

// Runs one rule of the pipeline by its name, alone, until it applies no more.
Journal run_rule(Graph& graph, std::string_view rule, const PassOptions& options = {});

// The rule makes `after` of `before`: the same operators, attributes, constants (f32 ones to 1e-6 of the largest) and
// edges, whatever the names. Then both graphs run on random inputs (symbols and unknown dims are 2) and must agree to
// `tolerance`, relative to 1 + |value|; 0: in every bit.
void expect_rewrite(std::string_view rule, std::string_view before, std::string_view after, double tolerance = 0);

// The rule changes nothing, and the journal says why in words that contain `reason`; an empty one: it says nothing.
void expect_declined(std::string_view rule, std::string_view text, std::string_view reason);

// Outputs of a graph without bodies, node by node; for random inputs see random_inputs().
std::vector<Tensor> run_plainly(const Graph& graph, const std::vector<Tensor>& inputs);
std::vector<Tensor> random_inputs(const Graph& graph);

}  // namespace forethought
