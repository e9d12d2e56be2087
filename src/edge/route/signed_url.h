/* signed_url.h - signed file URLs that name no sandbox: control is asked with which sandbox's token the URL was signed (owner.h). */
#pragma once
#include <stdbool.h>

#include "base/str.h"
#include "edge/route/visit.h"

struct visit;

/* Is this request such a URL?  *ret_query is a slice of target. */
bool signed_url_is(struct str method, struct str target, struct str *ret_query);
enum routes_result signed_url_ask(struct visit *v, struct str method, struct str query); /* as owner_ask() */
