//go:build ignore

/*
 * GPM measures how busy a GPU or its instances are. A metric is computed from the difference
 * between two samples. nvml.c includes this file.
 */

/* A sample buffer. It belongs to a GPU after the first sample. */
struct nvmlGpmSample_st {
    const struct nvmlDevice_st *device;
    unsigned int gi;
    unsigned long long time, busy; /* ns */
    double given;                  /* percent */
    enum { NOTHING, BUSY_TIME, PERCENTAGE, WHOLE } kind;
    double metrics[NVML_GPM_METRIC_MAX]; /* metrics of a whole GPU by id; NaN if not supported */
    struct nvmlGpmSample_st *next;
};

static struct nvmlGpmSample_st *gpm_samples; /* buffers that are not yet freed; guarded by the lock */

/* Returns the link to a sample buffer in the list, or the list's last link. */
static struct nvmlGpmSample_st **gpm_link(const struct nvmlGpmSample_st *sample)
{
    struct nvmlGpmSample_st **link = &gpm_samples;
    while (*link && *link != sample)
        link = &(*link)->next;
    return link;
}

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlGpmQueryDeviceSupport", device, "gpm");
    if (ret == NVML_SUCCESS && support->version != NVML_GPM_SUPPORT_VERSION)
        ret = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (ret == NVML_SUCCESS)
        support->isSupportedDevice = is(c.gpu, "gpm", "1") && !call_fault(&c, "blank");
    return end(&c, ret);
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlGpmSampleAlloc", NULL);
    if (ret == NVML_SUCCESS) {
        sample->handle = calloc(1, sizeof *sample->handle);
        sample->handle->next = gpm_samples;
        gpm_samples = sample->handle;
    }
    return end(&c, ret);
}

/* Frees the caller's memory in any state of the driver. */
nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    struct call c;
    begin(&c, "nvmlGpmSampleFree", NULL);
    struct nvmlGpmSample_st **link = gpm_link(sample.handle), *freed = *link;
    if (freed) {
        *link = freed->next;
        free(freed);
    }
    return end(&c, freed ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gi, nvmlGpmSample_t sample)
{
    struct call c;
    struct record *i = NULL;
    nvmlReturn_t ret = begin_for(&c, "nvmlGpmMigSampleGet", device, "gpm");
    if (ret == NVML_SUCCESS && !is(c.gpu, "mig", "1"))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS && (!(i = gpu_instance(c.device, gi)) || !*gpm_link(sample.handle)))
        ret = NVML_ERROR_INVALID_ARGUMENT;
    if (ret == NVML_SUCCESS) {
        struct nvmlGpmSample_st *s = sample.handle;
        s->device = c.device;
        s->gi = gi;
        s->time = number(next("driver", NULL), "time", 0);
        s->busy = number(i, "sm_busy", 0);
        s->given = get(i, "sm") ? strtod(get(i, "sm"), NULL) : 0;
        s->kind = get(i, "sm") ? PERCENTAGE : get(i, "sm_busy") ? BUSY_TIME : NOTHING;
    }
    return end(&c, ret);
}

/* Adds the metrics in a health record. If a metric has several values, the first value is used. */
static void take_metrics(struct nvmlGpmSample_st *s, const struct record *health)
{
    for (int i = 0; i < health->fields; i++) {
        if (strncmp(health->field[i].key, "gpm", 3) != 0)
            continue;
        unsigned long id = strtoul(health->field[i].key + 3, NULL, 10);
        if (id < NVML_GPM_METRIC_MAX && isnan(s->metrics[id]))
            s->metrics[id] = strtod(health->field[i].value, NULL);
    }
}

/* The metrics of a whole GPU come from the keys gpm<id> in its health records. */
nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlGpmSampleGet", device, "gpm");
    if (ret == NVML_SUCCESS && is(c.gpu, "mig", "1"))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS && !*gpm_link(sample.handle))
        ret = NVML_ERROR_INVALID_ARGUMENT;
    if (ret == NVML_SUCCESS) {
        struct nvmlGpmSample_st *s = sample.handle;
        s->device = c.device;
        s->gi = UINT_MAX;
        s->time = number(next("driver", NULL), "time", 0);
        s->kind = WHOLE;
        for (unsigned int id = 0; id < NVML_GPM_METRIC_MAX; id++)
            s->metrics[id] = NAN;
        for (struct record *r = next("health", NULL); r; r = next("health", r))
            if (is(r, "gpu", get(c.gpu, "uuid")))
                take_metrics(s, r);
    }
    return end(&c, ret);
}

static void whole_metric(nvmlGpmMetric_t *m, const struct nvmlGpmSample_st *s, int blank)
{
    double value = m->metricId < NVML_GPM_METRIC_MAX ? s->metrics[m->metricId] : NAN;
    m->nvmlReturn = isnan(value) ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
    m->value = isnan(value) ? 0 : blank ? NAN : value;
}

/* Computes a metric of an instance. The memory is active for half of the time in which the multiprocessors are active. The
 * tensor cores are active for a quarter of that time. If no time has elapsed, the metric is NaN. */
static void gpm_metric(nvmlGpmMetric_t *m, const struct nvmlGpmSample_st *a, const struct nvmlGpmSample_st *b, int blank)
{
    int part = m->metricId == NVML_GPM_METRIC_SM_UTIL ? 1 : m->metricId == NVML_GPM_METRIC_DRAM_BW_UTIL ? 2 : m->metricId == NVML_GPM_METRIC_ANY_TENSOR_UTIL ? 4 : 0;
    m->nvmlReturn = part && b->kind != NOTHING ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    double elapsed = (double)(b->time - a->time), busy = (double)(b->busy - a->busy);
    m->value = b->kind == PERCENTAGE ? b->given : elapsed > 0 ? 100 * busy / elapsed : NAN;
    if (part)
        m->value /= part;
    if (blank)
        m->value = NAN;
    if (m->nvmlReturn != NVML_SUCCESS)
        m->value = 0;
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
    struct call c;
    struct nvmlGpmSample_st *a = get->sample1.handle, *b = get->sample2.handle;
    pthread_mutex_lock(&lock);
    int taken = *gpm_link(a) && *gpm_link(b) && a->device && a->device == b->device && a->gi == b->gi;
    const struct nvmlDevice_st *device = taken ? b->device : NULL;
    pthread_mutex_unlock(&lock);
    nvmlReturn_t ret = begin(&c, "nvmlGpmMetricsGet", device);
    if (ret == NVML_SUCCESS && get->version != NVML_GPM_METRICS_GET_VERSION)
        ret = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (ret == NVML_SUCCESS && (!taken || get->numMetrics > NVML_GPM_METRIC_MAX))
        ret = NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; ret == NVML_SUCCESS && i < get->numMetrics; i++)
        if (b->kind == WHOLE)
            whole_metric(&get->metrics[i], b, call_fault(&c, "blank") != NULL);
        else
            gpm_metric(&get->metrics[i], a, b, call_fault(&c, "blank") != NULL);
    return end(&c, ret);
}
