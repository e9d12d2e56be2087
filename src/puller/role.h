/* role.h - the puller: fetches images for control, and ends when it has had nothing to do for a while.
 *
 * It has the network, its directory blobs/, and nothing else: no store, no sandbox. */
#pragma once

struct conf;
struct puller_limits;

int puller_main(const struct conf *conf); /* exit code */
int puller_run(const struct conf *conf, const struct puller_limits *limits);
