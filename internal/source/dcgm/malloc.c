/*
 * libdcgm allocates messages of 4 MB for each read, in the thread of its caller. By default
 * glibc gives each thread its own arena and keeps freed memory there. Because Go makes calls
 * from any of its threads, the freed memory is about 8 MiB for every thread that ever made a
 * call. With one arena for all threads, a read reuses the memory of the previous read.
 *
 * A thread keeps the arena of its first allocation, so this function runs before Go starts any
 * thread.
 *
 * Up to three messages may exist at the same time. The thresholds keep the memory of the messages
 * from being returned to the kernel after each read, because allocating the memory again costs more
 * than the read itself.
 */
#include <malloc.h>

__attribute__((constructor)) static void limit_malloc(void)
{
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 8 << 20);
    mallopt(M_TRIM_THRESHOLD, 16 << 20);
}
