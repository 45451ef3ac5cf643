#define _GNU_SOURCE
#include "answers.h"
#include "clock.h"
#include "requests.h"
#include <stdio.h>
#include <string.h>

#define SENDS_PER_TURN 16 // of one stream, before another gets its turn
#define CREATED "1796092701"
#define HEAD "HTTP/1.1 200 OK\r\ndate: Tue, 01 Dec 2026 01:58:21 GMT\r\nserver: uvicorn\r\n"

behaviour now_behaving = {.tokens = 128, .batch = 1};

void after_answer(connection *c) {
  c->mode = IDLE;
  c->due = 0;
  if (c->close_after)
    connection_drop(c);
  else if (c->in_len)
    next_request(c);
}

void answer_json(connection *c, const char *status, const char *json) {
  char answer[4096];
  int size =
      snprintf(answer, sizeof answer,
               "HTTP/1.1 %s\r\ncontent-length: %zu\r\ncontent-type: application/json\r\n\r\n%s",
               status, strlen(json), json);
  if (put(c, answer, size) < 0)
    connection_drop(c);
  else
    after_answer(c);
}

// ---- Plain answers: made once for each number of tokens ---------------------------

static char plain[65536];
static int plain_size;
static long plain_tokens = -1;

static void make_plain(long tokens) {
  static const char *words[] = {" the", " capital", " of",  " France", " is",   " Paris",
                                ",",    " and",     " it",  " has",    " been", " since",
                                " 987", ".",        " The", " city"};
  char text[32768], body[60000];
  int n = 0;
  for (long i = 0; i < tokens && n < 32000; i++)
    n += sprintf(text + n, "%s", words[(i * 7 + i / 16) % 16]);
  sprintf(text + n, " Zq9END"); // by which the client knows that the answer is whole
  int size = sprintf(
      body,
      "{\"id\":\"3678b9de1ca44964ba3f4305d75a57c1\",\"object\":\"chat.completion\","
      "\"created\":" CREATED ",\"model\":\"" MODEL
      "\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
      "\"content\":\"%s\",\"reasoning_content\":null,\"tool_calls\":null},\"logprobs\":null,"
      "\"finish_reason\":\"stop\",\"matched_stop\":128009}],\"usage\":{\"prompt_tokens\":212,"
      "\"total_tokens\":%ld,\"completion_tokens\":%ld,\"prompt_tokens_details\":{\"cached_tokens\":"
      "0},"
      "\"reasoning_tokens\":0,\"completion_tokens_details\":null},"
      "\"metadata\":{\"weight_version\":\"default\"}}",
      text, 212 + tokens, tokens);
  plain_size = sprintf(plain, HEAD "content-length: %d\r\ncontent-type: application/json\r\n\r\n%s",
                       size, body);
  plain_tokens = tokens;
}

void answer_plain(connection *c) {
  if (plain_tokens != now_behaving.tokens) make_plain(now_behaving.tokens);
  if (put(c, plain, plain_size) < 0)
    connection_drop(c);
  else
    after_answer(c);
}

void begin_plain(connection *c) {
  if (!now_behaving.think_us) {
    answer_plain(c);
    return;
  }
  c->mode = THINKING;
  timer_set(c, now_ns() + now_behaving.think_us * 1000ull);
}

// ---- Streams ----------------------------------------------------------------------

static int http_chunk(char *to, const char *payload, int size) {
  int head = sprintf(to, "%x\r\n", size);
  memcpy(to + head, payload, size);
  memcpy(to + head + size, "\r\n", 2);
  return head + size + 2;
}

static int event(char *to, connection *c, const char *delta, const char *finish, const char *stop) {
  char payload[1024];
  int size =
      sprintf(payload,
              "data: {\"id\":\"%s\",\"object\":\"chat.completion.chunk\",\"created\":" CREATED
              ",\"model\":\"" MODEL "\",\"choices\":[{\"index\":0,\"delta\":{"
              "\"reasoning_content\":null%s},\"logprobs\":null,\"finish_reason\":%s,"
              "\"matched_stop\":%s}]}\n\n",
              c->id, delta, finish, stop);
  return http_chunk(to, payload, size);
}

static int usage_event(char *to, connection *c) {
  char payload[1024];
  long tokens = now_behaving.tokens;
  int size =
      sprintf(payload,
              "data: {\"id\":\"%s\",\"object\":\"chat.completion.chunk\",\"created\":" CREATED
              ",\"model\":\"" MODEL "\",\"choices\":[],\"usage\":{\"prompt_tokens\":212,"
              "\"total_tokens\":%ld,\"completion_tokens\":%ld,\"prompt_tokens_details\":"
              "{\"cached_tokens\":0},\"reasoning_tokens\":0,"
              "\"completion_tokens_details\":null}}\n\n",
              c->id, 212 + tokens, tokens);
  return http_chunk(to, payload, size);
}

// A token says when it was sent: "~", the clock's microseconds modulo 1e9, and a space, since a gateway may
// hold the last character back until it knows that more follows.
static void write_time(char *digits) {
  uint32_t us = (now_ns() / 1000) % 1000000000u;
  for (int i = 8; i >= 0; i--, us /= 10) digits[i] = '0' + us % 10;
}

void begin_stream(connection *c, int wants_usage) {
  static uint64_t counter;
  sprintf(c->id, "%016llx%016llx",
          (unsigned long long)(0x3678b9de1ca44964ull ^ (counter * 0x9e3779b97f4a7c15ull)),
          (unsigned long long)counter);
  counter++;
  c->mode = STREAMING;
  c->wants_usage = wants_usage;
  c->tokens_left = now_behaving.tokens;
  c->batch = now_behaving.batch < 1 ? 1 : now_behaving.batch;
  c->delay = now_behaving.delay_us * 1000ull;
  c->closing_sent = c->head_sent = 0;
  c->event_len = event(c->event, c, ",\"content\":\"~000000000 \"", "null", "null");
  c->event_digits = (int)(strchr(c->event, '~') - c->event) + 1;
  if (now_behaving.first_us)
    timer_set(c, now_ns() + now_behaving.first_us * 1000ull);
  else
    run_soon(c);
}

static int send_head(connection *c) {
  char first[1024];
  c->head_sent = 1;
  const char *head = HEAD "content-type: text/event-stream; charset=utf-8\r\n"
                          "transfer-encoding: chunked\r\n\r\n";
  if (put(c, head, strlen(head)) < 0) return -1;
  return put(c, first, event(first, c, ",\"role\":\"assistant\",\"content\":\"\"", "null", "null"));
}

// One send of up to `batch` tokens.
static int send_tokens(connection *c) {
  char many[16384];
  long count = c->batch < c->tokens_left ? c->batch : c->tokens_left;
  long room = sizeof many / sizeof c->event;
  if (count > room) count = room;
  c->tokens_left -= count;
  write_time(c->event + c->event_digits);
  if (count == 1) return put(c, c->event, c->event_len);
  for (long i = 0; i < count; i++) memcpy(many + i * c->event_len, c->event, c->event_len);
  return put(c, many, count * c->event_len);
}

static uint64_t next_token_due(connection *c, int first) {
  uint64_t now = now_ns();
  if (now_behaving.sync) return (now / c->delay + 1) * c->delay;
  uint64_t due = (first || !c->due ? now : c->due) + c->delay;
  return due + 1000000000ull < now ? now : due; // a second behind: don't try to catch up
}

static int send_closing(connection *c) {
  char frame[1536];
  int result = 1;
  while (result == 1 && c->closing_sent < 4) {
    int size = 0;
    switch (c->closing_sent++) {
    case 0:
      size = event(frame, c, "", "\"stop\"", "128009");
      break;
    case 1:
      size = c->wants_usage ? usage_event(frame, c) : 0;
      break;
    case 2:
      size = http_chunk(frame, "data: [DONE]\n\n", 14);
      break;
    case 3:
      size = sprintf(frame, "0\r\n\r\n");
      break;
    }
    if (size) result = put(c, frame, size);
  }
  return result;
}

void continue_stream(connection *c) {
  if (c->out_len != c->out_sent) return; // goes on when the socket has taken the rest
  int result = 1, first = !c->head_sent;
  if (first) result = send_head(c);
  for (int turn = 0; result == 1 && c->tokens_left > 0 && turn < SENDS_PER_TURN; turn++) {
    result = send_tokens(c);
    if (result >= 0 && c->delay && c->tokens_left > 0) {
      timer_set(c, next_token_due(c, first));
      return;
    }
  }
  if (result == 1 && c->tokens_left > 0) {
    run_soon(c);
    return;
  }
  if (result == 1) result = send_closing(c);
  if (result < 0)
    connection_drop(c);
  else if (result == 1)
    after_answer(c);
}
