/* nosync.h - let a process and its children skip flushing to disk. */
#pragma once

/* From here on fsync(), fdatasync(), sync_file_range(), syncfs() and sync() of this process, of what it executes and of
 * all descendants do nothing and succeed.  For tools that flush after each step of work that is thrown away when it does
 * not come to its end: the caller flushes once, when all is done.  Needs CAP_SYS_ADMIN or no_new_privs.  Negative errno on failure;
 * -ENOSYS where this processor's system calls are not known here. */
int sys_skip_flushes(void);
