// A histogram of nanoseconds: 64 slots for each power of two, so a value is known to 1.6 %.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#define SLOTS (64 * 64)

typedef struct {
  uint64_t count, max;
  double sum;
  uint32_t slots[SLOTS];
} histogram;

static inline void histogram_add(histogram *h, uint64_t ns) {
  int slot = ns;
  if (ns >= 64) {
    int exponent = 63 - __builtin_clzll(ns);
    slot = (exponent - 5) * 64 + ((ns >> (exponent - 6)) & 63);
  }
  h->count++;
  h->sum += ns;
  if (ns > h->max) h->max = ns;
  h->slots[slot]++;
}

static inline double slot_middle(int slot) {
  return slot < 64 ? slot : ldexp(64 + slot % 64 + 0.5, slot / 64 - 1);
}

static inline double histogram_quantile(const histogram *h, double q) {
  uint64_t wanted = q * h->count, seen = 0;
  for (int i = 0; i < SLOTS; i++)
    if ((seen += h->slots[i]) > wanted) return slot_middle(i);
  return h->max;
}

// Prints `"name": {...}` in microseconds, or null where nothing was seen.
static inline void histogram_print(const char *name, const histogram *h) {
  if (!h->count) {
    printf(",\"%s\":null", name);
    return;
  }
  printf(",\"%s\":{\"n\":%llu,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"max\":%.1f,\"mean\":%.1f}",
         name, (unsigned long long)h->count, histogram_quantile(h, .5) / 1e3,
         histogram_quantile(h, .9) / 1e3, histogram_quantile(h, .99) / 1e3, h->max / 1e3,
         h->sum / h->count / 1e3);
}
