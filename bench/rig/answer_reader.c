#define _GNU_SOURCE
#include "answer_reader.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LAST_WORD "Zq9END"
#define LAST_WORD_SIZE 6

measured found;
int wanted_tokens;

int is_good(const exchange *x) {
  return x->status == 200 && (wanted_tokens ? x->tokens == wanted_tokens : x->whole);
}

static void token(exchange *x, uint64_t now) {
  if (x->tokens >= wanted_tokens) return; // a closing event may repeat the whole text
  x->tokens++;
  if (found.counting) {
    found.tokens++;
    int64_t took = (int64_t)((now / 1000) % 1000000000ull) - (int64_t)x->token_time;
    if (took < -500000000) took += 1000000000; // the token's clock has nine digits
    histogram_add(&found.one_way, took > 0 ? took * 1000ull : 0);
    if (x->tokens == 1)
      histogram_add(&found.first_token, now - x->asked_at);
    else
      histogram_add(&found.gap, now - x->last_token_at);
  }
  x->last_token_at = now;
}

// "~" and nine digits, which may come in several pieces.
static void find_tokens(exchange *x, const char *data, const char *end, uint64_t now) {
  while (data < end) {
    if (!x->digits) {
      data = memchr(data, '~', end - data);
      if (!data) return;
      data++;
      x->digits = 1;
      x->token_time = 0;
    } else if (*data >= '0' && *data <= '9') {
      x->token_time = x->token_time * 10 + (*data++ - '0');
      if (++x->digits == 10) {
        x->digits = 0;
        token(x, now);
      }
    } else {
      x->digits = 0;
    }
  }
}

static void find_last_word(exchange *x, const char *data, size_t size) {
  if (x->whole) return;
  char seam[2 * LAST_WORD_SIZE];
  size_t head = size < LAST_WORD_SIZE - 1 ? size : LAST_WORD_SIZE - 1;
  memcpy(seam, x->tail, x->tail_len);
  memcpy(seam + x->tail_len, data, head);
  x->whole = memmem(data, size, LAST_WORD, LAST_WORD_SIZE) ||
             memmem(seam, x->tail_len + head, LAST_WORD, LAST_WORD_SIZE);
  x->tail_len = head;
  memcpy(x->tail, data + size - head, head);
}

static void content(exchange *x, const char *data, size_t size, uint64_t now) {
  if (wanted_tokens)
    find_tokens(x, data, data + size, now);
  else
    find_last_word(x, data, size);
}

static char *header(char *head, const char *name) {
  size_t size = strlen(name);
  for (char *line = strstr(head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
    if (strncasecmp(line + 2, name, size) || line[2 + size] != ':') continue;
    char *value = line + 3 + size;
    while (*value == ' ') value++;
    return value;
  }
  return NULL;
}

static void understand_head(exchange *x) {
  x->status = atoi(x->head + 9); // behind "HTTP/1.1 "
  char *value = header(x->head, "connection");
  x->close_after = value && !strncasecmp(value, "close", 5);
  x->left = 0;
  if ((value = header(x->head, "content-length"))) {
    x->left = strtoul(value, NULL, 10);
    x->reading = FIXED_BODY;
  } else if ((value = header(x->head, "transfer-encoding")) && !strncasecmp(value, "chunked", 7)) {
    x->reading = CHUNK_SIZE;
  } else {
    x->reading = BODY_UNTIL_CLOSE;
    x->close_after = 1;
  }
}

// How many of the bytes belong to the head; -1: it is too long.
static long read_head(exchange *x, const char *data, size_t size) {
  size_t room = sizeof x->head - 1 - x->head_len, taken = size < room ? size : room;
  int searched = x->head_len > 3 ? x->head_len - 3 : 0, before = x->head_len;
  if (!taken) return -1;
  memcpy(x->head + before, data, taken);
  x->head_len += taken;
  x->head[x->head_len] = 0;
  char *end = memmem(x->head + searched, x->head_len - searched, "\r\n\r\n", 4);
  if (!end) return taken;
  end[2] = 0;
  understand_head(x);
  return end + 4 - x->head - before;
}

static void read_chunk_size(exchange *x, char c) {
  if (c >= '0' && c <= '9')
    x->left = x->left * 16 + c - '0';
  else if ((c | 32) >= 'a' && (c | 32) <= 'f')
    x->left = x->left * 16 + (c | 32) - 'a' + 10;
  else if (c == '\n') {
    x->reading = x->left ? CHUNK : TRAILER;
    x->trailer_line = 0;
  }
}

int read_answer(exchange *x, const char *data, size_t size, uint64_t now) {
  const char *end = data + size;
  while (data < end) {
    size_t rest = end - data;
    switch (x->reading) {
    case HEAD: {
      long used = read_head(x, data, rest);
      if (used < 0) return -1;
      data += used;
      if (x->reading == FIXED_BODY && !x->left) return 1;
      break;
    }
    case FIXED_BODY:
    case CHUNK: {
      size_t part = rest < x->left ? rest : x->left;
      content(x, data, part, now);
      data += part;
      x->left -= part;
      if (x->left) break;
      if (x->reading == FIXED_BODY) return 1;
      x->reading = CHUNK_END;
      break;
    }
    case BODY_UNTIL_CLOSE:
      content(x, data, rest, now);
      data = end;
      break;
    case CHUNK_SIZE:
      read_chunk_size(x, *data++);
      break;
    case CHUNK_END:
      if (*data++ == '\n') x->reading = CHUNK_SIZE; // left is 0 here
      break;
    case TRAILER: {
      char c = *data++;
      if (c == '\n' && !x->trailer_line) return 1;
      x->trailer_line = c == '\n' ? 0 : c == '\r' ? x->trailer_line : 1;
      break;
    }
    }
  }
  return 0;
}
