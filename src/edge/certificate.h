/* certificate.h - the edge's certificate: copies in memory from the supervisor, which sends another pair when it was renewed.
 *
 * New connections use the newest pair.  Connections that are open keep theirs. */
#pragma once

struct edge;
struct err;

int edge_certificate_start(struct edge *e, struct err *err);
void edge_certificate_done(struct edge *e); /* also half-started */
