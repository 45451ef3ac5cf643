// A scripted engine: OpenAI's chat completions as SGLang words them, over HTTP/1.1, from bytes that
// are made once. One thread, epoll.
//
//   upstream PORT        port 0: a free one; it prints which
//
// GET /__behave?tokens=128&delay_us=0&first_us=0&think_us=0&batch=1&sync=0 sets, for all later
// requests, what answers.h says. Every streamed token is "~" and nine digits, the time at which it
// was sent; a client on the same machine can so tell each token's latency, whatever envelope it
// comes in.
#define _GNU_SOURCE
#include "answers.h"
#include "clock.h"
#include "connections.h"
#include "requests.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE 65536

static int listen_on(int port) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), yes = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (bind(listener, (void *)&address, size) || listen(listener, 4096)) {
    perror("upstream");
    exit(1);
  }
  getsockname(listener, (void *)&address, &size);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  return listener;
}

static void accept_all(int listener) {
  int fd, yes = 1;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    if (fd >= MAX_CONNECTIONS) {
      close(fd);
      continue;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    connection_add(fd);
  }
}

static void receive(connection *c) {
  for (;;) {
    if (c->in_len + READ_SIZE > c->in_capacity) {
      c->in_capacity = c->in_len + 2 * READ_SIZE;
      c->in = realloc(c->in, c->in_capacity + 1); // a NUL goes behind what was received
    }
    ssize_t got = recv(c->fd, c->in + c->in_len, c->in_capacity - c->in_len, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      connection_drop(c);
      return;
    }
    c->in_len += got;
    if (got < READ_SIZE) break;
  }
  next_request(c);
}

// The socket takes more: first what was kept, then the stream goes on.
static void writable(connection *c) {
  int result = put_rest(c);
  if (result < 0)
    connection_drop(c);
  else if (result == 1 && c->mode == STREAMING && c->heap_position < 0) {
    if (c->closing_sent == 4)
      after_answer(c);
    else
      run_soon(c);
  }
}

static int wait_for_events(struct epoll_event *events, int count) {
  int64_t ns = run_waiting() ? 0 : timer_wait(now_ns());
  struct timespec wait = {ns / 1000000000, ns % 1000000000};
  return epoll_pwait2(connections_epoll(), events, count, ns < 0 ? NULL : &wait, NULL);
}

int main(int argc, char **argv) {
  static struct epoll_event events[512];
  prctl(PR_SET_TIMERSLACK, 1); // timers to the nanosecond, not to 50 microseconds
  int listener = listen_on(argc > 1 ? atoi(argv[1]) : 0);
  connections_open();
  struct epoll_event interest = {.events = EPOLLIN, .data.fd = listener};
  epoll_ctl(connections_epoll(), EPOLL_CTL_ADD, listener, &interest);
  for (;;) {
    int count = wait_for_events(events, 512);
    for (int i = 0; i < count; i++) {
      int fd = events[i].data.fd;
      if (fd == listener) {
        accept_all(listener);
        continue;
      }
      if (!is_dropped(fd) && events[i].events & EPOLLOUT) writable(connection_of(fd));
      if (!is_dropped(fd) && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        receive(connection_of(fd));
    }
    connection *c;
    for (uint64_t now = now_ns(); (c = timer_take(now));) {
      if (c->mode == THINKING)
        answer_plain(c);
      else
        run_soon(c);
    }
    for (int left = run_waiting(); left > 0; left--)
      if ((c = run_take()) && c->mode == STREAMING && c->heap_position < 0) continue_stream(c);
  }
}
