#include "nvml.h"
#include <dlfcn.h>
#include <string.h>

static struct {
    int (*init)(void);
    int (*device)(unsigned int, void **);
    int (*uuid)(void *, char *, unsigned int);
    int (*name)(void *, char *, unsigned int);
    int (*version)(char *, unsigned int);
    int (*pci)(void *, void *);
    int (*power)(void *, unsigned int *);
    int (*limit)(void *, unsigned int *);
    int (*rates)(void *, unsigned int *);
    int (*energy)(void *, unsigned long long *);
    int (*fields)(void *, int, field_value *);
    int (*compute)(void *, unsigned int *, process_row *);
    int (*mps)(void *, unsigned int *, process_row *);
    int (*utilization)(void *, utilization_row *, unsigned int *, unsigned long long);
    int (*samples)(void *, int, unsigned long long, int *, unsigned int *, power_sample *);
} ml;

static const struct {
    const char *name;
    void **to;
} symbols[] = {
    { "nvmlInit_v2", (void **)&ml.init },
    { "nvmlDeviceGetHandleByIndex_v2", (void **)&ml.device },
    { "nvmlDeviceGetUUID", (void **)&ml.uuid },
    { "nvmlDeviceGetName", (void **)&ml.name },
    { "nvmlSystemGetDriverVersion", (void **)&ml.version },
    { "nvmlDeviceGetPciInfo_v3", (void **)&ml.pci },
    { "nvmlDeviceGetPowerUsage", (void **)&ml.power },
    { "nvmlDeviceGetEnforcedPowerLimit", (void **)&ml.limit },
    { "nvmlDeviceGetUtilizationRates", (void **)&ml.rates },
    { "nvmlDeviceGetTotalEnergyConsumption", (void **)&ml.energy },
    { "nvmlDeviceGetFieldValues", (void **)&ml.fields },
    { "nvmlDeviceGetComputeRunningProcesses_v3", (void **)&ml.compute },
    { "nvmlDeviceGetMPSComputeRunningProcesses_v3", (void **)&ml.mps },
    { "nvmlDeviceGetProcessUtilization", (void **)&ml.utilization },
    { "nvmlDeviceGetSamples", (void **)&ml.samples },
};

const char *nvml_open(const char *path, int *error)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return dlerror();
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        *symbols[i].to = dlsym(library, symbols[i].name);
    *error = ml.init ? ml.init() : MISSING;
    return NULL;
}

void *nvml_device(unsigned int index, int *error)
{
    void *device = NULL;
    *error = ml.device ? ml.device(index, &device) : MISSING;
    return device;
}

int nvml_text(void *device, int what, char *out, unsigned int size)
{
    if (what == 2)
        return ml.version ? ml.version(out, size) : MISSING;
    int (*call)(void *, char *, unsigned int) = what == 0 ? ml.uuid : ml.name;
    return call ? call(device, out, size) : MISSING;
}

/* nvmlPciInfo_t ends with the long form of the address, which has 32 bytes. It is preceded by the short form,
 * which has 16 bytes, and by five numbers. */
int nvml_bus(void *device, char *out, unsigned int size)
{
    struct { char legacy[16]; unsigned int numbers[5]; char bus[32]; char reserve[64]; } pci;
    memset(&pci, 0, sizeof pci);
    int error = ml.pci ? ml.pci(device, &pci) : MISSING;
    strncpy(out, pci.bus, size - 1);
    out[size - 1] = 0;
    return error;
}

int nvml_number(void *device, int what, unsigned int *out)
{
    unsigned int rates[2] = { 0, 0 };
    int (*call)(void *, unsigned int *) = what == 0 ? ml.power : what == 1 ? ml.limit : ml.rates;
    int error = call ? call(device, rates) : MISSING;
    *out = rates[0];
    return error;
}

int nvml_energy(void *device, unsigned long long *mj) { return ml.energy ? ml.energy(device, mj) : MISSING; }

int nvml_field(void *device, unsigned int field, unsigned int scope, double *out)
{
    enum { DOUBLE = 0, UNSIGNED_INT = 1 };
    field_value v = { .field = field, .scope = scope, .error = NOT_SUPPORTED };
    int error = ml.fields ? ml.fields(device, 1, &v) : MISSING;
    *out = v.type == DOUBLE ? v.value.d : v.type == UNSIGNED_INT ? (double)v.value.ui : (double)v.value.ull;
    return error ? error : v.error;
}

int nvml_processes(void *device, int mps, unsigned int *count, process_row *rows)
{
    int (*call)(void *, unsigned int *, process_row *) = mps ? ml.mps : ml.compute;
    return call ? call(device, count, rows) : MISSING;
}

int nvml_utilization(void *device, unsigned long long since, unsigned int *count, utilization_row *rows)
{
    return ml.utilization ? ml.utilization(device, rows, count, since) : MISSING;
}

int nvml_power_samples(void *device, unsigned long long since, int *type, unsigned int *count, power_sample *rows)
{
    return ml.samples ? ml.samples(device, 0, since, type, count, rows) : MISSING;
}
