#define _GNU_SOURCE
#include "requests.h"
#include "answers.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MODELS                                                                                     \
  "{\"object\":\"list\",\"data\":[{\"id\":\"" MODEL "\",\"object\":\"model\","                     \
  "\"created\":1796092691,\"owned_by\":\"sglang\",\"root\":\"" MODEL "\",\"parent\":null,"         \
  "\"max_model_len\":131072}]}"
#define SERVER_INFO                                                                                \
  "{\"model_path\":\"" MODEL "\",\"served_model_name\":\"" MODEL "\",\"tokenizer_path\":\"" MODEL  \
  "\",\"is_generation\":true,\"version\":\"0.5.23\",\"tp_size\":1,\"dp_size\":1}"

static void set_behaviour(const char *query, const char *end) {
  struct {
    const char *name;
    long *value;
  } settings[] = {
      {"tokens", &now_behaving.tokens},     {"delay_us", &now_behaving.delay_us},
      {"first_us", &now_behaving.first_us}, {"think_us", &now_behaving.think_us},
      {"batch", &now_behaving.batch},       {"sync", &now_behaving.sync},
  };
  char text[1024];
  size_t size = end - query < (long)sizeof text ? end - query : (long)sizeof text - 1;
  memcpy(text, query, size);
  text[size] = 0;
  for (char *pair = strtok(text, "&"); pair; pair = strtok(NULL, "&")) {
    char *equals = strchr(pair, '=');
    if (!equals) continue;
    *equals = 0;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
      if (!strcmp(pair, settings[i].name)) *settings[i].value = atol(equals + 1);
  }
}

// Does the JSON say `"key": true` anywhere? Good enough for the requests of this rig.
static int says_true(const char *json, size_t size, const char *key) {
  const char *end = json + size;
  while ((json = memmem(json, end - json, key, strlen(key)))) {
    json += strlen(key);
    const char *value = json;
    while (value < end && (*value == ' ' || *value == ':')) value++;
    if (value + 4 <= end && !memcmp(value, "true", 4)) return 1;
  }
  return 0;
}

static char *header(char *head, char *end, const char *name) {
  size_t size = strlen(name);
  for (char *line = memmem(head, end - head, "\r\n", 2); line && line + 2 < end;
       line = memmem(line + 2, end - line - 2, "\r\n", 2)) {
    if (strncasecmp(line + 2, name, size) || line[2 + size] != ':') continue;
    char *value = line + 3 + size;
    while (*value == ' ') value++;
    return value;
  }
  return NULL;
}

// The size of the body as it was sent, or -1 while it is not whole. *content: without its last
// chunk.
static long body_size(char *head, char *body, size_t received, size_t *content) {
  char *value = header(head, body - 2, "content-length");
  if (value) {
    *content = strtoul(value, NULL, 10);
    return received < *content ? -1 : (long)*content;
  }
  *content = 0;
  value = header(head, body - 2, "transfer-encoding");
  if (!value || strncasecmp(value, "chunked", 7)) return 0;
  // A chunked body is only searched, never decoded: it is whole when its last chunk is there.
  char *last = memmem(body, received, "0\r\n\r\n", 5);
  while (last && last != body && last[-1] != '\n')
    last = memmem(last + 1, received - (last + 1 - body), "0\r\n\r\n", 5);
  if (!last) return -1;
  *content = last - body;
  return *content + 5;
}

static int starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

void next_request(connection *c) {
  if (c->mode != IDLE || !c->in_len) return;
  c->in[c->in_len] = 0;
  char *end_of_head = memmem(c->in, c->in_len, "\r\n\r\n", 4);
  if (!end_of_head) return;
  char *body = end_of_head + 4;
  size_t content;
  long size = body_size(c->in, body, c->in_len - (body - c->in), &content);
  if (size < 0) return;
  char *value = header(c->in, body - 2, "connection");
  c->close_after = value && !strncasecmp(value, "close", 5);

  char *path = c->in + (starts(c->in, "POST ") ? 5 : 4);
  char *info = strstr(path, "info");
  int chat = starts(path, "/v1/chat/completions"), stream = 0, usage = 0;
  const char *json = NULL;
  if (chat) {
    stream = says_true(body, content, "\"stream\"");
    usage = stream && says_true(body, content, "\"include_usage\"");
  } else if (starts(path, "/__behave?")) {
    set_behaviour(path + 10, strpbrk(path, " \r"));
    json = "{}";
  } else if (starts(path, "/v1/models")) {
    json = MODELS;
  } else if (starts(path, "/health") || starts(path, "/abort_request")) {
    json = "{}";
  } else if (info &&
             info < strpbrk(path, " \r")) { // /get_server_info, /server_info, /get_model_info
    json = SERVER_INFO;
  }

  // The request is understood: make room for the next before answering, which may come back here.
  size_t used = body - c->in + size;
  memmove(c->in, c->in + used, c->in_len - used);
  c->in_len -= used;
  if (stream)
    begin_stream(c, usage);
  else if (chat)
    begin_plain(c);
  else
    answer_json(c, json ? "200 OK" : "404 Not Found", json ? json : "{\"detail\":\"Not Found\"}");
}
