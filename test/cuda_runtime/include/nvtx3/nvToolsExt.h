// NVTX's ranges. Of a thread they must be as many that end as begin, which live() of machine/machine.hpp
// counts.
#pragma once

int nvtxRangePushA(const char* name);
int nvtxRangePop();
