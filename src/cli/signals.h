/* signals.h - signals that end the command, as events: what was begun is then also ended. */
#pragma once
#include <signal.h>
#include <sys/signalfd.h>

#include "sys/proc.h"

/* From here on; -> an fd that is readable when one came, the caller's. */
static inline int cli_take_signals(void)
{
        sigset_t set = sys_signals_to_end();

        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        (void)signal(SIGPIPE, SIG_IGN);
        return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}
