#include "control/api/start_error.h"

#include "base/err.h"
#include "base/str.h"

static bool is_checkpoint_damaged(const struct err *err)
{
        return str_starts(str_of(err->msg), "checkpoint damaged:");
}

struct start_error start_error_of(const struct err *err)
{
        if (is_checkpoint_damaged(err))
                return (struct start_error){500, "sandbox_checkpoint_damaged", "",
                                            ". Its files are intact: connect with memory:false (onResume 'reboot') "
                                            "starts it from them."};
        switch (err->kind) {
        case ERR_LIMIT:
        case ERR_UNAVAILABLE:
        case ERR_INTERRUPTED:
                return (struct start_error){503, "sandbox_capacity_unavailable", "Failed to place sandbox: ", ""};
        case ERR_NO_SPACE:
                return (struct start_error){507, "sandbox_no_disk_space",
                                            "Failed to place sandbox: the disk of the server is full: ", ""};
        case ERR_TIMEOUT:
                return (struct start_error){504, "sandbox_placement_timeout", "Failed to place sandbox: ", ""};
        default: return (struct start_error){500, "sandbox_create_failed", "Failed to create sandbox: ", ""};
        }
}
