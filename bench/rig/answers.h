// What the engine says: plain answers, streams, and small facts about itself.
#pragma once
#include "connections.h"

#define MODEL "meta-llama/Llama-3.1-8B-Instruct"

// How it answers requests from now on. Times in microseconds.
typedef struct {
  long tokens;   // per answer; in a stream, each is an event
  long delay_us; // between two tokens of a stream; 0: as fast as the socket takes them
  long first_us; // from the request to the first token of a stream
  long think_us; // from the request to a plain answer
  long batch;    // events per send
  long sync;     // 1: the tokens of all streams fall on one grid, as after a batched decode step
} behaviour;

extern behaviour now_behaving;

void begin_stream(connection *c, int wants_usage);
void continue_stream(connection *c);
void begin_plain(connection *c);
void answer_plain(connection *c);
void answer_json(connection *c, const char *status, const char *json);
void after_answer(connection *c);
