/* Preloaded: the wall clock of a machine whose battery is flat, WRONG_BY seconds off. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long wrong_by(void) {
  const char* const seconds = getenv("WRONG_BY");
  return seconds ? atol(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += wrong_by();
  return result;
}

int gettimeofday(struct timeval* now, void* zone) {
  (void)zone;
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* where) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (where) *where = exact.tv_sec;
  return exact.tv_sec;
}
