// The engine's connections: what each has still to send, and when each is due to send next.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define MAX_CONNECTIONS 16384

enum mode { IDLE, STREAMING, THINKING }; // what a connection does for its client

typedef struct {
  int fd;
  int wants_out;   // epoll tells when the socket takes more
  int queued;      // in the run queue
  int close_after; // the client asked for "connection: close"
  char *in;        // what was received and not yet used
  size_t in_len, in_capacity;
  char *out; // what the socket did not take
  size_t out_len, out_sent, out_capacity;

  // The answer in progress.
  enum mode mode;
  int wants_usage, head_sent;
  long tokens_left, batch; // batch: events per send
  int closing_sent;        // how many of the closing events are out
  uint64_t due, delay;     // ns
  int heap_position;       // < 0: no timer
  char id[33];
  char event[512]; // the frame of a token, whose digits are written anew for each
  int event_len, event_digits;
} connection;

void connections_open(void);
int connections_epoll(void);
connection *connection_of(int fd);
connection *connection_add(int fd);
void connection_drop(connection *c);
int is_dropped(int fd);

// Both: 1 everything is sent, 0 some is kept for later, -1 the connection is dead.
int put(connection *c, const char *data, size_t size);
int put_rest(connection *c);

void timer_set(connection *c, uint64_t due);
connection *timer_take(uint64_t now); // one that is due, or NULL
int64_t timer_wait(uint64_t now);     // ns until the next one; -1: there is none

void run_soon(connection *c);
int run_waiting(void);      // how many are in the run queue
connection *run_take(void); // the next; NULL: it was dropped meanwhile
