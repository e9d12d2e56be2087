#include "cli/doctor/kvm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"

#if defined(__x86_64__)
#define PAGE 4096u
#define PATIENCE_S 2u

/* mov ecx, 20000000; loop: dec ecx; jnz loop; hlt.  A CPU does it in some 10 ms, a KVM that emulates instructions (and
 * fails on whole systems) takes many seconds. */
static const unsigned char program[] = {0x66, 0xb9, 0x00, 0x2d, 0x31, 0x01, 0x66, 0x49, 0x75, 0xfc, 0xf4};

/* A page of memory at 0 with the program in it, one CPU in real mode at address 0. */
static int kvm_set_up(int vm, int cpu, void *page)
{
        const struct kvm_userspace_memory_region memory = {.memory_size = PAGE, .userspace_addr = (uintptr_t)page};
        const struct kvm_regs regs = {.rflags = 2};
        struct kvm_sregs sregs;

        memcpy(page, program, sizeof(program));
        if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &memory) < 0 || ioctl(cpu, KVM_GET_SREGS, &sregs) < 0)
                return -errno;
        sregs.cs.base = 0;
        sregs.cs.selector = 0;
        return ioctl(cpu, KVM_SET_SREGS, &sregs) < 0 || ioctl(cpu, KVM_SET_REGS, &regs) < 0 ? -errno : 0;
}

static int run_guest(void)
{
        AUTO_CLOSE int kvm = -1, vm = -1, cpu = -1;
        struct kvm_run *run;
        void *page;
        int size, r;

        kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
        vm = kvm < 0 ? -1 : ioctl(kvm, KVM_CREATE_VM, 0);
        cpu = vm < 0 ? -1 : ioctl(vm, KVM_CREATE_VCPU, 0);
        size = cpu < 0 ? -1 : ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
        if (size < 0)
                return -errno;
        run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
        page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (run == MAP_FAILED || page == MAP_FAILED)
                return -errno;
        r = kvm_set_up(vm, cpu, page);
        if (r < 0)
                return r;
        if (ioctl(cpu, KVM_RUN, 0) < 0)
                return -errno;
        return run->exit_reason == KVM_EXIT_HLT ? 0 : -EIO;
}

/* In a child with an alarm: a broken KVM may also hang. */
int kvm_try(void)
{
        int status;
        pid_t pid;

        if (access("/dev/kvm", F_OK) < 0)
                return -ENOENT;
        pid = fork();
        if (pid < 0)
                return -errno;
        if (pid == 0) {
                (void)alarm(PATIENCE_S);
                _exit(-run_guest() & 0x7f);
        }
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                continue;
        return WIFEXITED(status) ? -WEXITSTATUS(status) : -ETIMEDOUT;
}
#else
int kvm_try(void)
{
        return -EOPNOTSUPP;
}
#endif
