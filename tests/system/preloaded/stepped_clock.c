/* Preloaded into a program: its wall clock is set by CLOCK_STEP_S seconds, 0.3 s after its start,
 * or as soon as the file CLOCK_STEP_FILE is there.
 *
 * Nobody else sees it. CLOCK_MONOTONIC goes on, as it does when somebody sets a machine's clock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*next_clock)(clockid_t, struct timespec *);
static double started;

static double monotonic(void)
{
	struct timespec now;

	next_clock(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static int stepped(void)
{
	const char *file = getenv("CLOCK_STEP_FILE");

	return file ? access(file, F_OK) == 0 : monotonic() - started > 0.3;
}

__attribute__((constructor)) static void start(void)
{
	next_clock = dlsym(RTLD_NEXT, "clock_gettime");
	started = monotonic();
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = next_clock(clock, now);
	const char *step = getenv("CLOCK_STEP_S");

	if (clock == CLOCK_REALTIME && step && stepped()) {
		double seconds = now->tv_sec + now->tv_nsec * 1e-9 + atof(step);

		now->tv_sec = (time_t)seconds;
		now->tv_nsec = (long)((seconds - (double)now->tv_sec) * 1e9);
	}
	return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec precise;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return 0;
}
