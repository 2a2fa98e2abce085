//go:build ignore

/*
 * In accounting mode the driver keeps accounts of processes. nvml.c includes this file.
 */

nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetAccountingMode", device, "accounting");
    if (ret == NVML_SUCCESS)
        *mode = is(c.gpu, "accounting", "1") && !is(c.gpu, "mig", "1") && !call_fault(&c, "blank") ? NVML_FEATURE_ENABLED
                                                                                            : NVML_FEATURE_DISABLED;
    return end(&c, ret);
}

/* Returns the newest account with a PID, or NULL. The newest account is the last record. */
static struct record *account_of(const struct nvmlDevice_st *device, unsigned int pid)
{
    struct record *newest = NULL;
    for (struct record *a = next("account", NULL); a; a = next("account", a))
        if (is(a, "gpu", device->uuid) && number(a, "pid", 0) == pid)
            newest = a;
    return newest;
}

nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids)
{
    struct call c;
    unsigned int n = 0;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetAccountingPids", device, "accounting");
    if (ret == NVML_SUCCESS && (!is(c.gpu, "accounting", "1") || is(c.gpu, "mig", "1")))
        ret = NVML_ERROR_NOT_SUPPORTED;
    for (struct record *a = next("account", NULL); ret == NVML_SUCCESS && a; a = next("account", a)) {
        unsigned int pid = number(a, "pid", 0);
        if (!is(a, "gpu", c.device->uuid) || account_of(c.device, pid) != a || call_fault(&c, "drop") || call_fault(&c, "blank"))
            continue;
        if (n < *count)
            pids[n] = pid;
        n++;
    }
    if (ret == NVML_SUCCESS) {
        n = rows_told(&c, n);
        for (unsigned int i = 0; call_fault(&c, "many") && i < n && i < *count; i++)
            pids[i] = 100000 + i;
        ret = n > *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
        *count = n;
    }
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device, nvmlAccountingStats_v2_t *stats)
{
    struct call c;
    struct record *a = NULL;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetAccountingStats", device, "accounting");
    if (ret == NVML_SUCCESS && (!is(c.gpu, "accounting", "1") || is(c.gpu, "mig", "1")))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS && (call_fault(&c, "drop") || !(a = account_of(c.device, stats->pid))))
        ret = NVML_ERROR_NOT_FOUND;
    if (ret == NVML_SUCCESS) {
        *stats = (nvmlAccountingStats_v2_t){.pid = stats->pid};
        if (!call_fault(&c, "blank")) {
            stats->isRunning = number(a, "running", 0);
            stats->sampleCount = number(a, "count", 0);
            stats->sumGpuUtil = number(a, "gr", 0);
            stats->sumFbUtil = number(a, "fb", 0);
            stats->startTime = number(a, "start", 0);
        }
    }
    return end(&c, ret);
}
