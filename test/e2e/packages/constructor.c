// This program is linked like the exporter. Its constructor must run once, with the program's arguments, and
// threads and dlopen must work.
#include <dlfcn.h>
#include <pthread.h>

static int constructed;

__attribute__((constructor)) static void construct(int argc) { constructed += argc; }

static void *end(void *argument) { return argument; }

int main(void) {
	pthread_t thread;
	if (pthread_create(&thread, 0, end, 0) != 0 || pthread_join(thread, 0) != 0)
		return 2;
	return dlopen("libm.so.6", RTLD_NOW) != 0 && constructed == 1 ? 0 : 3;
}
