/* build_runner.h - who carries builds out, as the handlers of the API see it. */
#pragma once

struct build_runner {
        /* The build is BUILDING, and its request is in the store.  Returns at once; what becomes of the build is in its row. */
        void (*start)(struct build_runner *r, const char *build_id);
        /* The build was BUILDING.  Its row says ERROR already, or is gone: what still runs for it is ended. */
        void (*cancel)(struct build_runner *r, const char *build_id);
};
