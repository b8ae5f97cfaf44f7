/* Preloaded into a replica's mysqld: each fsync and fdatasync takes SLOW_SYNC_US microseconds longer, as on a slower
   disk. Built and loaded by `slipstream lab clocks`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static void wait_longer(void)
{
    const char *text = getenv("SLOW_SYNC_US");
    long us = text ? atol(text) : 0;
    struct timespec left = { us / 1000000, (us % 1000000) * 1000 };
    while (us > 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

int fsync(int fd)
{
    int (*original)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    int result = original(fd);
    int kept = errno;
    wait_longer();
    errno = kept;
    return result;
}

int fdatasync(int fd)
{
    int (*original)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    int result = original(fd);
    int kept = errno;
    wait_longer();
    errno = kept;
    return result;
}
