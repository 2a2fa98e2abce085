#include "cuda.h"
#include <dlfcn.h>
#include <stdio.h>

enum {
    SLOTS = 2,
    THREADS = 256,
    BLOCKS_EACH = 4, /* blocks for each multiprocessor */
    /* These constants from cuda.h select the number of multiprocessors, and waits that use no processor time. */
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_CTX_SCHED_BLOCKING_SYNC = 4,
    CU_EVENT_BLOCKING_SYNC = 1,
};

/* These are the prototypes in cuda.h. CUresult and CUdevice are ints, and CUdeviceptr has 64 bits. */
static struct {
    int (*init)(unsigned int);
    int (*name)(int, const char **);
    int (*by_bus)(int *, const char *);
    int (*attribute)(int *, int, int);
    int (*create)(void **, unsigned int, int);
    int (*destroy)(void *);
    int (*load)(void **, const void *);
    int (*function)(void **, void *, const char *);
    int (*allocate)(unsigned long long *, size_t);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    int (*event)(void **, unsigned int);
    int (*record)(void *, void *);
    int (*wait)(void *);
    int (*elapsed)(float *, void *, void *);
} cu;

static const struct {
    const char *name;
    void **to;
} symbols[] = {
    { "cuInit", (void **)&cu.init },
    { "cuGetErrorName", (void **)&cu.name },
    { "cuDeviceGetByPCIBusId", (void **)&cu.by_bus },
    { "cuDeviceGetAttribute", (void **)&cu.attribute },
    { "cuCtxCreate_v2", (void **)&cu.create },
    { "cuCtxDestroy_v2", (void **)&cu.destroy },
    { "cuModuleLoadData", (void **)&cu.load },
    { "cuModuleGetFunction", (void **)&cu.function },
    { "cuMemAlloc_v2", (void **)&cu.allocate },
    { "cuLaunchKernel", (void **)&cu.launch },
    { "cuEventCreate", (void **)&cu.event },
    { "cuEventRecord", (void **)&cu.record },
    { "cuEventSynchronize", (void **)&cu.wait },
    { "cuEventElapsedTime", (void **)&cu.elapsed },
};

static void *context, *module, *kernel, *before[SLOTS], *after[SLOTS];
static unsigned long long result;
static int multiprocessors;
static char message[256];

/* Returns the text of an error, or NULL. */
static const char *check(const char *function, int error)
{
    const char *name = NULL;
    if (!error)
        return NULL;
    if (cu.name(error, &name) != 0 || !name)
        name = "unknown error";
    snprintf(message, sizeof message, "%s: %s (%d)", function, name, error);
    return message;
}

static const char *open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return dlerror();
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (!(*symbols[i].to = dlsym(library, symbols[i].name)))
            return dlerror();
    return NULL;
}

static const char *open_device(const char *bus)
{
    const char *error;
    int device;
    if ((error = check("cuInit", cu.init(0))) ||
        (error = check("cuDeviceGetByPCIBusId", cu.by_bus(&device, bus))) ||
        (error = check("cuDeviceGetAttribute", cu.attribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device))))
        return error;
    return check("cuCtxCreate", cu.create(&context, CU_CTX_SCHED_BLOCKING_SYNC, device));
}

const char *cuda_open(const char *library, const char *bus, const char *ptx)
{
    const char *error;
    if ((error = open_library(library)) || (error = open_device(bus)) ||
        (error = check("cuModuleLoadData", cu.load(&module, ptx))) ||
        (error = check("cuModuleGetFunction", cu.function(&kernel, module, "spin"))) ||
        (error = check("cuMemAlloc", cu.allocate(&result, 256))))
        return error;
    for (int i = 0; i < SLOTS; i++)
        if ((error = check("cuEventCreate", cu.event(&before[i], CU_EVENT_BLOCKING_SYNC))) ||
            (error = check("cuEventCreate", cu.event(&after[i], CU_EVENT_BLOCKING_SYNC))))
            return error;
    return NULL;
}

const char *cuda_launch(int slot, unsigned long long iterations)
{
    const char *error;
    void *parameters[] = { &result, &iterations };
    if ((error = check("cuEventRecord", cu.record(before[slot], NULL))) ||
        (error = check("cuLaunchKernel", cu.launch(kernel, (unsigned)(multiprocessors * BLOCKS_EACH), 1, 1, THREADS, 1, 1, 0, NULL, parameters, NULL))))
        return error;
    return check("cuEventRecord", cu.record(after[slot], NULL));
}

const char *cuda_wait(int slot, float *ms)
{
    const char *error = check("cuEventSynchronize", cu.wait(after[slot]));
    return error ? error : check("cuEventElapsedTime", cu.elapsed(ms, before[slot], after[slot]));
}

const char *cuda_close(void) { return check("cuCtxDestroy", cu.destroy(context)); }
