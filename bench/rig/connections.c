#define _GNU_SOURCE
#include "connections.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define RUN_QUEUE (MAX_CONNECTIONS * 2)

static connection *by_fd[MAX_CONNECTIONS];
static int epoll;

void connections_open(void) { epoll = epoll_create1(EPOLL_CLOEXEC); }
int connections_epoll(void) { return epoll; }
connection *connection_of(int fd) { return by_fd[fd]; }
int is_dropped(int fd) { return by_fd[fd] == NULL; }

connection *connection_add(int fd) {
  connection *c = calloc(1, sizeof *c);
  c->fd = fd;
  c->heap_position = -1;
  by_fd[fd] = c;
  struct epoll_event interest = {.events = EPOLLIN, .data.fd = fd};
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &interest);
  return c;
}

static void release(connection *c) {
  free(c->in);
  free(c->out);
  free(c);
}

// ---- Sending ----------------------------------------------------------------

static void want_out(connection *c, int wanted) {
  if (c->wants_out == wanted) return;
  c->wants_out = wanted;
  struct epoll_event interest = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.fd = c->fd};
  epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &interest);
}

int put(connection *c, const char *data, size_t size) {
  size_t done = 0;
  if (c->out_len == c->out_sent) {
    ssize_t sent = send(c->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) return -1;
    done = sent < 0 ? 0 : sent;
    c->out_len = c->out_sent = 0;
  }
  if (done == size) return 1;
  if (c->out_len + size - done > c->out_capacity) {
    c->out_capacity = (c->out_len + size - done) * 2;
    c->out = realloc(c->out, c->out_capacity);
  }
  memcpy(c->out + c->out_len, data + done, size - done);
  c->out_len += size - done;
  want_out(c, 1);
  return 0;
}

int put_rest(connection *c) {
  while (c->out_sent < c->out_len) {
    ssize_t sent =
        send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN ? 0 : -1;
    c->out_sent += sent;
  }
  c->out_len = c->out_sent = 0;
  want_out(c, 0);
  return 1;
}

// ---- Timers: a heap, the one due first on top ---------------------------------

static connection *heap[MAX_CONNECTIONS];
static int heap_size;

static void place(int i, connection *c) {
  heap[i] = c;
  c->heap_position = i;
}

static void sift_up(int i) {
  connection *c = heap[i];
  for (; i && heap[(i - 1) / 2]->due > c->due; i = (i - 1) / 2) place(i, heap[(i - 1) / 2]);
  place(i, c);
}

static void sift_down(int i) {
  connection *c = heap[i];
  for (;;) {
    int child = 2 * i + 1;
    if (child >= heap_size) break;
    if (child + 1 < heap_size && heap[child + 1]->due < heap[child]->due) child++;
    if (heap[child]->due >= c->due) break;
    place(i, heap[child]);
    i = child;
  }
  place(i, c);
}

static void timer_cancel(connection *c) {
  int i = c->heap_position;
  if (i < 0) return;
  c->heap_position = -1;
  connection *last = heap[--heap_size];
  if (last == c) return;
  place(i, last);
  sift_up(i);
  sift_down(last->heap_position);
}

void timer_set(connection *c, uint64_t due) {
  c->due = due;
  place(heap_size, c);
  sift_up(heap_size++);
}

connection *timer_take(uint64_t now) {
  if (!heap_size || heap[0]->due > now) return NULL;
  connection *c = heap[0];
  timer_cancel(c);
  return c;
}

int64_t timer_wait(uint64_t now) {
  if (!heap_size) return -1;
  return heap[0]->due > now ? (int64_t)(heap[0]->due - now) : 0;
}

// ---- The run queue: streams that may send now, in turn --------------------------

static connection *queue[RUN_QUEUE];
static unsigned queue_head, queue_tail;

void run_soon(connection *c) {
  if (c->queued) return;
  c->queued = 1;
  queue[queue_tail++ % RUN_QUEUE] = c;
}

int run_waiting(void) { return queue_tail - queue_head; }

connection *run_take(void) {
  connection *c = queue[queue_head++ % RUN_QUEUE];
  c->queued = 0;
  if (c->fd >= 0) return c;
  release(c); // dropped while it stood in the queue
  return NULL;
}

void connection_drop(connection *c) {
  timer_cancel(c);
  close(c->fd);
  by_fd[c->fd] = NULL;
  c->fd = -1;
  if (!c->queued) release(c);
}
