/* Memory: private and shared, memfd, /dev/shm, System V, with protections. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "state.h"

#define HEAP_BYTES (8u << 20)

static uint8_t *heap;
static uint64_t heap_sum;

static uint64_t sum(void)
{
        uint64_t s = 14695981039346656037u;

        for (size_t i = 0; i < HEAP_BYTES; i += 61)
                s = (s ^ heap[i]) * 1099511628211u;
        return s;
}

static const char *heap_make(void)
{
        uint64_t x = (uint64_t)getpid();

        NEED((heap = malloc(HEAP_BYTES)));
        for (size_t i = 0; i < HEAP_BYTES; i++) {
                x = x * 6364136223846793005u + 1442695040888963407u;
                heap[i] = (i >> 16) % 3 ? (uint8_t)(x >> 56) : 0; /* pages of zeros among them */
        }
        heap_sum = sum();
        return NULL;
}
static const char *heap_check(void)
{
        NEED(sum() == heap_sum);
        heap[12345678 % HEAP_BYTES]++;
        heap_sum = sum();
        return NULL;
}

static uint32_t *anonymous;
static int anonymous_pipe[2];
static const char *anonymous_make(void) /* shared with a child, which adds one for every byte it is sent */
{
        char c;

        anonymous = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        NEED(anonymous != MAP_FAILED && pipe(anonymous_pipe) == 0);
        if (fork() == 0) {
                int in = dup(anonymous_pipe[0]);

                for (int fd = 3; fd < 256; fd++)
                        if (fd != in)
                                (void)close(fd); /* holds nothing of the others */
                while (read(in, &c, 1) == 1)
                        __atomic_add_fetch(anonymous, 1, __ATOMIC_SEQ_CST);
                _exit(0);
        }
        return NULL;
}
static const char *anonymous_check(void)
{
        uint32_t before = __atomic_load_n(anonymous, __ATOMIC_SEQ_CST);

        NEED(write(anonymous_pipe[1], "x", 1) == 1);
        for (int i = 0; i < 5000 && __atomic_load_n(anonymous, __ATOMIC_SEQ_CST) == before; i++)
                (void)usleep(1000);
        NEED(__atomic_load_n(anonymous, __ATOMIC_SEQ_CST) == before + 1);
        return NULL;
}

static int memfd, shm_fd;
static char *shm;
static const char *memfd_make(void)
{
        NEED((memfd = memfd_create("state", MFD_ALLOW_SEALING)) >= 0 && write(memfd, "memfd", 5) == 5);
        NEED(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
        NEED((shm_fd = shm_open("/state", O_RDWR | O_CREAT, 0600)) >= 0 && ftruncate(shm_fd, 4096) == 0);
        NEED((shm = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shm_fd, 0)) != MAP_FAILED);
        strcpy(shm, "in /dev/shm");
        return NULL;
}
static const char *memfd_check(void)
{
        char text[16] = "";
        int fd;

        NEED(pread(memfd, text, 15, 0) == 5 && memcmp(text, "memfd", 5) == 0);
        NEED(fcntl(memfd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW));
        NEED(strcmp(shm, "in /dev/shm") == 0 && (fd = shm_open("/state", O_RDONLY, 0)) >= 0);
        NEED(pread(fd, text, 11, 0) == 11 && memcmp(text, "in /dev/shm", 11) == 0 && close(fd) == 0);
        return NULL;
}

static int sysv_shm, sysv_sem, sysv_msg;
static char *sysv;
static const char *sysv_make(void)
{
        struct {
                long type;
                char text[8];
        } m = {3, "message"};

        NEED((sysv_shm = shmget(0x57a7e, 4096, IPC_CREAT | 0600)) >= 0 &&
             (sysv = shmat(sysv_shm, NULL, 0)) != (void *)-1);
        strcpy(sysv, "System V");
        NEED((sysv_sem = semget(0x57a7e, 1, IPC_CREAT | 0600)) >= 0 && semctl(sysv_sem, 0, SETVAL, 4) == 0);
        NEED((sysv_msg = msgget(0x57a7e, IPC_CREAT | 0600)) >= 0 && msgsnd(sysv_msg, &m, 8, 0) == 0);
        return NULL;
}
static const char *sysv_check(void)
{
        struct {
                long type;
                char text[8];
        } m;

        NEED(strcmp(sysv, "System V") == 0 && shmget(0x57a7e, 0, 0) == sysv_shm);
        NEED(semctl(sysv_sem, 0, GETVAL) == 4);
        NEED(msgrcv(sysv_msg, &m, 8, 3, IPC_NOWAIT) == 8 && strcmp(m.text, "message") == 0 &&
             msgsnd(sysv_msg, &m, 8, 0) == 0);
        return NULL;
}

static char *guarded;
static const char *protection_make(void)
{
        guarded = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        NEED(guarded != MAP_FAILED);
        strcpy(guarded, "read only");
        NEED(mprotect(guarded, PAGE, PROT_READ) == 0 && mprotect(guarded + PAGE, PAGE, PROT_NONE) == 0);
        return NULL;
}
static bool kills(size_t offset, bool is_write) /* a child that touches it? */
{
        int status;
        pid_t pid = fork();

        if (pid == 0) {
                volatile char *p = guarded + offset, c = *p;

                if (is_write)
                        *p = c;
                _exit(0);
        }
        return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}
static const char *protection_check(void)
{
        NEED(strcmp(guarded, "read only") == 0 && !kills(0, false) && kills(0, true) && kills(PAGE, false));
        NEED(!kills(2 * PAGE, true));
        return NULL;
}

const struct item memory_items[] = {
        {"heap", heap_make, heap_check},
        {"memory shared with a child", anonymous_make, anonymous_check},
        {"memfd and /dev/shm", memfd_make, memfd_check},
        {"System V memory, semaphore, message", sysv_make, sysv_check},
        {"protections of memory", protection_make, protection_check},
        {0},
};
