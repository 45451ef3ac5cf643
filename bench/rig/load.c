// A closed-loop HTTP/1.1 client: so many connections, each with one request under way. One thread,
// epoll.
//
//   load PORT PATH BODY_FILE API_KEY CONNECTIONS SECONDS WARM_UP TOKENS
//
// TOKENS 0: plain answers, each must be a 200 with the engine's last word in it. TOKENS > 0:
// streams, each must be a 200 with so many tokens in it, whose digits say when the engine sent them
// (upstream.c). Only what happens between the end of the warm-up and the deadline is counted.
// Requests under way at the deadline may finish for GRACE seconds more, so that no gateway sees a
// connection cut. Prints one JSON object; times in microseconds.
#define _GNU_SOURCE
#include "answer_reader.h"
#include "clock.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define GRACE 3.0
#define PAUSE_AFTER_ERROR 1000 // microseconds: a gateway that refuses at once is not to be hammered

static int epoll, stopping;
static char *request;
static size_t request_size;
static struct sockaddr_in address;
static char last_error[600];

static void note_error(exchange *x, const char *why) {
  if (found.counting) found.errors++;
  snprintf(last_error, sizeof last_error, "%.400s; status %d, %ld tokens", why, x->status,
           x->tokens);
  for (char *c = last_error; *c; c++)
    if (*c == '"' || *c == '\\' || *c < ' ') *c = ' ';
}

static void watch(exchange *x, int operation, unsigned events) {
  struct epoll_event interest = {.events = events, .data.ptr = x};
  epoll_ctl(epoll, operation, x->fd, &interest);
}

static void open_connection(exchange *x) {
  int yes = 1;
  if (x->fd >= 0) close(x->fd);
  x->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(x->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  connect(x->fd, (void *)&address, sizeof address);
  x->connected = 0;
  x->sent = 0;
  watch(x, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT);
}

static void send_rest(exchange *x) {
  while (x->sent < request_size) {
    ssize_t sent = send(x->fd, request + x->sent, request_size - x->sent, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EAGAIN || errno == ENOTCONN) return;
      note_error(x, strerror(errno));
      open_connection(x);
      return;
    }
    x->sent += sent;
  }
  if (!x->connected) watch(x, EPOLL_CTL_MOD, EPOLLIN);
  x->connected = 1;
}

static void ask(exchange *x) {
  int fd = x->fd, connected = x->connected;
  memset(x, 0, sizeof *x);
  x->fd = fd;
  x->connected = connected;
  x->busy = 1;
  x->asked_at = now_ns();
  if (fd < 0) {
    open_connection(x);
    return;
  }
  if (!connected) return; // epoll tells when it is
  ssize_t sent = send(fd, request, request_size, MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) {
    found.reconnects++;
    open_connection(x);
    return;
  }
  x->sent = sent > 0 ? sent : 0;
  if (x->sent == request_size) return;
  x->connected = 0;
  watch(x, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
}

static void hang_up(exchange *x) {
  close(x->fd);
  x->fd = -1;
}

static void ask_again(exchange *x, int good) {
  x->busy = 0;
  if (stopping) return;
  if (!good) usleep(PAUSE_AFTER_ERROR);
  ask(x);
}

static void answered(exchange *x) {
  int good = is_good(x);
  if (!good)
    note_error(x, x->status == 200 ? "wrong content" : x->head);
  else if (found.counting) {
    found.requests++;
    histogram_add(&found.total, now_ns() - x->asked_at);
  }
  if (x->close_after) {
    hang_up(x);
    found.reconnects++;
  }
  ask_again(x, good);
}

static void closed(exchange *x, int by_peer) {
  hang_up(x);
  if (!x->busy) return;
  int untouched = x->reading == HEAD && !x->head_len && x->sent == request_size;
  if (by_peer && x->reading == BODY_UNTIL_CLOSE)
    answered(x);
  else if (by_peer && untouched && now_ns() - x->asked_at < 50000000) {
    found.reconnects++; // an idle connection that the server closed just then
    ask(x);
  } else {
    note_error(x, by_peer ? "closed early" : strerror(errno));
    ask_again(x, 0);
  }
}

static void readable(exchange *x) {
  static char buffer[1 << 18];
  ssize_t got = recv(x->fd, buffer, sizeof buffer, 0);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) {
    closed(x, got == 0);
    return;
  }
  if (found.counting) {
    found.bytes += got;
    found.reads++;
  }
  int result = read_answer(x, buffer, got, now_ns());
  if (result > 0) answered(x);
  if (result < 0) {
    errno = EPROTO;
    closed(x, 0);
  }
}

static void read_request(char **argv) {
  FILE *file = fopen(argv[3], "rb");
  if (!file) {
    perror(argv[3]);
    exit(2);
  }
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  request = malloc(size + 2048);
  request_size = sprintf(request,
                         "POST %.500s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nUser-Agent: load\r\n"
                         "Accept: */*\r\nAuthorization: Bearer %.200s\r\n"
                         "Content-Type: application/json\r\nContent-Length: %ld\r\n\r\n",
                         argv[2], argv[1], argv[4], size);
  request_size += fread(request + request_size, 1, size, file);
  fclose(file);
}

static void print(double seconds, int open) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  printf("{\"seconds\":%.4f,\"requests\":%llu,\"errors\":%llu,\"reconnects\":%llu,\"tokens\":%llu,"
         "\"requests_per_s\":%.2f,\"tokens_per_s\":%.1f,\"mb_per_s\":%.2f,\"open_streams\":%d",
         seconds, (unsigned long long)found.requests, (unsigned long long)found.errors,
         (unsigned long long)found.reconnects, (unsigned long long)found.tokens,
         found.requests / seconds, found.tokens / seconds, found.bytes / seconds / 1e6, open);
  histogram_print("total_us", &found.total);
  histogram_print("first_token_us", &found.first_token);
  histogram_print("one_way_us", &found.one_way);
  histogram_print("gap_us", &found.gap);
  printf(",\"last_error\":\"%s\"}\n", last_error);
}

int main(int argc, char **argv) {
  static struct epoll_event events[1024];
  if (argc != 9) {
    fprintf(stderr, "load PORT PATH BODY_FILE API_KEY CONNECTIONS SECONDS WARM_UP TOKENS\n");
    return 2;
  }
  read_request(argv);
  int count = atoi(argv[5]);
  wanted_tokens = atoi(argv[8]);
  prctl(PR_SET_TIMERSLACK, 1);
  address = (struct sockaddr_in){.sin_family = AF_INET,
                                 .sin_port = htons(atoi(argv[1])),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  epoll = epoll_create1(0);
  exchange *all = calloc(count, sizeof *all);
  uint64_t counted_from = now_ns() + (uint64_t)(atof(argv[7]) * 1e9);
  uint64_t deadline = counted_from + (uint64_t)(atof(argv[6]) * 1e9), began = 0, ended = 0;
  int open = 0; // streams under way at the deadline
  for (int i = 0; i < count; i++) {
    all[i].fd = -1;
    ask(&all[i]);
  }
  for (;;) {
    int ready = epoll_wait(epoll, events, 1024, 20);
    uint64_t now = now_ns();
    if (!began && now >= counted_from) {
      found.counting = 1;
      began = now;
    }
    if (began && !stopping && now >= deadline) {
      found.counting = 0;
      stopping = 1;
      ended = now;
      for (int i = 0; i < count; i++) open += all[i].busy && all[i].tokens > 0;
    }
    if (stopping) {
      int busy = 0;
      for (int i = 0; i < count; i++) busy |= all[i].busy;
      if (!busy || now > deadline + (uint64_t)(GRACE * 1e9)) break;
    }
    for (int i = 0; i < ready; i++) {
      exchange *x = events[i].data.ptr;
      if (x->fd >= 0 && events[i].events & EPOLLOUT) send_rest(x);
      if (x->fd >= 0 && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(x);
    }
  }
  if (ended == began) { // it got no CPU between the two
    fprintf(stderr, "load: no time was counted\n");
    return 1;
  }
  print((ended - began) / 1e9, open);
  return 0;
}
