/* kvm.h - does KVM really run a guest here?  That /dev/kvm opens says nothing: nested hosts offer it and then fail. */
#pragma once

/* 0: a virtual CPU ran a short program at a CPU's speed.  -ENOENT no device, -ETIMEDOUT it only crawls, other negative
 * errno: what failed. */
int kvm_try(void);
