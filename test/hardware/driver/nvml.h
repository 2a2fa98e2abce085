/*
 * These are the NVML functions that the runner calls. They are loaded at run time. The structs are the same as
 * in NVIDIA's nvml.h. A test compares their sizes with the header of go-nvml, which only the exporter imports.
 */
#ifndef NVML_H
#define NVML_H

typedef struct { unsigned int pid; unsigned long long time; unsigned int sm, memory, encoder, decoder; } utilization_row;
typedef struct { unsigned int pid; unsigned long long memory; unsigned int gi, ci; } process_row;
typedef union { double d; int si; unsigned int ui; unsigned long ul; unsigned long long ull; long long sll; } nvml_value;
typedef struct { unsigned int field, scope; long long time, latency; int type, error; nvml_value value; } field_value;
typedef struct { unsigned long long time; nvml_value value; } power_sample;

/* Each function returns an nvmlReturn_t, or MISSING if the library lacks the function. */
enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, MISSING = 13 };

/* Opens the library; returns NULL or an error text. */
const char *nvml_open(const char *library, int *error);
void *nvml_device(unsigned int index, int *error);
int nvml_text(void *device, int what, char *out, unsigned int size); /* 0: UUID, 1: name, 2: driver version */
int nvml_bus(void *device, char *out, unsigned int size);
int nvml_number(void *device, int what, unsigned int *out); /* 0: power, 1: enforced limit (mW), 2: utilisation (%) */
int nvml_energy(void *device, unsigned long long *mj);
int nvml_field(void *device, unsigned int field, unsigned int scope, double *out);
int nvml_processes(void *device, int mps, unsigned int *count, process_row *rows);
int nvml_utilization(void *device, unsigned long long since, unsigned int *count, utilization_row *rows);
int nvml_power_samples(void *device, unsigned long long since, int *type, unsigned int *count, power_sample *rows);

#endif
