/* Faults of a machine, preloaded into the server of a soak or a test.
 *
 * It stands between the process and the C library. A file that is mapped by both sides says what
 * is wrong just now: how far the wall clock is off, how long a sync takes, whether the disk is
 * full. The monotonic clocks stay right, as they do when somebody sets a machine's clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The Rust side writes the same three numbers, in this order. */
struct faults {
    int64_t wall_offset_ms;
    int64_t sync_delay_us;
    int64_t disk_full;
};

static const struct faults none;
static const volatile struct faults *faults = &none;

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwrite64)(int, const void *, size_t, off64_t);
static int (*real_ftruncate64)(int, off64_t);

__attribute__((constructor)) static void start(void) {
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_write = dlsym(RTLD_NEXT, "write");
    real_writev = dlsym(RTLD_NEXT, "writev");
    real_pwrite64 = dlsym(RTLD_NEXT, "pwrite64");
    real_ftruncate64 = dlsym(RTLD_NEXT, "ftruncate64");
    const char *path = getenv("POSTRIDER_TEST_FAULTS");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        faults = mapped;
}

/* Whether a write to this file must fail: sockets and pipes are on no disk. */
static int is_full(int file) {
    struct stat found;
    return faults->disk_full && fstat(file, &found) == 0 && S_ISREG(found.st_mode);
}

static int full(void) {
    errno = ENOSPC;
    return -1;
}

static void wait_for_disk(void) {
    int64_t delay = faults->sync_delay_us;
    if (delay > 0)
        usleep((useconds_t)delay);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = real_clock_gettime(clock, time);
    if (!failed && clock == CLOCK_REALTIME) {
        int64_t offset = faults->wall_offset_ms;
        time->tv_sec += offset / 1000;
        time->tv_nsec += offset % 1000 * 1000000;
        if (time->tv_nsec >= 1000000000) {
            time->tv_sec += 1;
            time->tv_nsec -= 1000000000;
        } else if (time->tv_nsec < 0) {
            time->tv_sec -= 1;
            time->tv_nsec += 1000000000;
        }
    }
    return failed;
}

int fsync(int file) {
    wait_for_disk();
    return is_full(file) ? full() : real_fsync(file);
}

int fdatasync(int file) {
    wait_for_disk();
    return is_full(file) ? full() : real_fdatasync(file);
}

ssize_t write(int file, const void *bytes, size_t length) {
    return is_full(file) ? full() : real_write(file, bytes, length);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    return is_full(file) ? full() : real_writev(file, parts, count);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t at) {
    return is_full(file) ? full() : real_pwrite64(file, bytes, length, at);
}

int ftruncate64(int file, off64_t length) {
    return is_full(file) ? full() : real_ftruncate64(file, length);
}
