/* Preloaded into a tool: writes the tables that it gives to getopt(3) and getopt_long(3) to stderr.
 *
 * `short LETTERS`, and `long NAME HAS_ARG` (0 no value, 1 a value, 2 one in the same word) for each.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>

int getopt(int argc, char *const argv[], const char *letters)
{
	int (*next)(int, char *const *, const char *) = dlsym(RTLD_NEXT, "getopt");

	fprintf(stderr, "short %s\n", letters);
	return next(argc, argv, letters);
}

int getopt_long(int argc, char *const argv[], const char *letters, const struct option *names, int *index)
{
	int (*next)(int, char *const *, const char *, const struct option *, int *) =
		dlsym(RTLD_NEXT, "getopt_long");

	fprintf(stderr, "short %s\n", letters);
	for (const struct option *one = names; one->name; one++)
		fprintf(stderr, "long %s %d\n", one->name, one->has_arg);
	return next(argc, argv, letters, names, index);
}
