/* resume.h - a sandbox from a checkpoint: by a thaw where its processes are still there, else restored by a job process. */
#pragma once
#include "engine/guest/guest.h"
#include "engine/jobs/job_answer.h"
#include "engine/jobs/resume_marker.h"

/* WARM: is it what the plan asks for? */
bool resume_can_thaw(const struct guest *s, const struct plan_create *plan);
/* WAKING, thawing: have the marker write down what is to be.  Again, when there is a new marker.  Negative: it cannot. */
int resume_mark(struct guest *s);
void resume_marked(struct guest *s, const struct resume_marker_order *o); /* the marker's answer */
/* RESUMING, and its job process is done: take over process and record. */
int resume_take_over(struct guest *s, struct job_answer *answer, struct err *err);
/* Begin with a plan (taken) that names a checkpoint, on a new guest or one paused.  Failure is answered. */
void resume_begin(struct guest *s, struct plan_create *plan, struct ask *a);
