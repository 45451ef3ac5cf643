// Reads requests, as much of HTTP/1.1 as gateways use, and says what is to be answered.
#pragma once
#include "connections.h"

void next_request(connection *c); // answers the next one that is whole, if there is one
