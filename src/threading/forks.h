// Whether threads that something started are here, or in the process that this one was forked from.
#pragma once

namespace forethought {

// How many forks lie between this process and the one that called this first. What is compared with a number of
// before tells whether threads that were started then are here.
int fork_depth();

}  // namespace forethought
