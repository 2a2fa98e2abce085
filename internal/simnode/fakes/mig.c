//go:build ignore

/*
 * GPUs in MIG mode. Included by nvml.c. Like a GPU, a MIG device has a handle; its record is
 * an instance. A call returns NOT_SUPPORTED if its key is missing in the instance.
 */

/* A handle of a GPU instance. The handle outlives the records. */
struct nvmlGpuInstance_st {
    const struct nvmlDevice_st *device;
    unsigned int id;
    struct nvmlGpuInstance_st *next;
};

static struct nvmlGpuInstance_st *gpu_instances; /* guarded by the lock */

DEVICE_NUMBER(nvmlDeviceGetGpuInstanceId, "gi")
DEVICE_NUMBER(nvmlDeviceGetComputeInstanceId, "ci")

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetMigMode", device, "mig");
    if (ret == NVML_SUCCESS) {
        *current = call_fault(&c, "blank") ? 0 : (unsigned int)number(c.gpu, "mig", 0);
        *pending = (unsigned int)number(health(&c, "mig_pending"), "mig_pending", *current);
    }
    return end(&c, ret);
}

/* ---- MIG devices ---- */

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlDeviceGetMaxMigDeviceCount", device.handle);
    if (ret == NVML_SUCCESS)
        *count = is(c.gpu, "mig", "1") && !call_fault(&c, "blank") ? number(c.gpu, "mig_slices", 0) : 0;
    return end(&c, ret);
}

/* Returns the MIG device at an index on the call's GPU, or NULL. */
static struct record *mig_device(const struct call *c, unsigned int index)
{
    for (struct record *i = next("instance", NULL); i; i = next("instance", i))
        if (is(i, "gpu", c->device->uuid) && index-- == 0)
            return directive(c->name, uuid_of(i, "uuid"), "drop") ? NULL : i;
    return NULL;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *out)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlDeviceGetMigDeviceHandleByIndex", device.handle);
    if (ret == NVML_SUCCESS && !is(c.gpu, "mig", "1"))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS) {
        struct record *i = mig_device(&c, index);
        if (!i)
            ret = NVML_ERROR_NOT_FOUND;
        else
            *out = handle_of(uuid_of(i, "uuid"), c.device->uuid);
    }
    return end(&c, ret);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *out)
{
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetAttributes", device, "gi_slices");
    if (ret == NVML_SUCCESS) {
        memset(out, 0, sizeof *out);
        out->gpuInstanceSliceCount = number(c.gpu, "gi_slices", 0);
        out->computeInstanceSliceCount = number(c.gpu, "ci_slices", 0);
        out->memorySizeMB = number(c.gpu, "memory_mib", 0);
    }
    return end(&c, ret);
}

/* ---- GPU instances ---- */

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
                                                 nvmlGpuInstanceProfileInfo_t *info)
{
    static const unsigned int slices[] = {
        [NVML_GPU_INSTANCE_PROFILE_1_SLICE] = 1, [NVML_GPU_INSTANCE_PROFILE_2_SLICE] = 2,
        [NVML_GPU_INSTANCE_PROFILE_3_SLICE] = 3, [NVML_GPU_INSTANCE_PROFILE_4_SLICE] = 4,
        [NVML_GPU_INSTANCE_PROFILE_7_SLICE] = 7, [NVML_GPU_INSTANCE_PROFILE_8_SLICE] = 8,
        [NVML_GPU_INSTANCE_PROFILE_6_SLICE] = 6, [NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1] = 1,
        [NVML_GPU_INSTANCE_PROFILE_COUNT] = 0,
    };
    struct call c;
    nvmlReturn_t ret = begin_for(&c, "nvmlDeviceGetGpuInstanceProfileInfo", device, "mig_slices");
    if (ret == NVML_SUCCESS && profile >= NVML_GPU_INSTANCE_PROFILE_COUNT)
        ret = NVML_ERROR_INVALID_ARGUMENT;
    if (ret == NVML_SUCCESS && (slices[profile] == 0 || slices[profile] > number(c.gpu, "mig_slices", 0)))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS)
        *info = (nvmlGpuInstanceProfileInfo_t){.id = profile, .sliceCount = slices[profile]};
    return end(&c, ret);
}

/* Returns the record of a GPU instance, or NULL. */
static struct record *gpu_instance(const struct nvmlDevice_st *device, unsigned int id)
{
    for (struct record *i = next("instance", NULL); i; i = next("instance", i))
        if (is(i, "gpu", device->uuid) && number(i, "gi", -1) == id)
            return i;
    return NULL;
}

static nvmlGpuInstance_t gpu_instance_handle(const struct nvmlDevice_st *device, unsigned int id)
{
    struct nvmlGpuInstance_st *h = gpu_instances;
    while (h && (h->device != device || h->id != id))
        h = h->next;
    if (!h) {
        h = calloc(1, sizeof *h);
        *h = (struct nvmlGpuInstance_st){device, id, gpu_instances};
        gpu_instances = h;
    }
    return (nvmlGpuInstance_t){h};
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *out)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlDeviceGetGpuInstanceById", device.handle);
    if (ret == NVML_SUCCESS && !is(c.gpu, "mig", "1"))
        ret = NVML_ERROR_NOT_SUPPORTED;
    if (ret == NVML_SUCCESS && !gpu_instance(c.device, id))
        ret = NVML_ERROR_NOT_FOUND;
    if (ret == NVML_SUCCESS && !get(gpu_instance(c.device, id), "profile"))
        ret = NVML_ERROR_NO_PERMISSION;
    if (ret == NVML_SUCCESS)
        *out = gpu_instance_handle(c.device, id);
    return end(&c, ret);
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info)
{
    struct call c;
    nvmlReturn_t ret = begin(&c, "nvmlGpuInstanceGetInfo", instance.handle->device);
    struct record *i = ret == NVML_SUCCESS ? gpu_instance(c.device, instance.handle->id) : NULL;
    if (ret == NVML_SUCCESS && !i)
        ret = NVML_ERROR_INVALID_ARGUMENT;
    if (ret == NVML_SUCCESS)
        *info = (nvmlGpuInstanceInfo_t){
            .device = {(struct nvmlDevice_st *)c.device},
            .id = instance.handle->id,
            .profileId = number(i, "profile", 0),
            .placement = {number(i, "start", 0), number(i, "size", 0)},
        };
    return end(&c, ret);
}
