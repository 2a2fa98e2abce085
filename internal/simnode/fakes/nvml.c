//go:build ignore

/*
 * A fake libnvidia-ml.so.1. It implements the NVML calls that gpuledger makes, with data
 * from a text file. It is compiled against nvml.h in go-nvml, so that a changed prototype
 * or struct in a new release breaks this build and not production.
 *
 * Environment, read at every nvmlInit:
 *
 *   GPULEDGER_FAKE_NVML_STATE  the state file; nvmlInit fails with
 *                              DRIVER_NOT_LOADED while it does not exist
 *   GPULEDGER_FAKE_NVML_DEVICES  optional; a directory of device files, which the
 *                              library opens and locks (flock, shared) until the
 *                              last nvmlShutdown: nvidiactl in the first nvmlInit,
 *                              and nvidia<minor> when a handle of the GPU is
 *                              requested
 *   GPULEDGER_FAKE_NVML_LOG    optional; every call appends one line:
 *                              unix ns, function, uuid, return code, value,
 *                              separated by tabs; "-" for a missing item. Only
 *                              energy calls have a value, in mJ; a field value
 *                              is written as <field>/<scope>=<mJ>. For a wait without
 *                              an event, the value is the timeout, in ms.
 *
 * The state file is replaced by rename and read again when its modification
 * time, size or inode differ. It contains one record per line: the name of the
 * record, then key=value fields in any order, separated by tabs. If a key is
 * absent, its call returns NOT_SUPPORTED.
 *
 *   driver   version nvml generation loaded
 *            time                                         ns, the clock of busy times
 *            cc cc_devtools                               confidential computing: 1 enabled; 1 with developer tools
 *            until                                        ns, boot clock: the state is then stale, and calls
 *                                                         about a GPU wait some seconds for the next one
 *            A new generation means a driver reload: calls fail with UNINITIALIZED
 *            until every nvmlInit was undone by nvmlShutdown and another nvmlInit
 *            follows; older handles stay invalid. With loaded=0 every call fails
 *            with DRIVER_NOT_LOADED. With another version than the library's (see
 *            built) every call fails with LIB_RM_VERSION_MISMATCH.
 *   gpu      index uuid minor bus name serial part vbios
 *            chassis slot tray host peer module           platform info
 *            fabric_cluster fabric_clique fabric_state    32 hex digits, number, 0-3
 *            fabric_status fabric_health     nvmlReturn_t of the registration; health mask
 *            energy energy_gpu energy_module              mJ: the energy call, field 191 by scope
 *            power_gpu power_module                       mW: field 185 by scope
 *            power_instant                                mW: field 186
 *            power power_limit power_max                  mW
 *            temperature utilization memory_utilization   C, %, %
 *            memory_used memory_reserved memory_total     bytes
 *            sm_clock memory_clock                        MHz
 *            throttled_sw_thermal throttled_hw_thermal throttled_power_brake   ns: fields 269, 270, 271
 *            recovery_action                              field 230, nvmlDeviceGpuRecoveryAction_t
 *            clocks_event_reasons                         bits of the current reasons
 *            processes=1 samples=1                        supported calls
 *            mig=1 mig_slices                             MIG mode; slices of its largest GPU instance
 *            buffers=1                                    buffers of power and utilisation samples
 *            gpm=1                                        GPM; 0: the GPU reports that it has none
 *            accounting=1                                 accounting mode; 0: off
 *            events                                       nvmlEventType bits; 8: XIDs
 *            lost=1                                       every call on the GPU returns GPU_IS_LOST
 *   health   gpu                                         more values of a GPU, in one record or several
 *            field<id> field<id>.<scope>                  any other field; see plain_field
 *            sram_{volatile,aggregate}_{corrected,uncorrected} sram_threshold   errors of the SRAM; 1: too many
 *            banks_{max,high,partial,low,none}            banks by spare rows
 *            pcie_{generation,width}{,_max} pstate        the link now and at most; performance state
 *            encoder decoder                              %
 *            margin                                       C until the clocks are reduced, may be negative
 *            clock_max_{graphics,sm,memory,video}         MHz
 *            fans fan<n>                                  number of fans; their intended speeds, %
 *            clock_reasons                                bits of the reasons that the GPU reports
 *            gsp inforom_image inforom=1                  versions; the InfoROM is valid; 0: corrupt
 *            persistence compute mig_pending              modes, as numbers of nvml.h
 *            gpm<id>                                      a GPM metric of the whole GPU, %, MiB/s
 *   live     work of real programs; see live.h
 *   instance gpu uuid gi ci name                          a MIG device, in the driver's order: a compute
 *            gi_slices ci_slices memory_mib               instance and its GPU instance
 *            profile start size                           of the GPU instance; absent: no permission
 *            sm_busy                                      ns in which its multiprocessors were busy, a counter
 *            sm                                           in place of sm_busy: how busy they are, %, returned unchanged
 *   process  gpu pid kind=compute|graphics|mps memory     bytes
 *            gi ci                                        the only MIG device that lists it
 *   sample   gpu time pid sm mem                          one sample of the ring: unix us, %, %; oldest first
 *   power    gpu time value                              a power sample of the buffer: unix us, mW; oldest first
 *   busy     gpu time value                              a utilisation sample of the buffer: unix us, %
 *   row      gpu time pid sm mem                          a row of process utilisation, returned unchanged
 *   account  gpu pid start running                        the account of a process: unix us, 1 or 0
 *            count gr fb                                  number of samples, sums of % * 100 over the samples; counters
 *   xid      gpu seq code                                 an XID, delivered once to every older event set
 *   fault    gpu=<uuid or *> call=<name without _vN, or *> do=
 *            The faults of a GPU also apply to its MIG devices, which may have
 *            further faults.
 *            fail:<nvmlReturn>   the return code; nvmlEventSetWait returns the code
 *                                of any GPU that is registered with the set
 *            delay:<ms>          the call takes this long
 *            hang                the call returns when the fault is removed
 *            drop                the GPU is not counted or enumerated; a process
 *                                list is empty; there are no samples; the index
 *                                of a MIG device is empty
 *            size:<n>            a process list returns INSUFFICIENT_SIZE and requires n entries
 *            many:<n>            a list of processes, of samples or of accounts
 *                                has n rows, with PIDs starting at 100,000
 *            blank               success with an empty value: "", 0, 0xff in platform info,
 *                                NaN as a metric
 *            glitch-low          half the energy
 *            glitch-high         10^12 mJ too much energy
 *
 * The fake reproduces this behaviour of the driver:
 *
 *   - Sizing calls return INSUFFICIENT_SIZE, and a list may grow before the second call.
 *   - Only samples newer than lastSeen are returned, or NOT_FOUND if there are none.
 *   - In MIG mode the driver rejects utilisation, lists processes only by MIG device and
 *     keeps no accounts.
 *   - A GPM metric requires two samples of one instance, and is NaN without elapsed time.
 *   - Platform info accepts struct versions 1 and 2.
 *   - Initialisations are counted.
 *   - A missing capability leads to NOT_SUPPORTED and never to 0.
 */
#define _GNU_SOURCE
#include "state.h"
#include <limits.h>
#include <math.h>
#include <nvml.h>
#include <sys/file.h>

enum { POLL_MS = 20 };

/* A handle outlives the records, so it contains its generation and UUIDs: the UUID of a GPU, or the
 * UUIDs of a MIG device and its GPU. */
struct nvmlDevice_st {
    char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
    char gpu[NVML_DEVICE_UUID_V2_BUFFER_SIZE]; /* equal to uuid, except for a MIG device */
    unsigned long long generation;
    struct nvmlDevice_st *next;
};

/* An event set. done contains, as lines "uuid seq", the delivered events and the events that are older than the set. */
struct nvmlEventSet_st {
    char *done;
    char *devices; /* lines with the UUIDs of the registered GPUs */
};

/* After the colon, fakes.OfVersion writes the version of this library. Without a version, the library matches every
 * driver. */
static const volatile char built[64] = "fake library of driver version:";

static const char *built_version(void) { return strchr((const char *)built, ':') + 1; }

/* Guarded by the lock, like the state. */
static struct nvmlDevice_st *handles;
static int inits;
static unsigned long long init_generation;

/* ---- device files ---- */

enum { MAX_DEVICES = 64, CONTROL = MAX_DEVICES };

static const char *devices_path;
static int open_devices[MAX_DEVICES + 1]; /* file descriptors by minor number; 0 if not open */

/* Opens and locks a device file, unless it is open. */
static void open_device(unsigned long long minor)
{
    char path[PATH_MAX];
    if (!devices_path || minor > CONTROL || open_devices[minor])
        return;
    if (minor == CONTROL)
        snprintf(path, sizeof path, "%s/nvidiactl", devices_path);
    else
        snprintf(path, sizeof path, "%s/nvidia%llu", devices_path, minor);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd <= 0)
        return;
    flock(fd, LOCK_SH | LOCK_NB);
    open_devices[minor] = fd;
}

static void close_devices(void)
{
    for (int i = 0; i <= CONTROL; i++) {
        if (open_devices[i])
            close(open_devices[i]);
        open_devices[i] = 0;
    }
}

/* ---- lists of lines ---- */

/* Adds a line to a list of lines. */
static void add_line(char **list, const char *line)
{
    char *longer;
    if (asprintf(&longer, "%s%s\n", *list ? *list : "\n", line) < 0)
        abort();
    free(*list);
    *list = longer;
}

static int has_line(const char *list, const char *line)
{
    char whole[256];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    return list && strstr(list, whole);
}

/* ---- calls ---- */

/* A call in progress, between begin and end. */
struct call {
    const char *name; /* without a version suffix */
    const struct nvmlDevice_st *device;
    struct record *gpu; /* the GPU or MIG device */
    struct record *board; /* the GPU, also for a MIG device */
    char value[64]; /* the value in the log */
};

/* Returns the argument of a fault directive for the call, or NULL. */
static const char *call_fault(const struct call *c, const char *what)
{
    const char *argument = directive(c->name, c->device ? c->device->uuid : "", what);
    return argument || !c->device ? argument : directive(c->name, c->device->gpu, what);
}

static int is_mig(const struct nvmlDevice_st *device) { return strcmp(device->uuid, device->gpu) != 0; }

/* Checks the driver, the initialisation and the GPU of a call. */
static nvmlReturn_t check_driver(struct call *c)
{
    struct record *driver = next("driver", NULL);
    if (!driver || is(driver, "loaded", "0"))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (*built_version() && !is(driver, "version", built_version()))
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    if (strcmp(c->name, "nvmlInit") == 0)
        return NVML_SUCCESS;
    if (inits == 0)
        return NVML_ERROR_UNINITIALIZED;
    if (strcmp(c->name, "nvmlShutdown") == 0)
        return NVML_SUCCESS;
    if (number(driver, "generation", 0) != init_generation)
        return NVML_ERROR_UNINITIALIZED;
    if (!c->device)
        return NVML_SUCCESS;
    if (c->device->generation != init_generation)
        return NVML_ERROR_UNINITIALIZED;
    c->board = by_uuid("gpu", c->device->gpu);
    if (!c->board || is(c->board, "lost", "1"))
        return NVML_ERROR_GPU_IS_LOST;
    c->gpu = by_uuid(is_mig(c->device) ? "instance" : "gpu", c->device->uuid);
    return c->gpu ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

/* Takes the lock and begins a call. The caller must end it, even after an error. */
static nvmlReturn_t begin(struct call *c, const char *name, const struct nvmlDevice_st *device)
{
    *c = (struct call){.name = name, .device = device, .value = "-"};
    pthread_mutex_lock(&lock);
    refresh();
    const char *delay = call_fault(c, "delay");
    if (delay)
        pause_unlocked(atol(delay));
    while (call_fault(c, "hang"))
        pause_unlocked(POLL_MS);
    if (device)
        await_fresh();
    nvmlReturn_t ret = check_driver(c);
    const char *code = call_fault(c, "fail");
    return ret == NVML_SUCCESS && code ? (nvmlReturn_t)atoi(code) : ret;
}

/* Begins a call that a GPU without the given key does not support. */
static nvmlReturn_t begin_for(struct call *c, const char *name, nvmlDevice_t device, const char *key)
{
    nvmlReturn_t ret = begin(c, name, device.handle);
    return ret == NVML_SUCCESS && !get(c->gpu, key) ? NVML_ERROR_NOT_SUPPORTED : ret;
}

static void report(const struct call *c, nvmlReturn_t ret)
{
    log_call(c->name, c->device ? c->device->uuid : "-", ret, ret == NVML_SUCCESS || ret == NVML_ERROR_TIMEOUT ? c->value : "-");
}

/* Logs the call and releases the lock. */
static nvmlReturn_t end(const struct call *c, nvmlReturn_t ret)
{
    report(c, ret);
    pthread_mutex_unlock(&lock);
    return ret;
}

/* ---- calls that return one key of a record ---- */

static nvmlReturn_t copy(char *out, unsigned int size, const char *text)
{
    if (!text)
        return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(text) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

/* Returns a string from the record of the GPU or, if there is no device, of the driver. */
static nvmlReturn_t text_call(const char *name, const struct nvmlDevice_st *device, const char *key, char *out,
                              unsigned int size)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, name, device);
    if (ret == NVML_SUCCESS)
        ret = copy(out, size, call_fault(&c, "blank") ? "" : get(device ? c.gpu : next("driver", NULL), key));
    return end(&c, ret);
}

/* Returns a number from the record of the GPU. */
static nvmlReturn_t number_call(const char *name, nvmlDevice_t device, const char *key, unsigned long long *out)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, name, device, key);
    if (ret == NVML_SUCCESS)
        *out = call_fault(&c, "blank") ? 0 : number(c.gpu, key, 0);
    return end(&c, ret);
}

static nvmlReturn_t small_call(const char *name, nvmlDevice_t device, const char *key, unsigned int *out)
{
    unsigned long long n = 0;
    nvmlReturn_t ret = number_call(name, device, key, &n);
    if (ret == NVML_SUCCESS)
        *out = (unsigned int)n;
    return ret;
}

#define SYSTEM_TEXT(function, key)                                                                                     \
    nvmlReturn_t function(char *out, unsigned int size) { return text_call(#function, NULL, key, out, size); }
#define DEVICE_TEXT(function, key)                                                                                     \
    nvmlReturn_t function(nvmlDevice_t device, char *out, unsigned int size)                                           \
    {                                                                                                                  \
        return text_call(#function, device.handle, key, out, size);                                                    \
    }
#define DEVICE_NUMBER(function, key)                                                                                   \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *out) { return small_call(#function, device, key, out); }

SYSTEM_TEXT(nvmlSystemGetDriverVersion, "version")

/* This is the only call that needs no initialisation (nvml.h). */
nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned int size)
{
    struct call c;
    char version[80];
    begin(&c, "nvmlSystemGetNVMLVersion", NULL);
    snprintf(version, sizeof version, "12.%s", built_version());
    return end(&c, copy(out, size, *built_version() ? version : get(next("driver", NULL), "nvml")));
}

DEVICE_TEXT(nvmlDeviceGetName, "name")
DEVICE_TEXT(nvmlDeviceGetUUID, "uuid")
DEVICE_TEXT(nvmlDeviceGetSerial, "serial")
DEVICE_TEXT(nvmlDeviceGetBoardPartNumber, "part")
DEVICE_TEXT(nvmlDeviceGetVbiosVersion, "vbios")
DEVICE_NUMBER(nvmlDeviceGetMinorNumber, "minor")
DEVICE_NUMBER(nvmlDeviceGetPowerUsage, "power")
DEVICE_NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit")

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *out)
{
    return small_call("nvmlDeviceGetTemperature", device, sensor == NVML_TEMPERATURE_GPU ? "temperature" : "", out);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *out)
{
    const char *key = type == NVML_CLOCK_MEM ? "memory_clock" : type == NVML_CLOCK_VIDEO ? "" : "sm_clock";
    return small_call("nvmlDeviceGetClockInfo", device, key, out);
}

/* In MIG mode the call is not supported, because the GPU's record does not contain the keys of this call. */
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable, unsigned int *uncorrectable,
                                       unsigned int *pending, unsigned int *failed)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetRemappedRows", device, "remap_failed");
    if (ret == NVML_SUCCESS) {
        *pending = (unsigned int)number(c.gpu, "remap_pending", 0);
        *failed = (unsigned int)number(c.gpu, "remap_failed", 0);
        *correctable = (unsigned int)number(c.gpu, "remap_correctable", 0);
        *uncorrectable = (unsigned int)number(c.gpu, "remap_uncorrectable", 0);
    }
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *min, unsigned int *max)
{
    nvmlReturn_t ret = small_call("nvmlDeviceGetPowerManagementLimitConstraints", device, "power_max", max);
    if (ret == NVML_SUCCESS)
        *min = *max / 4;
    return ret;
}

/* ---- library and enumeration ---- */

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    struct call c;
    (void)flags;
    pthread_mutex_lock(&lock);
    state_path = environment("GPULEDGER_FAKE_NVML_STATE");
    open_log("GPULEDGER_FAKE_NVML_LOG");
    devices_path = environment("GPULEDGER_FAKE_NVML_DEVICES");
    memset(&state_seen, 0, sizeof state_seen);
    if (!refresh())
        parse(calloc(1, 1));
    pthread_mutex_unlock(&lock);
    nvmlReturn_t ret = begin(&c, "nvmlInit", NULL);
    if (ret == NVML_SUCCESS) {
        if (inits++ == 0)
            init_generation = number(next("driver", NULL), "generation", 0);
        open_device(CONTROL);
    }
    return end(&c, ret);
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlShutdown", NULL);
    if (inits > 0 && --inits == 0)
        close_devices();
    return end(&c, ret);
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

static int dropped(const struct record *gpu)
{
    const char *uuid = uuid_of(gpu, "uuid");
    return directive("nvmlDeviceGetCount", uuid, "drop") || directive("nvmlDeviceGetHandleByIndex", uuid, "drop");
}

/* Returns the number of GPUs that the driver lists before the given index. */
static unsigned int rank(unsigned long long index)
{
    unsigned int n = 0;
    for (struct record *g = next("gpu", NULL); g; g = next("gpu", g))
        n += !dropped(g) && number(g, "index", 0) < index;
    return n;
}

/* Returns the handle of a GPU, or of a MIG device on it. */
static nvmlDevice_t handle_of(const char *uuid, const char *gpu)
{
    struct nvmlDevice_st *h = handles;
    while (h && (h->generation != init_generation || strcmp(h->uuid, uuid) != 0))
        h = h->next;
    if (!h) {
        h = calloc(1, sizeof *h);
        snprintf(h->uuid, sizeof h->uuid, "%s", uuid);
        snprintf(h->gpu, sizeof h->gpu, "%s", gpu);
        h->generation = init_generation;
        h->next = handles;
        handles = h;
    }
    return (nvmlDevice_t){h};
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlDeviceGetCount", NULL);
    if (ret == NVML_SUCCESS)
        *count = rank(ULLONG_MAX);
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    struct call c;
    struct nvmlDevice_st *handle = NULL;
    pthread_mutex_lock(&lock);
    refresh();
    for (struct record *g = next("gpu", NULL); g; g = next("gpu", g))
        if (!dropped(g) && rank(number(g, "index", 0)) == index)
            handle = handle_of(uuid_of(g, "uuid"), uuid_of(g, "uuid")).handle;
    pthread_mutex_unlock(&lock);
    nvmlReturn_t ret = begin(&c, "nvmlDeviceGetHandleByIndex", handle);
    if (ret == NVML_SUCCESS && !handle)
        ret = NVML_ERROR_INVALID_ARGUMENT;
    if (ret == NVML_SUCCESS) {
        *device = (nvmlDevice_t){handle};
        open_device(number(c.gpu, "minor", CONTROL + 1));
    }
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus, nvmlDevice_t *device)
{
    struct call c;
    struct nvmlDevice_st *handle = NULL;
    pthread_mutex_lock(&lock);
    refresh();
    for (struct record *g = next("gpu", NULL); g; g = next("gpu", g))
        if (!dropped(g) && is(g, "bus", bus))
            handle = handle_of(uuid_of(g, "uuid"), uuid_of(g, "uuid")).handle;
    pthread_mutex_unlock(&lock);
    nvmlReturn_t ret = begin(&c, "nvmlDeviceGetHandleByPciBusId", handle);
    if (ret == NVML_SUCCESS && !handle)
        ret = NVML_ERROR_NOT_FOUND;
    if (ret == NVML_SUCCESS) {
        *device = (nvmlDevice_t){handle};
        open_device(number(c.gpu, "minor", CONTROL + 1));
    }
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlDeviceGetIndex", device.handle);
    if (ret == NVML_SUCCESS)
        *index = rank(number(c.gpu, "index", 0));
    return end(&c, ret);
}

/* ---- identity ---- */

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    memset(pci, 0, sizeof *pci);
    nvmlReturn_t ret = text_call("nvmlDeviceGetPciInfo", device.handle, "bus", pci->busId, sizeof pci->busId);
    if (ret == NVML_SUCCESS)
        sscanf(pci->busId, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    return ret;
}

nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_t *info)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetPlatformInfo", device, "chassis");
    unsigned int version = info->version;
    if (ret == NVML_SUCCESS && version != nvmlPlatformInfo_v1 && version != nvmlPlatformInfo_v2)
        ret = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (ret == NVML_SUCCESS) {
        memset(info, 0xff, sizeof *info);
        info->version = version;
    }
    if (ret == NVML_SUCCESS && !call_fault(&c, "blank")) {
        memset(info->ibGuid, 0, sizeof info->ibGuid);
        strncpy((char *)info->chassisSerialNumber, get(c.gpu, "chassis"), sizeof info->chassisSerialNumber);
        info->slotNumber = number(c.gpu, "slot", 0xff);
        info->trayIndex = number(c.gpu, "tray", 0xff);
        info->hostId = number(c.gpu, "host", 0xff);
        info->peerType = number(c.gpu, "peer", 0xff);
        info->moduleId = number(c.gpu, "module", 0xff);
    }
    return end(&c, ret);
}

static nvmlReturn_t fabric_call(const char *name, nvmlDevice_t device, nvmlGpuFabricInfo_t *info, unsigned int *health)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, name, device, "fabric_state");
    if (ret == NVML_SUCCESS && !call_fault(&c, "blank")) {
        const char *hex = get(c.gpu, "fabric_cluster");
        for (size_t i = 0; hex && i < sizeof info->clusterUuid && sscanf(hex + 2 * i, "%2hhx", &info->clusterUuid[i]) == 1; i++)
            ;
        info->cliqueId = number(c.gpu, "fabric_clique", 0);
        info->state = number(c.gpu, "fabric_state", 0);
        info->status = number(c.gpu, "fabric_status", NVML_SUCCESS);
        *health = number(c.gpu, "fabric_health", 0);
    }
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    unsigned int health;
    memset(info, 0, sizeof *info);
    return fabric_call("nvmlDeviceGetGpuFabricInfo", device, info, &health);
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *out)
{
    nvmlGpuFabricInfo_t info = {0};
    if (out->version != nvmlGpuFabricInfo_v2 && out->version != nvmlGpuFabricInfo_v3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    out->healthMask = 0;
    nvmlReturn_t ret = fabric_call("nvmlDeviceGetGpuFabricInfoV", device, &info, &out->healthMask);
    memcpy(out->clusterUuid, info.clusterUuid, sizeof out->clusterUuid);
    out->status = info.status;
    out->cliqueId = info.cliqueId;
    out->state = info.state;
    return ret;
}

/* ---- energy, load and memory ---- */

/* Returns the energy with the given key, as changed by the active faults. */
static unsigned long long energy(const struct call *c, const char *key)
{
    unsigned long long mj = number(c->gpu, key, 0);
    if (call_fault(c, "blank"))
        return 0;
    if (call_fault(c, "glitch-low"))
        return mj / 2;
    return call_fault(c, "glitch-high") ? mj + 1000000000000ULL : mj;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *out)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetTotalEnergyConsumption", device, "energy");
    if (ret == NVML_SUCCESS) {
        *out = energy(&c, "energy");
        snprintf(c.value, sizeof c.value, "%llu", *out);
    }
    return end(&c, ret);
}

/* Returns the key of a counter of throttled time, or NULL. */
static const char *throttle_key(unsigned int field)
{
    return field == NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN      ? "throttled_sw_thermal"
           : field == NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN    ? "throttled_hw_thermal"
           : field == NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN ? "throttled_power_brake"
                                                                           : NULL;
}

static void field_value(struct call *c, nvmlFieldValue_t *v)
{
    int is_energy = v->fieldId == NVML_FI_DEV_ENERGY, is_power = v->fieldId == NVML_FI_DEV_POWER_AVERAGE;
    const char *key = v->scopeId == NVML_POWER_SCOPE_GPU      ? is_energy ? "energy_gpu" : "power_gpu"
                      : v->scopeId == NVML_POWER_SCOPE_MODULE ? is_energy ? "energy_module" : "power_module"
                                                              : "";
    v->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    strcpy(c->value, "-");
    if (v->fieldId == NVML_FI_DEV_POWER_INSTANT && v->scopeId == NVML_POWER_SCOPE_GPU && get(c->gpu, "power_instant")) {
        v->nvmlReturn = NVML_SUCCESS;
        v->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        v->value.ullVal = number(c->gpu, "power_instant", 0);
    }
    if (throttle_key(v->fieldId) && get(c->gpu, throttle_key(v->fieldId))) {
        v->nvmlReturn = NVML_SUCCESS;
        v->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        v->value.ullVal = call_fault(c, "blank") ? 0 : number(c->gpu, throttle_key(v->fieldId), 0);
    }
    if (v->fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION && get(c->gpu, "recovery_action")) {
        v->nvmlReturn = NVML_SUCCESS;
        v->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        v->value.uiVal = number(c->gpu, "recovery_action", 0);
    }
    if ((is_energy || is_power) && get(c->gpu, key)) {
        v->nvmlReturn = NVML_SUCCESS;
        v->valueType = is_energy ? NVML_VALUE_TYPE_UNSIGNED_LONG_LONG : NVML_VALUE_TYPE_UNSIGNED_INT;
        v->value.ullVal = is_energy ? energy(c, key) : number(c->gpu, key, 0);
        snprintf(c->value, sizeof c->value, "%u/%u=%llu", v->fieldId, v->scopeId, v->value.ullVal);
    }
    report(c, v->nvmlReturn);
}

/* Returns the health record of the GPU that contains a key, or NULL. A GPU may have several health records; a lost GPU has
 * none. */
static const struct record *health(const struct call *c, const char *key)
{
    if (!c->gpu)
        return NULL;
    struct record *r = next("health", NULL);
    while (r && !(is(r, "gpu", get(c->gpu, "uuid")) && get(r, key)))
        r = next("health", r);
    return r;
}

/* Returns a number from the GPU's health records. */
static nvmlReturn_t health_call(const char *name, nvmlDevice_t device, const char *key, unsigned long long *out)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, name, device.handle);
    if (ret == NVML_SUCCESS && !health(&c, key))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS)
        *out = call_fault(&c, "blank") ? 0 : number(health(&c, key), key, 0);
    return end(&c, ret);
}

/* A hash table of the fields of one GPU, by number and scope. */
enum { SLOTS = 1024 };

static struct slot {
    unsigned int field, scope;
    const char *value; /* NULL if the slot is free */
} slots[SLOTS];

/* Returns the slot of a field, or the free slot in which it belongs. */
static struct slot *slot_of(unsigned int field, unsigned int scope)
{
    unsigned int i = (field * 37 + scope) % SLOTS;
    while (slots[i].value && (slots[i].field != field || slots[i].scope != scope))
        i = (i + 1) % SLOTS;
    return &slots[i];
}

/* Adds the fields of a health record to the table, from the keys field<id> or field<id>.<scope>. The scope of all links is
 * written as "all". If a field occurs twice, its first value is used. */
static void add_fields_of(const struct record *health)
{
    for (int i = 0; i < health->fields; i++) {
        char *end;
        if (strncmp(health->field[i].key, "field", 5) != 0)
            continue;
        unsigned int field = (unsigned int)strtoul(health->field[i].key + 5, &end, 10), scope = 0;
        if (*end == '.')
            scope = strcmp(end, ".all") == 0 ? UINT_MAX : (unsigned int)strtoul(end + 1, NULL, 10);
        struct slot *s = slot_of(field, scope);
        if (!s->value)
            *s = (struct slot){field, scope, health->field[i].value};
    }
}

/* Fills the table with the fields of the call's GPU. */
static void take_fields(const struct call *c)
{
    int keys = 0;
    memset(slots, 0, sizeof slots);
    for (struct record *r = next("health", NULL); r; r = next("health", r)) {
        if (!is(r, "gpu", get(c->gpu, "uuid")))
            continue;
        if ((keys += r->fields) >= SLOTS)
            abort();
        add_fields_of(r);
    }
}

/* Sets a plain field. For the value "off" it returns a double without a time, like a driver while ECC is disabled.
 * Returns 0 if the field has a key with another name. */
static int plain_field(struct call *c, nvmlFieldValue_t *v)
{
    switch (v->fieldId) {
    case NVML_FI_DEV_ENERGY:
    case NVML_FI_DEV_POWER_AVERAGE:
    case NVML_FI_DEV_POWER_INSTANT:
    case NVML_FI_DEV_GET_GPU_RECOVERY_ACTION:
        return 0;
    }
    const char *value = slot_of(v->fieldId, v->scopeId)->value;
    if (!value)
        return throttle_key(v->fieldId) == NULL;
    v->nvmlReturn = NVML_SUCCESS;
    v->valueType = strcmp(value, "off") ? NVML_VALUE_TYPE_UNSIGNED_LONG_LONG : NVML_VALUE_TYPE_DOUBLE;
    v->timestamp = strcmp(value, "off") ? 1 : 0;
    v->value.ullVal = call_fault(c, "blank") ? 0 : strtoull(value, NULL, 10);
    return 1;
}

/* Logs one line for each value of energy, power, throttled time and recovery. If there is no such value, it logs one
 * line for the call. Therefore it does not call end() on success. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlDeviceGetFieldValues", device.handle);
    if (ret != NVML_SUCCESS)
        return end(&c, ret);
    int plain = 0;
    take_fields(&c);
    for (int i = 0; i < count; i++) {
        values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        values[i].timestamp = 0;
        if (plain_field(&c, &values[i]))
            plain++;
        else
            field_value(&c, &values[i]);
    }
    if (plain == count) {
        strcpy(c.value, "-");
        report(&c, NVML_SUCCESS);
    }
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t kind, nvmlEccCounterType_t counter,
                                             nvmlMemoryLocation_t location, unsigned long long *out)
{
    char key[60];
    snprintf(key, sizeof key, "%s_%s_%s", location == NVML_MEMORY_LOCATION_SRAM ? "sram" : "other",
             counter == NVML_VOLATILE_ECC ? "volatile" : "aggregate",
             kind == NVML_MEMORY_ERROR_TYPE_CORRECTED ? "corrected" : "uncorrected");
    return health_call("nvmlDeviceGetMemoryErrorCounter", device, key, out);
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *out)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlDeviceGetSramEccErrorStatus", device.handle);
    const struct record *values = health(&c, "sram_threshold");
    if (ret == NVML_SUCCESS && !values)
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS && out->version != nvmlEccSramErrorStatus_v1)
        ret = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (ret == NVML_SUCCESS)
        out->bThresholdExceeded = (unsigned int)number(values, "sram_threshold", 0);
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *out)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlDeviceGetRowRemapperHistogram", device.handle);
    const struct record *values = health(&c, "banks_max");
    if (ret == NVML_SUCCESS && !values)
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS) {
        out->max = (unsigned int)number(values, "banks_max", 0);
        out->high = (unsigned int)number(values, "banks_high", 0);
        out->partial = (unsigned int)number(values, "banks_partial", 0);
        out->low = (unsigned int)number(values, "banks_low", 0);
        out->none = (unsigned int)number(values, "banks_none", 0);
    }
    return end(&c, ret);
}

#define HEALTH_NUMBER(function, type, key)                                                                             \
    nvmlReturn_t function(nvmlDevice_t device, type *out)                                                              \
    {                                                                                                                  \
        unsigned long long n = 0;                                                                                      \
        nvmlReturn_t ret = health_call(#function, device, key, &n);                                                    \
        if (ret == NVML_SUCCESS)                                                                                       \
            *out = (type)n;                                                                                            \
        return ret;                                                                                                    \
    }

HEALTH_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, "pcie_generation")
HEALTH_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, "pcie_generation_max")
HEALTH_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, "pcie_width")
HEALTH_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, "pcie_width_max")
HEALTH_NUMBER(nvmlDeviceGetPerformanceState, nvmlPstates_t, "pstate")

HEALTH_NUMBER(nvmlDeviceGetNumFans, unsigned int, "fans")
HEALTH_NUMBER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, "clock_reasons")
HEALTH_NUMBER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, "persistence")
HEALTH_NUMBER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, "compute")

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *out)
{
    unsigned long long n = 0;
    nvmlReturn_t ret = health_call("nvmlDeviceGetMarginTemperature", device, "margin", &n);
    if (ret == NVML_SUCCESS && out->version != nvmlMarginTemperature_v1)
        ret = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (ret == NVML_SUCCESS)
        out->marginTemperature = (int)n;
    return ret;
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *out)
{
    static const char *keys[] = {"clock_max_graphics", "clock_max_sm", "clock_max_memory", "clock_max_video"};
    unsigned long long n = 0;
    nvmlReturn_t ret = health_call("nvmlDeviceGetMaxClockInfo", device, keys[type], &n);
    if (ret == NVML_SUCCESS)
        *out = (unsigned int)n;
    return ret;
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *out)
{
    char key[20];
    unsigned long long n = 0;
    snprintf(key, sizeof key, "fan%u", fan);
    nvmlReturn_t ret = health_call("nvmlDeviceGetFanSpeed", device, key, &n);
    if (ret == NVML_SUCCESS)
        *out = (unsigned int)n;
    return ret;
}

/* Returns a string of the GPU's health. */
static nvmlReturn_t health_text(const char *name, nvmlDevice_t device, const char *key, char *out, unsigned int size)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, name, device.handle);
    if (ret == NVML_SUCCESS)
        ret = copy(out, size, call_fault(&c, "blank") ? "" : get(health(&c, key), key));
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    return health_text("nvmlDeviceGetGspFirmwareVersion", device, "gsp", version, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE);
}

nvmlReturn_t nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char *version, unsigned int size)
{
    return health_text("nvmlDeviceGetInforomImageVersion", device, "inforom_image", version, size);
}

nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlDeviceValidateInforom", device.handle);
    const struct record *values = health(&c, "inforom");
    if (ret == NVML_SUCCESS && !values)
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS && is(values, "inforom", "0"))
        ret = NVML_ERROR_CORRUPTED_INFOROM;
    return end(&c, ret);
}

nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *out)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlSystemGetConfComputeState", NULL);
    struct record *driver = next("driver", NULL);
    if (ret == NVML_SUCCESS && !get(driver, "cc"))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS)
        *out = (nvmlConfComputeSystemState_t){
            .environment = NVML_CC_SYSTEM_ENVIRONMENT_PROD,
            .ccFeature = (unsigned int)number(driver, "cc", 0),
            .devToolsMode = (unsigned int)number(driver, "cc_devtools", 0),
        };
    return end(&c, ret);
}

static nvmlReturn_t media_call(const char *name, nvmlDevice_t device, const char *key, unsigned int *percent, unsigned int *period)
{
    unsigned long long n = 0;
    nvmlReturn_t ret = health_call(name, device, key, &n);
    if (ret == NVML_SUCCESS) {
        *percent = (unsigned int)n;
        *period = 167000; /* us */
    }
    return ret;
}

nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period)
{
    return media_call("nvmlDeviceGetEncoderUtilization", device, "encoder", percent, period);
}

nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned int *percent, unsigned int *period)
{
    return media_call("nvmlDeviceGetDecoderUtilization", device, "decoder", percent, period);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *out)
{
    return number_call("nvmlDeviceGetCurrentClocksEventReasons", device, "clocks_event_reasons", out);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetUtilizationRates", device, "utilization");
    if (ret == NVML_SUCCESS && is(c.gpu, "mig", "1"))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS) {
        int blank = call_fault(&c, "blank") != NULL;
        out->gpu = blank ? 0 : number(c.gpu, "utilization", 0);
        out->memory = blank ? 0 : number(c.gpu, "memory_utilization", 0);
    }
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetMemoryInfo", device, "memory_total");
    if (ret == NVML_SUCCESS) {
        int blank = call_fault(&c, "blank") != NULL;
        out->total = blank ? 0 : number(c.gpu, "memory_total", 0);
        out->used = blank ? 0 : number(c.gpu, "memory_used", 0) + number(c.gpu, "memory_reserved", 0);
        out->free = out->total - out->used;
    }
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetMemoryInfo", device, "memory_reserved");
    if (ret == NVML_SUCCESS && out->version != nvmlMemory_v2)
        ret = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (ret == NVML_SUCCESS) {
        int blank = call_fault(&c, "blank") != NULL;
        out->total = blank ? 0 : number(c.gpu, "memory_total", 0);
        out->reserved = blank ? 0 : number(c.gpu, "memory_reserved", 0);
        out->used = blank ? 0 : number(c.gpu, "memory_used", 0);
        out->free = out->total - out->reserved - out->used;
    }
    return end(&c, ret);
}

/* ---- processes ---- */

/* Reports whether the call's GPU or MIG device lists a process. */
static int stands_on(const struct record *process, const struct call *c)
{
    if (!is_mig(c->device))
        return !is(c->gpu, "mig", "1");
    return number(process, "gi", -1) == number(c->gpu, "gi", 0) && number(process, "ci", -1) == number(c->gpu, "ci", 0);
}

/* Fills the caller's list of size entries. Further entries are only counted. */
static unsigned int list_processes(const struct call *c, const char *kind, unsigned int size, nvmlProcessInfo_t *infos)
{
    unsigned int n = 0;
    for (struct record *p = next("process", NULL); p; p = next("process", p)) {
        if (!is(p, "gpu", c->device->gpu) || !is(p, "kind", kind) || !stands_on(p, c))
            continue;
        if (infos && n < size)
            infos[n] = (nvmlProcessInfo_t){
                .pid = (unsigned int)number(p, "pid", 0),
                .usedGpuMemory = number(p, "memory", (unsigned long long)NVML_VALUE_NOT_AVAILABLE),
                .gpuInstanceId = (unsigned int)number(p, "gi", 0xffffffff),
                .computeInstanceId = (unsigned int)number(p, "ci", 0xffffffff),
            };
        n++;
    }
    return n;
}

/* Returns the number of rows that a fault sets, or n if there is no such fault. */
static unsigned int rows_told(const struct call *c, unsigned int n)
{
    const char *many = call_fault(c, "many");
    return many ? (unsigned int)atoi(many) : n;
}

static nvmlReturn_t process_call(const char *name, nvmlDevice_t device, const char *kind, unsigned int *count,
                                 nvmlProcessInfo_t *infos)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, name, device.handle);
    if (ret == NVML_SUCCESS && !is(c.board, "processes", "1"))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS) {
        unsigned int size = *count;
        *count = call_fault(&c, "drop") || call_fault(&c, "blank") ? 0 : list_processes(&c, kind, size, infos);
        *count = rows_told(&c, *count);
        for (unsigned int i = 0; call_fault(&c, "many") && i < *count && i < size; i++)
            infos[i] = (nvmlProcessInfo_t){ .pid = 100000 + i, .usedGpuMemory = 1 << 20 };
        if (*count > size)
            ret = NVML_ERROR_INSUFFICIENT_SIZE;
        const char *needed = call_fault(&c, "size");
        if (needed) {
            *count = (unsigned int)atoi(needed);
            ret = NVML_ERROR_INSUFFICIENT_SIZE;
        }
    }
    return end(&c, ret);
}

#define PROCESS_LIST(function, name, kind)                                                                             \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)                          \
    {                                                                                                                  \
        return process_call(name, device, kind, count, infos);                                                         \
    }

PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, "nvmlDeviceGetComputeRunningProcesses", "compute")
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, "nvmlDeviceGetGraphicsRunningProcesses", "graphics")
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, "nvmlDeviceGetMPSComputeRunningProcesses", "mps")

/* Adds a row to the caller's list of size entries. Further rows are only counted. */
static void add_row(nvmlProcessUtilizationSample_t row, unsigned int *n, unsigned int size,
                    nvmlProcessUtilizationSample_t *out)
{
    if (out && *n < size)
        out[*n] = row;
    (*n)++;
}

static nvmlProcessUtilizationSample_t row_of(const struct record *s)
{
    return (nvmlProcessUtilizationSample_t){
        .pid = (unsigned int)number(s, "pid", 0),
        .timeStamp = number(s, "time", 0),
        .smUtil = (unsigned int)number(s, "sm", 0),
        .memUtil = (unsigned int)number(s, "mem", 0),
    };
}

/* The maximum number of processes in one window of samples. */
enum { MAX_SAMPLED = 128 };

/* Collects the samples of the ring that are newer than since, with one row per process. A row contains the busy time of the
 * process, averaged over all these samples, so that the rows add up to the device's utilisation. The time of a row is the
 * time of the newest sample of the process. Row records are returned unchanged. Returns the number of rows. */
static unsigned int list_samples(const struct call *c, unsigned long long since, unsigned int size,
                                 nvmlProcessUtilizationSample_t *out)
{
    nvmlProcessUtilizationSample_t sums[MAX_SAMPLED];
    unsigned int n = 0, processes = 0, window = 0;
    for (struct record *s = next("row", NULL); s; s = next("row", s))
        if (is(s, "gpu", c->device->uuid) && number(s, "time", 0) > since)
            add_row(row_of(s), &n, size, out);
    for (struct record *s = next("sample", NULL); s; s = next("sample", s)) {
        nvmlProcessUtilizationSample_t row = row_of(s);
        unsigned int i = 0;
        if (!is(s, "gpu", c->device->uuid) || row.timeStamp <= since)
            continue;
        while (i < processes && sums[i].pid != row.pid)
            i++;
        if (i == MAX_SAMPLED)
            continue;
        if (i == processes)
            sums[processes++] = (nvmlProcessUtilizationSample_t){ .pid = row.pid };
        if (row.timeStamp > sums[i].timeStamp)
            sums[i].timeStamp = row.timeStamp;
        sums[i].smUtil += row.smUtil;
        sums[i].memUtil += row.memUtil;
        window++;
    }
    for (unsigned int i = 0; i < processes; i++) {
        sums[i].smUtil = (sums[i].smUtil + window / 2) / window;
        sums[i].memUtil = (sums[i].memUtil + window / 2) / window;
        add_row(sums[i], &n, size, out);
    }
    return n;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *out,
                                             unsigned int *count, unsigned long long since)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlDeviceGetProcessUtilization", device.handle);
    if (ret == NVML_SUCCESS && (!is(c.gpu, "samples", "1") || is(c.gpu, "mig", "1")))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS && (call_fault(&c, "drop") || call_fault(&c, "blank")))
        ret = NVML_ERROR_NOT_FOUND;
    if (ret == NVML_SUCCESS) {
        unsigned int size = out ? *count : 0;
        *count = rows_told(&c, list_samples(&c, since, size, out));
        for (unsigned int i = 0; call_fault(&c, "many") && i < *count && i < size; i++)
            out[i] = (nvmlProcessUtilizationSample_t){ .pid = 100000 + i, .timeStamp = since + 1000, .smUtil = 1 };
        if (*count == 0)
            ret = NVML_ERROR_NOT_FOUND;
        else if (*count > size)
            ret = NVML_ERROR_INSUFFICIENT_SIZE;
    }
    return end(&c, ret);
}

/* ---- buffers of samples ---- */

/* Fills the caller's list with buffered samples, oldest first. The samples come from records with the given name. */
static unsigned int list_buffer(const struct call *c, const char *name, unsigned long long since, unsigned int size, nvmlSample_t *out)
{
    unsigned int n = 0;
    for (struct record *s = next(name, NULL); s; s = next(name, s)) {
        if (!is(s, "gpu", c->device->uuid) || number(s, "time", 0) <= since)
            continue;
        if (out && n < size)
            out[n] = (nvmlSample_t){ .timeStamp = number(s, "time", 0), .sampleValue.uiVal = (unsigned int)number(s, "value", 0) };
        n++;
    }
    return n;
}

nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t kind, unsigned long long since,
                                  nvmlValueType_t *type, unsigned int *count, nvmlSample_t *out)
{
    struct call c;
    const char *name = kind == NVML_TOTAL_POWER_SAMPLES ? "power" : kind == NVML_GPU_UTILIZATION_SAMPLES ? "busy" : "";
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetSamples", device, "buffers");
    if (ret == NVML_SUCCESS && kind == NVML_GPU_UTILIZATION_SAMPLES && is(c.gpu, "mig", "1"))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS && (call_fault(&c, "drop") || (out && *count == 0)))
        ret = call_fault(&c, "drop") ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
    if (ret == NVML_SUCCESS) {
        unsigned int size = out ? *count : 0, n = list_buffer(&c, name, since, size, out);
        *type = call_fault(&c, "blank") ? NVML_VALUE_TYPE_DOUBLE : NVML_VALUE_TYPE_UNSIGNED_INT;
        *count = out && n > size ? size : n;
        if (call_fault(&c, "size"))
            *count = (unsigned int)atoi(call_fault(&c, "size"));
        if (n == 0)
            ret = NVML_ERROR_NOT_FOUND;
    }
    return end(&c, ret);
}

/* ---- events ---- */

/* Returns the first event that the set has not yet delivered, and marks this event as delivered. */
static struct record *take_event(struct nvmlEventSet_st *set)
{
    for (struct record *x = next("xid", NULL); x; x = next("xid", x)) {
        char id[192];
        snprintf(id, sizeof id, "%s %llu", uuid_of(x, "gpu"), number(x, "seq", 0));
        if (has_line(set->done, id))
            continue;
        add_line(&set->done, id);
        return x;
    }
    return NULL;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlEventSetCreate", NULL);
    if (ret == NVML_SUCCESS) {
        set->handle = calloc(1, sizeof *set->handle);
        while (take_event(set->handle)) /* earlier events are not delivered */
            ;
    }
    return end(&c, ret);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlEventSetFree", NULL);
    if (ret == NVML_SUCCESS) {
        free(set.handle->done);
        free(set.handle->devices);
        free(set.handle);
    }
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetSupportedEventTypes", device, "events");
    if (ret == NVML_SUCCESS)
        *types = number(c.gpu, "events", 0);
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlDeviceRegisterEvents", device.handle);
    if (ret == NVML_SUCCESS && (types & ~number(c.gpu, "events", 0)))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS && !has_line(set.handle->devices, device.handle->uuid))
        add_line(&set.handle->devices, device.handle->uuid);
    return end(&c, ret);
}

/* Returns the return code that a fault sets for waiting for the set's events. */
static nvmlReturn_t set_failure(const struct call *c, const struct nvmlEventSet_st *set)
{
    for (struct record *g = next("gpu", NULL); g; g = next("gpu", g)) {
        const char *code = directive(c->name, uuid_of(g, "uuid"), "fail");
        if (code && has_line(set->devices, uuid_of(g, "uuid")))
            return (nvmlReturn_t)atoi(code);
    }
    return NVML_SUCCESS;
}

static unsigned int ms_since(const struct timespec *began)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned int)((now.tv_sec - began->tv_sec) * 1000 + (now.tv_nsec - began->tv_nsec) / 1000000);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    struct call c;
    struct record *event = NULL;
    nvmlReturn_t ret = begin(&c, "nvmlEventSetWait", NULL);
    struct timespec began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    while (ret == NVML_SUCCESS) {
        do
            event = take_event(set.handle);
        while (event && !has_line(set.handle->devices, uuid_of(event, "gpu")));
        if (event)
            break;
        if ((ret = set_failure(&c, set.handle)) != NVML_SUCCESS)
            break;
        if (ms_since(&began) >= timeout_ms) {
            ret = NVML_ERROR_TIMEOUT;
            snprintf(c.value, sizeof c.value, "%u", timeout_ms);
            break;
        }
        pause_unlocked(POLL_MS);
        ret = check_driver(&c);
    }
    if (ret == NVML_SUCCESS)
        *data = (nvmlEventData_t){
            .device = handle_of(uuid_of(event, "gpu"), uuid_of(event, "gpu")),
            .eventType = nvmlEventTypeXidCriticalError,
            .eventData = number(event, "code", 0),
            .gpuInstanceId = 0xffffffff,
            .computeInstanceId = 0xffffffff,
        };
    return end(&c, ret);
}

#include "mig.c"
#include "gpm.c"
#include "accounting.c"
