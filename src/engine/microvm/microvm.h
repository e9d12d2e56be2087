/* microvm.h - a second kind of engine: each sandbox is a virtual machine of its own, run by a VMM process.
 *
 * This header shows that the seam (guest/engine_ops.h) carries such a kind: what its row needs is declared here, and nothing of it
 * is in the product yet.  test/unit/engine/test_engine_ops.c drives guests through a row of this shape.
 *
 *   engine_ops          a machine
 *   probe               opens /dev/kvm and runs a guest of one instruction: a KVM that is emulated does not count
 *   open, begin, end    takes numbers for machines; keeps VMM processes started ahead, as the pool keeps cells
 *   start               copies the template's disk by reference, starts the VMM in a cgroup, boots, waits for envd on vsock
 *   adopt               the VMM outlives the engine: its pid is in the record, its control socket in the sandbox's directory
 *   kill, release       ends the VMM; gives back cgroup, tap device and context id
 *   pause, copy         a job process stops the machine and writes its memory to the checkpoint (the disk needs no copy: it is
 *                       a file that a new one refers to)
 *   resume, resumed     a job process starts a VMM on the memory file, mapped copy-on-write; the engine takes its pidfd
 *   thaw                continues a machine that was only stopped
 *   dial                connects to the port by vsock, through envd; without vsock over the tap device
 *   stats               what the VMM's cgroup counts, and the guest's own numbers from envd
 *   set_net             the same firewall rules, for the tap device's address
 *
 * Files: a disk instead of the directories upper/ and work/.  The disk is made, measured, copied and sealed by a module beside
 * storage/writable.h with the same words.  Records: a member of the union in records/kind_facts.h, and a row in kind_facts.c. */
#pragma once
#include "engine/guest/guest.h"

struct microvm_facts {       /* of records/kind_facts.h */
        unsigned number;     /* of the machine: its cgroup, its tap device, its address */
        uint32_t context_id; /* of vsock; 0: none, it is dialled over the tap device */
        bool is_restored;
};

struct microvm_guest {
        struct guest guest; /* the first member: engine_ops.guest_bytes */
        int control;        /* the VMM's control socket; -1: none */
        int disk;           /* the sandbox's own disk, open and locked */
        bool has_rules;     /* in the firewall, for the tap device */
};

struct microvms { /* of struct engine, beside `namespaces` */
        struct engine *engine;
        int kvm;    /* /dev/kvm */
        int kernel; /* what machines boot */
};

extern const struct engine_ops microvm_ops;
