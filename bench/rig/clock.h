// The one clock of the rig. Engine and client run on the same machine, so both may compare its
// values.
#pragma once
#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}
