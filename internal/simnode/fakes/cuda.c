//go:build ignore

/*
 * A fake libcuda.so.1 with the functions of the CUDA driver API that test/hardware/load calls. It
 * computes nothing. The duration of a kernel is the number of its iterations times a fixed time per
 * iteration. As a simple model of time-slicing, the kernels of all programs run one after another, in
 * the order of their launches.
 *
 * Environment: GPULEDGER_FAKE_CUDA_DIR is the directory of the programs' files, which live.h
 * describes. If it is not set, cuInit returns CUDA_ERROR_NO_DEVICE. A program is an MPS client if
 * CUDA_MPS_PIPE_DIRECTORY is set.
 *
 * The numbers of errors and attributes come from NVIDIA's cuda.h. The compiler cannot check the
 * prototypes, because the repository contains no copy of that header.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NO_DEVICE = 100, INVALID_IMAGE = 200, NOT_FOUND = 500 };

/* The time that an iteration takes on the fake GPU. */
enum { NS_PER_ITERATION = 10 };

struct event {
    long long at;
};

static const char *dir;
static long long last_end; /* the end of this program's last kernel */

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Appends a line to the program's file. */
static void note(const char *line)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%d", dir, (int)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, line, strlen(line)) < 0)
        abort();
    close(fd);
}

/* Reserves the GPU for ns nanoseconds after the end of all earlier kernels. Returns the start of the reserved time. */
static long long reserve(long long ns)
{
    char path[PATH_MAX], text[32] = "";
    snprintf(path, sizeof path, "%s/queue", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || flock(fd, LOCK_EX) != 0 || pread(fd, text, sizeof text - 1, 0) < 0)
        abort();
    long long from = atoll(text), now = now_ns();
    if (from < now)
        from = now;
    snprintf(text, sizeof text, "%020lld", from + ns);
    if (pwrite(fd, text, strlen(text), 0) < 0)
        abort();
    close(fd);
    return from;
}

int cuInit(unsigned int flags)
{
    dir = getenv("GPULEDGER_FAKE_CUDA_DIR");
    return flags ? INVALID_VALUE : dir ? SUCCESS : NO_DEVICE;
}

int cuGetErrorName(int error, const char **name)
{
    *name = error == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : error == INVALID_IMAGE ? "CUDA_ERROR_INVALID_IMAGE" : "CUDA_ERROR_UNKNOWN";
    return SUCCESS;
}

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return SUCCESS;
}

int cuDeviceGetByPCIBusId(int *device, const char *bus)
{
    *device = 0;
    return bus && *bus ? SUCCESS : INVALID_VALUE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = 4;
    return attribute == 16 ? SUCCESS : INVALID_VALUE; /* the number of multiprocessors */
}

int cuCtxCreate_v2(void **context, unsigned int flags, int device)
{
    char line[64];
    (void)flags, (void)device;
    *context = &dir;
    snprintf(line, sizeof line, "%s %lld\n", getenv("CUDA_MPS_PIPE_DIRECTORY") ? "mps" : "context", now_ns());
    note(line);
    return SUCCESS;
}

int cuCtxDestroy_v2(void *context)
{
    char line[64];
    (void)context;
    snprintf(line, sizeof line, "end %lld\n", now_ns());
    note(line);
    return SUCCESS;
}

/* Accepts only text that looks like PTX. */
int cuModuleLoadData(void **module, const void *image)
{
    *module = &dir;
    return strstr(image, ".version") && strstr(image, ".target") ? SUCCESS : INVALID_IMAGE;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module;
    *function = &dir;
    return strcmp(name, "spin") == 0 ? SUCCESS : NOT_FOUND;
}

int cuMemAlloc_v2(unsigned long long *address, size_t size)
{
    *address = 4096;
    return size ? SUCCESS : INVALID_VALUE;
}

/* The kernel's parameters are the address of the result and the number of iterations (64 bits). */
int cuLaunchKernel(void *function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
                   unsigned int bz, unsigned int shared, void *stream, void **parameters, void **extra)
{
    char line[96];
    (void)function, (void)shared, (void)stream, (void)extra;
    if (!gx || !gy || !gz || !bx || !by || !bz || !parameters)
        return INVALID_VALUE;
    long long ns = (long long)*(unsigned long long *)parameters[1] * NS_PER_ITERATION, from = reserve(ns);
    last_end = from + ns;
    snprintf(line, sizeof line, "run %lld %lld\n", from, last_end);
    note(line);
    return SUCCESS;
}

int cuEventCreate(void **event, unsigned int flags)
{
    (void)flags;
    *event = calloc(1, sizeof(struct event));
    return SUCCESS;
}

int cuEventRecord(void *event, void *stream)
{
    long long now = now_ns();
    (void)stream;
    ((struct event *)event)->at = last_end > now ? last_end : now;
    return SUCCESS;
}

int cuEventSynchronize(void *event)
{
    long long ns = ((struct event *)event)->at - now_ns();
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    if (ns > 0)
        nanosleep(&t, NULL);
    return SUCCESS;
}

int cuEventElapsedTime(float *ms, void *from, void *to)
{
    *ms = (float)(((struct event *)to)->at - ((struct event *)from)->at) / 1e6f;
    return SUCCESS;
}
