/* Preloaded into an honest run: shifts the wall clock by the nanoseconds that stand in the file
 * which PODIUM_HONEST_CLOCK names, for all processes at the same moment. The monotonic clock and
 * the kernel's own times, such as those of files, stay as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *shift_ns;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void open_shift(void) {
    const char *path = getenv("PODIUM_HONEST_CLOCK");
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof *shift_ns, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED)
        shift_ns = page;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!real_clock_gettime)
        real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real_clock_gettime(clock, time);
    if (failed || !shift_ns || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return failed;
    long long nanoseconds = time->tv_sec * 1000000000LL + time->tv_nsec + *shift_ns;
    time->tv_sec = nanoseconds / 1000000000LL;
    time->tv_nsec = nanoseconds % 1000000000LL;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
