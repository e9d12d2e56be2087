/* job_usage.c - how much of the disk everything uses that the engine keeps. */
#include <errno.h>
#include <limits.h>
#include <sys/statvfs.h>

#include "base/err.h"
#include "engine/jobs/job_process.h"
#include "engine/records/lost_note.h"
#include "engine/storage/tree_size.h"
#include "sys/fs.h"

static uint64_t bytes_of(int dir, const char *name)
{
        return tree_size_upto(dir, name, UINT_MAX).bytes;
}

/* {name: bytes} of what is in dir; names that begin with a dot are not whole yet. */
static json_t *sizes_in(int dir)
{
        AUTO_DIR DIR *d = sys_list(dir);
        json_t *sizes = json_object();
        const struct dirent *e;

        while (d && (e = sys_list_next(d)))
                if (e->d_name[0] != '.' && e->d_type == DT_DIR)
                        (void)json_object_set_new(sizes, e->d_name, json_integer((json_int_t)bytes_of(dir, e->d_name)));
        return sizes;
}

int job_usage(const struct job_conf *c, const struct job *job, struct job_answer *ret, struct err *err)
{
        struct statvfs fs;

        (void)job;
        if (fstatvfs(c->data_dir, &fs) < 0)
                return err_sys(err, -errno, "look at the file system");
        ret->report =
                json_pack("{s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:I}", "sandboxes", sizes_in(c->sandboxes_dir), "checkpoints",
                          sizes_in(c->checkpoints_dir), "layers", sizes_in(c->sealed_dir), "bases",
                          sizes_in(c->layers_dir), "lost", (json_int_t)bytes_of(c->data_dir, LOST_DIR), "trash",
                          (json_int_t)bytes_of(c->data_dir, "trash"), "free", (json_int_t)(fs.f_bavail * fs.f_frsize),
                          "total", (json_int_t)(fs.f_blocks * fs.f_frsize));
        return ret->report ? 0 : err_sys(err, -ENOMEM, "measure the disk");
}
