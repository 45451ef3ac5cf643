// Reads HTTP/1.1 answers and finds in them what the engine wrote, whatever a gateway wrapped it in.
#pragma once
#include "histogram.h"
#include <stddef.h>
#include <stdint.h>

enum reading { HEAD, FIXED_BODY, BODY_UNTIL_CLOSE, CHUNK_SIZE, CHUNK, CHUNK_END, TRAILER };

typedef struct {
  int fd, connected, busy;
  size_t sent; // of the request
  uint64_t asked_at, last_token_at;

  enum reading reading;
  char head[8192];
  int head_len;
  size_t left; // of the body, or of this chunk
  int status, close_after, trailer_line;

  long tokens;
  int digits; // of a token under way: 0 none, 1 after "~", ...
  uint32_t token_time;
  int whole; // a plain answer's last word was seen
  int tail_len;
  char tail[8]; // the end of the last read, where that word may have begun
} exchange;

typedef struct {
  histogram total, first_token, one_way, gap;
  uint64_t requests, errors, tokens, bytes, reads, reconnects;
  int counting; // 0 in the warm-up and after the deadline
} measured;

extern measured found;
extern int wanted_tokens; // 0: plain answers

// Returns 1 when the answer ended within these bytes, 0 when there is more to come, -1 for no HTTP.
int read_answer(exchange *x, const char *data, size_t size, uint64_t now);
int is_good(const exchange *x);
