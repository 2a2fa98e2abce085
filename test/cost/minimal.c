//go:build ignore

/*
 * This is a minimal exporter for the comparison in docs/performance.md. It has one thread, and makes the
 * exporter's driver calls on a quiet node at the same intervals. Its page has the exporter's series, with the
 * values from a copy of the exporter's page, but formats each value again for every scrape. It resolves no
 * owners and keeps no books. Each connection is closed after the response.
 *
 *   minimal LIBRARY PORT PAGE    the driver's library; a file with the exporter's page
 *
 * The path /usage returns the processor time of all ticks and of all reads of health and profiles, in ns.
 */
#define _GNU_SOURCE
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <arpa/inet.h>
#include <dlfcn.h>
#include <limits.h>
#include <nvml.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GPUS = 64, MAX_FIELDS = 1024, ROWS = 64, POLLS = 4 /* per tick */, HEALTH = 10 /* in ticks */ };

/* The fields of nvmlDeviceGetFieldValues (internal/source/nvml/healthtables.go): fields without a scope, fields for all links, and fields for each link. */
static const unsigned whole[] = {1, 2, 11, 12, 22, 23, 29, 30, 31, 94, 169, 173, 174, 175, 176, 177, 178, 179, 180, 181, 182, 183,
                                 197, 198, 38, 45, 52, 59, 74, 76, 77, 78, 79, 269, 270, 271, 82, 188, 189, 190};
static const unsigned all_links[] = {138, 139}, each_link[] = {206, 207, 208, 211, 212, 213, 214, 219, 221, 165};

static void *library;
static nvmlDevice_t gpus[MAX_GPUS];
static nvmlFieldValue_t fields[MAX_GPUS][MAX_FIELDS];
static unsigned counts[MAX_GPUS]; /* number of fields */
static nvmlGpmSample_t samples[MAX_GPUS][2]; /* newest first */
static long long ticks_ns, health_ns;

/* CALL returns a function of the library. */
#define CALL(f) (*({ static __typeof__(&f) found; if (!found) found = (__typeof__(&f))dlsym(library, #f); if (!found) exit(127); found; }))
#define LENGTH(a) (sizeof(a) / sizeof *(a))

static long long now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void add_fields(unsigned gpu, const unsigned *ids, size_t n, unsigned first, unsigned last)
{
    for (size_t i = 0; i < n; i++)
        for (unsigned long long scope = first; scope <= last; scope++)
            fields[gpu][counts[gpu]++] = (nvmlFieldValue_t){.fieldId = ids[i], .scopeId = (unsigned)scope};
}

/* These are the calls in every tick. */
static void read_gpu(nvmlDevice_t g)
{
    nvmlMemory_v2_t memory = {.version = nvmlMemory_v2};
    nvmlProcessInfo_t processes[ROWS];
    nvmlProcessUtilizationSample_t samples[ROWS];
    nvmlUtilization_t rates;
    nvmlEnableState_t mode;
    unsigned long long big, since = now(CLOCK_REALTIME) / 1000 - 1000000;
    unsigned a, b, c, d, n;
    CALL(nvmlDeviceGetPowerUsage)(g, &a);
    CALL(nvmlDeviceGetTotalEnergyConsumption)(g, &big);
    CALL(nvmlDeviceGetTemperature)(g, NVML_TEMPERATURE_GPU, &a);
    CALL(nvmlDeviceGetUtilizationRates)(g, &rates);
    CALL(nvmlDeviceGetMemoryInfo_v2)(g, &memory);
    CALL(nvmlDeviceGetClockInfo)(g, NVML_CLOCK_SM, &a);
    CALL(nvmlDeviceGetClockInfo)(g, NVML_CLOCK_MEM, &a);
    CALL(nvmlDeviceGetEnforcedPowerLimit)(g, &a);
    CALL(nvmlDeviceGetRemappedRows)(g, &a, &b, &c, &d);
    CALL(nvmlDeviceGetCurrentClocksEventReasons)(g, &big);
    CALL(nvmlDeviceGetMigMode)(g, &a, &b);
    n = ROWS, CALL(nvmlDeviceGetComputeRunningProcesses_v3)(g, &n, processes);
    n = ROWS, CALL(nvmlDeviceGetGraphicsRunningProcesses_v3)(g, &n, processes);
    n = ROWS, CALL(nvmlDeviceGetMPSComputeRunningProcesses_v3)(g, &n, processes);
    CALL(nvmlDeviceGetAccountingMode)(g, &mode);
    n = ROWS, CALL(nvmlDeviceGetProcessUtilization)(g, samples, &n, since);
}

/* These are the calls for health. Fields that the GPU does not support are dropped. The utilisation of the memory is from read_gpu. */
static void read_health(unsigned gpu)
{
    static int known[MAX_GPUS]; /* the largest PCIe link, which is read once */
    nvmlDevice_t g = gpus[gpu];
    nvmlEccSramErrorStatus_t sram = {.version = nvmlEccSramErrorStatus_v1};
    nvmlRowRemapperHistogramValues_t rows;
    nvmlPstates_t state;
    unsigned long long errors;
    unsigned a, b, kept = 0;
    CALL(nvmlDeviceGetFieldValues)(g, (int)counts[gpu], fields[gpu]);
    for (unsigned i = 0; i < counts[gpu]; i++)
        if (fields[gpu][i].nvmlReturn != NVML_ERROR_NOT_SUPPORTED)
            fields[gpu][kept++] = fields[gpu][i];
    counts[gpu] = kept;
    for (int kind = 0; kind < 4; kind++)
        CALL(nvmlDeviceGetMemoryErrorCounter)(g, kind & 1, kind >> 1, NVML_MEMORY_LOCATION_SRAM, &errors);
    CALL(nvmlDeviceGetSramEccErrorStatus)(g, &sram);
    CALL(nvmlDeviceGetRowRemapperHistogram)(g, &rows);
    CALL(nvmlDeviceGetCurrPcieLinkGeneration)(g, &a);
    CALL(nvmlDeviceGetCurrPcieLinkWidth)(g, &a);
    if (!known[gpu]++) {
        CALL(nvmlDeviceGetMaxPcieLinkGeneration)(g, &a);
        CALL(nvmlDeviceGetMaxPcieLinkWidth)(g, &a);
    }
    CALL(nvmlDeviceGetPerformanceState)(g, &state);
    CALL(nvmlDeviceGetEncoderUtilization)(g, &a, &b);
    CALL(nvmlDeviceGetDecoderUtilization)(g, &a, &b);
}

/* These are the metrics of GPM (internal/source/nvml/profile.go). */
static const unsigned metrics[] = {1, 2, 3, 5, 10, 11, 12, 13, 20, 21, 61, 60};

/* These are the calls for profiles. The first interval has no older sample, so it returns an error. */
static void read_profile(unsigned gpu)
{
    nvmlGpmSample_t older = samples[gpu][0];
    nvmlGpmMetricsGet_t get = {.version = NVML_GPM_METRICS_GET_VERSION, .numMetrics = LENGTH(metrics)};
    samples[gpu][0] = samples[gpu][1];
    samples[gpu][1] = older;
    CALL(nvmlGpmSampleGet)(gpus[gpu], samples[gpu][0]);
    get.sample1 = older;
    get.sample2 = samples[gpu][0];
    for (unsigned i = 0; i < LENGTH(metrics); i++)
        get.metrics[i].metricId = metrics[i];
    CALL(nvmlGpmMetricsGet)(&get);
}

/* Writes the page, which contains every line of the copy with its number formatted again. */
static void render(FILE *out, const char *page)
{
    for (const char *end; *page; page = end + 1) {
        end = strchrnul(page, '\n');
        const char *space = memrchr(page, ' ', end - page);
        if (*page == '#' || !space)
            fprintf(out, "%.*s\n", (int)(end - page), page);
        else
            fprintf(out, "%.*s %.17g\n", (int)(space - page), page, strtod(space, NULL));
        if (!*end)
            break;
    }
}

static void serve(int listener, const char *page)
{
    char request[4096] = "", *body;
    size_t size;
    int c = accept(listener, NULL, NULL);
    FILE *out = open_memstream(&body, &size);
    if (read(c, request, sizeof request - 1) > 0 && strncmp(request, "GET /usage ", 11) == 0)
        fprintf(out, "%lld %lld\n", ticks_ns, health_ns);
    else
        render(out, page);
    fclose(out);
    dprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", size, body);
    close(c);
    free(body);
}

int main(int argc, char **argv)
{
    static char page[1 << 22];
    FILE *f = argc == 4 ? fopen(argv[3], "r") : NULL;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    nvmlEventSet_t events;
    nvmlEventData_t event;
    unsigned count;
    if (!f || !fread(page, 1, sizeof page - 1, f) || !(library = dlopen(argv[1], RTLD_NOW)) || CALL(nvmlInit_v2)() ||
        CALL(nvmlDeviceGetCount_v2)(&count) || count > MAX_GPUS || CALL(nvmlEventSetCreate)(&events))
        return 1;
    address.sin_port = htons((unsigned short)atoi(argv[2]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 16))
        return 1;
    for (unsigned i = 0; i < count; i++) {
        CALL(nvmlDeviceGetHandleByIndex_v2)(i, &gpus[i]);
        CALL(nvmlDeviceRegisterEvents)(gpus[i], nvmlEventTypeXidCriticalError, events);
        CALL(nvmlGpmSampleAlloc)(&samples[i][0]);
        CALL(nvmlGpmSampleAlloc)(&samples[i][1]);
        add_fields(i, whole, LENGTH(whole), 0, 0);
        add_fields(i, all_links, LENGTH(all_links), UINT_MAX, UINT_MAX);
        add_fields(i, each_link, LENGTH(each_link), 0, NVML_NVLINK_MAX_LINKS - 1);
    }
    long long due = now(CLOCK_MONOTONIC);
    for (unsigned turn = 0;; turn++, due += 1000000000LL / POLLS) {
        for (long long left; (left = due - now(CLOCK_MONOTONIC)) > 0;) {
            struct pollfd p = {listener, POLLIN, 0};
            if (poll(&p, 1, (int)(left / 1000000 + 1)) > 0)
                serve(listener, page);
        }
        long long began = now(CLOCK_THREAD_CPUTIME_ID);
        CALL(nvmlEventSetWait_v2)(events, &event, 0);
        if (turn % POLLS)
            continue;
        CALL(nvmlDeviceGetCount_v2)(&count);
        for (unsigned i = 0; i < count; i++)
            read_gpu(gpus[i]);
        long long health = now(CLOCK_THREAD_CPUTIME_ID);
        for (unsigned i = 0; i < count && turn / POLLS % HEALTH == 0; i++)
            read_health(i), read_profile(i);
        health_ns += now(CLOCK_THREAD_CPUTIME_ID) - health;
        ticks_ns += now(CLOCK_THREAD_CPUTIME_ID) - began;
    }
}
